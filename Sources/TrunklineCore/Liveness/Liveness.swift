/// Whether one link is alive: when to ping, and when to give the link up.
///
/// Facts go in: `heard` for every read, `wrote` for every flush, `pongReceived`, `suspend` and `resume`. When `nextLook`
/// has come, `timerFired` says what to do. Hearing and writing cost a few stores; all else is worked out when the timer
/// fires, so the timer is never re-armed for a read.
///
/// With ping-pong a dead link is noticed within `interval + deadline` of its last byte, plus the timer's lateness:
///
///     quiet ──(interval of silence, or a request unanswered for probeAfter)──► probing ──(deadline)──► dead
///       ▲                                                                         │
///       └──────────────────────────── any byte ───────────────────────────────────┘
package struct Liveness: Sendable {
    /// What is sent on a link that is quiet.
    package enum Mode: Sendable {
        /// Nothing, and nothing is expected.
        case none
        /// A ping after every interval in which we wrote nothing: it is the server that wants to hear from us, so what it
        /// says does not matter, and no answer is expected.
        case oneWay
        /// A ping after every interval in which nothing came in, and with `speakAfter` also when nothing went out for so
        /// long. It has to be followed by some byte.
        case pingPong
    }

    package struct Policy: Sendable {
        package var mode = Mode.pingPong
        /// This and the others are at least a millisecond.
        package var interval: Duration = .seconds(30)
        package var deadline: Duration = .seconds(10)
        package var probeAfter: Duration? = .seconds(5)
        package var speakAfter: Duration?

        package init() {}
    }

    package enum Action: Equatable, Sendable {
        case none
        /// Send the ping of this number, and say so with `pingSent`.
        case ping(number: UInt64)
        /// A ping was followed by nothing at all for the whole deadline.
        case declareDead
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
    /// The latest inbound byte, or the start or resumption of reading.
    private var lastHeard: Instant
    /// The latest flush, for the one-way mode and `speakAfter`.
    private var lastWrote: Instant
    /// The first flush of requests that may be unanswered, or the latest byte heard since.
    private var quietSince = Instant.distantFuture
    /// The place in the outbound order from which requests may be unanswered; 0 for none.
    package private(set) var firstWritten: OutboundPosition = 0
    /// The latest ping; a new one goes out only when the latest was followed by some byte, after a clock jump, or to be heard.
    private var ping: Ping?
    private var pingCount: UInt64 = 0
    /// The latest ping or answer of ours.
    private var lastHeartbeat: Instant?
    /// We do not read: silence says nothing.
    private var isSuspended = false
    /// Measured on this link.
    package private(set) var roundTripTime: RoundTripTime?

    /// A link that was established at `now`.
    package init(_ policy: Policy, startedAt now: Instant) {
        self.policy = policy.clamped
        lastHeard = now
        lastWrote = now
    }

    // MARK: Facts

    /// Bytes came in, or the peer's kernel took some from a full socket, which is a sign of life just as well.
    @inline(__always)
    package mutating func heard(at now: Instant) {
        lastHeard = now
        quietSince = now
    }

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
        ping = Ping(sentAt: now, askedAt: askedAt, serial: serial, isMeasured: goesOutAtOnce && !isAmbiguous)
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
    package mutating func suspend() { isSuspended = true }

    /// Reading goes on. The silence until now says nothing.
    package mutating func resume(at now: Instant) {
        guard isSuspended else { return }
        isSuspended = false
        heard(at: now)
    }

    // MARK: Time

    /// Whether a ping is out and nothing has come in since.
    package var isProbing: Bool { silentSince != nil }

    /// When a ping went out that nothing has followed; `nil` when there is none.
    private var silentSince: Instant? {
        guard let ping, lastHeard < ping.askedAt else { return nil }
        return ping.askedAt
    }

    /// When to call `timerFired`; `nil` for not before something else happens. Only `heard` and `resume` move it
    /// to later, and `heard` to earlier when `isProbing`; a timer armed for an earlier instant does no harm.
    package var nextLook: Instant? {
        switch policy.mode {
        case .none: return nil
        case .oneWay: return lastWrote.advanced(by: policy.interval)
        case .pingPong:
            let speaking = policy.speakAfter.map { lastWrote.advanced(by: $0) }
            guard !isSuspended else { return speaking }
            let listening = silentSince?.advanced(by: policy.deadline) ?? lastHeard.advanced(by: policy.interval)
            let regular = min(listening, speaking ?? .distantFuture)
            guard silentSince == nil, firstWritten != 0, let probeAfter = policy.probeAfter else { return regular }
            return min(regular, quietSince.advanced(by: probeAfter))
        }
    }

    /// The timer that was armed for `due` fires at `now`.
    ///
    /// - Parameter hasUnanswered: Whether any request written since the last sign of life has no answer yet. Asked only
    ///   when it matters. The time a request has waited counts from the first write since that sign, so a probe may come
    ///   early when frames without answers were written before the request, but never late.
    ///
    /// A timer that fires much later than it was due means that the clock has jumped: process or machine slept, and the
    /// peer's bytes may be on their way still. Then no link is given up that was not pinged after the jump.
    package mutating func timerFired(due: Instant, at now: Instant, hasUnanswered: () -> Bool) -> Action {
        switch policy.mode {
        case .none: return .none
        case .oneWay: return now.since(lastWrote) >= policy.interval ? nextPing : .none
        case .pingPong:
            let hasToSpeak = policy.speakAfter.map { now.since(lastWrote) >= $0 } ?? false
            // The server wants to hear from us, whether we hear it or not.
            guard !isSuspended else { return hasToSpeak ? nextPing : .none }
            if let silentSince {
                guard now.since(silentSince) >= policy.deadline else { return hasToSpeak ? nextPing : .none }
                guard now.since(due) > policy.jump else { return .declareDead }
                ping?.askedAt = now
                return nextPing
            }
            if hasToSpeak || now.since(lastHeard) >= policy.interval { return nextPing }
            guard firstWritten != 0, let probeAfter = policy.probeAfter, now.since(quietSince) >= probeAfter else {
                return .none
            }
            firstWritten = 0  // counts anew from the next write; one ping is enough for those that wait
            return hasUnanswered() ? nextPing : .none
        }
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
        return policy
    }
}
