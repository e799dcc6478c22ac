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

/// Decides whether one link is alive: when to send a ping, and when to declare the link dead.
///
/// The inputs are facts: `heard` or `grew` for every read, `wrote` for every flush, `timedOut`, `pongReceived`,
/// `suspend` and `resume`. At `nextLook`, `timerFired` returns the action to perform. Reading and writing cost a few
/// stores. Everything else is computed when the timer fires, so a read never re-arms the timer.
///
/// Progress is a completed frame. Bytes alone are not: a link that has lost framing receives bytes too. After one wrong
/// bit in a length, every later response is read as a piece of one long frame. So an incomplete frame counts only while
/// it grows at `minimumRate`, and while it can still be the response to a request in flight (see `timerFired`).
///
/// With ping-pong, a dead link is detected within `interval + deadline` after its last frame, plus the lateness of the
/// timer:
///
///     quiet ─(interval without progress, a request unanswered for probeAfter, or a frame stuck for deadline)──► probing
///       ▲                                                                                                       │  │
///       └──────────────────────────────────────────── progress ─────────────────────────────────────────────────┘  │
///                                                                      dead ◄──────────── (deadline) ──────────────┘
///
/// Without ping-pong there is no probe: a frame that is stuck for `deadline` is sufficient. The same holds while the
/// codec has no ping to send (`pingRefused`): silence that this side cannot break means nothing.
package struct Liveness: Sendable {
    package struct Policy: Sendable {
        package var mode = HeartbeatMode.pingPong
        /// All durations are at least 1 ms.
        package var interval: Duration = .seconds(30)
        package var deadline: Duration = .seconds(10)
        package var probeAfter: Duration? = .seconds(5)
        package var speakAfter: Duration?
        /// The number of bytes per second by which an incomplete frame must grow, over one `deadline`, to count as
        /// progress. `nil`: every byte of it is progress.
        package var minimumRate: Int? = 100
        /// The number of requests that time out in a row, without a frame in between, after which the growth of a frame
        /// that no request waits for no longer counts as progress. `nil` for no limit.
        package var maximumTimeouts: Int? = 3
        /// The time after which a ping that no progress has followed is repeated, because the path may have lost it; `nil`
        /// for never.
        package var repeatPingAfter: Duration?
        /// Which requests in flight excuse a ping that no progress has followed.
        package var excusing = Excusing.none

        package init() {}
    }

    /// The requests in flight that a server may be busy with, so that it has not come to the ping yet.
    package enum Excusing: Sendable {
        /// None: an unanswered ping always decides.
        case none
        /// Any: the server is a process that is known to run.
        case any
        /// Those that were written before the ping, in a protocol matched in order, while the peer's kernel acknowledges what
        /// is sent.
        case earlier
    }

    /// What a request in flight means for a ping that no progress has followed for the deadline.
    package enum Excuse: Sendable {
        /// Nothing: the link is dead, unless the server may have been busy until just now.
        case none
        /// The peer's kernel has not acknowledged the ping: the link is dead.
        case refuted
        /// The server is busy. The deadline begins anew.
        case waits
        /// The same, and another ping is sent, which shows whether the path still works.
        case asksAgain
    }

    package enum Action: Equatable, Sendable {
        case none
        /// Send the ping with this number, and report it with `pingSent`.
        case ping(number: UInt64)
        /// No progress followed a ping for the whole deadline, or a frame is stuck and there is no ping to probe with.
        case declareDead
        /// Reading is suspended: check whether the socket has failed.
        case examine
    }

    /// A ping that was sent.
    private struct Ping {
        var sentAt: Instant
        /// When the client sent the first of the pings that no progress has followed. The deadline counts from here.
        var askedAt: Instant
        /// The serial that its answer repeats, if the protocol has that; 0 for none.
        var serial: SerialNumber
        /// Whether its answer measures the round-trip time: it was sent at once, and its answer cannot be mistaken for
        /// that of an earlier ping.
        var isMeasured: Bool
        var isAnswered = false
        /// Whether the deadline has begun anew because of a request in flight.
        var isExcused = false
    }

    private var policy: Policy
    /// The number of bytes of an incomplete frame within one deadline that count as progress.
    private let growthNeeded: Int
    /// The time of the latest progress, or of the start or resumption of reading. Growth is added when the timer fires.
    package private(set) var lastHeard: Instant
    /// When the present incomplete frame began; `nil` if there is none, or if incomplete frames are not checked.
    private var incompleteSince: Instant?
    /// When it last had grown by enough.
    private var grownAt = Instant.distantPast
    /// The growth that is being counted: `count` bytes since `since`.
    private var growth: (since: Instant, count: Int) = (.distantPast, 0)
    /// The number of requests that timed out since the latest completed frame.
    package private(set) var timeouts = 0
    /// Whether a frame has arrived on this link.
    package private(set) var hasHeard = false
    /// The time of the latest flush, for the one-way mode and `speakAfter`.
    private var lastWrote: Instant
    /// The time of the first flush of requests that may be unanswered, or of the latest progress since.
    private var quietSince = Instant.distantFuture
    /// The position in the outbound order from which requests may be unanswered; `nil` for none.
    package private(set) var firstWritten: OutboundPosition?
    /// The latest ping. A new one is sent only after progress, after a clock jump, for a probe, or because the server
    /// must hear from the client.
    private var ping: Ping?
    private var pingCount: UInt64 = 0
    /// Set while there is no ping to send: when to try again. Until then the rules of a protocol without pings apply.
    private var askAgainAt: Instant?
    /// The time of the latest ping or answer from this side.
    private var lastHeartbeat: Instant?
    /// While reading is suspended: when the socket was last checked. Silence means nothing then. `nil` while reading.
    private var examinedAt: Instant?
    /// The round-trip times measured on this link.
    package private(set) var roundTripTime: RoundTripTime?
    /// The longest time without traffic that ended since the latest progress: by a ping, or by the first write after it.
    private var idle: (from: Instant, to: Instant) = (.distantPast, .distantPast)

    /// Creates the rules of a link that was established at `now`.
    package init(_ policy: Policy, startedAt now: Instant) {
        self.policy = policy.clamped
        growthNeeded = self.policy.growthNeeded
        lastHeard = now
        lastWrote = now
    }

    // MARK: Facts

    /// Records that frames were completed. `leavesIncomplete`: whether the beginning of another frame arrived with
    /// them. Returns whether `nextLook` may be earlier now.
    @inline(__always)
    @discardableResult
    package mutating func heard(at now: Instant, leavesIncomplete: Bool = false) -> Bool {
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

    /// Records that `count` bytes arrived that completed no frame. Returns whether `nextLook` may be earlier now.
    ///
    /// - Parameter isIncomplete: Whether these bytes, or earlier ones, are the beginning of a frame. They may be
    ///   padding.
    package mutating func grew(by count: Int, isIncomplete: Bool = true, at now: Instant) -> Bool {
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

    /// Records that the peer's kernel took bytes from a full socket while a ping waits for them to be written. This is
    /// progress.
    package mutating func tookBytes(at now: Instant) {
        lastHeard = now
        quietSince = now
        if incompleteSince != nil { incompleteSince = now }
    }

    /// Records that `count` requests that were written to this link timed out.
    package mutating func timedOut(_ count: Int) {
        if !isSuspended { timeouts += count }
    }

    /// Whether the incomplete frame has grown by enough within the latest deadline.
    package func isGrowing(at now: Instant) -> Bool { grownAt != .distantPast && now.since(grownAt) < policy.deadline }

    /// Records that bytes are about to be written, from the frame at `position` on. Returns true for the first write
    /// since `timerFired` last checked for unanswered requests: `nextLook` may be earlier now.
    @inline(__always)
    package mutating func wrote(from position: OutboundPosition, at now: Instant) -> Bool {
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

    /// Records that the time without traffic ends now, because something is written.
    @inline(never)
    private mutating func noteIdleTime(until now: Instant) {
        let start = max(lastHeard, lastWrote)
        guard !isIdleTimeOver || now.since(start) > idle.to.since(idle.from) else { return }
        idle = (start, now)
    }

    /// Whether something was written after the time without traffic `idle`, and no progress has followed.
    private var isIdleTimeOver: Bool { idle.from >= lastHeard && idle.from != .distantPast }

    /// Records that the ping was queued. `goesOutAtOnce`: false if bytes wait before it; then it measures nothing.
    package mutating func pingSent(serial: SerialNumber, goesOutAtOnce: Bool, at now: Instant) {
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

    /// Records that there is no ping to send now: the codec has none, or cannot encode the one that `pingSent` recorded
    /// (`wasQueued`).
    package mutating func pingRefused(wasQueued: Bool, at now: Instant) {
        if wasQueued, let sent = ping {
            // If an earlier ping has not been followed by progress, its deadline still counts.
            if sent.askedAt == sent.sentAt { ping = nil } else { ping?.isMeasured = false }
        }
        askAgainAt = now.advanced(by: min(policy.interval, policy.deadline))
    }

    /// The meaning of a heartbeat from the peer.
    package enum Meaning: Equatable, Sendable {
        /// The answer to this side's ping.
        case answer
        /// The peer's ping.
        case question
        /// Unclear. It must not be answered.
        case stray
    }

    /// Records a pong. It answers the latest ping if it repeats the serial of the ping, or has none.
    @discardableResult
    package mutating func pongReceived(serial: SerialNumber, at now: Instant) -> Meaning {
        guard let sent = ping, !sent.isAnswered, serial == 0 || serial == sent.serial else { return .stray }
        ping?.isAnswered = true
        guard sent.isMeasured else { return .answer }
        let sample = max(.zero, now.since(sent.sentAt))
        if roundTripTime == nil { roundTripTime = RoundTripTime(sample) } else { roundTripTime?.add(sample) }
        return .answer
    }

    /// The round-trip time of the latest ping, if it was answered and measured.
    package var measuredRoundTrip: Duration? {
        ping.map { $0.isAnswered && $0.isMeasured } == true ? roundTripTime?.latest : nil
    }

    /// Records a heartbeat in a protocol in which pings and pongs look alike.
    ///
    /// Within `deadline` of an unanswered ping it is the answer, unless it has another serial. Otherwise it is a ping
    /// of the server, which is answered at most once per second. Without that limit, two sides that each take the
    /// other's answer for a ping would answer each other forever.
    package mutating func heartbeatReceived(serial: SerialNumber, at now: Instant) -> Meaning {
        if let ping, !ping.isAnswered, serial == 0 || serial == ping.serial,
            now.since(ping.sentAt) <= policy.deadline
        {
            return pongReceived(serial: serial, at: now)
        }
        if let lastHeartbeat, now.since(lastHeartbeat) < .seconds(1) { return .stray }
        lastHeartbeat = now
        return .question
    }

    /// Records that reading is suspended: nothing that the peer sends is received.
    package mutating func suspend(at now: Instant) {
        guard !isSuspended else { return }
        examinedAt = now
        ping?.isMeasured = false
    }

    private var isSuspended: Bool { examinedAt != nil }

    /// Records that reading resumes. The silence until now means nothing.
    package mutating func resume(at now: Instant) {
        guard isSuspended else { return }
        examinedAt = nil
        tookBytes(at: now)
        timeouts = 0
        growth.count = 0
    }

    // MARK: The interval

    /// The interval of the heartbeats; `nil` if there are none.
    package var heartbeatInterval: Duration? { policy.mode == .none ? nil : policy.interval }

    /// Changes the interval from now on. `nextLook` may be later.
    package mutating func setInterval(_ interval: Duration) { policy.interval = max(.milliseconds(1), interval) }

    /// How long nothing was sent or received before the latest ping, if that was answered, and when the ping was sent;
    /// otherwise `nil`.
    package var idleBeforeAnsweredPing: (duration: Duration, until: Instant)? {
        guard let ping, ping.isAnswered, ping.sentAt == idle.to else { return nil }
        return (idle.to.since(idle.from), idle.to)
    }

    /// How long nothing was sent or received before what was then written, if not even a part of a frame has followed;
    /// otherwise `nil`.
    package var idleBeforeSilence: (duration: Duration, until: Instant)? {
        guard isIdleTimeOver, incompleteSince == nil else { return nil }
        return (idle.to.since(idle.from), idle.to)
    }

    /// How long nothing has been sent or received; with `isReset`, before what was then written, if nothing has followed.
    package func idleTime(isReset: Bool, at now: Instant) -> Duration {
        if isReset, let idle = idleBeforeSilence, now.since(idle.until) < policy.deadline { return idle.duration }
        return max(.zero, now.since(max(lastHeard, lastWrote)))
    }

    // MARK: Time

    /// Whether this side sends pings now that must be followed by progress.
    package var asks: Bool { policy.mode == .pingPong && askAgainAt == nil }

    /// Which requests excuse an unanswered ping now: `none` if there is no such ping.
    package var excusing: Excusing { policy.excusing == .none || !isProbing ? .none : policy.excusing }

    /// Whether a ping was sent that no progress has followed.
    package var isProbing: Bool { silentSince != nil }

    /// The instant since which a frame has been incomplete without growing enough; `nil` if there is no such frame.
    private var stuckSince: Instant? { incompleteSince.map { max($0, grownAt) } }

    /// When the first of the pings that no progress has followed was sent; `nil` if there is none.
    private var silentSince: Instant? {
        guard let ping, lastHeard < ping.askedAt else { return nil }
        return ping.askedAt
    }

    /// When the link counts as dead if nothing arrives until then; `nil` if no ping waits for progress, and no frame is
    /// incomplete.
    package var deadAt: Instant? {
        let asked = silentSince?.advanced(by: policy.deadline)
        let stuck = stuckSince?.advanced(by: policy.deadline)
        return [asked, stuck].compactMap { $0 }.min()
    }

    /// When to call `timerFired`; `nil` for not before another input. Only `heard` and `resume` can make it later;
    /// `heard` can make it earlier while `isProbing`. A timer that fires too early does no harm.
    package var nextLook: Instant? {
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

    /// When the server must next hear from this side, regardless of what it sends.
    private var nextWord: Instant {
        let word: Instant =
            switch policy.mode {
            case .none: .distantFuture
            case .oneWay: lastWrote.advanced(by: policy.interval)
            case .pingPong: policy.speakAfter.map { lastWrote.advanced(by: $0) } ?? .distantFuture
            }
        return max(word, askAgainAt ?? word)
    }

    /// When the latest ping is to be repeated.
    private var nextRepetition: Instant {
        guard let ping, let repeatPingAfter = policy.repeatPingAfter else { return .distantFuture }
        let due = ping.sentAt.advanced(by: repeatPingAfter)
        return max(due, askAgainAt ?? due)
    }

    /// Whether requests were written, or timed out, since the latest progress.
    private var isSuspicious: Bool { firstWritten != nil || timeouts > 0 }

    /// Handles the timer that was armed for `due` and fires at `now`. Returns the action to perform.
    ///
    /// - Parameters:
    ///   - isAwaited: Returns whether a request that was written before the incomplete frame began still waits, so that
    ///     the frame can be its response. Called only after `maximumTimeouts`. If it returns false, growth is not
    ///     progress, however fast. If framing was lost, all earlier requests time out, and the frame cannot be the
    ///     response to later ones.
    ///   - hasUnanswered: Returns whether any request written since the last sign of life is unanswered. Called only
    ///     when it matters. The wait of a request counts from the first write since that sign. So a probe may come
    ///     early if frames without responses were written before the request, but never late.
    ///   - excuse: Returns what requests in flight mean for a ping whose deadline has passed. When they no longer mean
    ///     anything, the server has one more deadline: it may have been busy until then.
    ///
    /// A timer that fires much later than `due` means that the clock has jumped: the process or the machine slept, and
    /// the peer's bytes may still be in transit. Then a link is declared dead only if it was pinged after the jump.
    package mutating func timerFired(
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

    /// Tests the link with a ping at once, unless reading is suspended.
    ///
    /// The ping is sent even if an earlier one has not been answered. If the route was lost and is back, the new bytes
    /// arrive, and the peer's acknowledgment makes the kernel retransmit the earlier bytes at once, rather than when
    /// its timer fires. The deadline still counts from the first ping.
    package mutating func probe(at now: Instant) -> Action {
        guard asks, !isSuspended else { return .none }
        // Frames that arrived at this same instant came before the ping.
        lastHeard = min(lastHeard, now.advanced(by: .nanoseconds(-1)))
        return nextPing
    }

    /// Gives the peer the time back in which the loop of this side did not run: its frames may have come meanwhile, and a
    /// ping of this side may have been late. After a long delay, the peer has the whole deadline again.
    package mutating func loopWasLate(_ delay: LoopDelay) {
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

    /// Counts the growth of the incomplete frame as progress, if it is progress.
    private mutating func enterGrowth(_ isAwaited: () -> Bool) {
        guard grownAt > lastHeard, timeouts < policy.maximumTimeouts ?? .max || isAwaited() else { return }
        lastHeard = grownAt
        quietSince = grownAt
    }

    private var nextPing: Action { .ping(number: pingCount) }
}

extension Liveness.Policy {
    /// A timer that fires later than this after it was due means that the clock has jumped: a second, or a quarter of
    /// the deadline if that is longer.
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

    /// The bytes of one deadline at `minimumRate`; at least 1.
    fileprivate var growthNeeded: Int {
        guard let minimumRate else { return 1 }
        let seconds = Double(deadline.clampedNanoseconds) / 1e9
        return Int(max(1, min(Double(minimumRate) * seconds, 1e15)))
    }
}

/// Decides whether one link is alive: the rules of `Liveness`, and what they need to know about the outbound frames.
package struct LinkLiveness: Sendable {
    package internal(set) var rules: Liveness
    /// The position of the latest ping in the outbound order, and its serial; `nil` for none.
    fileprivate var ping: (position: OutboundPosition, serial: SerialNumber)?
    /// No frame from this position on had been written when the incomplete frame began to arrive.
    fileprivate var incompleteFrom = OutboundPosition.first
    /// Whether the latest bytes ended with an incomplete frame.
    fileprivate var wasIncomplete = false

    /// Creates rules that never send a ping, for a link that is not ready.
    init() {
        var policy = Liveness.Policy()
        (policy.mode, policy.interval, policy.minimumRate) = (.none, .seconds(Int64.max), nil)
        rules = Liveness(policy, startedAt: Instant(nanoseconds: 0))
    }

    init(_ policy: Liveness.Policy, startedAt now: Instant) { rules = Liveness(policy, startedAt: now) }
}

extension LinkMachine {
    // MARK: Facts

    /// Records that `count` bytes were received, which completed frames or did not. Returns whether the timer may have
    /// to fire earlier.
    @inline(__always)
    package mutating func received(_ count: Int, hasFrames: Bool, leavesIncomplete: Bool, at now: Instant) -> Bool {
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

    /// Records that bytes are about to be written. Returns whether the timer may have to fire earlier.
    @inline(__always)
    package mutating func willWrite(at now: Instant) -> Bool {
        liveness.rules.wrote(from: outbound.firstUnwritten, at: now)
    }

    /// Records that a full socket accepts bytes again, because the peer's kernel has accepted some.
    ///
    /// This is a sign of life only while the ping waits behind other frames, so that a large request on a slow network
    /// does not end the link. In other cases it is no evidence: a write may be short although the socket is not full,
    /// which once happened to the ping itself.
    package mutating func socketTookBytes(at now: Instant) {
        if let ping = liveness.ping, ping.position > outbound.firstUnwritten { liveness.rules.tookBytes(at: now) }
    }

    /// Records that reading was suspended or resumed. A link that is not read is never declared dead, because nothing
    /// that the peer sends is received. Its silence counts from when reading resumes.
    package mutating func readingChanged(to isReading: Bool, at now: Instant) {
        if isReading { liveness.rules.resume(at: now) } else { liveness.rules.suspend(at: now) }
    }

    /// Records that `count` written requests timed out, which is a reason for a ping. Returns true if this link has no
    /// ping, or none that decides now, and no frame is arriving that may be the response to a request.
    package mutating func timedOut(_ count: Int, at now: Instant) -> Bool {
        liveness.rules.timedOut(count)
        if liveness.rules.asks, !isBusy { return false }
        return !(liveness.rules.isGrowing(at: now) && isIncompleteAwaited)
    }

    /// Returns the meaning of a ping or pong from the server. `pongsLookLikePings` is a property of the codec.
    package mutating func heartbeat(_ frame: Frame, pongsLookLikePings: Bool, at now: Instant) -> Liveness.Meaning {
        if frame.kind == .pong { return liveness.rules.pongReceived(serial: frame.serial, at: now) }
        guard pongsLookLikePings else { return .question }
        return liveness.rules.heartbeatReceived(serial: frame.serial, at: now)
    }

    // MARK: Time

    /// Whether the incomplete frame can be the response to a request in flight: one that was written before the frame
    /// began.
    private var isIncompleteAwaited: Bool { requests.hasRequest(at: OutboundPosition.first..<liveness.incompleteFrom) }

    /// Whether a request in flight excuses the ping that no progress has followed.
    private var isBusy: Bool {
        switch liveness.rules.excusing {
        case .none: false
        case .any: hasUnanswered
        case .earlier: liveness.ping.map { requests.hasRequest(at: OutboundPosition.first..<$0.position) } ?? false
        }
    }

    /// Handles the timer that was armed for `due`. Returns the action to perform.
    ///
    /// - Parameter isAcknowledged: Returns whether the peer's kernel has acknowledged all bytes.
    package mutating func look(
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

    /// Sends a ping at once, to test the link: see `Liveness.probe`.
    package mutating func probe(at now: Instant) -> Liveness.Action { liveness.rules.probe(at: now) }

    /// Gives the peer the time back in which the loop of this side did not run.
    package mutating func loopWasLate(_ delay: LoopDelay) { liveness.rules.loopWasLate(delay) }

    /// Queues a ping behind all other frames, so that it is never written within a frame. Watermarks do not delay it.
    /// Returns false if an earlier ping still waits to be written; then no new one is queued.
    package mutating func send(ping: Frame, at now: Instant) -> Bool {
        if let waiting = liveness.ping, waiting.position >= outbound.firstUnwritten {
            liveness.rules.pingSent(serial: waiting.serial, goesOutAtOnce: false, at: now)
            return false
        }
        liveness.rules.pingSent(serial: ping.serial, goesOutAtOnce: outbound.isEmpty, at: now)
        liveness.ping = (outbound.nextPosition, ping.serial)
        send(ping)
        return true
    }

    /// Records that the codec has no ping now, or that the ping that was queued cannot be encoded.
    package mutating func pingRefused(wasQueued: Bool, at now: Instant) {
        if wasQueued { liveness.ping = nil }
        liveness.rules.pingRefused(wasQueued: wasQueued, at: now)
    }
}
