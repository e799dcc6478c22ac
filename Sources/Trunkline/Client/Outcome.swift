/// What a request came to.
typealias Outcome = Result<Frame, ClientError>

extension Outcome {
    /// What a response means for its request.
    @inline(__always)
    init(of response: consuming Frame) {
        if let damage = response.damage {
            self = .failure(.damaged(response, damage))
        } else if response.isRejection {
            self = .failure(.rejection(response))
        } else {
            self = .success(response)
        }
    }
}

extension ClientError {
    static func damaged(_ frame: Frame, _ damage: FrameError.Code) -> ClientError {
        let cause = FrameError(damage, .reason(damage, of: frame))
        return ClientError(.protocolViolation, .answered, "the response is damaged", response: frame, cause: cause)
    }

    static func rejection(_ frame: Frame) -> ClientError {
        let message = frame.status == 0 ? "the server refused" : "the server answered with status \(frame.status)"
        return ClientError(.rejected, .answered, message, response: frame)
    }
}

extension String {
    /// What is wrong with a damaged frame, in words.
    static func reason(_ damage: FrameError.Code, of frame: Frame) -> String {
        let reason =
            switch damage {
            case .illegalLength: "is longer than may be"
            case .unknownType: "is of type 0x\(String(frame.type, radix: 16)), which the protocol has not"
            case .missingBody: "has no body"
            default: "is not acceptable"
            }
        return "the response \(reason); its body has \(frame.body)"
    }
}
