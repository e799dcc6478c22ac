extension Request {
    /// The request that `typed` is encoded as, for calls that know nothing of its type.
    ///
    /// - Throws: `invalidRequest`, fate `notSent`, for what `encode` or `prepare` throws.
    public init<Typed: TypedRequest>(_ typed: Typed) throws(ClientError) {
        do {
            self.init(type: Typed.type, body: try typed.encode())
            contentType = Typed.contentType
            try typed.prepare(&self)
        } catch {
            throw ClientError(.invalidRequest, .notSent, "\(Typed.self) cannot be encoded", cause: error)
        }
    }
}

extension TypedRequest {
    /// The server's answer as the request reads it.
    func read(_ response: Frame) throws(ClientError) -> Response {
        do {
            return try Self.decode(response, for: self)
        } catch let error as FrameError {
            throw ClientError(
                .protocolViolation,
                .answered,
                "the response breaks the protocol of \(Self.self)",
                response: response,
                cause: error
            )
        } catch {
            throw ClientError(
                .invalidRequest,
                .answered,
                "the response cannot be read as \(Response.self)",
                response: response,
                cause: error
            )
        }
    }
}

extension Result where Success == Frame, Failure == ClientError {
    /// The response as `request` reads it.
    func read<Typed: TypedRequest>(by request: Typed) -> Result<Typed.Response, ClientError> {
        flatMap { frame in
            do throws(ClientError) { return .success(try request.read(frame)) } catch { return .failure(error) }
        }
    }
}
