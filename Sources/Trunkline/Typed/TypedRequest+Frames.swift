import TrunklineCore

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
    static func read(_ response: Frame) throws(ClientError) -> Response {
        do {
            return try decode(response)
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
    /// The response as `type` reads it.
    func read<Typed: TypedRequest>(as type: Typed.Type) -> Result<Typed.Response, ClientError> {
        flatMap { frame in
            do throws(ClientError) { return .success(try type.read(frame)) } catch { return .failure(error) }
        }
    }
}
