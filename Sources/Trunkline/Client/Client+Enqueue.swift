import Synchronization

/// One-way messages without a waiting caller.
extension Client {
    /// Accepts `request` as a one-way message and returns, as a rule at once: it waits neither for a link nor for the
    /// kernel.
    ///
    /// Far cheaper than `post`, for messages that come one by one and whose loss the sender tolerates: metrics,
    /// log lines, positions. Accepted messages go out in the order of the calls, also among `post` and `send`; while there
    /// is no link they wait for one, and those that had not started when a link is lost go out on the next.
    ///
    /// **Back-pressure.** As long as accepted messages of `options.outbound.highWatermark` bytes (1 MiB; a message counts
    /// as its body, its named bytes and 32 bytes), or `options.requests.maximumWaiting` of them, are not yet written, the
    /// call waits until this one may go out, behind those that wait already. Only that wait can be cancelled, and what is not accepted is
    /// never sent.
    ///
    /// **What becomes of it.** It is sent at most once, unless `options.requests.retry` is `.idempotent`, and its sender
    /// is not told. `close()` writes what was accepted before it; `closeNow()`, and letting go of the client, drop it.
    ///
    /// **Failures.** `statistics.failedMessages` counts messages that were accepted and failed later, without the reason. One
    /// cause is a message that the codec cannot encode: it is encoded when it is written, on the client's loop. To find the
    /// reason, `post` the same message: it throws `invalidRequest` with the codec's `FrameError` as its cause.
    ///
    /// - Parameter timeout: How long it may take until the message is written, from this call. Default:
    ///   `ClientOptions.Requests.timeout`. When it expires after the message was accepted, the message is dropped unless it had
    ///   started.
    /// - Throws: With the fate `notSent` always: `invalidRequest` when the server would answer (`PostingCodec.mayPost(_:)`),
    ///   and `closed`; while it waits, also `timedOut`, `cancelled`, `unavailable` and `overloaded`, as `post` does.
    public nonisolated func enqueue(_ request: Request, timeout: Timeout = .default) async throws(ClientError) {
        if Task.isCancelled { throw .cancelledUnsent }
        let options = try messageOptions(request, timeout)
        if try accept(request.frame, options) { return }
        _ = try await outcome(of: request.frame, options, isEnqueued: true).get()
    }

    /// Accepts `request` as a one-way message, or fails at once: `enqueue` for callers that cannot wait.
    ///
    /// - Parameter timeout: As in `enqueue`.
    /// - Throws: `overloaded` where `enqueue` would wait; `invalidRequest`, `closed`, and `timedOut` for a timeout of zero
    ///   or below. The fate is `notSent`.
    public nonisolated func tryEnqueue(_ request: Request, timeout: Timeout = .default) throws(ClientError) {
        guard try accept(request.frame, try messageOptions(request, timeout)) else { throw messageRoom.overload }
    }

    private nonisolated func messageOptions(
        _ request: Request,
        _ timeout: Timeout
    ) throws(ClientError) -> ResolvedOptions {
        guard codec._mayPost(request.frame) else { throw .answeredWhenPosted }
        return try resolved(CallOptions(), timeout, expectsResponse: false)
    }

    /// Posts `frame` if there is room for it; returns whether there was.
    private nonisolated func accept(_ frame: Frame, _ options: ResolvedOptions) throws(ClientError) -> Bool {
        let cost = OutboundQueue.cost(of: frame)
        guard try messageRoom.reserve(cost) else { return false }
        submit(frame, nextRequestID(), .enqueued(messageRoom, cost: cost), options)
        return true
    }

    /// The waiter for a message that has no room yet.
    nonisolated func enqueuing(_ frame: Frame, _ continuation: Continuation<Outcome>) -> Waiter {
        .enqueuing(EnqueuedMessage(continuation, in: messageRoom, cost: OutboundQueue.cost(of: frame)))
    }
}
