/// Measures the calls of a client, by the endpoint of the link on which each ended.
///
/// Most calls succeed on the present link, which takes new requests. Such a call costs a comparison: the endpoint is needed
/// only when the link takes no more requests, or when the metrics are read.
struct CallDurations {
    /// Endpoints beyond this number are counted together, so that the memory is bounded.
    private static let maximumEndpoints = 64

    /// The calls that succeeded on the present link.
    private var successes = DurationCounter()
    /// The calls that failed on the present link.
    private var failures: [ClientError.Code: LatencyHistogram] = [:]
    /// The present link; 0 if there is none.
    private(set) var session: UInt64 = 0
    private var draining: [(session: UInt64, endpoint: Endpoint)] = []
    /// The calls that ended elsewhere.
    private var counted: [Endpoint?: Client.Metrics.CallDurations] = [:]

    /// Records a call that succeeded on the link of `session`.
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

    /// Records a call that failed on the link of `session`, or on no link.
    mutating func record(nanoseconds: Int64, _ failure: ClientError.Code, on session: UInt64?) {
        guard let session, session == self.session else {
            let durations = [failure: LatencyHistogram(nanoseconds)]
            return counted[key(of: session), default: .init()].add(LatencyHistogram(), durations)
        }
        failures[failure, default: LatencyHistogram()].record(nanoseconds: nanoseconds)
    }

    /// The link of `session` takes new requests.
    mutating func begin(_ session: UInt64) { self.session = session }

    /// The link of `session` takes no new requests.
    mutating func drain(_ session: UInt64, to endpoint: Endpoint) {
        leave(session, endpoint)
        draining.append((session, endpoint))
    }

    /// The link of `session` has ended.
    mutating func end(_ session: UInt64, to endpoint: Endpoint) {
        leave(session, endpoint)
        draining.removeAll { $0.session == session }
    }

    private mutating func leave(_ session: UInt64, _ endpoint: Endpoint) {
        guard session == self.session else { return }
        counted = byEndpoint(present: endpoint)
        (successes, failures) = (DurationCounter(), [:])
        self.session = 0
    }

    /// All calls. `endpoint` is that of the present link.
    func byEndpoint(present endpoint: Endpoint?) -> [Endpoint?: Client.Metrics.CallDurations] {
        let successes = successes.histogram
        if successes.count == 0, failures.isEmpty { return counted }
        var all = counted
        all[key(for: endpoint), default: .init()].add(successes, failures)
        return all
    }

    private func key(of session: UInt64?) -> Endpoint? {
        key(for: draining.first { $0.session == session }?.endpoint)
    }

    private func key(for endpoint: Endpoint?) -> Endpoint? {
        counted[endpoint] != nil || counted.count < Self.maximumEndpoints ? endpoint : nil
    }
}

extension LatencyHistogram {
    fileprivate init(_ nanoseconds: Int64) {
        self.init()
        record(nanoseconds: nanoseconds)
    }
}

extension Client.Metrics.CallDurations {
    fileprivate mutating func add(_ successes: LatencyHistogram, _ failures: [ClientError.Code: LatencyHistogram]) {
        all.merge(successes)
        for (code, durations) in failures {
            all.merge(durations)
            self.failures[code, default: LatencyHistogram()].merge(durations)
        }
    }
}
