/// Judges the endpoint of the ready link by what its requests have met: whether to leave it, and whether to replace a
/// link whose requests hold too much.
package struct EndpointJudge: Sendable {
    /// The endpoint of the latest ready link, which the other properties describe.
    private var endpoint: Endpoint?
    /// The share of the endpoint's requests that failed lately; `nil` without a limit.
    private var errors: ErrorRateWindow?
    /// The requests that timed out since the latest frame from the endpoint.
    private var silence: EndpointSilence
    /// Decides when to replace a link that still works.
    package var replacement: LinkReplacement
    /// The number of responses and parts received for known requests, late ones included.
    private var answers = 0

    package init(_ errors: ErrorRateWindow?, _ silence: EndpointSilence, _ replacement: LinkReplacement) {
        (self.errors, self.silence, self.replacement) = (errors, silence, replacement)
    }

    /// Begins anew if the link that is ready leads to another endpoint.
    package mutating func linkIsReady(at endpoint: Endpoint) {
        guard endpoint != self.endpoint else { return }
        self.endpoint = endpoint
        errors?.reset()
        silence.end()
    }

    // MARK: What requests have met

    /// Frames have come, with `answers` to known requests among them, and `responses` to those that were not abandoned.
    package mutating func heard(answers: Int, responses: Int, isDraining: Bool) {
        self.answers &+= answers
        guard !isDraining else { return }
        silence.end()
        errors?.countAnswered(responses)
    }

    /// A request was not answered in time.
    package mutating func requestTimedOut() { errors?.countFailed() }

    /// The ready link has ended, and `lostCount` requests with it. If the client did not end it itself, the endpoint may
    /// still be silent: only a frame ends the silence.
    package mutating func linkEnded(byClient: Bool, lostCount: Int) {
        guard !byClient else { return silence.end() }
        for _ in 0..<lostCount { errors?.countFailed() }
    }

    // MARK: Verdicts

    /// The beginning of a check.
    package struct Look: Sendable {
        /// Whether too many requests fail.
        package var isErrorRateExceeded = false
        /// See `LinkReplacement`.
        package var isShort = false
    }

    /// Begins a check.
    package mutating func beginLook(watchesErrors: Bool, at now: Instant) -> Look {
        replacement.beginLook()
        var look = Look(isShort: replacement.isShort)
        guard watchesErrors, errors != nil else { return look }
        errors?.roll(to: now)
        look.isErrorRateExceeded = errors?.isExceeded == true
        return look
    }

    /// Whether a request has timed out since the latest frame.
    package var isSilent: Bool { silence.hasBegun }

    /// Counts requests that timed out without a frame since. Returns whether the silence is too long.
    package mutating func isTooSilent(after timeouts: Int, at now: Instant) -> Bool {
        silence.timedOut(timeouts, at: now)
        return silence.isTooLong(at: now)
    }

    /// The rule and the numbers because of which `isErrorRateExceeded` is true.
    package var errorRateText: String { errors?.text ?? "" }

    /// The rule and the numbers because of which `isTooSilent` is true.
    package func silenceText(at now: Instant) -> String { silence.text(at: now) }

    package mutating func endSilence() { silence.end() }

    /// Notes that the ready link is being replaced.
    package mutating func linkIsReplaced(at now: Instant, _ policy: any ReconnectPolicy) {
        replacement.replaced(afterAnswers: answers, at: now, policy)
    }
}

/// Decides when a link that works is replaced, because abandoned requests hold what other requests need.
///
/// Abandoned requests hold serial numbers and places below `maximumInFlight` until they are answered, their quarantine
/// ends, or their link ends. If they hold so many that others cannot go out, the link is replaced: the next link has
/// all serial numbers, and the present one drains.
package struct LinkReplacement: Sendable {
    /// The reason why requests cannot be sent.
    package enum Obstacle: Sendable {
        /// Abandoned requests hold too many serial numbers or places.
        case exhausted
        /// Matched in order: the response that is due is for an abandoned request, and the server had enough time for
        /// it.
        case unanswered
        /// The same, but the server has time until this instant.
        case unansweredUntil(Instant)
        /// Another link would not help.
        case other
    }

    private let stableAfter: Duration
    private var generator: SeededGenerator
    /// The number of replacements in a row. The next replacement begins a new row if the server has answered since the
    /// latest one, or if it takes place at least `stableAfter` after `notBefore`.
    private var round = 0
    /// The instant before which there is no further replacement.
    private var notBefore = Instant.distantPast
    /// The number of answers, including late ones, at the time of the latest replacement.
    private var answers = 0
    /// When abandoned requests began to keep others from going out, whether or not a request waited all the time; `nil`
    /// if they do not.
    private var shortageSince: Instant?
    /// Whether a request was refused because every serial is held, and they still are.
    package var hasRefused = false
    /// When to check again, while requests wait for what abandoned ones hold.
    package private(set) var lookAgainAt: Instant?

    /// How long a shortage must last before the link is replaced, because late answers may be in transit.
    private static let grace = Duration.milliseconds(250)

    package init(stableAfter: Duration, seed: UInt64) {
        self.stableAfter = stableAfter
        generator = SeededGenerator(seed: seed)
    }

    /// Whether a check is needed although no request waits.
    package var isShort: Bool { hasRefused || shortageSince != nil }

    /// Begins a check: no further check is planned until `look` plans one.
    package mutating func beginLook() { lookAgainAt = nil }

    private mutating func endShortage() { (hasRefused, shortageSince) = (false, nil) }

    /// Returns why the link must be replaced; `nil` if it must not, or not yet.
    ///
    /// - Parameter isWaiting: Whether requests wait or were refused. A request with a short deadline may have left
    ///   already: the shortage ends only when there is room.
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
        // Matched in order, the server already had the time of the quarantine.
        let patience = departure == .unanswered ? Duration.zero : Self.grace
        let due = max(notBefore, since.advanced(by: patience))
        guard now >= due else {
            lookAgainAt = due
            return nil
        }
        return departure
    }

    /// Records that the link is being replaced, after `answers` answers in total. The next replacement is delayed by
    /// the wait that `policy` decides; the client has a link during that wait.
    package mutating func replaced(afterAnswers answers: Int, at now: Instant, _ policy: any ReconnectPolicy) {
        if answers > self.answers || now >= notBefore.advanced(by: stableAfter) { round = 0 }
        let failure = ReconnectFailure(round: round, failedAttempts: 0, cause: .exhausted)
        var delay = Duration.zero
        // If the policy gives up, `Backoff()` decides: giving up concerns a server that cannot be reached, not one that
        // is connected.
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
