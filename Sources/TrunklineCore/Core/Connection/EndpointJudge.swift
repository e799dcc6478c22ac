/// Judges the endpoint of the ready link by the outcomes of its requests.
struct EndpointJudge: Sendable {
    private var endpoint: Endpoint?
    private var errors: ErrorRateWindow?
    private var silence: EndpointSilence
    var replacement: LinkReplacement
    private var answers = 0

    init(_ errors: ErrorRateWindow?, _ silence: EndpointSilence, _ replacement: LinkReplacement) {
        (self.errors, self.silence, self.replacement) = (errors, silence, replacement)
    }

    mutating func linkIsReady(at endpoint: Endpoint) {
        guard endpoint != self.endpoint else { return }
        self.endpoint = endpoint
        errors?.reset()
        silence.end()
    }

    /// `responses` counts only answers to requests that were not abandoned.
    mutating func heard(answers: Int, responses: Int, isDraining: Bool) {
        self.answers &+= answers
        guard !isDraining else { return }
        silence.end()
        errors?.countAnswered(responses)
    }

    mutating func requestTimedOut() { errors?.countFailed() }

    /// If the client did not end the link itself, the endpoint may still be silent: only a frame ends the silence.
    mutating func linkEnded(byClient: Bool, lostCount: Int) {
        guard !byClient else { return silence.end() }
        for _ in 0..<lostCount { errors?.countFailed() }
    }

    struct Look: Sendable {
        var isErrorRateExceeded = false
        var isShort = false
    }

    mutating func beginLook(watchesErrors: Bool, at now: Instant) -> Look {
        replacement.beginLook()
        var look = Look(isShort: replacement.isShort)
        guard watchesErrors, errors != nil else { return look }
        errors?.roll(to: now)
        look.isErrorRateExceeded = errors?.isExceeded == true
        return look
    }

    var isSilent: Bool { silence.hasBegun }

    var errorRateText: String { errors?.text ?? "" }

    /// The endpoint of the ready link is to be left.
    struct Verdict: Sendable {
        let departure: ReconnectMachine.Departure
        let explanation: String
    }

    /// Judges the timeouts on a link.
    mutating func judgeAnswers(
        on machine: inout LinkMachine,
        counts: Bool,
        maximumStalls: Int?,
        at now: Instant
    ) -> Verdict? {
        let (timeouts, spent) = machine.judge(counts: counts, maximumStalls: maximumStalls)
        silence.timedOut(timeouts, at: now)
        let isTooSilent = silence.isTooLong(at: now)
        let isUnasked = timeouts > 0 && machine.timedOut(timeouts, at: now)
        guard spent != nil || isUnasked else { return nil }
        if isTooSilent {
            defer { silence.end() }
            return Verdict(departure: .silence, explanation: silence.text(at: now))
        }
        return spent.map { Verdict(departure: .unanswered, explanation: $0.text(maximumStalls: maximumStalls)) }
    }

    /// Judges why requests wait for the ready link.
    mutating func judgeShortage(
        on machine: inout LinkMachine,
        _ use: LinkUse,
        isWaiting: Bool,
        at now: Instant,
        _ policy: any ReconnectPolicy
    ) -> Verdict? {
        let (obstacle, shortage) = LinkShortage.find(on: &machine, use, at: now)
        let mayReplace = isWaiting || replacement.hasRefused
        guard let departure = replacement.look(obstacle, isWaiting: mayReplace, at: now) else { return nil }
        let explanation = shortage.text(machine, use)
        linkIsReplaced(at: now, policy)
        return Verdict(departure: departure, explanation: explanation)
    }

    mutating func linkIsReplaced(at now: Instant, _ policy: any ReconnectPolicy) {
        replacement.replaced(afterAnswers: answers, at: now, policy)
    }
}

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
