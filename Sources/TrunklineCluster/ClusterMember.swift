import Synchronization
import TrunklineCore

/// One server of a cluster, as the callers see it: what they count about it, from any thread.
final class ClusterMember: Sendable {
    let id: UInt64
    let endpoint: Endpoint
    let hash: UInt64
    /// The bits of a `LatencyAverage`.
    private let latency: Atomic<UInt64>
    /// The bits of an `ErrorShare`.
    private let errorShare = Atomic<UInt64>(ErrorShare.none.bits)
    /// Upper 20 bits: the number of measured answers. Lower bits: the sum of their latencies in microseconds.
    private let latencies = Atomic<UInt64>(0)
    private let failuresInARow = Atomic<Int>(0)
    private let failureLimit: Int
    /// When any request may be the probe of this ejected server, in nanoseconds; `Int64.max` for never. Requests that
    /// may be performed twice need not wait for that.
    private let probeOpening = Atomic<Int64>(.max)
    /// Whether an error response to a probe is a failure: the server was ejected because of such responses.
    private let mustSucceed = Atomic<Bool>(false)
    /// In nanoseconds; `Int64.max` without a probe.
    private let probeBegin = Atomic<Int64>(.max)
    /// When the server was last ejected or returned, in nanoseconds. Failures of earlier tries tell nothing new.
    private let judged = Atomic<Int64>(.min)
    /// When the latest loss of a link was counted as a failure, in nanoseconds.
    private let lastLoss = Atomic<Int64>(.min)
    private let ejection = Atomic<Bool>(false)
    private let limit: Atomic<Int>
    private let adaptive: Lock<InFlightLimit>?
    /// On all links, also those that drain. Counted only if there is an adaptive limit.
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

    @inline(__always)
    var errors: ErrorShare { ErrorShare(bits: errorShare.load(ordering: .relaxed)) }

    var maximumInFlight: Int { limit.load(ordering: .relaxed) }

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

    fileprivate func begin() { if adaptive != nil { inFlightCount.wrappingAdd(1, ordering: .relaxed) } }

    /// Error responses that the user counts as failures, and other ones, since they were taken.
    private let markedFailures = Atomic<Int>(0)
    private let rejections = Atomic<Int>(0)
    private let keyedRejections = Atomic<Int>(0)
    private let isFull = Atomic<Bool>(false)
    private let isFullOfLarge = Atomic<Bool>(false)

    func noteFull(ofLarge isLarge: Bool) {
        if isLarge {
            if !isFullOfLarge.exchange(true, ordering: .relaxed) { facts.tell(.isFull(id, ofLarge: true)) }
        } else if !isFull.load(ordering: .relaxed), !isFull.exchange(true, ordering: .relaxed) {
            facts.tell(.isFull(id, ofLarge: false))
        }
    }

    func forgetFull() {
        isFull.store(false, ordering: .relaxed)
        isFullOfLarge.store(false, ordering: .relaxed)
    }

    var isEjected: Bool { ejection.load(ordering: .relaxed) }

    /// `mustSucceed` is whether the server has to answer a probe without an error; `nil` for the same as before.
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

    /// The server was not used for a while, or is another process by now.
    func forget(at now: Instant) {
        latency.store(LatencyAverage(at: now).bits, ordering: .relaxed)
        errorShare.store(ErrorShare.none.bits, ordering: .relaxed)
    }

    /// Lets one request go to this server: at once one that may be performed twice, from `opening` on any.
    func allowProbe(from opening: Instant) {
        probeBegin.store(.max, ordering: .relaxed)
        probeOpening.store(min(opening.nanoseconds, .max - 1), ordering: .releasing)
    }

    @inline(__always)
    var isProbed: Bool { probeBegin.load(ordering: .relaxed) < .max }

    func mayTakeProbe(at now: Instant, isRepeatable: Bool) -> Bool {
        let opening = probeOpening.load(ordering: .relaxed)
        return opening < .max && (isRepeatable || opening <= now.nanoseconds)
    }

    func takeProbe(at now: Instant, isRepeatable: Bool) -> Bool {
        let opening = probeOpening.load(ordering: .relaxed)
        guard opening < .max, isRepeatable || opening <= now.nanoseconds,
            probeOpening.compareExchange(expected: opening, desired: .max, ordering: .acquiring).exchanged
        else { return false }
        probeBegin.store(now.nanoseconds, ordering: .relaxed)
        return true
    }

    /// A request that began before the probe does not end it.
    private func endProbe(_ succeeded: Bool?, begun: Instant) {
        let began = probeBegin.load(ordering: .relaxed)
        guard began <= begun.nanoseconds,
            probeBegin.compareExchange(expected: began, desired: .max, ordering: .relaxed).exchanged
        else { return }
        facts.tell(.probeEnded(id, succeeded))
    }

    enum End: Sendable {
        case answered
        /// A message was accepted or written: that tells nothing about the server.
        case accepted
        case rejected
        /// The same, and the request was sent by its key: its server has all the errors of that key.
        case rejectedByKey
        case failed
        case lost
        case overloaded
        case givenUp
        case notSent
    }

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

    func answersInParts(from begun: Instant) {
        forgetFailures()
        endProbe(true, begun: begun)
    }

    /// Apart from other ends, because it is the usual one.
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

    private func leave() -> Int { inFlightCount.wrappingSubtract(1, ordering: .relaxed).oldValue }

    private func grow(inFlight: Int, at now: Instant) {
        guard let adaptive else { return }
        set(
            adaptive.withLock {
                $0.succeeded(inFlight: inFlight, at: now); return $0.value
            }
        )
    }

    func markFailure() { markedFailures.wrappingAdd(1, ordering: .relaxed) }

    func takeMarkedFailures() -> Int { markedFailures.exchange(0, ordering: .relaxed) }

    func takeRejections() -> Int { rejections.exchange(0, ordering: .relaxed) }

    func takeKeyedRejections() -> Int { keyedRejections.exchange(0, ordering: .relaxed) }

    /// Since the latest call. Of answers within about a millisecond, one is measured.
    func takeLatencies() -> (count: Int, nanoseconds: Int64) {
        let taken = latencies.exchange(0, ordering: .relaxed)
        return (Int(taken >> 44), Int64(taken & (1 << 44 - 1)) * 1000)
    }

    private func set(_ value: Int) { limit.store(value, ordering: .relaxed) }

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

final class MemberLink: CancellationReceiver {
    let id: UInt64
    let member: ClusterMember
    let client: Client
    private let readiness: LinkReadiness
    private let inFlightCount = Atomic<Int>(0)
    /// The number of requests from which on the cluster may add a link.
    let capacity: Int
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

    @inline(never)
    func nextRequestID() -> RequestID { client.nextRequestID() }

    /// Not inlined, as that of the client.
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

    var isReady: Bool { readiness.isReady }

    var inFlight: Int { inFlightCount.load(ordering: .relaxed) }

    func retire() { readiness.set(false) }

    /// For a server without an adaptive limit. The caller must end the request, as after the next two methods.
    @inline(__always)
    func begin() { inFlightCount.wrappingAdd(1, ordering: .relaxed) }

    func beginProbe() {
        member.begin()
        begin()
    }

    func begin(upTo count: Int) -> Int {
        let count = member.begin(upTo: count)
        inFlightCount.wrappingAdd(count, ordering: .relaxed)
        return count
    }

    @inline(__always)
    func endAnswered(from begun: Instant, at now: Instant) {
        inFlightCount.wrappingSubtract(1, ordering: .relaxed)
        member.answered(from: begun, isMeasured: !isLarge, at: now)
    }

    @inline(__always)
    func end(_ end: ClusterMember.End, from begun: Instant, isMeasured: Bool = true, at now: Instant) {
        inFlightCount.wrappingSubtract(1, ordering: .relaxed)
        member.ended(end, from: begun, isMeasured: isMeasured && !isLarge, at: now)
    }
}

/// Apart from the link, so that what watches its client does not keep it alive.
final class LinkReadiness: Sendable {
    private let value = Atomic<Bool>(false)

    var isReady: Bool { value.load(ordering: .relaxed) }

    @discardableResult
    func set(_ isReady: Bool) -> Bool { value.exchange(isReady, ordering: .relaxed) != isReady }
}
