import Synchronization

extension Client {
    /// Sends a request and returns a stream of the reply: each part as it arrives, then the response.
    ///
    /// ```swift
    /// for try await part in client.stream(Request(type: 0x410, body: "every row")) { print(part.body) }
    /// ```
    ///
    /// A reply without parts is a stream of one element. The request is sent even if the stream is not read yet.
    ///
    /// **Cancellation.** The request is cancelled when a task that waits for an element is cancelled, when
    /// ``ReplyStream/cancel()`` is called, or when the stream is deallocated before its end, for example by leaving a
    /// `for` loop. As with `send`, a cancel frame goes out if the protocol has one. The rest of the reply is discarded.
    ///
    /// **Errors.** The iterator throws the same errors as ``Client/send(_:timeout:options:)-(Request,_,_)``, after the
    /// parts that arrived before the failure. If the link is lost in the middle of a reply, it throws `connectionLost`,
    /// fate `unknown`. If the server sends an error response, it throws `rejected`. An error response in several parts
    /// is thrown as a whole, up to `buffering.maximumBytes`; if it is longer, ``ClientError/response`` contains its
    /// beginning and has a ``Response/malformedReason``.
    ///
    /// - Parameters:
    ///   - request: The request.
    ///   - timeout: The time from this call to the end of the reply, retries included. Default: the timeout of
    ///     `options`, or else ``ClientOptions/Requests/streamTimeout`` (no timeout). If it expires, the request is
    ///     cancelled and the iterator throws `timedOut`. If it is zero or negative, the request is not sent.
    ///   - partTimeout: The longest wait for one element, counted from the reader's call of `next`. The time between
    ///     two calls does not count. Default: ``ClientOptions/Requests/timeout`` (8 s). Otherwise like `timeout`.
    ///   - options: Whether the request is sent again when it fails, and whether it waits for a link. After the first
    ///     part has arrived, the request is never sent again.
    ///   - buffering: How much of the reply is buffered for a slow reader, and what happens beyond that.
    /// - Returns: The stream of the reply. It can be read once.
    public nonisolated func stream(
        _ request: Request,
        timeout: Timeout = .default,
        partTimeout: Timeout = .default,
        options: CallOptions = CallOptions(),
        buffering: ReplyBuffering = ReplyBuffering()
    ) -> ReplyStream<Response> {
        stream(.stream, request.frame, timeout, partTimeout, options, buffering)
    }

    /// Starts a request that is sent in pieces. `request` is the first piece. Returns a value that sends the other
    /// pieces and reads the reply.
    ///
    /// ```swift
    /// let upload = client.open(Request(type: 0x404, body: name))
    /// for chunk in chunks { try await upload.send(Request(type: 0x404, body: chunk)) }
    /// try await upload.finish(Request(type: 0x403))
    /// for try await response in upload.responses { print(response.body) }
    /// ```
    ///
    /// The first piece is sent by this call, as a frame of kind `part`. The request is not sent again after a second
    /// piece has been put on the link, whatever its retry policy.
    ///
    /// **With serials**, the protocol must have parts of requests, and either a cancel frame or a codec that lets an
    /// abandoned request end its link (``UploadCodec``): otherwise a request that is cancelled between two pieces would
    /// never end for the server.
    ///
    /// **Matched in order**, as for the data after the server's go-ahead (`DATA` of SMTP, `COPY` of PostgreSQL),
    /// nothing else goes out on the link until the request is answered, and only then the next request does. Let the
    /// codec decode the go-ahead as a `part`. If the server answers before the second piece, for example because it
    /// refuses, the link goes on. If the request is abandoned before its last piece, or answered between two pieces,
    /// its link ends, and requests that were written before it and are not answered are lost, fate `unknown`. A codec
    /// with another way returns `false` from ``UploadCodec/abandoningEndsLink``, and may send a closing piece as its
    /// cancel frame.
    ///
    /// In other protocols (matched in order by channel, or with serials and no such end), every call of the returned
    /// value fails with `invalidRequest`, fate `notSent`.
    ///
    /// - Parameters:
    ///   - request: The first piece.
    ///   - timeout: The time from this call to the end of the reply, as in
    ///     ``Client/stream(_:timeout:partTimeout:options:buffering:)-(Request,_,_,_,_)``. Default: no timeout.
    ///   - partTimeout: The longest wait for one element of the reply, as in `stream`. Default: 8 s.
    ///   - options: Whether the request is sent again when it fails, and whether it waits for a link.
    ///   - buffering: How much of the reply is buffered for a slow reader, and what happens beyond that.
    /// - Returns: The request in progress.
    public nonisolated func open(
        _ request: Request,
        timeout: Timeout = .default,
        partTimeout: Timeout = .default,
        options: CallOptions = CallOptions(),
        buffering: ReplyBuffering = ReplyBuffering()
    ) -> OpenRequest {
        var frame = request.frame
        frame.kind = .part
        return OpenRequest(stream(.open, frame, timeout, partTimeout, options, buffering))
    }

    nonisolated func stream(
        _ call: RoutedReplies.Call,
        _ timeout: Timeout,
        _ options: CallOptions,
        _ route: RoutedReplies.Route
    ) -> ReplyStream<Response> {
        var frame = call.request.frame
        if call.isOpen { frame.kind = .part }
        let form: ClientCall.Form = call.isOpen ? .open : .stream
        return stream(form, frame, timeout, call.partTimeout, options, call.buffering, route)
    }

    private nonisolated func stream(
        _ form: ClientCall.Form,
        _ frame: Frame,
        _ timeout: Timeout,
        _ partTimeout: Timeout,
        _ callOptions: CallOptions,
        _ buffering: ReplyBuffering,
        _ route: RoutedReplies.Route? = nil
    ) -> ReplyStream<Response> {
        let timeout = timeout.or(callOptions.timeout).duration(orByDefault: options.requests.streamTimeout)
        let partTimeout = partTimeout.duration(orByDefault: options.requests.timeout)
        if let expired = [timeout, partTimeout].compactMap({ $0 }).first(where: { $0 <= .zero }) {
            return ended(.failure(.expiredUnsent(expired)), route)
        }
        if frame.kind == .part,
            codec.matching == .inOrderByChannel
                || !codec.abandoningEndsLink && !codec.cancels(frame.type)
                    && codec.matching != .inOrder
        {
            return ended(.failure(.notInPieces), route)
        }
        let now = loop.now
        let options = ResolvedOptions(
            retry: retryPolicy(of: callOptions),
            accepted: now,
            marks: callOptions.marks,
            deadline: timeout.map { now.advanced(by: $0) },
            session: callOptions.session,
            recorder: callOptions.recorder
        )
        switch passInterceptors(form, frame, options) {
        case .ended(let outcome): return ended(outcome, route)
        case .sends(let frame, let options, let completion):
            guard completion != nil || route != nil else { return submit(frame, options, partTimeout, buffering, nil) }
            return submit(frame, options, partTimeout, buffering, route) { outcome, progress in
                let outcome = completion?(outcome) ?? outcome
                route?.onEnd(outcome, progress)
                return outcome
            }
        }
    }

    private nonisolated func submit(
        _ frame: Frame,
        _ options: ResolvedOptions,
        _ partTimeout: Duration?,
        _ buffering: ReplyBuffering,
        _ route: RoutedReplies.Route?,
        onEnd: ReplyChannel.End? = nil
    ) -> ReplyStream<Response> {
        let requestID = nextRequestID()
        let arriving = route?.waited.map { options.accepted.advanced(by: .zero - $0) }
        let channel = ReplyChannel(
            requestID,
            buffering,
            commandQueue,
            on: loop,
            type: frame.type,
            deadline: options.deadline,
            partTimeout: partTimeout,
            arriving: arriving,
            onFirstPart: route?.onFirstPart,
            onEnd: onEnd
        )
        let waiter = Waiter(.stream(channel), options, frame)
        let partDeadline = partTimeout.map { (arriving ?? options.accepted).advanced(by: $0) }
        let firstLook = [options.deadline, partDeadline].compactMap { $0 }.min()
        commandQueue.postRequest(
            .send(requestID, frame, waiter, accepted: options.accepted, deadline: firstLook, expectsResponse: true)
        )
        return ReplyStream(channel)
    }

    private nonisolated func ended(
        _ outcome: Outcome,
        _ route: RoutedReplies.Route?
    ) -> ReplyStream<Response> {
        let channel = ReplyChannel(
            nil,
            ReplyBuffering(),
            commandQueue,
            on: loop,
            type: 0,
            deadline: nil,
            partTimeout: nil
        )
        channel.finish(outcome)
        route?.onEnd(outcome, ReplyChannel.Progress(hasParts: false, waited: nil))
        return ReplyStream(channel)
    }
}

extension ClientError {
    /// Without serials and a cancel frame, a request that is cancelled between two pieces would never end for the
    /// server.
    fileprivate static var notInPieces: ClientError {
        ClientError(
            .invalidRequest,
            .notSent,
            "requests in pieces need a protocol without channels, and with serials a cancel frame or an UploadCodec"
        )
    }
}
