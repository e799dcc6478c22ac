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
            throw .unreadable(frame, error)
        }
    }

    /// Sends `request` and returns the server's response as it comes: the head, content in pieces, trailers.
    ///
    /// ```swift
    /// for try await part in try client.stream(HTTP1Request(.get, "/export.csv")) {
    ///     if case .content(let bytes) = part { file.append(bytes) }
    /// }
    /// ```
    ///
    /// Parameters, errors and what a slow reader causes are those of `stream` of a `Request`. Leaving the loop early gives
    /// the request up; its content is still read to the end and dropped, as HTTP/1.1 knows no cancellation, or the link is
    /// left behind with it where nothing may follow the request (`FrameCodec.mayPipeline(behind:)`).
    ///
    /// - Throws: `invalidRequest`, fate `notSent`, for what cannot be sent.
    public nonisolated func stream(
        _ request: HTTP1Request,
        timeout: Duration? = nil,
        partTimeout: Duration? = nil,
        retry: RetryPolicy? = nil,
        waitsForReady: Bool = true,
        buffering: ReplyBuffering = ReplyBuffering()
    ) throws(ClientError) -> HTTP1ReplyStream {
        HTTP1ReplyStream(
            frames: stream(
                try Request(request),
                timeout: timeout,
                partTimeout: partTimeout,
                retry: retry,
                waitsForReady: waitsForReady,
                buffering: buffering
            )
        )
    }
}

extension ClientError {
    /// Of a response that is none of HTTP/1.1.
    static func unreadable(_ frame: Frame, _ error: FrameError) -> ClientError {
        let message = "the response is no message of HTTP/1.1"
        return ClientError(.invalidRequest, .answered, message, response: frame, cause: error)
    }
}

extension Request {
    /// An HTTP/1.1 request as what `Client`'s other calls take: `start`, `send(all:)`. `HTTP1Response(frame)`
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
