import Synchronization
import TrunklineCore

/// One server of a cluster, as the callers see it: what they count about it, from any thread.
final class ClusterMember: Sendable {
    /// Distinguishes the servers of one cluster. A server that is removed and added again has a new number.
    let id: UInt64
    let endpoint: Endpoint
    /// Its place among all servers, for consistent hashing.
    let hash: UInt64
    /// Its average latency: the bits of a `LatencyAverage`.
    private let latency: Atomic<UInt64>
    /// The share of its requests that fail: the bits of an `ErrorShare`.
    private let errorShare = Atomic<UInt64>(ErrorShare.none.bits)
    /// What `takeLatencies` returns: the number of measured answers in the upper 20 bits, and the sum of their
    /// latencies in microseconds in the lower ones.
    private let latencies = Atomic<UInt64>(0)
    /// The number of failures since the last answer.
    private let failuresInARow = Atomic<Int>(0)
    /// The number of failures in a row that the cluster wants to know; `Int.max` for none.
    private let failureLimit: Int
    /// When the next request may go to this server, which is ejected, as a probe, in nanoseconds; `Int64.max` for
    /// never. Requests that may be performed twice need not wait for that.
    private let probeOpening = Atomic<Int64>(.max)
    /// Whether an error response to a probe is a failure: the server was ejected because of such responses.
    private let mustSucceed = Atomic<Bool>(false)
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
    /// The number of requests in flight on all links. Counted only if there is an adaptive limit.
    private let inFlightCount = Atomic<Int>(0)
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

    @inline(__always)
    var average: LatencyAverage { LatencyAverage(bits: latency.load(ordering: .relaxed)) }

    /// The share of its requests that fail or are answered with an error.
    @inline(__always)
    var errors: ErrorShare { ErrorShare(bits: errorShare.load(ordering: .relaxed)) }

    /// The largest number of requests that may be in flight to this server.
    var maximumInFlight: Int { limit.load(ordering: .relaxed) }

    /// The number of requests in flight on all links, also those for large requests and those that drain. 0 without an
    /// adaptive limit.
    var inFlight: Int { inFlightCount.load(ordering: .relaxed) }

    /// Counts as many requests, at most `count`, as the adaptive limit has room for. Returns their number.
    fileprivate func begin(upTo count: Int) -> Int {
        guard adaptive != nil else { return count }
        var inFlight = self.inFlight
        while true {
            let taken = min(count, max(0, maximumInFlight - inFlight))
            if taken == 0 { return 0 }
            let (isExchanged, found) = inFlightCount.weakCompareExchange(
                expected: inFlight,
                desired: inFlight + taken,
                ordering: .relaxed
            )
            if isExchanged { return taken }
            inFlight = found
        }
    }

    /// Counts a request that is sent whatever the limit.
    fileprivate func begin() { if adaptive != nil { inFlightCount.wrappingAdd(1, ordering: .relaxed) } }

    /// The number of error responses that the user counts as failures, and of other ones, since `takeMarkedFailures`
    /// and `takeRejections`.
    private let markedFailures = Atomic<Int>(0)
    private let rejections = Atomic<Int>(0)
    /// The number of error responses to requests with a key since `takeKeyedRejections`.
    private let keyedRejections = Atomic<Int>(0)
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
    ///
    /// - Parameter mustSucceed: Whether the server has to answer a probe without an error before it is used again;
    ///   `nil` for the same as before.
    func setEjected(_ isEjected: Bool, mustSucceed: Bool? = nil, at now: Instant) {
        ejection.store(isEjected, ordering: .relaxed)
        judged.store(now.nanoseconds, ordering: .relaxed)
        failuresInARow.store(0, ordering: .relaxed)
        if let mustSucceed { self.mustSucceed.store(mustSucceed, ordering: .relaxed) }
        // It may return without a probe, or while one is under way.
        probeOpening.store(.max, ordering: .relaxed)
        probeBegin.store(.max, ordering: .relaxed)
        if !isEjected { forget(at: now) }
    }

    /// Forgets how fast and how well the server has answered: it was not used for a while, or is another process by
    /// now.
    func forget(at now: Instant) {
        latency.store(LatencyAverage(at: now).bits, ordering: .relaxed)
        errorShare.store(ErrorShare.none.bits, ordering: .relaxed)
    }

    // MARK: Probes

    /// Lets one request go to this server: at once one that may be performed twice, and from `opening` on any that can
    /// be a probe.
    func allowProbe(from opening: Instant) {
        probeBegin.store(.max, ordering: .relaxed)
        probeOpening.store(min(opening.nanoseconds, .max - 1), ordering: .releasing)
    }

    /// Whether a probe is under way.
    @inline(__always)
    var isProbed: Bool { probeBegin.load(ordering: .relaxed) < .max }

    /// Whether a request that begins at `now` may be the probe.
    ///
    /// - Parameter isRepeatable: Whether the request may be performed twice.
    func mayTakeProbe(at now: Instant, isRepeatable: Bool) -> Bool {
        let opening = probeOpening.load(ordering: .relaxed)
        return opening < .max && (isRepeatable || opening <= now.nanoseconds)
    }

    /// Returns whether the caller's request, which begins at `now`, is the probe.
    ///
    /// - Parameter isRepeatable: Whether the request may be performed twice.
    func takeProbe(at now: Instant, isRepeatable: Bool) -> Bool {
        let opening = probeOpening.load(ordering: .relaxed)
        guard opening < .max, isRepeatable || opening <= now.nanoseconds,
            probeOpening.compareExchange(expected: opening, desired: .max, ordering: .acquiring).exchanged
        else { return false }
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
        /// A message was accepted or written: that tells nothing about the server.
        case accepted
        /// The server answered with an error, which may be that of the request.
        case rejected
        /// The same, and the request was sent by its key: its server has all the errors of that key.
        case rejectedByKey
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
    func ended(_ end: End, from begun: Instant, isMeasured: Bool, at now: Instant) {
        if end == .answered { return answered(from: begun, isMeasured: isMeasured, at: now) }
        if adaptive != nil { _ = leave() }
        let nanoseconds = isMeasured ? now.nanoseconds &- begun.nanoseconds : nil
        switch end {
        case .answered: break
        case .rejected, .rejectedByKey:
            note(nanoseconds, .error, at: now)
            if end == .rejected {
                rejections.wrappingAdd(1, ordering: .relaxed)
                noteShare(isError: true, at: now)
            } else {
                keyedRejections.wrappingAdd(1, ordering: .relaxed)
            }
            forgetFailures()
            endProbe(!mustSucceed.load(ordering: .relaxed), begun: begun)
        case .failed, .lost, .overloaded:
            note(nanoseconds, .nothing, at: now)
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
                guard begun.nanoseconds >= lastLoss.load(ordering: .relaxed) else {
                    return endProbe(false, begun: begun)
                }
                lastLoss.store(now.nanoseconds, ordering: .relaxed)
            }
            noteShare(isError: true, at: now)
            let count = failuresInARow.wrappingAdd(1, ordering: .relaxed).newValue
            if count % failureLimit == 0 { facts.tell(.failedInARow(id, count)) }
            endProbe(false, begun: begun)
        case .givenUp:
            note(nanoseconds, .nothing, at: now)
            endProbe(nil, begun: begun)
        case .accepted: break
        case .notSent: endProbe(nil, begun: begun)
        }
    }

    /// The server works: the first part of a reply has arrived, to a request that began at `begun`.
    func answersInParts(from begun: Instant) {
        forgetFailures()
        endProbe(true, begun: begun)
    }

    /// A request was answered. Apart from other ends, because it is the usual one.
    @inline(__always)
    func answered(from begun: Instant, isMeasured: Bool, at now: Instant) {
        if isMeasured {
            let nanoseconds = now.nanoseconds &- begun.nanoseconds
            if !average.ignores(nanoseconds: nanoseconds, at: now) { note(nanoseconds, .answer, at: now) }
        }
        if errors != .none { noteShare(isError: false, at: now) }
        forgetFailures()
        if adaptive != nil { grow(inFlight: leave(), at: now) }
        if isProbed { endProbe(true, begun: begun) }
    }

    /// Ends a request that `begin` has counted. Returns how many were in flight with it.
    private func leave() -> Int { inFlightCount.wrappingSubtract(1, ordering: .relaxed).oldValue }

    private func grow(inFlight: Int, at now: Instant) {
        guard let adaptive else { return }
        set(
            adaptive.withLock {
                $0.succeeded(inFlight: inFlight, at: now); return $0.value
            }
        )
    }

    /// Counts an error response that is a failure.
    func markFailure() { markedFailures.wrappingAdd(1, ordering: .relaxed) }

    func takeMarkedFailures() -> Int { markedFailures.exchange(0, ordering: .relaxed) }

    /// The number of error responses that were no failures, since the latest call.
    func takeRejections() -> Int { rejections.exchange(0, ordering: .relaxed) }

    /// The number of error responses to requests with a key, since the latest call.
    func takeKeyedRejections() -> Int { keyedRejections.exchange(0, ordering: .relaxed) }

    /// The number of answers whose latency was measured and the sum of these latencies, since the latest call. Of
    /// answers that come within about a millisecond, one is measured.
    func takeLatencies() -> (count: Int, nanoseconds: Int64) {
        let taken = latencies.exchange(0, ordering: .relaxed)
        return (Int(taken >> 44), Int64(taken & (1 << 44 - 1)) * 1000)
    }

    private func set(_ value: Int) { limit.store(value, ordering: .relaxed) }

    /// Forgets the failures in a row.
    @inline(__always)
    func forgetFailures() {
        if failuresInARow.load(ordering: .relaxed) != 0 { failuresInARow.store(0, ordering: .relaxed) }
    }

    @inline(never)
    private func note(_ nanoseconds: Int64?, _ outcome: LatencyAverage.Outcome, at now: Instant) {
        guard let nanoseconds else { return }
        var old = latency.load(ordering: .relaxed)
        while true {
            let average = LatencyAverage(bits: old)
            let new = average.adding(nanoseconds: nanoseconds, outcome, at: now)
            if new == average { return }
            let (isExchanged, found) = latency.weakCompareExchange(expected: old, desired: new.bits, ordering: .relaxed)
            if isExchanged {
                // One in about a millisecond, whether it is slow or not: a fair sample.
                if outcome == .answer, new.ticks != average.ticks || !average.isKnown { sample(nanoseconds) }
                return
            }
            old = found
        }
    }

    private func sample(_ nanoseconds: Int64) {
        // 100 s at most, so that the sum of an interval stays within its bits.
        let microseconds = UInt64(min(max(0, nanoseconds / 1000), 100_000_000))
        latencies.wrappingAdd(1 << 44 | microseconds, ordering: .relaxed)
    }

    @inline(never)
    private func noteShare(isError: Bool, at now: Instant) {
        var old = errorShare.load(ordering: .relaxed)
        while true {
            let new = ErrorShare(bits: old).adding(isError: isError, at: now).bits
            if new == old { return }
            let (isExchanged, found) = errorShare.weakCompareExchange(expected: old, desired: new, ordering: .relaxed)
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

    /// Counts a request of a server without an adaptive limit. The caller must end it.
    @inline(__always)
    func begin() { inFlightCount.wrappingAdd(1, ordering: .relaxed) }

    /// Counts a request that probes its server, whatever the adaptive limit. The caller must end it.
    func beginProbe() {
        member.begin()
        begin()
    }

    /// Counts as many requests, at most `count`, as the adaptive limit of the server has room for. The caller must end
    /// them. Returns their number.
    func begin(upTo count: Int) -> Int {
        let count = member.begin(upTo: count)
        inFlightCount.wrappingAdd(count, ordering: .relaxed)
        return count
    }

    /// Ends a request that began at `begun` and was answered.
    @inline(__always)
    func endAnswered(from begun: Instant, at now: Instant) {
        inFlightCount.wrappingSubtract(1, ordering: .relaxed)
        member.answered(from: begun, isMeasured: !isLarge, at: now)
    }

    /// Ends a request that began at `begun`.
    ///
    /// - Parameter isMeasured: Whether the time that it took tells something about the server.
    @inline(__always)
    func end(_ end: ClusterMember.End, from begun: Instant, isMeasured: Bool = true, at now: Instant) {
        inFlightCount.wrappingSubtract(1, ordering: .relaxed)
        member.ended(end, from: begun, isMeasured: isMeasured && !isLarge, at: now)
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
