public import TrunklineCore

/// Requests whose callers do not wait for the response. Each has a task of its own, which tries one server after the
/// other and keeps the cluster alive until the request ends.
extension Cluster {
    /// Starts a request on one of the servers and returns a handle to it without waiting for the response.
    ///
    /// The request keeps the cluster alive until it ends. Otherwise the method behaves like
    /// ``Client/start(_:timeout:options:)-(Request,_,_)``, and its retries are those of ``send(_:timeout:options:)``.
    ///
    /// - Parameters:
    ///   - request: The request.
    ///   - timeout: The time from this call to the response, retries included. Default: the timeout of `options`, or
    ///     else ``ClientOptions/Requests/timeout`` (8 s).
    ///   - options: Whether the request is sent again when it fails, and whether it waits for a server.
    /// - Returns: A handle with the state of the request and its response.
    public nonisolated func start(
        _ request: Request,
        timeout: Timeout = .default,
        options: CallOptions = CallOptions()
    ) -> PendingRequest<Response> {
        let routed = RoutedRequest(request, on: callExecutor) { body throws(ClientError) in
            var call = try self.call(timeout, options, at: self.loop.now)
            return try await self.perform(&call, body)
        }
        return PendingRequest(routed)
    }

    /// Sends a request to one of the servers and returns a stream of the reply.
    ///
    /// After the first part has arrived, the request is never sent to another server. The request keeps the cluster
    /// alive until it ends or the stream is deallocated. Otherwise the method behaves like
    /// ``Client/stream(_:timeout:partTimeout:options:buffering:)-(Request,_,_,_,_)``, and its retries are those of
    /// ``send(_:timeout:options:)``.
    ///
    /// - Parameters:
    ///   - request: The request.
    ///   - timeout: The time from this call to the end of the reply, retries included. Default: the timeout of
    ///     `options`, or else ``ClientOptions/Requests/streamTimeout`` (no timeout).
    ///   - partTimeout: The longest wait for one element, counted from the reader's call of `next`, the wait for a
    ///     server included. Default: ``ClientOptions/Requests/timeout`` (8 s).
    ///   - options: Whether the request is sent again when it fails, and whether it waits for a server.
    ///   - buffering: How much of the reply is buffered for a slow reader, and what happens beyond that.
    /// - Returns: The stream of the reply. It can be read once.
    public nonisolated func stream(
        _ request: Request,
        timeout: Timeout = .default,
        partTimeout: Timeout = .default,
        options: CallOptions = CallOptions(),
        buffering: ReplyBuffering = ReplyBuffering()
    ) -> ReplyStream<Response> {
        routed(RoutedReplies.Call(request, isOpen: false, timeout, partTimeout, options, buffering))
    }

    /// Starts a request on one of the servers that is sent in pieces. `request` is the first piece.
    ///
    /// After a second piece has been put on the link of a server, the request is not sent to another one. Otherwise the
    /// method behaves like ``Client/open(_:timeout:partTimeout:options:buffering:)``.
    ///
    /// - Parameters:
    ///   - request: The first piece.
    ///   - timeout: The time from this call to the end of the reply, as in `stream`. Default: no timeout.
    ///   - partTimeout: The longest wait for one element of the reply, as in `stream`. Default: 8 s.
    ///   - options: Whether the request is sent again when it fails, and whether it waits for a server.
    ///   - buffering: How much of the reply is buffered for a slow reader, and what happens beyond that.
    /// - Returns: The request in progress.
    public nonisolated func open(
        _ request: Request,
        timeout: Timeout = .default,
        partTimeout: Timeout = .default,
        options: CallOptions = CallOptions(),
        buffering: ReplyBuffering = ReplyBuffering()
    ) -> OpenRequest {
        OpenRequest(routed(RoutedReplies.Call(request, isOpen: true, timeout, partTimeout, options, buffering)))
    }

    package nonisolated var callExecutor: (any TaskExecutor)? {
        callOptions.interceptors.isEmpty ? loop.taskExecutor : loop.callbackExecutor
    }

    private nonisolated func routed(_ call: RoutedReplies.Call) -> ReplyStream<Response> {
        let timeout = call.timeout(by: callOptions.requests)
        let limit = call.partTimeout.duration(orByDefault: callOptions.requests.timeout)
        let replies = RoutedReplies(call, limit, on: loop, executor: callExecutor) { body, ending throws(ClientError) in
            try await self.performReply(timeout: timeout, options: call.options, ending: ending, body)
        }
        return ReplyStream(replies)
    }
}
