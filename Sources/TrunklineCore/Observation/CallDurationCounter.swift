/// Measures the calls of a client, by the endpoint of the link on which each ended.
///
/// A call that succeeds on the present link costs a comparison: its duration joins those of its endpoint when the link
/// takes no more requests.
struct CallDurationCounter {
    /// Further endpoints are counted together, so that the memory is bounded.
    private static let maximumEndpoints = 64

    private var successes = DurationCounter()
    private var failures: [ClientError.Code: LatencyHistogram] = [:]
    private var session: SessionID?
    /// `nil` also if the endpoint is not counted apart.
    private var endpoint: Endpoint?
    private(set) var draining: [(session: SessionID, endpoint: Endpoint?)] = []
    private var counted: [Endpoint?: ClientMetrics.CallDurations] = [:]

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

    mutating func record(nanoseconds: Int64, _ failure: ClientError.Code, on session: SessionID?) {
        if session == self.session {
            failures[failure, default: LatencyHistogram()].record(nanoseconds: nanoseconds)
        } else {
            counted[key(of: session), default: .init()].record(nanoseconds: nanoseconds, failure)
        }
    }

    mutating func begin(_ session: SessionID, to endpoint: Endpoint) {
        leave()
        self.session = session
        let isCounted = counted[endpoint] != nil || counted.count < Self.maximumEndpoints
        self.endpoint = isCounted ? endpoint : nil
    }

    mutating func drain() {
        if let session { draining.append((session, endpoint)) }
        leave()
    }

    mutating func end(_ session: SessionID) {
        if session == self.session { leave() } else { draining.removeAll { $0.session == session } }
    }

    private mutating func leave() {
        counted = byEndpoint
        (successes, failures) = (DurationCounter(), [:])
        (session, endpoint) = (nil, nil)
    }

    /// With an entry for the present link even if it has no calls.
    var byEndpoint: [Endpoint?: ClientMetrics.CallDurations] {
        var present = ClientMetrics.CallDurations()
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

extension ClientMetrics.CallDurations {
    mutating func record(nanoseconds: Int64, _ failure: ClientError.Code?) {
        all.record(nanoseconds: nanoseconds)
        if let failure { failures[failure, default: LatencyHistogram()].record(nanoseconds: nanoseconds) }
    }
}
