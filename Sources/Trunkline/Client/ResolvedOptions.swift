/// The options of one request or one-way message: its `CallOptions`, with the client's options in place of the
/// defaults.
struct ResolvedOptions: Sendable {
    var retry = RetryPolicy.ifUnsent
    /// When the call was made.
    let accepted: Instant
    /// Whether the request may wait for a link.
    var waitsForReady = true
    var deadline: Instant?
    /// False for a one-way message.
    var expectsResponse = true
    /// The only session in which the request may go out; `nil` for any.
    var session: UInt64?
    /// Receives the timeline of the request.
    var recorder: TimelineRecorder?
    /// The fate of what the same call has sent before this request. See `ClientError.after(_:)`.
    var earlierFate = ClientError.Fate.notSent

    /// Whether the request fails if its link is lost before its first byte was written.
    var endsWithItsLink: Bool { retry == .never || !waitsForReady }

    /// Whether a request with these options needs a `TrackedCall`.
    @inline(__always)
    var areTracked: Bool {
        guard case .ifUnsent = retry, waitsForReady, session == nil, recorder == nil else { return true }
        return false
    }
}

/// A request with options other than the usual ones, from one try to the next.
struct TrackedCall: Sendable {
    let options: ResolvedOptions
    /// The frame to send again; without its content if that is not allowed. Links release a frame as soon as it is
    /// written.
    let frame: Frame
    /// The number of the current try, counted from 1.
    private(set) var attempt = 1
    /// The fate of the earlier tries.
    private(set) var earlierFate: ClientError.Fate
    /// The end of the back-off before the next try; `nil` during a try.
    private(set) var delayedUntil: Instant?
    /// The end of the back-off before this try; `nil` for the first one.
    private(set) var rested: Instant?
    /// The latest earlier tries.
    private(set) var failedAttempts: [Timeline.Attempt] = []

    /// The maximum number of earlier tries that are kept.
    private static let maximumKept = 8

    init(_ options: ResolvedOptions, _ frame: Frame) {
        self.options = options
        self.frame = frame
        earlierFate = options.earlierFate
    }

    /// Returns the next try, in back-off; `nil` if there is none.
    ///
    /// - Parameter failed: The present try.
    func next(
        after error: ClientError,
        _ failed: Timeline.Attempt,
        at now: Instant,
        using generator: inout SeededGenerator
    ) -> TrackedCall? {
        guard let backoff = backoff(after: error) else { return nil }
        let wait = Int64.random(in: backoff.waits(round: attempt - 1), using: &generator)
        let until = now.advanced(by: .nanoseconds(wait))
        if let deadline = options.deadline, until >= deadline { return nil }
        var next = self
        next.attempt += 1
        next.earlierFate = error.fate.after(earlierFate)
        next.delayedUntil = until
        next.rested = until
        if next.failedAttempts.count == Self.maximumKept { next.failedAttempts.removeFirst() }
        next.failedAttempts.append(failed)
        return next
    }

    /// Returns the back-off after `error`; `nil` if the request is not retried.
    private func backoff(after error: ClientError) -> Backoff? {
        guard case .idempotent(let attempts, let backoff) = options.retry, attempt < attempts else { return nil }
        switch error.code {
        case .connectionLost, .protocolViolation: return backoff
        // A call that does not wait for a link is not retried because there is none.
        case .unavailable: return options.waitsForReady ? backoff : nil
        case .cancelled, .timedOut, .closed, .rejected, .invalidRequest, .invalidResponse, .invalidArgument,
            .overloaded, .tlsFailed, .notCached:
            return nil
        }
    }

    /// The same call, no longer in back-off.
    var awake: TrackedCall {
        var awake = self
        awake.delayedUntil = nil
        return awake
    }

    /// Returns the error as the caller must see it, with the fate and the number of all tries.
    func amended(_ error: ClientError) -> ClientError {
        let error = error.after(earlierFate)
        guard attempt > 1 else { return error }
        return error.changed { $0.tries = attempt }
    }
}

extension Waiter {
    /// Returns this waiter with the options of its call. Usual options are left out.
    @inline(__always)
    func under(_ options: ResolvedOptions, _ frame: borrowing Frame) -> Waiter {
        options.areTracked ? tracked(options, frame) : self
    }

    @inline(never)
    private func tracked(_ options: ResolvedOptions, _ frame: borrowing Frame) -> Waiter {
        let isRepeatable = if case .idempotent = options.retry { true } else { false }
        return .tracked(self, TrackedCall(options, isRepeatable ? copy frame : Frame(.request)))
    }
}
