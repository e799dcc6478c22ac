/// The `CallOptions` of a request, or of a one-way message, with the client's options in the place of defaults.
struct ResolvedOptions: Sendable {
    var retry = RetryPolicy.ifUnsent
    /// Whether it may wait for a link.
    var waitsForReady = true
    var deadline: Instant?
    /// False for a one-way message.
    var expectsResponse = true
    /// The only session in which it may go out; `nil` for any.
    var session: UInt64?

    /// Whether it fails when its link is lost before its first byte was written.
    var endsWithItsLink: Bool { retry == .never || !waitsForReady }

    /// Whether these are the options that most calls have.
    fileprivate var areUsual: Bool {
        if case .ifUnsent = retry { waitsForReady && session == nil } else { false }
    }
}

/// A request with options of its own, from one try to the next.
struct TrackedCall: Sendable {
    let options: ResolvedOptions
    /// What is sent again, or compared with the response. The queues release a frame as soon as it is written.
    let frame: Frame
    /// How often it has been tried.
    private(set) var attempt = 1
    /// Whether anything of it was ever written: then it is unknown, whatever became of its last try.
    private(set) var wasSent = false
    /// The end of the back-off before its next try; `nil` while it is being tried.
    private(set) var restsUntil: Instant?

    init(_ options: ResolvedOptions, _ frame: Frame) {
        self.options = options
        self.frame = frame
    }

    /// The next try, at rest until its back-off is over; `nil` when there is none.
    func next(after error: ClientError, at now: Instant, using generator: inout SeededGenerator) -> TrackedCall? {
        guard let backoff = backoff(after: error) else { return nil }
        let wait = Int64.random(in: backoff.waits(round: attempt - 1), using: &generator)
        let until = now.advanced(by: .nanoseconds(wait))
        if let deadline = options.deadline, until >= deadline { return nil }
        var next = self
        next.attempt += 1
        next.wasSent = wasSent || error.fate == .unknown
        next.restsUntil = until
        return next
    }

    /// How long the back-off after `error` is, at most; `nil` when it is not tried again.
    private func backoff(after error: ClientError) -> Backoff? {
        guard case .idempotent(let attempts, let backoff) = options.retry, attempt < attempts else { return nil }
        switch error.code {
        case .connectionLost, .protocolViolation: return backoff
        // A call that does not wait for a link is not tried again for want of one.
        case .unavailable: return options.waitsForReady ? backoff : nil
        case .cancelled, .timedOut, .closed, .rejected, .invalidRequest, .invalidResponse, .invalidArgument,
            .overloaded, .tlsFailed, .notCached:
            return nil
        }
    }

    /// The same, no longer at rest.
    var awake: TrackedCall {
        var awake = self
        awake.restsUntil = nil
        return awake
    }

    /// The error as its caller has to see it.
    func amended(_ error: ClientError) -> ClientError {
        guard attempt > 1 else { return error }
        return error.changed { content in
            if wasSent, error.fate == .notSent { content.fate = .unknown }
            content.message += " (try \(attempt))"
        }
    }
}

extension Waiter {
    /// The same, with the options of its call unless they are the usual ones and `keepsFrame` is false: the response is not
    /// compared with the request.
    func under(_ options: ResolvedOptions, _ frame: borrowing Frame, keepsFrame: Bool) -> Waiter {
        if options.areUsual, !(keepsFrame && options.expectsResponse) { return self }
        return .tracked(self, TrackedCall(options, copy frame))
    }
}
