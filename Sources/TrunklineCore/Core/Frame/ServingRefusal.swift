/// Why a client does not answer a request of the server with the answer of a handler.
///
/// See ``ServingCodec`` and ``Client/serve(maximumConcurrent:maximumWaiting:_:)``.
@nonexhaustive
public enum ServingRefusal: String, Sendable, Hashable, CaseIterable {
    /// The client does not serve: `serve` was not called, its task was cancelled, or the client is closing.
    case notServed
    /// As many requests wait for a handler as may.
    case overloaded
    /// The handler threw an error, or returned a frame that cannot be sent.
    case failed
    /// The request has a ``Frame/malformedReason``.
    case malformed
    /// The server has cancelled the request. Many protocols expect no answer then.
    case cancelled
}
