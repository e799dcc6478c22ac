/// What sends requests: a ``Client``, or a ``Cluster`` of many servers.
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
/// ``pushes(_:buffering:)``. The other calls have implementations that use these two.
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
}

extension Client: RequestSender {
    /// Calls `body` once with this client.
    public nonisolated(nonsending) func perform<Value: Sendable>(
        timeout: Timeout = .default,
        options: CallOptions = CallOptions(),
        _ body: nonisolated(nonsending) (Client, Timeout, CallOptions) async throws(ClientError) -> Value
    ) async throws(ClientError) -> Value {
        try await body(self, timeout, options)
    }
}
