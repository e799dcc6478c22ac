public import TrunklineCore

/// HTTP/1.1 requests, for clients that speak `HTTP1Codec`.
extension Client {
    /// Sends `request` and returns the server's response, whatever its status.
    ///
    /// Parameters and errors are those of `send` of a `Request`. `rejected` is thrown for the statuses only that the codec
    /// was told to reject. A request that cannot be sent (a line break in a field, a length that is not the content's)
    /// fails with `invalidRequest`, fate `notSent`.
    public nonisolated func send(
        _ request: HTTP1Request,
        timeout: Duration? = nil,
        retry: RetryPolicy? = nil,
        waitsForReady: Bool = true
    ) async throws(ClientError) -> HTTP1Response {
        let frame = try await send(Request(request), timeout: timeout, retry: retry, waitsForReady: waitsForReady)
        do throws(FrameError) {
            return try HTTP1Response(frame)
        } catch {
            let message = "the response is no message of HTTP/1.1"
            throw ClientError(.invalidRequest, .answered, message, response: frame, cause: error)
        }
    }
}

extension Request {
    /// An HTTP/1.1 request as what `Client`'s other calls take: `start`, `send(all:)`, `stream`. `HTTP1Response(frame)`
    /// reads what they return.
    ///
    /// - Throws: `invalidRequest`, fate `notSent`, for what cannot be sent.
    public init(_ request: HTTP1Request) throws(ClientError) {
        do throws(FrameError) {
            let frame = try request.frame()
            self.init(type: frame.type, body: frame.body)
        } catch {
            throw ClientError(.invalidRequest, .notSent, "the request cannot be encoded", cause: error)
        }
    }
}
