/// Measures the calls of a client, by the endpoint of the link on which each ended.
///
/// Most calls succeed on the present link, which takes new requests. Such a call costs a comparison: the durations are
/// added to those of its endpoint when the link takes no more requests.
struct CallDurationCounter {
    /// Endpoints beyond about this number are counted together, so that the memory is bounded.
    private static let maximumEndpoints = 64

    /// The calls that succeeded on the present link; without one, those that succeeded on no link.
    private var successes = DurationCounter()
    /// The calls that failed, likewise.
    private var failures: [ClientError.Code: LatencyHistogram] = [:]
    /// The session of the present link; `nil` without a link.
    private var session: SessionID?
    /// The endpoint of the present link; `nil` without a link, or if the endpoint is not counted apart.
    private var endpoint: Endpoint?
    /// The draining links.
    private(set) var draining: [(session: SessionID, endpoint: Endpoint?)] = []
    /// The other calls.
    private var counted: [Endpoint?: Client.Metrics.CallDurations] = [:]

    /// Records a call that succeeded on the link of `session`, or on no link (`nil`).
    @inline(__always)
    mutating func record(nanoseconds: Int64, on session: SessionID?) {
        if session == self.session {
            successes.record(nanoseconds: nanoseconds)
        } else {
            recordElsewhere(nanoseconds, on: session)
        }
    }

    @inline(never)
    private mutating func recordElsewhere(_ nanoseconds: Int64, on session: SessionID?) {
        counted[key(of: session), default: .init()].all.record(nanoseconds: nanoseconds)
    }

    /// Records a call that failed on the link of `session`, or on no link (`nil`).
    mutating func record(nanoseconds: Int64, _ failure: ClientError.Code, on session: SessionID?) {
        if session == self.session {
            failures[failure, default: LatencyHistogram()].record(nanoseconds: nanoseconds)
        } else {
            counted[key(of: session), default: .init()].record(nanoseconds: nanoseconds, failure)
        }
    }

    /// The link of `session` takes new requests.
    mutating func begin(_ session: SessionID, to endpoint: Endpoint) {
        leave()
        self.session = session
        let isCounted = counted[endpoint] != nil || counted.count < Self.maximumEndpoints
        self.endpoint = isCounted ? endpoint : nil
    }

    /// The present link takes no new requests.
    mutating func drain() {
        if let session { draining.append((session, endpoint)) }
        leave()
    }

    /// The link of `session` has ended.
    mutating func end(_ session: SessionID) {
        if session == self.session { leave() } else { draining.removeAll { $0.session == session } }
    }

    private mutating func leave() {
        counted = byEndpoint
        (successes, failures) = (DurationCounter(), [:])
        (session, endpoint) = (nil, nil)
    }

    /// All calls, with an entry for the present link even if it has none.
    var byEndpoint: [Endpoint?: Client.Metrics.CallDurations] {
        var present = Client.Metrics.CallDurations()
        (present.all, present.failures) = (successes.histogram, failures)
        for durations in failures.values { present.all.merge(durations) }
        if session == nil, present.all.count == 0 { return counted }
        var all = counted
        all[endpoint, default: .init()].merge(present)
        return all
    }

    private func key(of session: SessionID?) -> Endpoint? {
        draining.first { $0.session == session }?.endpoint
    }
}

extension Client.Metrics.CallDurations {
    /// Counts a call.
    ///
    /// - Parameter failure: Why it failed; `nil` if it succeeded.
    mutating func record(nanoseconds: Int64, _ failure: ClientError.Code?) {
        all.record(nanoseconds: nanoseconds)
        if let failure { failures[failure, default: LatencyHistogram()].record(nanoseconds: nanoseconds) }
    }
}
