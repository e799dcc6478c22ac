/// When a link is replaced although it works: requests that were given up hold what others need.
///
/// They hold serial numbers and places below `maximumInFlight` until they are answered, their quarantine ends, or their link
/// does. Where they hold so many that others cannot go out, the link is replaced: the next one has all serials, and the
/// present one drains.
package struct LinkReplacement: Sendable {
    /// What keeps requests from going out.
    package enum Obstacle: Sendable {
        /// Requests that were given up hold too much of what the others need.
        case exhausted
        /// In order: the oldest response is due, nobody wants it, and the server had its time.
        case unanswered
        /// The same, before its time is over.
        case unansweredUntil(Instant)
        /// Nothing that another link would help against.
        case other
    }

    private let policy: any ReconnectPolicy
    private let stableAfter: Duration
    private var generator: SeededGenerator
    /// How often in a row the link was replaced. One that followed an answer, or came long after it could have, is the first
    /// again.
    private var round = 0
    /// The next replacement comes no earlier than this.
    private var notBefore = Instant.distantPast
    /// How many answers there had been, late ones included, at the latest replacement.
    private var answers = 0
    /// Since when requests that were given up have kept others from going out, whether some waited all the time or not;
    /// `nil` while they do not.
    private var shortageSince: Instant?
    /// Whether a request was refused because every serial is held, and they still are.
    package var hasRefused = false
    /// When to look again, while requests wait for what others hold.
    package private(set) var lookAgainAt: Instant?

    /// So long a shortage must last: late answers may be on their way.
    private static let grace = Duration.milliseconds(250)

    package init(policy: any ReconnectPolicy, stableAfter: Duration, seed: UInt64) {
        (self.policy, self.stableAfter) = (policy, stableAfter)
        generator = SeededGenerator(seed: seed)
    }

    /// Whether there is something to be looked at although no request waits.
    package var isShort: Bool { hasRefused || shortageSince != nil }

    /// Nothing is to be looked at, for all that is known so far.
    package mutating func beginLook() { lookAgainAt = nil }

    private mutating func endShortage() { (hasRefused, shortageSince) = (false, nil) }

    /// Why the link is to be replaced; `nil` when it is not, or not yet.
    ///
    /// - Parameter isWaiting: Whether requests wait, or were refused. Those whose time was short may have left already: the
    ///   shortage ends when there is room.
    package mutating func look(_ obstacle: Obstacle, isWaiting: Bool, at now: Instant) -> ReconnectMachine.Departure? {
        let departure: ReconnectMachine.Departure
        switch obstacle {
        case .other:
            endShortage()
            return nil
        case .unansweredUntil(let until):
            endShortage()
            if isWaiting { lookAgainAt = until }
            return nil
        case .exhausted: departure = .exhausted
        case .unanswered: departure = .unanswered
        }
        guard isWaiting else { return nil }
        let since = shortageSince ?? now
        shortageSince = since
        // In order, the quarantine was time enough.
        let patience = departure == .unanswered ? Duration.zero : Self.grace
        let due = max(notBefore, since.advanced(by: patience))
        guard now >= due else {
            lookAgainAt = due
            return nil
        }
        return departure
    }

    /// The link is being replaced. The next one that has to be, for want of answers, has more time: the policy's waits, but
    /// spent on a link. There were so many `answers` until now.
    package mutating func replaced(afterAnswers answers: Int, at now: Instant) {
        if answers > self.answers || now >= notBefore.advanced(by: stableAfter) { round = 0 }
        let failure = ReconnectFailure(round: round, failedAttempts: 0, cause: .exhausted)
        var delay = Duration.zero
        // A policy that gives up on servers says nothing about one that is there.
        for policy in [policy, Backoff()] as [any ReconnectPolicy] {
            guard case .retry(let wait) = policy.decision(for: failure, random: { generator.nextUnit() }) else {
                continue
            }
            delay = max(.zero, wait)
            break
        }
        round += 1
        endShortage()
        notBefore = now.advanced(by: delay)
        self.answers = answers
    }
}
