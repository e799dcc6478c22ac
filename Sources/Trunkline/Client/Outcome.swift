/// What a request came to.
typealias Outcome = Result<Response, ClientError>

extension Outcome {
    /// What a response means for its request.
    @inline(__always)
    init(of frame: consuming Frame) {
        if let malformedReason = frame.malformedReason {
            self = .failure(.malformed(frame, malformedReason))
        } else if frame.isErrorResponse {
            self = .failure(.errorResponse(frame))
        } else {
            self = .success(Response(frame))
        }
    }
}

extension ClientError {
    static func malformed(_ frame: Frame, _ malformedReason: FrameError.Code) -> ClientError {
        let cause = FrameError(malformedReason, .reason(malformedReason, of: frame))
        return ClientError(
            .protocolViolation,
            .answered,
            "the response is malformed",
            response: Response(frame),
            cause: cause
        )
    }

    static func errorResponse(_ frame: Frame) -> ClientError {
        let message = frame.status == 0 ? "the server refused" : "the server answered with status \(frame.status)"
        return ClientError(.rejected, .answered, message, response: Response(frame))
    }
}

extension String {
    /// What is wrong with a malformed frame, in words.
    static func reason(_ malformedReason: FrameError.Code, of frame: Frame) -> String {
        let reason =
            switch malformedReason {
            case .illegalLength: "is longer than may be"
            case .unknownType: "is of type 0x\(String(frame.type, radix: 16)), which the protocol has not"
            case .missingBody: "has no body"
            default: "is not acceptable"
            }
        return "the response \(reason); its body has \(frame.body)"
    }
}
