/// The result of a request.
typealias Outcome = Result<Response, ClientError>

extension Outcome {
    /// Creates the outcome of a request from its response.
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
        let cause = FrameError.malformed(frame, malformedReason)
        return ClientError(
            cause.exceedsLimit ? .overloaded : .protocolViolation,
            .answered,
            cause.exceedsLimit ? "the response exceeds a limit of the codec" : "the response is malformed",
            response: Response(frame),
            cause: cause
        )
    }

    static func errorResponse(_ frame: Frame) -> ClientError {
        let message = frame.status == 0 ? "rejected by the server" : "the server answered with status \(frame.status)"
        return ClientError(.rejected, .answered, message, response: Response(frame))
    }
}

extension FrameError {
    /// What is wrong with a malformed frame. A frame that is too long exceeds a limit of the codec, which knew its end.
    static func malformed(_ frame: Frame, _ malformedReason: Code) -> FrameError {
        let reason = String.reason(malformedReason, of: frame)
        return malformedReason == .illegalLength
            ? FrameError(exceedingLimit: reason) : FrameError(malformedReason, reason)
    }
}

extension String {
    /// Describes what is wrong with a malformed frame.
    fileprivate static func reason(_ malformedReason: FrameError.Code, of frame: Frame) -> String {
        if malformedReason == .missingBody { return "the response has no body" }
        let reason =
            switch malformedReason {
            case .illegalLength: "is longer than the codec's maximumFrameSize"
            case .unknownType: "has type 0x\(String(frame.type, radix: 16)), which is unknown"
            default: "is invalid"
            }
        return "the response \(reason); its body has \(frame.body)"
    }
}
