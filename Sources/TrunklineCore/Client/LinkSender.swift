/// A sender whose requests go out on one link or not at all: the argument of ``Client/withLink(_:)``.
///
/// If the link has ended or is draining, a request fails with `connectionLost`, fate `notSent`; a request that was
/// written before the link was lost fails with fate `unknown`. Requests on a link that drains end there. A request is
/// never repeated: the retry policy of its options is ignored.
///
/// ``RequestSender/subscribe(_:timeout:)-(Request,_)`` and ``pushes(_:buffering:)`` are those of the client: they
/// concern every link.
public struct LinkSender: RoutingSender {
    /// The client of the link.
    public let client: Client
    /// The endpoint of the link.
    public let endpoint: Endpoint
    /// The number of the link.
    public let session: SessionID

    /// Calls `body` once, with the client and with options that bind its requests to this link.
    public nonisolated(nonsending) func perform<Value: Sendable>(
        timeout: Timeout = .default,
        options: CallOptions = CallOptions(),
        _ body: nonisolated(nonsending) (Client, Timeout, CallOptions) async throws(ClientError) -> Value
    ) async throws(ClientError) -> Value {
        try await body(client, timeout, bound(options))
    }

    /// Returns a stream of the client's pushes, of every link. See ``Client/pushes(_:buffering:)``.
    public func pushes(_ selection: PushSelection, buffering: PushBuffering) -> PushStream {
        client.pushes(selection, buffering: buffering)
    }

    /// Starts a request on this link and returns a handle to it. See
    /// ``Client/start(_:timeout:options:)-(Request,_,_)``.
    public func start(
        _ request: Request,
        timeout: Timeout = .default,
        options: CallOptions = CallOptions()
    ) -> PendingRequest<Response> {
        client.start(request, timeout: timeout, options: bound(options))
    }

    /// Sends a request on this link and returns a stream of the reply. See
    /// ``Client/stream(_:timeout:partTimeout:options:buffering:)-(Request,_,_,_,_)``.
    public func stream(
        _ request: Request,
        timeout: Timeout = .default,
        partTimeout: Timeout = .default,
        options: CallOptions = CallOptions(),
        buffering: ReplyBuffering = ReplyBuffering()
    ) -> ReplyStream<Response> {
        client.stream(
            request,
            timeout: timeout,
            partTimeout: partTimeout,
            options: bound(options),
            buffering: buffering
        )
    }

    /// Starts a request on this link that is sent in pieces. See
    /// ``Client/open(_:timeout:partTimeout:options:buffering:)``.
    public func open(
        _ request: Request,
        timeout: Timeout = .default,
        partTimeout: Timeout = .default,
        options: CallOptions = CallOptions(),
        buffering: ReplyBuffering = ReplyBuffering()
    ) -> OpenRequest {
        client.open(
            request,
            timeout: timeout,
            partTimeout: partTimeout,
            options: bound(options),
            buffering: buffering
        )
    }

    /// Accepts a one-way message for this link and returns, usually immediately. See ``Client/enqueue(_:timeout:)``. If
    /// the link has ended, the message is dropped, and counts as one that has failed.
    public func enqueue(_ request: Request, timeout: Timeout = .default) async throws(ClientError) {
        try await client.enqueue(request, timeout: timeout, options: bound(CallOptions()))
    }

    /// Returns the value that the handshake of the link stored with ``Handshaker/setServerInfo(_:)``; `nil` if it
    /// stored no value, if the value has another type, or if the link has ended.
    public func serverInfo<Info: Sendable>(as type: Info.Type) async -> Info? {
        await client.serverInfo(as: type, of: session)
    }

    package var codec: ProtocolCodec { client.codec }

    package var loop: any EventLoop { client.loop }

    package var defaultTimeout: Duration? { client.defaultTimeout }

    package var callExecutor: (any TaskExecutor)? { client.callExecutor }

    package var owner: any RoutingSender & AnyObject { client }

    package func noteUndecodable(_ error: ClientError) { client.noteUndecodable(error) }

    private func bound(_ options: CallOptions) -> CallOptions {
        var options = options
        (options.retry, options.session) = (.never, session)
        return options
    }
}

extension Client {
    /// Calls `body` with a sender that is bound to the link that is ready now, so that a sequence of requests that
    /// depend on each other reaches one link, or fails.
    ///
    /// ```swift
    /// let rows = try await client.withLink { link in
    ///     let cursor = try await link.send(open)
    ///     return try await link.send(fetch(cursor.body))
    /// }
    /// ```
    ///
    /// If there is no link, the call connects first, as ``connect()`` does. Other requests of the client go out on the
    /// link meanwhile. When the link ends or is replaced, the remaining requests of `body` fail with `connectionLost`,
    /// fate `notSent`. Then call `withLink` again, if the sequence may be repeated from its beginning. See
    /// <doc:Requests#State-that-belongs-to-a-link>.
    ///
    /// - Parameter body: Sends the requests. A sender that outlives `body` remains bound to the link.
    /// - Returns: What `body` returns.
    /// - Throws: The error of `body`, or that of ``connect()``.
    public nonisolated(nonsending) func withLink<Value>(
        _ body: nonisolated(nonsending) (LinkSender) async throws -> Value
    ) async throws -> Value {
        while true {
            try await connect()
            // The link may have ended since.
            guard let (endpoint, session) = await readyLink else { continue }
            return try await body(LinkSender(client: self, endpoint: endpoint, session: session))
        }
    }

    private var readyLink: (endpoint: Endpoint, session: SessionID)? {
        guard let session = dispatcher.session else { return nil }
        return driver.links[session].map { (endpoint: $0.endpoint, session: session) }
    }
}
