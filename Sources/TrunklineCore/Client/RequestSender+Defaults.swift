/// Calls in generic code that omit arguments. Each calls the protocol's method with the defaults in place, and so
/// reaches the method of the sender. Every combination of omitted arguments fits exactly one method: that in which the
/// last argument that the caller omits is missing.
extension RequestSender {
    // MARK: Requests

    /// Sends a request with the default options and returns the server's response. See
    /// ``Client/send(_:timeout:options:)-(Request,_,_)``.
    public nonisolated(nonsending) func send(
        _ request: Request,
        timeout: Timeout = .default
    ) async throws(ClientError) -> Response {
        try await send(request, timeout: timeout, options: CallOptions())
    }

    /// Sends a request with the default timeout and returns the server's response. See
    /// ``Client/send(_:timeout:options:)-(Request,_,_)``.
    public nonisolated(nonsending) func send(
        _ request: Request,
        options: CallOptions
    ) async throws(ClientError) -> Response {
        try await send(request, timeout: .default, options: options)
    }

    /// Sends several requests together, with the default options, and returns their results in the same order. See
    /// ``Client/send(all:timeout:options:)-(Collection<Request>,_,_)``.
    public nonisolated(nonsending) func send(
        all requests: some Collection<Request>,
        timeout: Timeout = .default
    ) async -> [Result<Response, ClientError>] {
        await send(all: requests, timeout: timeout, options: CallOptions())
    }

    /// Sends several requests together, with the default timeout, and returns their results in the same order. See
    /// ``Client/send(all:timeout:options:)-(Collection<Request>,_,_)``.
    public nonisolated(nonsending) func send(
        all requests: some Collection<Request>,
        options: CallOptions
    ) async -> [Result<Response, ClientError>] {
        await send(all: requests, timeout: .default, options: options)
    }

    /// Starts a request with the default options and returns a handle to it. See
    /// ``Client/start(_:timeout:options:)-(Request,_,_)``.
    public func start(_ request: Request, timeout: Timeout = .default) -> PendingRequest<Response> {
        start(request, timeout: timeout, options: CallOptions())
    }

    /// Starts a request with the default timeout and returns a handle to it. See
    /// ``Client/start(_:timeout:options:)-(Request,_,_)``.
    public func start(_ request: Request, options: CallOptions) -> PendingRequest<Response> {
        start(request, timeout: .default, options: options)
    }

    // MARK: Streams

    /// Sends a request and returns a stream of the reply, with the default buffer. See
    /// ``Client/stream(_:timeout:partTimeout:options:buffering:)-(Request,_,_,_,_)``.
    public func stream(
        _ request: Request,
        timeout: Timeout = .default,
        partTimeout: Timeout = .default,
        options: CallOptions = CallOptions()
    ) -> ReplyStream<Response> {
        let buffering = ReplyBuffering()
        return stream(request, timeout: timeout, partTimeout: partTimeout, options: options, buffering: buffering)
    }

    /// Sends a request and returns a stream of the reply, with the default options. See
    /// ``Client/stream(_:timeout:partTimeout:options:buffering:)-(Request,_,_,_,_)``.
    public func stream(
        _ request: Request,
        timeout: Timeout = .default,
        partTimeout: Timeout = .default,
        buffering: ReplyBuffering
    ) -> ReplyStream<Response> {
        let options = CallOptions()
        return stream(request, timeout: timeout, partTimeout: partTimeout, options: options, buffering: buffering)
    }

    /// Sends a request and returns a stream of the reply, with the default timeout of each part. See
    /// ``Client/stream(_:timeout:partTimeout:options:buffering:)-(Request,_,_,_,_)``.
    public func stream(
        _ request: Request,
        timeout: Timeout = .default,
        options: CallOptions,
        buffering: ReplyBuffering
    ) -> ReplyStream<Response> {
        stream(request, timeout: timeout, partTimeout: .default, options: options, buffering: buffering)
    }

    /// Sends a request and returns a stream of the reply, with the default timeout. See
    /// ``Client/stream(_:timeout:partTimeout:options:buffering:)-(Request,_,_,_,_)``.
    public func stream(
        _ request: Request,
        partTimeout: Timeout,
        options: CallOptions,
        buffering: ReplyBuffering
    ) -> ReplyStream<Response> {
        stream(request, timeout: .default, partTimeout: partTimeout, options: options, buffering: buffering)
    }

    // MARK: Uploads

    /// Starts a request that is sent in pieces, with the default buffer. See
    /// ``Client/open(_:timeout:partTimeout:options:buffering:)``.
    public func open(
        _ request: Request,
        timeout: Timeout = .default,
        partTimeout: Timeout = .default,
        options: CallOptions = CallOptions()
    ) -> OpenRequest {
        let buffering = ReplyBuffering()
        return open(request, timeout: timeout, partTimeout: partTimeout, options: options, buffering: buffering)
    }

    /// Starts a request that is sent in pieces, with the default options. See
    /// ``Client/open(_:timeout:partTimeout:options:buffering:)``.
    public func open(
        _ request: Request,
        timeout: Timeout = .default,
        partTimeout: Timeout = .default,
        buffering: ReplyBuffering
    ) -> OpenRequest {
        let options = CallOptions()
        return open(request, timeout: timeout, partTimeout: partTimeout, options: options, buffering: buffering)
    }

    /// Starts a request that is sent in pieces, with the default timeout of each part. See
    /// ``Client/open(_:timeout:partTimeout:options:buffering:)``.
    public func open(
        _ request: Request,
        timeout: Timeout = .default,
        options: CallOptions,
        buffering: ReplyBuffering
    ) -> OpenRequest {
        open(request, timeout: timeout, partTimeout: .default, options: options, buffering: buffering)
    }

    /// Starts a request that is sent in pieces, with the default timeout. See
    /// ``Client/open(_:timeout:partTimeout:options:buffering:)``.
    public func open(
        _ request: Request,
        partTimeout: Timeout,
        options: CallOptions,
        buffering: ReplyBuffering
    ) -> OpenRequest {
        open(request, timeout: .default, partTimeout: partTimeout, options: options, buffering: buffering)
    }

    // MARK: One-way messages

    /// Sends a one-way message with the default options and returns when the kernel has accepted its last byte. See
    /// ``Client/post(_:timeout:options:)``.
    public nonisolated(nonsending) func post(
        _ request: Request,
        timeout: Timeout = .default
    ) async throws(ClientError) {
        try await post(request, timeout: timeout, options: CallOptions())
    }

    /// Sends a one-way message with the default timeout and returns when the kernel has accepted its last byte. See
    /// ``Client/post(_:timeout:options:)``.
    public nonisolated(nonsending) func post(_ request: Request, options: CallOptions) async throws(ClientError) {
        try await post(request, timeout: .default, options: options)
    }

    /// Sends several one-way messages together, with the default options, and returns their results in the same order.
    /// See ``Client/post(all:timeout:options:)``.
    public nonisolated(nonsending) func post(
        all requests: some Collection<Request>,
        timeout: Timeout = .default
    ) async -> [Result<Void, ClientError>] {
        await post(all: requests, timeout: timeout, options: CallOptions())
    }

    /// Sends several one-way messages together, with the default timeout, and returns their results in the same order.
    /// See ``Client/post(all:timeout:options:)``.
    public nonisolated(nonsending) func post(
        all requests: some Collection<Request>,
        options: CallOptions
    ) async -> [Result<Void, ClientError>] {
        await post(all: requests, timeout: .default, options: options)
    }

    /// Accepts a one-way message for sending, with the default timeout, and returns, usually immediately. See
    /// ``Client/enqueue(_:timeout:)``.
    public nonisolated(nonsending) func enqueue(_ request: Request) async throws(ClientError) {
        try await enqueue(request, timeout: .default)
    }

    // MARK: Subscriptions and pushes

    /// Sends a request that subscribes, with the default timeout, and repeats it so that pushes continue. See
    /// ``Client/subscribe(_:timeout:)-(Request,_)``.
    public nonisolated(nonsending) func subscribe(_ request: Request) async throws(ClientError) -> Subscription {
        try await subscribe(request, timeout: .default)
    }

    /// Sends a one-way message that subscribes, with the default timeout, and repeats it so that pushes continue. See
    /// ``Client/subscribe(posting:timeout:)``.
    public nonisolated(nonsending) func subscribe(
        posting request: Request
    ) async throws(ClientError) -> Subscription {
        try await subscribe(posting: request, timeout: .default)
    }

    /// Returns a stream of the selected pushes, with the default buffer. See ``Client/pushes(_:buffering:)``.
    public func pushes(_ selection: PushSelection) -> PushStream { pushes(selection, buffering: PushBuffering()) }
}
