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
