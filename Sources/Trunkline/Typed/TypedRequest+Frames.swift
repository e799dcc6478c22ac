import TrunklineCore

/// Typed requests to frames, and frames to responses; errors are wrapped here and nowhere else.
extension TypedRequest {
    /// The request for a server that speaks `codec`.
    func request(speaking codec: any FrameCodec) throws(ClientError) -> Request {
        do {
            var request = Request(type: Self.type, body: try encode())
            // A layout refuses fields that it has not; other codecs take what they know.
            if let contentType = Self.contentType, (codec as? FrameLayout)?.hasContentType ?? true {
                request.contentType = contentType
            }
            try prepare(&request)
            return request
        } catch {
            throw ClientError(.invalidRequest, .notSent, "\(Self.self) cannot be encoded", cause: error)
        }
    }

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
