/// Decides when a link that works is replaced. Abandoned requests hold serial numbers and places below
/// `maximumInFlight` until they are answered, their quarantine ends, or their link ends. The next link has all of them.
struct LinkReplacement: Sendable {
    enum Obstacle: Sendable {
        case exhausted
        /// Matched in order: the response due is for an abandoned request, and the server had enough time for it.
        case unanswered
        case unansweredUntil(Instant)
        /// Another link would not help.
        case other
    }

    private let stableAfter: Duration
    private var generator: SeededGenerator
    /// The replacements in a row: without an answer in between, and less than `stableAfter` after `notBefore`.
    private var round = 0
    private var notBefore = Instant.distantPast
    private var answers = 0
    /// When abandoned requests began to keep others from going out, whether or not a request waited all the time.
    private var shortageSince: Instant?
    /// A request was refused because every serial is held, and they still are.
    var hasRefused = false
    private(set) var lookAgainAt: Instant?

    /// Late answers may be in transit.
    private static let grace = Duration.milliseconds(250)

    init(stableAfter: Duration, seed: UInt64) {
        self.stableAfter = stableAfter
        generator = SeededGenerator(seed: seed)
    }

    /// Whether a check is needed although no request waits.
    var isShort: Bool { hasRefused || shortageSince != nil }

    mutating func beginLook() { lookAgainAt = nil }

    private mutating func endShortage() { (hasRefused, shortageSince) = (false, nil) }

    /// A shortage ends only when there is room: a waiting request with a short deadline may have left already.
    mutating func look(_ obstacle: Obstacle, isWaiting: Bool, at now: Instant) -> ReconnectMachine.Departure? {
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
        // Matched in order, the server already had the time of the quarantine.
        let patience = departure == .unanswered ? Duration.zero : Self.grace
        let due = max(notBefore, since.advanced(by: patience))
        guard now >= due else {
            lookAgainAt = due
            return nil
        }
        return departure
    }

    /// The wait that `policy` decides delays the next replacement; the client has a link meanwhile.
    mutating func replaced(afterAnswers answers: Int, at now: Instant, _ policy: any ReconnectPolicy) {
        if answers > self.answers || now >= notBefore.advanced(by: stableAfter) { round = 0 }
        let failure = ReconnectFailure(round: round, failedAttempts: 0, cause: .exhausted)
        var delay = Duration.zero
        // If the policy gives up, `Backoff()` decides: giving up concerns a server that cannot be reached.
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
