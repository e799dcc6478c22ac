extension DisconnectCause {
    /// The cause that `error` of an attempt, or of a link, stands for.
    init(_ error: any Error) {
        self =
            switch error {
            case let error as TransportError: DisconnectCause(error.code)
            case is FrameError: .protocolViolation
            // What the user's handshake threw, from here on.
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
            case .tls: .tls
            case .invalidAddress, .system: .system
            }
    }
}

extension TransportError {
    /// Whether time does not mend it.
    var isPermanent: Bool {
        if case .tls(let failure) = code { failure.isPermanent } else { isMisconfiguration }
    }

    /// Whether it is known without asking the system that the address cannot be used: time does not mend that. What the
    /// system says of an address it may take back, as when an interface comes up.
    private var isMisconfiguration: Bool { code == .invalidAddress && errno == 0 }
}

extension TransportError {
    /// Of a link that we ended ourselves, to suspend or to go elsewhere.
    static var closedByUs: TransportError { TransportError(.closedLocally, "the link was closed on this side") }

    /// Of a link on which the server has given its last response.
    static var endedByServer: TransportError {
        TransportError(.closedByPeer, "the server answers no more on this link")
    }
}
