/// The options of a call that are not the usual ones, and what its request has been through since.
struct CallOptions: Sendable {
    let retry: RetryPolicy
    /// Whether it may wait for a link.
    let waitsForReady: Bool
    /// What is sent again. The queues let go of a frame as soon as it is written.
    let frame: Frame
    let deadline: Instant?
    let expectsResponse: Bool
    /// The only session in which it may go out; `nil` for any.
    let session: UInt64?
    /// How often it has been tried.
    private(set) var attempt = 1
    /// Whether anything of it was ever written: then it is unknown, whatever became of its last try.
    private(set) var wasSent = false
    /// The end of the back-off before its next try; `nil` while it is being tried.
    private(set) var restsUntil: Instant?

    init(
        _ retry: RetryPolicy,
        waitsForReady: Bool,
        frame: Frame,
        deadline: Instant?,
        expectsResponse: Bool,
        session: UInt64? = nil
    ) {
        self.retry = retry
        self.waitsForReady = waitsForReady
        self.frame = frame
        self.deadline = deadline
        self.expectsResponse = expectsResponse
        self.session = session
    }

    /// Whether it fails when its link is lost before its first byte was written.
    var endsWithItsLink: Bool { retry == .never || !waitsForReady }

    /// How long the back-off after `error` is, at most; `nil` when it is not tried again.
    private func backoff(after error: ClientError) -> Backoff? {
        guard case .idempotent(let attempts, let backoff) = retry, attempt < attempts else { return nil }
        switch error.code {
        case .connectionLost, .protocolViolation: return backoff
        // A call that does not wait for a link is not tried again for want of one.
        case .unavailable: return waitsForReady ? backoff : nil
        case .cancelled, .timedOut, .closed, .rejected, .invalidRequest, .overloaded, .tlsFailed, .notCached:
            return nil
        }
    }

    /// The call options of the next try, at rest until its back-off is over; `nil` when there is none.
    func next(after error: ClientError, at now: Instant, using generator: inout SeededGenerator) -> CallOptions? {
        guard let backoff = backoff(after: error) else { return nil }
        let longest = backoff.ceiling(round: attempt - 1).clampedNanoseconds
        let until = now.advanced(by: .nanoseconds(Int64.random(in: 0...longest, using: &generator)))
        if let deadline, until >= deadline { return nil }
        var next = self
        next.attempt += 1
        next.wasSent = wasSent || error.fate == .unknown
        next.restsUntil = until
        return next
    }

    /// The same, no longer at rest.
    var awake: CallOptions {
        var awake = self
        awake.restsUntil = nil
        return awake
    }

    /// The error as its caller has to see it.
    func amended(_ error: ClientError) -> ClientError {
        guard attempt > 1 else { return error }
        let fate = wasSent && error.fate == .notSent ? ClientError.Fate.unknown : error.fate
        return ClientError(
            error.code,
            fate,
            "\(error.message) (try \(attempt))",
            endpoint: error.endpoint,
            attempts: error.attempts,
            response: error.response,
            cause: error.cause
        )
    }
}
