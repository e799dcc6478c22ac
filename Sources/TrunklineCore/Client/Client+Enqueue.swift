import Synchronization

/// One-way messages whose callers do not wait until they are written.
extension Client {
    /// Accepts a one-way message for sending and returns, usually immediately.
    ///
    /// The call waits neither for a link nor until the message is written. Accepted messages go out in the order of the
    /// calls, together with those of `post` and `send`. A message is sent at most once, unless `options.requests.retry`
    /// is `.idempotent`. An accepted message that fails later is counted in `metrics.failedMessages`, without a reason.
    /// ``Client/close()`` writes the messages accepted before it. ``Client/closeNow()`` discards them, and so does
    /// deallocating the client.
    ///
    /// **Back-pressure.** The call waits while the accepted messages that are not yet written, together with this one,
    /// are more than `options.requests.maximumWaiting` (1,000,000) or take more than `options.outbound.highWatermark`
    /// bytes (1 MiB), or `options.requests.maximumWaitingBytes` if that is less. If all accepted messages are written,
    /// a message of any size is accepted. Cancellation ends this wait, and the message is not sent. A message that was
    /// accepted cannot be cancelled by its caller. See <doc:Requests#One-way-messages>.
    ///
    /// - Parameters:
    ///   - request: The message.
    ///   - timeout: The time from this call until the message is written. Default: ``ClientOptions/Requests/timeout``
    ///     (8 s). If it expires after the message was accepted, the message is discarded unless its first byte was
    ///     written.
    /// - Throws: A ``ClientError``, always with the fate `notSent`:
    ///   - `invalidRequest`: the server would answer the message (``PostingCodec/mayPost(_:)``).
    ///   - `closed`: the client is closed or closing.
    ///   - `timedOut`, `cancelled`: the deadline passed or the task was cancelled before the message was accepted.
    ///   - While the call waits, also the other errors of `post`, such as `unavailable` and `overloaded`.
    public nonisolated func enqueue(_ request: Request, timeout: Timeout = .default) async throws(ClientError) {
        if Task.isCancelled { throw .cancelledUnsent }
        try await enqueueIntercepted(request.frame, try messageOptions(request, timeout))
    }

    /// Accepts an answer to a push for sending on the link on which the push was received, and returns, usually
    /// immediately: ``Client/post(_:answering:timeout:)`` for many acknowledgements.
    ///
    /// If the link of the push ends, or drains, before the answer is written, the answer is discarded and counted in
    /// `metrics.failedMessages`. Usually the server then sends the message again.
    ///
    /// - Parameters:
    ///   - request: The type, body and fields of the answer.
    ///   - push: The push to answer. It must have been received, not created: otherwise the call fails with
    ///     `invalidArgument`, fate `notSent`.
    ///   - timeout: The time from this call until the answer is written. Default: ``ClientOptions/Requests/timeout`` (8
    ///     s).
    /// - Throws: A ``ClientError``, always with the fate `notSent`, as ``Client/enqueue(_:timeout:)`` does. While the
    ///   call waits, also `connectionLost`: the link of the push has ended or drains.
    public nonisolated func enqueue(
        _ request: Request,
        answering push: PushMessage,
        timeout: Timeout = .default
    ) async throws(ClientError) {
        if Task.isCancelled { throw .cancelledUnsent }
        let (frame, options) = try answer(request, push, timeout)
        try await enqueueIntercepted(frame, options)
    }

    /// Accepts an answer to each of several pushes for sending, in their order, and returns, usually immediately. Each
    /// answer is accepted as by ``Client/enqueue(_:answering:timeout:)``, and has the same timeout, from this call on.
    ///
    /// ```swift
    /// try await client.enqueue(answering: messages) { Request(type: 0x40, body: $0.body.prefix(2)) }
    /// ```
    ///
    /// - Parameters:
    ///   - pushes: The pushes to answer.
    ///   - timeout: The time from this call until an answer is written. Default: ``ClientOptions/Requests/timeout`` (8
    ///     s).
    ///   - answer: Returns the answer to a push, or `nil` for none. Called for all of them before the first is
    ///     accepted.
    /// - Throws: A ``ClientError``, always with the fate `notSent`, as `enqueue` does: for the first answer that is not
    ///   accepted. The answers before it were accepted, and those after it were not.
    public nonisolated func enqueue(
        answering pushes: [PushMessage],
        timeout: Timeout = .default,
        _ answer: (PushMessage) -> Request?
    ) async throws(ClientError) {
        var answers: [(frame: Frame, options: ResolvedOptions)] = []
        for push in pushes {
            if let request = answer(push) { answers.append(try self.answer(request, push, timeout)) }
        }
        for (frame, options) in answers {
            if Task.isCancelled { throw .cancelledUnsent }
            try await enqueueIntercepted(frame, options)
        }
    }

    /// Accepts one-way messages for sending, in order, and returns, usually immediately. Each message is accepted as by
    /// ``Client/enqueue(_:timeout:)``, and has the same timeout, from this call on.
    ///
    /// - Parameters:
    ///   - requests: The messages.
    ///   - timeout: The time from this call until a message is written. Default: ``ClientOptions/Requests/timeout`` (8
    ///     s).
    /// - Throws: A ``ClientError``, always with the fate `notSent`, as `enqueue` does: for the first message that is
    ///   not accepted. The messages before it were accepted, and those after it were not.
    public nonisolated func enqueue(all requests: [Request], timeout: Timeout = .default) async throws(ClientError) {
        for request in requests where !codec.mayPost(request.frame) { throw .answeredWhenPosted }
        let options = try resolved(CallOptions(), timeout, expectsResponse: false)
        for request in requests {
            if Task.isCancelled { throw .cancelledUnsent }
            try await enqueueIntercepted(request.frame, options)
        }
    }

    nonisolated func enqueue(_ request: Request, timeout: Timeout, options: CallOptions) async throws(ClientError) {
        if Task.isCancelled { throw .cancelledUnsent }
        guard codec.mayPost(request.frame) else { throw .answeredWhenPosted }
        try await enqueueIntercepted(request.frame, try resolved(options, timeout, expectsResponse: false))
    }

    private nonisolated func enqueueIntercepted(_ frame: Frame, _ options: ResolvedOptions) async throws(ClientError) {
        guard isIntercepted else { return try await enqueue(frame, options) }
        let outcome = await interceptedOutcome(.enqueue, of: frame, options) { frame, options in
            do throws(ClientError) {
                try await enqueue(frame, options)
                return .success(.none)
            } catch {
                return .failure(error)
            }
        }
        _ = try outcome.get()
    }

    private nonisolated func enqueue(_ frame: Frame, _ options: ResolvedOptions) async throws(ClientError) {
        if try accept(frame, options) { return }
        _ = try await plainOutcome(of: frame, options, isEnqueued: true).get()
    }

    /// Accepts a one-way message for sending, or fails immediately. This is `enqueue` for callers that cannot wait.
    ///
    /// - Parameters:
    ///   - request: The message.
    ///   - timeout: The time from this call until the message is written, as in ``Client/enqueue(_:timeout:)``.
    ///     Default: ``ClientOptions/Requests/timeout`` (8 s).
    /// - Throws: A ``ClientError``, always with the fate `notSent`: `overloaded` where `enqueue` would wait,
    ///   `invalidRequest` if the server would answer the message, `timedOut` if the timeout is zero or negative, or
    ///   `closed`.
    public nonisolated func tryEnqueue(_ request: Request, timeout: Timeout = .default) throws(ClientError) {
        switch passInterceptors(.enqueue, request.frame, try messageOptions(request, timeout)) {
        case .ended(let outcome): _ = try outcome.get()
        case .sends(let frame, let options, let completion):
            let outcome = Outcome { () throws(ClientError) in
                guard try accept(frame, options) else { throw messageRoom.overload }
                return .none
            }
            _ = try (completion?(outcome) ?? outcome).get()
        }
    }

    private nonisolated func messageOptions(
        _ request: Request,
        _ timeout: Timeout
    ) throws(ClientError) -> ResolvedOptions {
        guard codec.mayPost(request.frame) else { throw .answeredWhenPosted }
        return try resolved(CallOptions(), timeout, expectsResponse: false)
    }

    private nonisolated func accept(_ frame: Frame, _ options: ResolvedOptions) throws(ClientError) -> Bool {
        let cost = frame.queueCost
        guard try messageRoom.reserve(cost) else { return false }
        submit(frame, nextRequestID(), .enqueued(messageRoom, cost: cost), options)
        return true
    }

    nonisolated func enqueuing(_ frame: Frame, _ continuation: Continuation<Outcome>) -> Waiter.Receiver {
        .enqueuing(EnqueuedMessage(continuation, in: messageRoom, cost: frame.queueCost))
    }
}
