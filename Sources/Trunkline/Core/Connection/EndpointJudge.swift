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

    /// Begins a check. Returns whether too many requests fail.
    package mutating func beginLook(watchesErrors: Bool, at now: Instant) -> Bool {
        replacement.beginLook()
        guard watchesErrors, errors != nil else { return false }
        errors?.roll(to: now)
        return errors?.isExceeded == true
    }

    /// Whether a request has timed out since the latest frame.
    package var isSilent: Bool { silence.hasBegun }

    /// Counts requests that timed out without a frame since. Returns whether the silence is too long.
    package mutating func isTooSilent(after timeouts: Int, at now: Instant) -> Bool {
        silence.timedOut(timeouts, at: now)
        return silence.isTooLong(at: now)
    }

    package mutating func endSilence() { silence.end() }

    /// Notes that the ready link is being replaced.
    package mutating func linkIsReplaced(at now: Instant, _ policy: any ReconnectPolicy) {
        replacement.replaced(afterAnswers: answers, at: now, policy)
    }
}
