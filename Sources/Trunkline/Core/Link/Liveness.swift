/// What is sent on a link that is quiet.
public enum HeartbeatMode: Sendable, Hashable {
    /// Nothing.
    case none
    /// A ping after every interval in which we wrote nothing, and no answer is expected: for servers that want to hear from
    /// us.
    case oneWay
    /// A ping after every interval in which no frame came in. The server answers; a link that stays silent is replaced.
    case pingPong
}

/// Whether one link is alive: when to ping, and when to give the link up.
///
/// Facts go in: `heard` or `grew` for every read, `wrote` for every flush, `timedOut`, `pongReceived`, `suspend` and
/// `resume`. When `nextLook` has come, `timerFired` says what to do. Hearing and writing cost a few stores; all else is
/// worked out when the timer fires, so the timer is never re-armed for a read.
///
/// Progress is a completed frame. A link that has lost framing receives bytes, too: one wrong bit in a length, and every
/// later answer is taken for a piece of one long frame. So an incomplete frame counts only while it grows at
/// `minimumRate`, and while it can still be what a request waits for (see `timerFired`).
///
/// With ping-pong a dead link is noticed within `interval + deadline` of its last frame, plus the timer's lateness:
///
///     quiet ──(interval without progress, a request unanswered for probeAfter, or a frame stuck for deadline)──► probing
///       ▲                                                                                                        │  │
///       └───────────────────────────────────────────── progress ─────────────────────────────────────────────────┘  │
///                                                                       dead ◄──────────── (deadline) ──────────────┘
///
/// Without ping-pong nothing can be asked: a frame that is stuck for `deadline` is enough.
package struct Liveness: Sendable {
    package struct Policy: Sendable {
        package var mode = HeartbeatMode.pingPong
        /// This and the others are at least a millisecond.
        package var interval: Duration = .seconds(30)
        package var deadline: Duration = .seconds(10)
        package var probeAfter: Duration? = .seconds(5)
        package var speakAfter: Duration?
        /// How many bytes a second an incomplete frame has to grow by, over a `deadline`, for that to be progress. `nil`:
        /// any byte of it is progress.
        package var minimumRate: Int? = 100
        /// After so many requests that timed out in a row, without a frame in between, the growth of a frame that no request
        /// waits for is no progress any more; `nil` for never.
        package var maximumTimeouts: Int? = 3

        package init() {}
    }

    package enum Action: Equatable, Sendable {
        case none
        /// Send the ping of this number, and say so with `pingSent`.
        case ping(number: UInt64)
        /// A ping was followed by no progress for the whole deadline; or a frame is stuck, and there is no ping to ask with.
        case declareDead
        /// Nothing is read: ask the socket whether it has failed.
        case examine
    }

    /// A ping on its way.
    private struct Ping {
        var sentAt: Instant
        /// When the first was sent of those that nothing has followed: the deadline counts from here.
        var askedAt: Instant
        /// The serial that its answer repeats, if the protocol does that; 0 for none.
        var serial: SerialNumber
        /// It went out at once, and an answer cannot be that to an earlier ping.
        var isMeasured: Bool
        var isAnswered = false
    }

    private let policy: Policy
    /// How many bytes of an incomplete frame within a deadline are progress.
    private let growthNeeded: Int
    /// The latest progress, or the start or resumption of reading. Growth is entered when the timer fires.
    package private(set) var lastHeard: Instant
    /// Since when the frame that is coming in is incomplete; `nil` when there is none, or none is to be judged.
    private var incompleteSince: Instant?
    /// When it had last grown by enough.
    private var grownAt = Instant.distantPast
    /// What is counted towards the next time: so many bytes since.
    private var growth: (since: Instant, count: Int) = (.distantPast, 0)
    /// How many requests have timed out since the latest completed frame.
    package private(set) var timeouts = 0
    /// Whether a frame has come on this link.
    package private(set) var hasHeard = false
    /// The latest flush, for the one-way mode and `speakAfter`.
    private var lastWrote: Instant
    /// The first flush of requests that may be unanswered, or the latest progress since.
    private var quietSince = Instant.distantFuture
    /// The place in the outbound order from which requests may be unanswered; 0 for none.
    package private(set) var firstWritten: OutboundPosition = 0
    /// The latest ping; a new one goes out only when the latest was followed by progress, after a clock jump, or to be heard.
    private var ping: Ping?
    private var pingCount: UInt64 = 0
    /// The latest ping or answer of ours.
    private var lastHeartbeat: Instant?
    /// When the socket was asked last, while we do not read and silence says nothing; `nil` while we read.
    private var examinedAt: Instant?
    /// Measured on this link.
    package private(set) var roundTripTime: RoundTripTime?

    /// A link that was established at `now`.
    package init(_ policy: Policy, startedAt now: Instant) {
        self.policy = policy.clamped
        growthNeeded = self.policy.growthNeeded
        lastHeard = now
        lastWrote = now
    }

    // MARK: Facts

    /// Frames were completed; `leavesIncomplete` when the beginning of another came with them. Returns whether `nextLook`
    /// may be sooner now.
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

    /// `count` bytes came that completed no frame. Returns whether `nextLook` may be sooner now.
    ///
    /// - Parameter isIncomplete: Whether they, or some before them, are the beginning of a frame; they may be padding.
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

    /// The peer's kernel took bytes from a full socket behind which our ping waits: a sign of life just as well.
    package mutating func tookBytes(at now: Instant) {
        lastHeard = now
        quietSince = now
        if incompleteSince != nil { incompleteSince = now }
    }

    /// So many requests that had been written to this link timed out.
    package mutating func timedOut(_ count: Int) {
        if !isSuspended { timeouts += count }
    }

    /// Whether the incomplete frame has grown by enough within the latest deadline.
    package func isGrowing(at now: Instant) -> Bool { grownAt != .distantPast && now.since(grownAt) < policy.deadline }

    /// Bytes are about to be written, from the frame at `position` on. Returns true for the first since
    /// nothing was unanswered: `nextLook` may be sooner now.
    @inline(__always)
    package mutating func wrote(from position: OutboundPosition, at now: Instant) -> Bool {
        lastWrote = now
        guard firstWritten == 0, policy.probeAfter != nil else { return false }
        firstWritten = position
        quietSince = now
        return true
    }

    /// The ping was queued; `goesOutAtOnce` unless bytes wait before it, in which case it measures nothing.
    package mutating func pingSent(serial: SerialNumber, goesOutAtOnce: Bool, at now: Instant) {
        let isAmbiguous = serial == 0 && ping.map { !$0.isAnswered } ?? false
        let askedAt = silentSince ?? now
        // An answer that we do not read measures our pause.
        let isMeasured = goesOutAtOnce && !isAmbiguous && !isSuspended
        ping = Ping(sentAt: now, askedAt: askedAt, serial: serial, isMeasured: isMeasured)
        pingCount += 1
        lastHeartbeat = now
        lastWrote = now
    }

    /// What a heartbeat from the peer turns out to be.
    package enum Meaning: Equatable, Sendable {
        /// The answer to our ping.
        case answer
        /// The peer's ping.
        case question
        /// Neither for certain: it is not to be answered.
        case stray
    }

    /// A pong came. It answers the latest ping if it repeats its serial, or has none.
    @discardableResult
    package mutating func pongReceived(serial: SerialNumber, at now: Instant) -> Meaning {
        guard let sent = ping, !sent.isAnswered, serial == 0 || serial == sent.serial else { return .stray }
        ping?.isAnswered = true
        guard sent.isMeasured else { return .answer }
        let sample = max(.zero, now.since(sent.sentAt))
        if roundTripTime == nil { roundTripTime = RoundTripTime(sample) } else { roundTripTime?.add(sample) }
        return .answer
    }

    /// A heartbeat came in a protocol in which pings and pongs look alike.
    ///
    /// Within `deadline` of an unanswered ping of ours it is the answer, unless it has another serial. Otherwise the
    /// server asks, and is answered once a second at most: two sides that each take the other's answer for a question
    /// would else keep each other busy for ever.
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

    /// Reading stops: whatever the peer says will not be heard.
    package mutating func suspend(at now: Instant) {
        guard !isSuspended else { return }
        examinedAt = now
        ping?.isMeasured = false
    }

    private var isSuspended: Bool { examinedAt != nil }

    /// Reading goes on. The silence until now says nothing.
    package mutating func resume(at now: Instant) {
        guard isSuspended else { return }
        examinedAt = nil
        tookBytes(at: now)
        timeouts = 0
        growth.count = 0
    }

    // MARK: Time

    /// Whether pings are sent that have to be followed by progress.
    package var asks: Bool { policy.mode == .pingPong }

    /// Whether a ping is out and no progress has followed it.
    package var isProbing: Bool { silentSince != nil }

    /// Since when a frame is incomplete and has not grown by enough; `nil` when there is none.
    private var stuckSince: Instant? { incompleteSince.map { max($0, grownAt) } }

    /// When a ping went out that no progress has followed; `nil` when there is none.
    private var silentSince: Instant? {
        guard let ping, lastHeard < ping.askedAt else { return nil }
        return ping.askedAt
    }

    /// When to call `timerFired`; `nil` for not before something else happens. Only `heard` and `resume` move it
    /// to later, and `heard` to earlier when `isProbing`; a timer armed for an earlier instant does no harm.
    package var nextLook: Instant? {
        if let examinedAt { return min(examinedAt.advanced(by: policy.interval), nextWord) }
        let stuck = stuckSince?.advanced(by: policy.deadline)
        switch policy.mode {
        case .none: return stuck
        case .oneWay: return min(nextWord, stuck ?? .distantFuture)
        case .pingPong:
            if let silentSince { return min(silentSince.advanced(by: policy.deadline), nextWord) }
            let regular = min(lastHeard.advanced(by: policy.interval), stuck ?? .distantFuture, nextWord)
            guard isSuspicious, let probeAfter = policy.probeAfter else { return regular }
            return min(regular, quietSince.advanced(by: probeAfter))
        }
    }

    /// When the server has to hear from us next, whatever it says.
    private var nextWord: Instant {
        switch policy.mode {
        case .none: .distantFuture
        case .oneWay: lastWrote.advanced(by: policy.interval)
        case .pingPong: policy.speakAfter.map { lastWrote.advanced(by: $0) } ?? .distantFuture
        }
    }

    /// Whether requests were written, or timed out, since the latest progress.
    private var isSuspicious: Bool { firstWritten != 0 || timeouts > 0 }

    /// The timer that was armed for `due` fires at `now`.
    ///
    /// - Parameters:
    ///   - isAwaited: Whether a request waits that was written before the incomplete frame began, so that the frame can be
    ///     its answer. Asked only after `maximumTimeouts`: if not, growth is no progress, however fast. Where framing was
    ///     lost, all that were written before time out; those written later cannot be what it answers.
    ///   - hasUnanswered: Whether any request written since the last sign of life has no answer yet. Asked only
    ///     when it matters. The time a request has waited counts from the first write since that sign, so a probe may come
    ///     early when frames without answers were written before the request, but never late.
    ///
    /// A timer that fires much later than it was due means that the clock has jumped: process or machine slept, and the
    /// peer's bytes may be on their way still. Then no link is given up that was not pinged after the jump.
    package mutating func timerFired(
        due: Instant,
        at now: Instant,
        isAwaited: () -> Bool = { true },
        hasUnanswered: () -> Bool
    ) -> Action {
        let hasToSpeak = nextWord <= now
        if let examinedAt {
            // The server wants to hear from us, whether we hear it or not.
            if hasToSpeak { return nextPing }
            guard now.since(examinedAt) >= policy.interval else { return .none }
            self.examinedAt = now
            return .examine
        }
        guard policy.mode == .pingPong else {
            if isStuck(at: now) {
                guard now.since(due) > policy.jump else { return .declareDead }
                incompleteSince = now
            }
            return hasToSpeak ? nextPing : .none
        }
        enterGrowth(isAwaited)
        if let silentSince {
            guard now.since(silentSince) >= policy.deadline else { return hasToSpeak ? nextPing : .none }
            guard now.since(due) > policy.jump else { return .declareDead }
            ping?.askedAt = now
            return nextPing
        }
        if hasToSpeak || now.since(lastHeard) >= policy.interval || isStuck(at: now) { return nextPing }
        guard isSuspicious, let probeAfter = policy.probeAfter, now.since(quietSince) >= probeAfter else {
            return .none
        }
        firstWritten = 0  // counts anew from the next write; one ping is enough for those that wait
        return timeouts > 0 || hasUnanswered() ? nextPing : .none
    }

    /// There is reason to doubt the link: asks at once, unless what comes is not read.
    ///
    /// It asks although a ping is out. Where the route was lost and is back, the new bytes arrive, and the server's
    /// acknowledgement makes the kernel retransmit the earlier ones at once, rather than when its timer fires. The deadline still
    /// counts from the first ping.
    package mutating func probe(at now: Instant) -> Action {
        guard asks, !isSuspended else { return .none }
        // What was heard in this very instant came before.
        lastHeard = min(lastHeard, now.advanced(by: .nanoseconds(-1)))
        return nextPing
    }

    private func isStuck(at now: Instant) -> Bool {
        stuckSince.map { now.since($0) >= policy.deadline } ?? false
    }

    /// Counts the growth of the incomplete frame as progress, if it is.
    private mutating func enterGrowth(_ isAwaited: () -> Bool) {
        guard grownAt > lastHeard, timeouts < policy.maximumTimeouts ?? .max || isAwaited() else { return }
        lastHeard = grownAt
        quietSince = grownAt
    }

    private var nextPing: Action { .ping(number: pingCount) }
}

extension Liveness.Policy {
    /// A timer that fires later than this after it was due says that the clock has jumped: a second, or a quarter of
    /// the deadline.
    fileprivate var jump: Duration { max(.seconds(1), deadline / 4) }

    fileprivate var clamped: Self {
        var policy = self
        policy.interval = max(.milliseconds(1), interval)
        policy.deadline = max(.milliseconds(1), deadline)
        policy.probeAfter = mode == .pingPong ? probeAfter.map { max(.milliseconds(1), $0) } : nil
        policy.speakAfter = speakAfter.map { max(.milliseconds(1), $0) }
        policy.maximumTimeouts = maximumTimeouts.map { max(1, $0) }
        return policy
    }

    /// `minimumRate` for the whole deadline: at least a byte, and as many as it takes.
    fileprivate var growthNeeded: Int {
        guard let minimumRate else { return 1 }
        let seconds = Double(deadline.clampedNanoseconds) / 1e9
        return Int(max(1, min(Double(minimumRate) * seconds, 1e15)))
    }
}
