package typealias Outcome = Result<Response, ClientError>

extension Outcome {
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
        let status = frame.status == 0 ? "" : "status \(frame.status)"
        let words = [status, frame.reason?.description ?? ""].filter { !$0.isEmpty }.joined(separator: ": ")
        if frame.isFateUnknown {
            let message = "the server has ended the request and leaves open whether it was processed"
            let reason = words.isEmpty ? "" : ": \(words)"
            return ClientError(.interrupted, .unknown, message + reason, response: Response(frame))
        }
        let message = words.isEmpty ? "rejected by the server" : "the server answered with \(words)"
        return ClientError(.rejected, .answered, message, response: Response(frame))
    }
}

extension FrameError {
    /// A frame that is too long exceeds a limit of the codec, which knew its end.
    static func malformed(_ frame: Frame, _ malformedReason: Code) -> FrameError {
        let reason = String.reason(malformedReason, of: frame)
        return malformedReason == .illegalLength
            ? FrameError(exceedingLimit: reason) : FrameError(malformedReason, reason)
    }
}

extension String {
    fileprivate static func reason(_ malformedReason: FrameError.Code, of frame: Frame) -> String {
        if malformedReason == .missingBody { return "the response has no body\(frame.malformedFinding)" }
        let reason =
            switch malformedReason {
            case .illegalLength where frame.malformedFinding.isEmpty: "is longer than the codec's maximumFrameSize"
            case .illegalLength: "is too long"
            case .unknownType where !frame.malformedFinding.isEmpty: "is of an unknown kind"
            case .unknownType: "has type 0x\(String(frame.type, radix: 16)), which is unknown"
            default: "is invalid"
            }
        return "the response \(reason)\(frame.malformedFinding); its body has \(frame.body)"
    }
}
