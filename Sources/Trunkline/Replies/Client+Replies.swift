import Synchronization

/// Replies that come in parts, and requests that go out in pieces.
extension Client {
    /// Sends `request` and returns the server's reply as it comes: every part, then the response.
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
    ///   - timeout: From this call until the response, retries included. Default: that of `options`, or else
    ///     `ClientOptions.Requests.streamTimeout` (none).
    ///   - partTimeout: The longest wait for one element, counted from when the reader asks for it; the reader's own time
    ///     between two elements does not count. Default: `ClientOptions.Requests.timeout` (8 s). When either expires the
    ///     request is given up with `timedOut`; at zero or below it fails at once.
    ///   - options: As for `send`. After a part has come the request is never sent again.
    ///   - buffering: How much is held for a slow reader, and what happens beyond that.
    public nonisolated func stream(
        _ request: Request,
        timeout: Timeout = .default,
        partTimeout: Timeout = .default,
        options: CallOptions = CallOptions(),
        buffering: ReplyBuffering = ReplyBuffering()
    ) -> ReplyStream<Response> {
        stream(request.frame, timeout, partTimeout, options, buffering)
    }

    /// Begins a request that goes out in pieces, of which `request` is the first, and returns what sends the others and reads
    /// the reply.
    ///
    /// ```swift
    /// let upload = client.open(Request(type: 0x404, body: name))
    /// for chunk in chunks { try await upload.send(Request(type: 0x404, body: chunk)) }
    /// try await upload.finish(Request(type: 0x403))
    /// for try await response in upload.responses { print(response.body) }
    /// ```
    ///
    /// The first piece goes out at this call, its frame of kind `part`. For protocols with serials and a cancel frame, without
    /// which a request that is given up half-way would never end for the server: otherwise every call on what is returned
    /// fails with `invalidRequest`, fate `notSent`. Parameters are those of
    /// `stream(_:timeout:partTimeout:options:buffering:)`; once a second piece was on its way the request is not sent again,
    /// whatever its retry policy.
    public nonisolated func open(
        _ request: Request,
        timeout: Timeout = .default,
        partTimeout: Timeout = .default,
        options: CallOptions = CallOptions(),
        buffering: ReplyBuffering = ReplyBuffering()
    ) -> OpenRequest {
        var frame = request.frame
        frame.kind = .part
        return OpenRequest(stream(frame, timeout, partTimeout, options, buffering))
    }

    private nonisolated func stream(
        _ frame: Frame,
        _ timeout: Timeout,
        _ partTimeout: Timeout,
        _ callOptions: CallOptions,
        _ buffering: ReplyBuffering
    ) -> ReplyStream<Response> {
        let requestID = nextRequestID()
        let timeout = timeout.or(callOptions.timeout).duration(orByDefault: options.requests.streamTimeout)
        let partTimeout = partTimeout.duration(orByDefault: options.requests.timeout)
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
        if frame.kind == .part, codec.matching == .inOrder || codec._cancelFrame(for: 0, type: frame.type) == nil {
            channel.finish(.failure(.notInPieces))
            return ReplyStream(channel)
        }
        let options = ResolvedOptions(
            retry: retryPolicy(of: callOptions),
            waitsForReady: callOptions.waitsForReady,
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
