/// A sender of requests: a ``Client``, or a ``Cluster`` of many servers.
///
/// Write code that takes either as `some RequestSender`, and tests that pass it a client of a test server:
///
/// ```swift
/// struct Orders<Sender: RequestSender> {
///     let sender: Sender
///     func order(_ id: Int) async throws(ClientError) -> Order { try await sender.send(GetOrder(id: id)) }
/// }
/// ```
///
/// A type of your own that wraps another sender implements ``perform(timeout:options:_:)`` and
/// ``pushes(_:buffering:)``. The other calls have implementations that use these two. Those that do not wait
/// (`start`, `stream` and `open`) then begin a task for each call. Streams and uploads then have no timeout as a whole
/// unless the call has one: the ``ClientOptions/Requests/streamTimeout`` of a client that is wrapped does not count.
///
/// If an argument is omitted, a call is the same with the default in its place. So a client or a cluster in generic
/// code does exactly what it does elsewhere, and so does a type of your own that implements a call itself.
public protocol RequestSender: Sendable {
    /// Performs a call with a client, and with another one if it fails and may be tried elsewhere.
    ///
    /// - Parameters:
    ///   - timeout: The time for the whole call. Default: the timeout of `options`, or else
    ///     ``ClientOptions/Requests/timeout``.
    ///   - options: Whether the call is tried again when it fails, and whether it waits for a link.
    ///   - body: Makes the call with the client, the time that is left for it, and the options for this try.
    /// - Returns: What `body` returns.
    /// - Throws: The error of the last try, or of the call if there was none.
    nonisolated(nonsending) func perform<Value: Sendable>(
        timeout: Timeout,
        options: CallOptions,
        _ body: nonisolated(nonsending) (Client, Timeout, CallOptions) async throws(ClientError) -> Value
    ) async throws(ClientError) -> Value

    /// Returns a stream of pushes. See ``pushes(buffering:)``.
    func pushes(_ selection: PushSelection, buffering: PushBuffering) -> PushStream

    /// Sends a request and returns the server's response. See ``Client/send(_:timeout:options:)-(Request,_,_)``.
    nonisolated(nonsending) func send(
        _ request: Request,
        timeout: Timeout,
        options: CallOptions
    ) async throws(ClientError) -> Response

    /// Sends several requests together and returns their results in the same order. See
    /// ``Client/send(all:timeout:options:)-(Collection<Request>,_,_)``.
    nonisolated(nonsending) func send(
        all requests: some Collection<Request>,
        timeout: Timeout,
        options: CallOptions
    ) async -> [Result<Response, ClientError>]

    /// Sends a one-way message and returns when the kernel has accepted its last byte. See
    /// ``Client/post(_:timeout:options:)``.
    nonisolated(nonsending) func post(
        _ request: Request,
        timeout: Timeout,
        options: CallOptions
    ) async throws(ClientError)

    /// Sends several one-way messages together and returns their results in the same order. See
    /// ``Client/post(all:timeout:options:)``.
    nonisolated(nonsending) func post(
        all requests: some Collection<Request>,
        timeout: Timeout,
        options: CallOptions
    ) async -> [Result<Void, ClientError>]

    /// Starts a request and returns a handle to it. See ``Client/start(_:timeout:options:)-(Request,_,_)``.
    func start(_ request: Request, timeout: Timeout, options: CallOptions) -> PendingRequest<Response>

    /// Sends a request and returns a stream of the reply. See
    /// ``Client/stream(_:timeout:partTimeout:options:buffering:)-(Request,_,_,_,_)``.
    func stream(
        _ request: Request,
        timeout: Timeout,
        partTimeout: Timeout,
        options: CallOptions,
        buffering: ReplyBuffering
    ) -> ReplyStream<Response>

    /// Starts a request that is sent in pieces. See ``Client/open(_:timeout:partTimeout:options:buffering:)``.
    func open(
        _ request: Request,
        timeout: Timeout,
        partTimeout: Timeout,
        options: CallOptions,
        buffering: ReplyBuffering
    ) -> OpenRequest

    /// Accepts a one-way message for sending and returns, usually immediately. See ``Client/enqueue(_:timeout:)``.
    nonisolated(nonsending) func enqueue(_ request: Request, timeout: Timeout) async throws(ClientError)

    /// Sends a request that subscribes, and repeats it so that pushes continue. See
    /// ``Client/subscribe(_:timeout:)-(Request,_)``.
    nonisolated(nonsending) func subscribe(
        _ request: Request,
        timeout: Timeout
    ) async throws(ClientError) -> Subscription

    /// Sends a one-way message that subscribes, and repeats it so that pushes continue. See
    /// ``Client/subscribe(posting:timeout:)``.
    nonisolated(nonsending) func subscribe(
        posting request: Request,
        timeout: Timeout
    ) async throws(ClientError) -> Subscription
}

// MARK: - Calls of a sender that implements only `perform` and `pushes`

// Without default arguments: with them, a call that omits an argument would come here and not to the method of a
// client.
extension RequestSender {
    /// Sends a request and returns the server's response. See ``Client/send(_:timeout:options:)-(Request,_,_)``.
    public nonisolated(nonsending) func send(
        _ request: Request,
        timeout: Timeout,
        options: CallOptions
    ) async throws(ClientError) -> Response {
        try await perform(timeout: timeout, options: options) { client, timeout, options throws(ClientError) in
            try await client.send(request, timeout: timeout, options: options)
        }
    }

    /// Sends several requests together and returns their results in the same order. See
    /// ``Client/send(all:timeout:options:)-(Collection<Request>,_,_)``.
    public nonisolated(nonsending) func send(
        all requests: some Collection<Request>,
        timeout: Timeout,
        options: CallOptions
    ) async -> [Result<Response, ClientError>] {
        let requests = Array(requests)
        do throws(ClientError) {
            return try await perform(timeout: timeout, options: options) { client, timeout, options in
                await client.send(all: requests, timeout: timeout, options: options)
            }
        } catch {
            return requests.map { _ in .failure(error) }
        }
    }

    /// Sends a one-way message and returns when the kernel has accepted its last byte. See
    /// ``Client/post(_:timeout:options:)``.
    public nonisolated(nonsending) func post(
        _ request: Request,
        timeout: Timeout,
        options: CallOptions
    ) async throws(ClientError) {
        try await perform(timeout: timeout, options: options) { client, timeout, options throws(ClientError) in
            try await client.post(request, timeout: timeout, options: options)
        }
    }

    /// Sends several one-way messages together and returns their results in the same order. See
    /// ``Client/post(all:timeout:options:)``.
    public nonisolated(nonsending) func post(
        all requests: some Collection<Request>,
        timeout: Timeout,
        options: CallOptions
    ) async -> [Result<Void, ClientError>] {
        let requests = Array(requests)
        do throws(ClientError) {
            return try await perform(timeout: timeout, options: options) { client, timeout, options in
                await client.post(all: requests, timeout: timeout, options: options)
            }
        } catch {
            return requests.map { _ in .failure(error) }
        }
    }

    /// Starts a request and returns a handle to it. See ``Client/start(_:timeout:options:)-(Request,_,_)``.
    public func start(_ request: Request, timeout: Timeout, options: CallOptions) -> PendingRequest<Response> {
        let routed = RoutedRequest(request, on: nil) { body throws(ClientError) in
            try await perform(timeout: timeout, options: options, body)
        }
        return PendingRequest(routed)
    }

    /// Sends a request and returns a stream of the reply. See
    /// ``Client/stream(_:timeout:partTimeout:options:buffering:)-(Request,_,_,_,_)``.
    public func stream(
        _ request: Request,
        timeout: Timeout,
        partTimeout: Timeout,
        options: CallOptions,
        buffering: ReplyBuffering
    ) -> ReplyStream<Response> {
        routed(RoutedReplies.Call(request, isOpen: false, timeout, partTimeout, options, buffering))
    }

    /// Starts a request that is sent in pieces. See ``Client/open(_:timeout:partTimeout:options:buffering:)``.
    public func open(
        _ request: Request,
        timeout: Timeout,
        partTimeout: Timeout,
        options: CallOptions,
        buffering: ReplyBuffering
    ) -> OpenRequest {
        OpenRequest(routed(RoutedReplies.Call(request, isOpen: true, timeout, partTimeout, options, buffering)))
    }

    private func routed(_ call: RoutedReplies.Call) -> ReplyStream<Response> {
        let timeout = call.timeout(by: ClientOptions.Requests())
        let partTimeout = call.partTimeout.duration(orByDefault: ClientOptions.Requests().timeout)
        let loop = EventLoops.shared.next()
        let replies = RoutedReplies(call, partTimeout, on: loop, executor: nil) { body, _ throws(ClientError) in
            _ = try await perform(timeout: timeout, options: call.options) {
                client,
                timeout,
                options throws(ClientError) in
                try await body(client, timeout, options, nil)
            }
        }
        return ReplyStream(replies)
    }

    /// Accepts a one-way message for sending and returns, usually immediately. See ``Client/enqueue(_:timeout:)``.
    public nonisolated(nonsending) func enqueue(_ request: Request, timeout: Timeout) async throws(ClientError) {
        try await perform(timeout: timeout, options: CallOptions()) { client, timeout, _ throws(ClientError) in
            try await client.enqueue(request, timeout: timeout)
        }
    }

    /// Sends a request that subscribes, and repeats it so that pushes continue. See
    /// ``Client/subscribe(_:timeout:)-(Request,_)``.
    public nonisolated(nonsending) func subscribe(
        _ request: Request,
        timeout: Timeout
    ) async throws(ClientError) -> Subscription {
        try await perform(timeout: timeout, options: CallOptions()) { client, timeout, _ throws(ClientError) in
            try await client.subscribe(request, timeout: timeout)
        }
    }

    /// Sends a one-way message that subscribes, and repeats it so that pushes continue. See
    /// ``Client/subscribe(posting:timeout:)``.
    public nonisolated(nonsending) func subscribe(
        posting request: Request,
        timeout: Timeout
    ) async throws(ClientError) -> Subscription {
        try await perform(timeout: timeout, options: CallOptions()) { client, timeout, _ throws(ClientError) in
            try await client.subscribe(posting: request, timeout: timeout)
        }
    }
}

/// A sender of this package: it knows its protocol and its clock, and counts what its callers cannot decode.
package protocol RoutingSender: RequestSender {
    var codec: ProtocolCodec { get }
    var loop: any EventLoop { get }
    var defaultTimeout: Duration? { get }
    /// The event loop, unless the call runs code of the user, which may block its thread.
    var callExecutor: (any TaskExecutor)? { get }

    /// The client or cluster itself, which a handle or a stream must not keep alive.
    var owner: any RoutingSender & AnyObject { get }

    func noteUndecodable(_ error: ClientError)
}

extension RoutingSender where Self: AnyObject {
    package var owner: any RoutingSender & AnyObject { self }
}

extension RequestSender {
    package var knownCodec: ProtocolCodec? { (self as? any RoutingSender)?.codec }
}
