import Synchronization

/// Replies that come in parts.
extension Client {
    /// Sends `request` and returns the server's reply as it comes: every frame of kind `part`, then the response.
    ///
    /// ```swift
    /// for try await part in client.stream(Request(type: 0x410, body: "every row")) { print(part.body) }
    /// ```
    ///
    /// A reply without parts is a stream of one element. The request goes out at this call, as with `start`, whether or
    /// not somebody reads yet; letting go of the stream before its end gives it up, as cancelling a `send` does: a cancel
    /// frame goes out if the protocol has one, and whatever still comes of the reply is dropped.
    ///
    /// Iterating throws what `send` throws, after the parts that came before the failure. An error response is thrown
    /// as `rejected`; one in parts whole, up to `buffering.maximumBytes`: of a longer one `error.response` has the
    /// beginning, and `malformedReason`. When the link is lost in the midst of a reply that is `connectionLost`, fate
    /// `unknown`.
    ///
    /// - Parameters:
    ///   - isPart: Whether `request` is the first piece of a longer one; its frame's kind is `part`. The others follow by
    ///     `ReplyStream.post(_:isPart:)`. For protocols with serials and a cancel frame: otherwise the stream fails with
    ///     `invalidRequest`.
    ///   - timeout: From this call until the response, retries included; `nil` for none: a long reply may take its time.
    ///   - partTimeout: The longest wait for one element, counted from when the reader asks for it; the reader's own time
    ///     between two elements does not count. `nil` for `options.requests.timeout` (8 s unless changed). When either
    ///     expires the request is given up with `timedOut`; at zero or below it fails at once.
    ///   - retry: Whether it is sent again when it fails; `nil` for `options.requests.retry`. Never after a part has come.
    ///   - waitsForReady: As for `send`.
    ///   - buffering: How much is held for a slow reader, and what happens beyond that.
    public nonisolated func stream(
        _ request: Request,
        isPart: Bool = false,
        timeout: Duration? = nil,
        partTimeout: Duration? = nil,
        retry: RetryPolicy? = nil,
        waitsForReady: Bool = true,
        buffering: ReplyBuffering = ReplyBuffering()
    ) -> ReplyStream {
        let requestID = nextRequestID()
        let partTimeout = partTimeout ?? options.requests.timeout
        var frame = request.frame
        if isPart { frame.kind = .part }
        let now = loop.now
        let deadline = timeout.map { now.advanced(by: $0) }
        let channel = ReplyChannel(
            requestID,
            buffering,
            commandQueue,
            on: loop,
            type: frame.type,
            deadline: deadline,
            partTimeout: partTimeout
        )
        if let expired = [timeout, partTimeout].compactMap({ $0 }).first(where: { $0 <= .zero }) {
            channel.finish(.failure(.expiredUnsent(expired)))
            return ReplyStream(channel)
        }
        if isPart, codec.matching == .inOrder || codec.cancelFrame(for: 0, type: frame.type) == nil {
            channel.finish(.failure(.notInPieces))
            return ReplyStream(channel)
        }
        let options = CallOptions(
            retry: retry ?? options.requests.retry,
            waitsForReady: waitsForReady,
            deadline: deadline
        )
        let waiter = Waiter.stream(channel).under(options, frame, keepsFrame: checksResponses)
        let firstLook = [deadline, partTimeout.map { now.advanced(by: $0) }].compactMap { $0 }.min()
        commandQueue.postRequest(.send(requestID, frame, waiter, deadline: firstLook, expectsResponse: true))
        return ReplyStream(channel)
    }
}

extension ClientError {
    /// A request that was given up half-way, or answered, would never end for the server.
    fileprivate static var notInPieces: ClientError {
        ClientError(.invalidRequest, .notSent, "requests in pieces need serials and a cancel frame")
    }
}
