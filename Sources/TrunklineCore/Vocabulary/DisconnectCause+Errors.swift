extension DisconnectCause {
    package init(_ error: any Error) {
        self =
            switch error {
            case let error as TransportError: DisconnectCause(error.code)
            case let error as FrameError: error.exceedsLimit ? .limitExceeded : .protocolViolation
            // The remaining errors are thrown by the caller's handshake.
            case let error as ClientError: DisconnectCause(error)
            default: .handshakeRefused
            }
    }

    private init(_ error: ClientError) {
        self =
            switch error.code {
            case .timedOut: .timedOut
            case .tlsFailed: .tls
            case .protocolViolation: .protocolViolation
            case .overloaded: (error.cause as? FrameError).map { DisconnectCause($0) } ?? .handshakeRefused
            case .connectionLost: error.cause.map { DisconnectCause($0) } ?? .reset
            default: .handshakeRefused
            }
    }

    private init(_ code: TransportError.Code) {
        self =
            switch code {
            case .nameResolutionFailed: .nameResolution
            case .refused: .refused
            case .unreachable: .unreachable
            case .pathLost: .pathLost
            case .timedOut: .timedOut
            case .reset: .reset
            case .closedByPeer: .closedByServer
            case .closedLocally: .closedLocally
            case .halfOpen: .halfOpen
            // That TLS was in use is a detail: the connection was cut off.
            case .tls(.truncated): .closedByServer
            case .tls: .tls
            case .proxy: .proxy
            case .exited: .exited
            case .invalidAddress, .system: .system
            }
    }
}

extension TransportError {
    package var isPermanent: Bool {
        switch code {
        case .tls(let failure): failure.isPermanent
        case .proxy(let failure): failure.isPermanent
        default: isMisconfiguration
        }
    }

    /// An address that the system rejects may become valid, for example when an interface comes up.
    private var isMisconfiguration: Bool { code == .invalidAddress && errno == 0 }
}

extension TransportError {
    static func closedByUs(_ reason: String) -> TransportError { TransportError(.closedLocally, reason) }

    static func endedByServer(_ reason: ServerReason?) -> TransportError {
        guard let reason else {
            return TransportError(.closedByPeer, "the server sends no more responses on this link")
        }
        var error = TransportError(.closedByPeer, "the server ended the link: \(reason)")
        error.reason = reason
        return error
    }
}
