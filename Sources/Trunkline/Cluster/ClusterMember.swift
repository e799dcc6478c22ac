import Synchronization

/// One server of a cluster, as the callers see it: what they count about it, from any thread.
final class ClusterMember: Sendable {
    /// Distinguishes the servers of one cluster. A server that is removed and added again has a new number.
    let id: UInt64
    let endpoint: Endpoint
    /// Its place among all servers, for consistent hashing.
    let hash: UInt64
    /// Its average latency: the bits of a `LatencyAverage`.
    private let latency: Atomic<UInt64>
    /// The number of failures since the last answer.
    private let failuresInARow = Atomic<Int>(0)
    /// The number of failures in a row that the cluster wants to know; `Int.max` for none.
    private let failureLimit: Int
    /// Whether the next request may go to this server, which is ejected, as a probe.
    private let mayProbe = Atomic<Bool>(false)
    /// When the probe that is under way began, in nanoseconds; `Int64.max` without one.
    private let probeBegin = Atomic<Int64>(.max)
    /// When the server was last ejected or used again, in nanoseconds. Failures of earlier tries tell nothing new.
    private let judged = Atomic<Int64>(.min)
    /// When the latest loss of a link was counted as a failure, in nanoseconds.
    private let lastLoss = Atomic<Int64>(.min)
    private let ejection = Atomic<Bool>(false)
    /// The largest number of requests in flight; `Int.max` for no limit.
    private let limit: Atomic<Int>
    private let adaptive: Lock<InFlightLimit>?
    let facts: ClusterFacts

    init(
        _ id: UInt64,
        _ endpoint: Endpoint,
        failureLimit: Int,
        adaptiveLimit: ClosedRange<Int>?,
        _ facts: ClusterFacts,
        at now: Instant
    ) {
        (self.id, self.endpoint, self.failureLimit, self.facts) = (id, endpoint, failureLimit, facts)
        hash = endpoint.stableHash
        latency = Atomic(LatencyAverage(at: now).bits)
        let adaptive = adaptiveLimit.map { InFlightLimit(initial: $0.lowerBound, bounds: $0) }
        limit = Atomic(adaptive?.value ?? .max)
        self.adaptive = adaptive.map { Lock($0) }
    }

    var average: LatencyAverage { LatencyAverage(bits: latency.load(ordering: .relaxed)) }

    /// The largest number of requests that may be in flight to this server.
    var maximumInFlight: Int { limit.load(ordering: .relaxed) }

    /// The number of error responses that the user counts as failures, since `takeMarkedFailures`.
    private let markedFailures = Atomic<Int>(0)
    /// Whether the cluster knows that all links of a kind are in use.
    private let isFull = Atomic<Bool>(false)
    private let isFullOfLarge = Atomic<Bool>(false)

    /// Tells the cluster, once until `forgetFull`, that all links for ordinary requests are at their limit, or that all
    /// links for large ones are in use.
    func noteFull(ofLarge isLarge: Bool) {
        if isLarge {
            if !isFullOfLarge.exchange(true, ordering: .relaxed) { facts.tell(.isFull(id, ofLarge: true)) }
        } else if !isFull.load(ordering: .relaxed), !isFull.exchange(true, ordering: .relaxed) {
            facts.tell(.isFull(id, ofLarge: false))
        }
    }

    /// Lets `noteFull` tell the cluster again.
    func forgetFull() {
        isFull.store(false, ordering: .relaxed)
        isFullOfLarge.store(false, ordering: .relaxed)
    }

    /// Whether the cluster leaves it out.
    var isEjected: Bool { ejection.load(ordering: .relaxed) }

    /// Notes that the cluster leaves the server out, or uses it again.
    func setEjected(_ isEjected: Bool, at now: Instant) {
        ejection.store(isEjected, ordering: .relaxed)
        judged.store(now.nanoseconds, ordering: .relaxed)
        failuresInARow.store(0, ordering: .relaxed)
    }

    // MARK: Probes

    /// Lets one request go to this server.
    func allowProbe() {
        probeBegin.store(.max, ordering: .relaxed)
        mayProbe.store(true, ordering: .releasing)
    }

    /// Whether a probe is under way.
    var isProbed: Bool { probeBegin.load(ordering: .relaxed) < .max }

    /// Returns whether the caller's request, which begins at `now`, is the probe.
    func takeProbe(at now: Instant) -> Bool {
        guard mayProbe.load(ordering: .relaxed), mayProbe.exchange(false, ordering: .acquiring) else { return false }
        probeBegin.store(now.nanoseconds, ordering: .relaxed)
        return true
    }

    /// Ends the probe, if one is under way that is not younger than a request that began at `begun`.
    private func endProbe(_ succeeded: Bool?, begun: Instant) {
        let began = probeBegin.load(ordering: .relaxed)
        guard began <= begun.nanoseconds,
            probeBegin.compareExchange(expected: began, desired: .max, ordering: .relaxed).exchanged
        else { return }
        facts.tell(.probeEnded(id, succeeded))
    }

    // MARK: Ends of requests

    /// How a request ended, as far as it tells something about the server.
    enum End: Sendable {
        /// The server did its work.
        case answered
        /// The server did its work, and its time tells nothing: the reply had several parts, or may come from the cache.
        case completed
        /// A message was accepted or written: that tells little about the server, but enough to end its ejection, which
        /// would otherwise never end without requests.
        case accepted
        /// The server failed.
        case failed
        /// The link was lost.
        case lost
        /// The server is overloaded.
        case overloaded
        /// The request was given up, for no fault of the server.
        case givenUp
        /// Nothing was sent.
        case notSent
    }

    /// - Parameter isMeasured: Whether the time that it took tells something about the server.
    func ended(_ end: End, from begun: Instant, isMeasured: Bool, inFlight: Int, at now: Instant) {
        let nanoseconds = isMeasured && end != .completed ? now.nanoseconds &- begun.nanoseconds : nil
        switch end {
        case .answered, .completed:
            note(nanoseconds, isAnswer: true, at: now)
            forgetFailures()
            if let adaptive {
                set(
                    adaptive.withLock {
                        $0.succeeded(inFlight: inFlight, at: now); return $0.value
                    }
                )
            }
            endProbe(true, begun: begun)
        case .failed, .lost, .overloaded:
            note(nanoseconds, isAnswer: false, at: now)
            if let adaptive {
                set(
                    adaptive.withLock {
                        $0.overloaded(at: now); return $0.value
                    }
                )
            }
            guard begun.nanoseconds >= judged.load(ordering: .relaxed) else { return }
            if end == .lost {
                // All requests of a link are lost together: that is one failure.
                guard begun.nanoseconds >= lastLoss.load(ordering: .relaxed) else { return }
                lastLoss.store(now.nanoseconds, ordering: .relaxed)
            }
            let count = failuresInARow.wrappingAdd(1, ordering: .relaxed).newValue
            if count % failureLimit == 0 { facts.tell(.failedInARow(id, count)) }
            endProbe(false, begun: begun)
        case .givenUp:
            note(nanoseconds, isAnswer: false, at: now)
            endProbe(nil, begun: begun)
        case .accepted: endProbe(true, begun: begun)
        case .notSent: endProbe(nil, begun: begun)
        }
    }

    /// Counts an error response that is a failure.
    func markFailure() { markedFailures.wrappingAdd(1, ordering: .relaxed) }

    func takeMarkedFailures() -> Int { markedFailures.exchange(0, ordering: .relaxed) }

    private func set(_ value: Int) { limit.store(value, ordering: .relaxed) }

    /// Forgets the failures in a row.
    @inline(__always)
    func forgetFailures() {
        if failuresInARow.load(ordering: .relaxed) != 0 { failuresInARow.store(0, ordering: .relaxed) }
    }

    private func note(_ nanoseconds: Int64?, isAnswer: Bool, at now: Instant) {
        guard let nanoseconds else { return }
        var old = latency.load(ordering: .relaxed)
        while true {
            let average = LatencyAverage(bits: old)
            let new = average.adding(nanoseconds: nanoseconds, isAnswer: isAnswer, at: now)
            if new == average { return }
            let (isExchanged, found) = latency.weakCompareExchange(expected: old, desired: new.bits, ordering: .relaxed)
            if isExchanged { return }
            old = found
        }
    }
}

/// One link to a server of a cluster: a client, and the number of its requests.
final class MemberLink: CancellationReceiver {
    let id: UInt64
    let member: ClusterMember
    let client: Client
    private let readiness: LinkReadiness
    private let inFlightCount = Atomic<Int>(0)
    /// The number of requests from which on the cluster may add a link.
    let capacity: Int
    /// Whether it is for large requests, whose durations are not compared with those of others.
    let isLarge: Bool

    init(
        _ id: UInt64,
        of member: ClusterMember,
        _ client: Client,
        _ readiness: LinkReadiness,
        capacity: Int,
        isLarge: Bool
    ) {
        (self.id, self.member, self.client, self.capacity) = (id, member, client, capacity)
        (self.readiness, self.isLarge) = (readiness, isLarge)
    }

    // MARK: Plain calls

    /// Returns the ID of a new request.
    @inline(never)
    func nextRequestID() -> RequestID { client.nextRequestID() }

    /// Posts a request with the usual options. Not inlined, as that of the client.
    @inline(never)
    func submit(
        _ request: Request,
        _ id: RequestID,
        _ timeout: Timeout,
        _ continuation: Continuation<Outcome>,
        _ cancellation: Cancellation
    ) {
        client.submit(request, id, timeout, CallOptions(), nil, continuation, cancellation)
    }

    func cancelWaits(_ numbers: ClosedRange<UInt64>) { client.commandQueue.cancelWaits(numbers) }

    // MARK: Counts

    var isReady: Bool { readiness.isReady }

    /// The number of requests that callers have given to this link and that have not ended.
    var inFlight: Int { inFlightCount.load(ordering: .relaxed) }

    /// Takes no more requests.
    func retire() { readiness.set(false) }

    /// Counts `count` requests, which the caller must end. Returns the number of requests with them.
    @discardableResult
    @inline(__always)
    func begin(_ count: Int = 1) -> Int { inFlightCount.wrappingAdd(count, ordering: .relaxed).newValue }

    /// Ends a request that began at `begun`.
    @inline(__always)
    func end(_ end: ClusterMember.End, from begun: Instant, at now: Instant) {
        let inFlight = inFlightCount.wrappingSubtract(1, ordering: .relaxed).oldValue
        member.ended(end, from: begun, isMeasured: !isLarge, inFlight: inFlight, at: now)
    }
}

/// Whether requests can go out on a link. Apart from the link, so that what watches its client does not keep it alive.
final class LinkReadiness: Sendable {
    private let value = Atomic<Bool>(false)

    var isReady: Bool { value.load(ordering: .relaxed) }

    /// Returns whether this is a change.
    @discardableResult
    func set(_ isReady: Bool) -> Bool { value.exchange(isReady, ordering: .relaxed) != isReady }
}
