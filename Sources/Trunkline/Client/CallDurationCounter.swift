/// Measures the calls of a client, by the endpoint of the link on which each ended.
///
/// Most calls succeed on the present link, which takes new requests. Such a call costs a comparison: the durations are added
/// to those of its endpoint when the link takes no more requests.
struct CallDurationCounter {
    /// Endpoints beyond about this number are counted together, so that the memory is bounded.
    private static let maximumEndpoints = 64

    /// The calls that succeeded on the present link; without one, those that succeeded on no link.
    private var successes = DurationCounter()
    /// The calls that failed, likewise.
    private var failures: [ClientError.Code: LatencyHistogram] = [:]
    /// The session of the present link; 0 without a link.
    private var session: UInt64 = 0
    /// The endpoint of the present link; `nil` without a link, or if the endpoint is not counted apart.
    private var endpoint: Endpoint?
    /// The draining links.
    private(set) var draining: [(session: UInt64, endpoint: Endpoint?)] = []
    /// The other calls.
    private var counted: [Endpoint?: Client.Metrics.CallDurations] = [:]

    /// Records a call that succeeded on the link of `session`, or on no link (0).
    @inline(__always)
    mutating func record(nanoseconds: Int64, on session: UInt64) {
        if session == self.session {
            successes.record(nanoseconds: nanoseconds)
        } else {
            recordElsewhere(nanoseconds, on: session)
        }
    }

    @inline(never)
    private mutating func recordElsewhere(_ nanoseconds: Int64, on session: UInt64) {
        counted[key(of: session), default: .init()].all.record(nanoseconds: nanoseconds)
    }

    /// Records a call that failed on the link of `session`, or on no link (0).
    mutating func record(nanoseconds: Int64, _ failure: ClientError.Code, on session: UInt64) {
        if session == self.session {
            failures[failure, default: LatencyHistogram()].record(nanoseconds: nanoseconds)
        } else {
            var call = Client.Metrics.CallDurations()
            call.all.record(nanoseconds: nanoseconds)
            call.failures[failure] = call.all
            counted[key(of: session), default: .init()].merge(call)
        }
    }

    /// The link of `session` takes new requests.
    mutating func begin(_ session: UInt64, to endpoint: Endpoint) {
        leave()
        self.session = session
        let isCounted = counted[endpoint] != nil || counted.count < Self.maximumEndpoints
        self.endpoint = isCounted ? endpoint : nil
    }

    /// The present link takes no new requests.
    mutating func drain() {
        draining.append((session, endpoint))
        leave()
    }

    /// The link of `session` has ended.
    mutating func end(_ session: UInt64) {
        if session == self.session { leave() } else { draining.removeAll { $0.session == session } }
    }

    private mutating func leave() {
        counted = byEndpoint
        (successes, failures) = (DurationCounter(), [:])
        (session, endpoint) = (0, nil)
    }

    /// All calls, with an entry for the present link even if it has none.
    var byEndpoint: [Endpoint?: Client.Metrics.CallDurations] {
        var present = Client.Metrics.CallDurations()
        (present.all, present.failures) = (successes.histogram, failures)
        for durations in failures.values { present.all.merge(durations) }
        if session == 0, present.all.count == 0 { return counted }
        var all = counted
        all[endpoint, default: .init()].merge(present)
        return all
    }

    private func key(of session: UInt64) -> Endpoint? {
        draining.first { $0.session == session }?.endpoint
    }
}
