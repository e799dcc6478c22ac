/// Which pings the client sends on an idle link.
public enum HeartbeatMode: Sendable, Hashable {
    /// The client sends no pings.
    case none
    /// The client sends a ping after every ``ClientOptions/Liveness-swift.struct/interval`` in which it wrote nothing.
    /// It expects no answer. Use this for servers that close a link on which they receive nothing.
    case oneWay
    /// The client sends a ping after every ``ClientOptions/Liveness-swift.struct/interval`` in which no frame arrived.
    /// If there is no progress within ``ClientOptions/Liveness-swift.struct/deadline`` after the ping, the client
    /// replaces the link.
    case pingPong
}

/// Decides whether one link is alive: when to send a ping, and when to declare the link dead. At `nextLook`,
/// `timerFired` returns the action to perform. A read or a write costs a few stores, and never re-arms the timer.
///
/// Progress is a completed frame. Bytes alone are not: after one wrong bit in a length, every later response is read as
/// a piece of one long frame. So an incomplete frame counts only while it grows at `minimumRate`, and while it can
/// still be the response to a request in flight (see `timerFired`).
///
/// With ping-pong, a dead link is detected `interval + deadline` after its last frame, or when the timer fires later:
///
///     quiet ─(interval without progress, a request unanswered for probeAfter, or a frame stuck for deadline)─► probing
///       ▲                                                                                                      │  │
///       └──────────────────────────────────────────── progress ────────────────────────────────────────────────┘  │
///                                                                      dead ◄──────────── (deadline) ─────────────┘
///
/// Without ping-pong, or while the codec has no ping to send (`pingRefused`), a frame that is stuck for `deadline` is
/// enough.
package struct Liveness: Sendable {
    package struct Policy: Sendable {
        var mode = HeartbeatMode.pingPong
        /// All durations are at least 1 ms.
        var interval: Duration = .seconds(30)
        var deadline: Duration = .seconds(10)
        var probeAfter: Duration? = .seconds(5)
        var speakAfter: Duration?
        /// Bytes per second, over one `deadline`, that count as progress of a frame. `nil`: every byte does.
        var minimumRate: Int? = 100
        /// After this many timeouts in a row, growth of a frame that no request waits for is no progress.
        var maximumTimeouts: Int? = 3
        /// When a ping that no progress has followed is repeated, because the path may have lost it.
        var repeatPingAfter: Duration?
        var excusing = Excusing.none

        init() {}
    }

    /// The requests in flight that a server may be busy with, so that it has not come to the ping yet.
    enum Excusing: Sendable {
        case none
        /// Any: the server is a process that is known to run.
        case any
        /// Written before the ping, in a protocol matched in order, while the peer's kernel acknowledges what is sent.
        case earlier
    }

    enum Excuse: Sendable {
        /// The link is dead, unless the server may have been busy until just now.
        case none
        /// The peer's kernel has not acknowledged the ping: the link is dead.
        case refuted
        /// The server is busy. The deadline begins anew.
        case waits
        /// Another ping is sent, which shows whether the path still works.
        case asksAgain
    }

    package enum Action: Equatable, Sendable {
        case none
        case ping(number: UInt64)
        case declareDead
        case examine
    }

    private struct Ping {
        var sentAt: Instant
        /// When the first ping that no progress has followed was sent. The deadline counts from here.
        var askedAt: Instant
        var serial: SerialNumber
        /// It was sent at once, and its answer cannot be that of an earlier ping, so it measures the round-trip time.
        var isMeasured: Bool
        var isAnswered = false
        var isExcused = false
    }

    private var policy: Policy
    private let growthNeeded: Int
    /// The latest progress, or the start or resumption of reading. Growth is added when the timer fires.
    private(set) var lastHeard: Instant
    private var incompleteSince: Instant?
    /// When the incomplete frame last had grown by enough.
    private var grownAt = Instant.distantPast
    /// The growth that is being counted: `count` bytes since `since`.
    private var growth: (since: Instant, count: Int) = (.distantPast, 0)
    private(set) var timeouts = 0
    private(set) var hasHeard = false
    private var lastWrote: Instant
    /// The first flush of requests that may be unanswered, or the latest progress since.
    private var quietSince = Instant.distantFuture
    private(set) var firstWritten: OutboundPosition?
    /// A new one needs progress, a clock jump, a probe, or that the server must hear from the client.
    private var ping: Ping?
    private var pingCount: UInt64 = 0
    /// Set while there is no ping to send. Until then the rules of a protocol without pings apply.
    private var askAgainAt: Instant?
    private var lastHeartbeat: Instant?
    /// While reading is suspended: when the socket was last checked. Silence means nothing then.
    private var examinedAt: Instant?
    private(set) var roundTripTime: RoundTripTime?
    /// The longest time without traffic since the latest progress that a ping or the first write after it ended.
    private var idle: (from: Instant, to: Instant) = (.distantPast, .distantPast)

    init(_ policy: Policy, startedAt now: Instant) {
        self.policy = policy.clamped
        growthNeeded = self.policy.growthNeeded
        lastHeard = now
        lastWrote = now
    }

    // MARK: Facts

    /// Returns whether `nextLook` may be earlier now. So does `grew`.
    @inline(__always)
    @discardableResult
    mutating func heard(at now: Instant, leavesIncomplete: Bool = false) -> Bool {
        lastHeard = now
        quietSince = now
        timeouts = 0
        hasHeard = true
        growth.count = 0
        let isJudged = leavesIncomplete && policy.minimumRate != nil
        let isNew = isJudged && incompleteSince == nil
        incompleteSince = isJudged ? now : nil
        return isNew
    }

    /// `isIncomplete`: these bytes, or earlier ones, begin a frame. They may be padding.
    mutating func grew(by count: Int, isIncomplete: Bool = true, at now: Instant) -> Bool {
        if growth.count == 0 || now.since(growth.since) > policy.deadline { growth = (now, 0) }
        growth.count += count
        if growth.count >= growthNeeded {
            grownAt = now
            growth.count = 0
        }
        let isNew = isIncomplete && incompleteSince == nil && policy.minimumRate != nil
        if isNew { incompleteSince = now }
        if !isIncomplete { incompleteSince = nil }
        return isNew
    }

    /// The peer's kernel took bytes from a full socket while a ping waits to be written. This is progress.
    mutating func tookBytes(at now: Instant) {
        lastHeard = now
        quietSince = now
        if incompleteSince != nil { incompleteSince = now }
    }

    mutating func timedOut(_ count: Int) {
        if !isSuspended { timeouts += count }
    }

    func isGrowing(at now: Instant) -> Bool { grownAt != .distantPast && now.since(grownAt) < policy.deadline }

    /// Returns whether `nextLook` may be earlier: at the first write since a check for unanswered requests.
    @inline(__always)
    mutating func wrote(from position: OutboundPosition, at now: Instant) -> Bool {
        guard firstWritten == nil, policy.probeAfter != nil else {
            if policy.probeAfter == nil { noteIdleTime(until: now) }
            lastWrote = now
            return false
        }
        noteIdleTime(until: now)
        lastWrote = now
        firstWritten = position
        quietSince = now
        return true
    }

    @inline(never)
    private mutating func noteIdleTime(until now: Instant) {
        let start = max(lastHeard, lastWrote)
        guard !isIdleTimeOver || now.since(start) > idle.to.since(idle.from) else { return }
        idle = (start, now)
    }

    private var isIdleTimeOver: Bool { idle.from >= lastHeard && idle.from != .distantPast }

    mutating func pingSent(serial: SerialNumber, goesOutAtOnce: Bool, at now: Instant) {
        let isAmbiguous = serial == 0 && ping.map { !$0.isAnswered } ?? false
        let askedAt = silentSince ?? now
        let isExcused = silentSince != nil && ping?.isExcused == true
        if silentSince == nil { noteIdleTime(until: now) }
        // An answer that is not read at once would measure the pause in reading.
        let isMeasured = goesOutAtOnce && !isAmbiguous && !isSuspended
        ping = Ping(sentAt: now, askedAt: askedAt, serial: serial, isMeasured: isMeasured, isExcused: isExcused)
        pingCount += 1
        lastHeartbeat = now
        lastWrote = now
        askAgainAt = nil
    }

    mutating func pingRefused(wasQueued: Bool, at now: Instant) {
        if wasQueued, let sent = ping {
            // If an earlier ping has not been followed by progress, its deadline still counts.
            if sent.askedAt == sent.sentAt { ping = nil } else { ping?.isMeasured = false }
        }
        askAgainAt = now.advanced(by: min(policy.interval, policy.deadline))
    }

    enum Meaning: Equatable, Sendable {
        case answer
        case question
        /// Unclear. It must not be answered.
        case stray
    }

    /// A pong answers the latest ping if it repeats the serial of the ping, or has none.
    @discardableResult
    mutating func pongReceived(serial: SerialNumber, at now: Instant) -> Meaning {
        guard let sent = ping, !sent.isAnswered, serial == 0 || serial == sent.serial else { return .stray }
        ping?.isAnswered = true
        guard sent.isMeasured else { return .answer }
        let sample = max(.zero, now.since(sent.sentAt))
        if roundTripTime == nil { roundTripTime = RoundTripTime(sample) } else { roundTripTime?.add(sample) }
        return .answer
    }

    var measuredRoundTrip: Duration? {
        ping.map { $0.isAnswered && $0.isMeasured } == true ? roundTripTime?.latest : nil
    }

    /// Within `deadline` of an unanswered ping it is the answer, unless it has another serial. Otherwise it is a ping
    /// of the server, which is answered at most once per second. Without that limit, two sides that each take the
    /// other's answer for a ping would answer each other forever.
    mutating func heartbeatReceived(serial: SerialNumber, at now: Instant) -> Meaning {
        if let ping, !ping.isAnswered, serial == 0 || serial == ping.serial,
            now.since(ping.sentAt) <= policy.deadline
        {
            return pongReceived(serial: serial, at: now)
        }
        if let lastHeartbeat, now.since(lastHeartbeat) < .seconds(1) { return .stray }
        lastHeartbeat = now
        return .question
    }

    mutating func suspend(at now: Instant) {
        guard !isSuspended else { return }
        examinedAt = now
        ping?.isMeasured = false
    }

    private var isSuspended: Bool { examinedAt != nil }

    /// The silence until now means nothing.
    mutating func resume(at now: Instant) {
        guard isSuspended else { return }
        examinedAt = nil
        tookBytes(at: now)
        timeouts = 0
        growth.count = 0
    }

    // MARK: The interval

    var heartbeatInterval: Duration? { policy.mode == .none ? nil : policy.interval }

    mutating func setInterval(_ interval: Duration) { policy.interval = max(.milliseconds(1), interval) }

    var idleBeforeAnsweredPing: (duration: Duration, until: Instant)? {
        guard let ping, ping.isAnswered, ping.sentAt == idle.to else { return nil }
        return (idle.to.since(idle.from), idle.to)
    }

    var idleBeforeSilence: (duration: Duration, until: Instant)? {
        guard isIdleTimeOver, incompleteSince == nil else { return nil }
        return (idle.to.since(idle.from), idle.to)
    }

    func idleTime(isReset: Bool, at now: Instant) -> Duration {
        if isReset, let idle = idleBeforeSilence, now.since(idle.until) < policy.deadline { return idle.duration }
        return max(.zero, now.since(max(lastHeard, lastWrote)))
    }

    // MARK: Time

    var asks: Bool { policy.mode == .pingPong && askAgainAt == nil }

    var excusing: Excusing { policy.excusing == .none || !isProbing ? .none : policy.excusing }

    var isProbing: Bool { silentSince != nil }

    private var stuckSince: Instant? { incompleteSince.map { max($0, grownAt) } }

    private var silentSince: Instant? {
        guard let ping, lastHeard < ping.askedAt else { return nil }
        return ping.askedAt
    }

    var deadAt: Instant? {
        let asked = silentSince?.advanced(by: policy.deadline)
        let stuck = stuckSince?.advanced(by: policy.deadline)
        return [asked, stuck].compactMap { $0 }.min()
    }

    /// Only `heard` and `resume` can make it later; `heard` can make it earlier while `isProbing`. A timer that fires
    /// too early does no harm.
    var nextLook: Instant? {
        if let examinedAt { return min(examinedAt.advanced(by: policy.interval), nextWord) }
        let stuck = stuckSince?.advanced(by: policy.deadline)
        switch policy.mode {
        case .none: return stuck
        case .oneWay: return min(nextWord, stuck ?? .distantFuture)
        case .pingPong:
            if let silentSince { return min(silentSince.advanced(by: policy.deadline), nextWord, nextRepetition) }
            if let askAgainAt { return min(askAgainAt, stuck ?? .distantFuture) }
            let regular = min(lastHeard.advanced(by: policy.interval), stuck ?? .distantFuture, nextWord)
            guard isSuspicious, let probeAfter = policy.probeAfter else { return regular }
            return min(regular, quietSince.advanced(by: probeAfter))
        }
    }

    private var nextWord: Instant {
        let word: Instant =
            switch policy.mode {
            case .none: .distantFuture
            case .oneWay: lastWrote.advanced(by: policy.interval)
            case .pingPong: policy.speakAfter.map { lastWrote.advanced(by: $0) } ?? .distantFuture
            }
        return max(word, askAgainAt ?? word)
    }

    private var nextRepetition: Instant {
        guard let ping, let repeatPingAfter = policy.repeatPingAfter else { return .distantFuture }
        let due = ping.sentAt.advanced(by: repeatPingAfter)
        return max(due, askAgainAt ?? due)
    }

    private var isSuspicious: Bool { firstWritten != nil || timeouts > 0 }

    /// A timer that fires much later than `due` means that the clock has jumped: the process or the machine slept, and
    /// the peer's bytes may still be in transit. Then a link is declared dead only if it was pinged after the jump.
    ///
    /// `isAwaited` is called only after `maximumTimeouts`. If it returns false, growth is no progress, however fast: if
    /// framing was lost, all earlier requests time out, and the frame cannot be the response to later ones.
    ///
    /// The wait for `hasUnanswered` counts from the first write since the last sign of life. So a probe may come early
    /// after frames without responses, but never late. After an excuse ends, the server has one more deadline.
    mutating func timerFired(
        due: Instant,
        at now: Instant,
        isAwaited: () -> Bool = { true },
        hasUnanswered: () -> Bool,
        excuse: () -> Excuse = { .none }
    ) -> Action {
        let hasToSpeak = nextWord <= now
        if let examinedAt {
            // The server must hear from this side, even while reading is suspended.
            if hasToSpeak { return nextPing }
            guard now.since(examinedAt) >= policy.interval else { return .none }
            self.examinedAt = now
            return .examine
        }
        if let askAgainAt, askAgainAt <= now { self.askAgainAt = nil }
        if policy.mode == .pingPong { enterGrowth(isAwaited) }
        if policy.mode == .pingPong, let silentSince {
            guard now.since(silentSince) >= policy.deadline else {
                // After a clock jump the peer is asked again.
                return hasToSpeak || nextRepetition <= now || now.since(due) > policy.jump ? nextPing : .none
            }
            let hasJumped = now.since(due) > policy.jump
            let excuse = hasJumped ? .asksAgain : excuse()
            guard excuse != .refuted, excuse != .none || ping?.isExcused == true else { return .declareDead }
            if !hasJumped { ping?.isExcused = excuse != .none }
            ping?.askedAt = now
            return excuse == .waits && !hasToSpeak ? .none : nextPing
        }
        guard asks else {
            if isStuck(at: now) {
                guard now.since(due) > policy.jump else { return .declareDead }
                incompleteSince = now
            }
            return hasToSpeak ? nextPing : .none
        }
        if hasToSpeak || now.since(lastHeard) >= policy.interval || isStuck(at: now) { return nextPing }
        guard isSuspicious, let probeAfter = policy.probeAfter, now.since(quietSince) >= probeAfter else {
            return .none
        }
        firstWritten = nil  // restarts with the next write; one ping is enough for all requests that wait
        return timeouts > 0 || hasUnanswered() ? nextPing : .none
    }

    /// The ping is sent even if an earlier one has not been answered. If the route was lost and is back, the peer's
    /// acknowledgment of the new bytes makes the kernel retransmit the earlier ones at once, rather than when its timer
    /// fires. The deadline still counts from the first ping.
    mutating func probe(at now: Instant) -> Action {
        guard asks, !isSuspended else { return .none }
        // Frames that arrived at this same instant came before the ping.
        lastHeard = min(lastHeard, now.advanced(by: .nanoseconds(-1)))
        return nextPing
    }

    /// The peer's frames may have come meanwhile, and a ping of this side may have been late. After a long delay, the
    /// peer has the whole deadline again.
    mutating func loopWasLate(_ delay: LoopDelay) {
        func shifted(_ instant: Instant) -> Instant {
            delay.duration > policy.jump ? max(instant, delay.end) : delay.shifted(instant)
        }
        if let ping, !ping.isAnswered {
            self.ping?.isMeasured = false
            self.ping?.askedAt = shifted(ping.askedAt)
        }
        incompleteSince = incompleteSince.map { shifted($0) }
    }

    private func isStuck(at now: Instant) -> Bool {
        stuckSince.map { now.since($0) >= policy.deadline } ?? false
    }

    private mutating func enterGrowth(_ isAwaited: () -> Bool) {
        guard grownAt > lastHeard, timeouts < policy.maximumTimeouts ?? .max || isAwaited() else { return }
        lastHeard = grownAt
        quietSince = grownAt
    }

    private var nextPing: Action { .ping(number: pingCount) }
}

extension Liveness.Policy {
    fileprivate var jump: Duration { max(.seconds(1), deadline / 4) }

    fileprivate var clamped: Self {
        var policy = self
        policy.interval = max(.milliseconds(1), interval)
        policy.deadline = max(.milliseconds(1), deadline)
        policy.probeAfter = mode == .pingPong ? probeAfter.map { max(.milliseconds(1), $0) } : nil
        policy.speakAfter = speakAfter.map { max(.milliseconds(1), $0) }
        policy.repeatPingAfter = repeatPingAfter.map { max(.milliseconds(1), $0) }
        policy.maximumTimeouts = maximumTimeouts.map { max(1, $0) }
        return policy
    }

    fileprivate var growthNeeded: Int {
        guard let minimumRate else { return 1 }
        let seconds = Double(deadline.clampedNanoseconds) / 1e9
        return Int(max(1, min(Double(minimumRate) * seconds, 1e15)))
    }
}

/// The rules of `Liveness`, and what they need to know about the outbound frames of one link.
struct LinkLiveness: Sendable {
    var rules: Liveness
    fileprivate var ping: (position: OutboundPosition, serial: SerialNumber)?
    /// No frame from this position on had been written when the incomplete frame began to arrive.
    fileprivate var incompleteFrom = OutboundPosition.first
    fileprivate var wasIncomplete = false

    init() {
        var policy = Liveness.Policy()
        (policy.mode, policy.interval, policy.minimumRate) = (.none, .seconds(Int64.max), nil)
        rules = Liveness(policy, startedAt: Instant(nanoseconds: 0))
    }

    init(_ policy: Liveness.Policy, startedAt now: Instant) { rules = Liveness(policy, startedAt: now) }
}

extension LinkMachine {
    // MARK: Facts

    /// Returns whether the timer may have to fire earlier. So does `willWrite`.
    @inline(__always)
    mutating func received(_ count: Int, hasFrames: Bool, leavesIncomplete: Bool, at now: Instant) -> Bool {
        let wasProbing = liveness.rules.isProbing
        let isNew =
            hasFrames
            ? liveness.rules.heard(at: now, leavesIncomplete: leavesIncomplete)
            : liveness.rules.grew(by: count, isIncomplete: leavesIncomplete, at: now)
        if leavesIncomplete, hasFrames || !liveness.wasIncomplete {
            liveness.incompleteFrom = outbound.firstUnstarted
        }
        liveness.wasIncomplete = leavesIncomplete
        // The timer waits for the deadline of the ping. The next ping may be due earlier.
        return isNew || wasProbing && hasFrames
    }

    @inline(__always)
    mutating func willWrite(at now: Instant) -> Bool {
        liveness.rules.wrote(from: outbound.firstUnwritten, at: now)
    }

    /// A sign of life only while the ping waits behind other frames, so that a large request on a slow network does not
    /// end the link. Otherwise a write may be short although the socket is not full, which once happened to the ping
    /// itself.
    mutating func socketTookBytes(at now: Instant) {
        if let ping = liveness.ping, ping.position > outbound.firstUnwritten { liveness.rules.tookBytes(at: now) }
    }

    /// A link that is not read is never declared dead. Its silence counts from when reading resumes.
    mutating func readingChanged(to isReading: Bool, at now: Instant) {
        if isReading { liveness.rules.resume(at: now) } else { liveness.rules.suspend(at: now) }
    }

    /// Returns true if this link has no ping, or none that decides now, and no frame is arriving that may be the
    /// response to a request.
    mutating func timedOut(_ count: Int, at now: Instant) -> Bool {
        liveness.rules.timedOut(count)
        if liveness.rules.asks, !isBusy { return false }
        return !(liveness.rules.isGrowing(at: now) && isIncompleteAwaited)
    }

    mutating func heartbeat(_ frame: Frame, pongsLookLikePings: Bool, at now: Instant) -> Liveness.Meaning {
        if frame.kind == .pong { return liveness.rules.pongReceived(serial: frame.serial, at: now) }
        guard pongsLookLikePings else { return .question }
        return liveness.rules.heartbeatReceived(serial: frame.serial, at: now)
    }

    // MARK: Time

    private var isIncompleteAwaited: Bool { requests.hasRequest(at: OutboundPosition.first..<liveness.incompleteFrom) }

    private var isBusy: Bool {
        switch liveness.rules.excusing {
        case .none: false
        case .any: hasUnanswered
        case .earlier: liveness.ping.map { requests.hasRequest(at: OutboundPosition.first..<$0.position) } ?? false
        }
    }

    mutating func look(
        due: Instant,
        at now: Instant,
        isAcknowledged: () -> Bool = { false }
    ) -> Liveness.Action {
        let first = liveness.rules.firstWritten ?? .first
        let positions = first..<max(first, outbound.firstUnstarted)
        var rules = liveness.rules
        let action = rules.timerFired(
            due: due,
            at: now,
            isAwaited: { isIncompleteAwaited },
            hasUnanswered: { requests.hasRequest(at: positions) },
            excuse: {
                guard isBusy else { return .none }
                if liveness.rules.excusing == .any { return .waits }
                return isAcknowledged() ? .asksAgain : .refuted
            }
        )
        liveness.rules = rules
        return action
    }

    mutating func probe(at now: Instant) -> Liveness.Action { liveness.rules.probe(at: now) }

    mutating func loopWasLate(_ delay: LoopDelay) { liveness.rules.loopWasLate(delay) }

    /// Behind all other frames, so that it is never written within one. Watermarks do not delay it. Returns false, and
    /// queues none, if an earlier ping still waits to be written.
    mutating func send(ping: Frame, at now: Instant) -> Bool {
        if let waiting = liveness.ping, waiting.position >= outbound.firstUnwritten {
            liveness.rules.pingSent(serial: waiting.serial, goesOutAtOnce: false, at: now)
            return false
        }
        liveness.rules.pingSent(serial: ping.serial, goesOutAtOnce: outbound.isEmpty, at: now)
        liveness.ping = (outbound.nextPosition, ping.serial)
        send(ping)
        return true
    }

    mutating func pingRefused(wasQueued: Bool, at now: Instant) {
        if wasQueued { liveness.ping = nil }
        liveness.rules.pingRefused(wasQueued: wasQueued, at: now)
    }
}
