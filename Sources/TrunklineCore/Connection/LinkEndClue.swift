/// What may be behind the end of an attempt or a link whose error does not say it.
package struct LinkEndClue: Sendable {
    private let phase: DisconnectReport.Phase
    private let cause: DisconnectCause
    private let mayLackTLS: Bool
    private let wasSilent: Bool
    private let hasSpoken: Bool
    private let certificateProblem: String?
    private let firstBytes: FirstBytes

    /// - Parameters:
    ///   - phase: The phase in which the attempt or the link ended.
    ///   - cause: Why it ended.
    ///   - mayLackTLS: Whether the server may expect TLS, which the endpoint does not use.
    ///   - wasSilent: Whether nothing had come from the server.
    ///   - hasSpoken: Whether this client had written anything. A server may close a link on which nothing was said.
    ///   - certificateProblem: What is wrong with the certificate of this client; `nil` if it is valid, or if there is
    ///     none.
    ///   - firstBytes: What the server has sent, if that was no frame of the protocol.
    package init(
        phase: DisconnectReport.Phase,
        cause: DisconnectCause,
        mayLackTLS: Bool,
        wasSilent: Bool,
        hasSpoken: Bool = true,
        certificateProblem: String?,
        firstBytes: FirstBytes = .none
    ) {
        (self.phase, self.cause, self.mayLackTLS) = (phase, cause, mayLackTLS)
        (self.wasSilent, self.hasSpoken, self.certificateProblem) = (wasSilent, hasSpoken, certificateProblem)
        self.firstBytes = firstBytes
    }

    package init(_ report: DisconnectReport) {
        self.init(
            phase: report.phase,
            cause: report.cause,
            mayLackTLS: report.endpoint.mayLackTLS,
            wasSilent: report.wasSilent,
            hasSpoken: report.hasSpoken,
            certificateProblem: report.certificateProblem,
            firstBytes: report.details?.firstBytes ?? .none
        )
    }

    /// That the server may not accept the certificate of this client; `nil` if that cannot be the reason.
    package var suspicion: String? {
        guard let certificateProblem else { return nil }
        switch (phase, cause) {
        case (.securing, .closedByServer), (.securing, .reset), (.securing, .timedOut), (.securing, .tls),
            (.handshaking, .closedByServer), (.handshaking, .reset):
            return "the certificate of this client is not valid: \(certificateProblem)"
        case (.ready, .closedByServer), (.ready, .reset):
            return wasSilent ? "the certificate of this client is not valid: \(certificateProblem)" : nil
        default: return nil
        }
    }

    /// Whether the server may expect TLS at this port.
    package var mayExpectTLS: Bool {
        guard mayLackTLS, wasSilent, hasSpoken, phase == .handshaking || phase == .ready else { return false }
        return firstBytes == .service(.tls) || firstBytes == .none && cause.mayBeOfTLS
    }

    /// What else may be the reason; `nil` if there is nothing to guess.
    package var guess: String? {
        if suspicion != nil { return nil }
        switch firstBytes {
        case .service(.tls) where mayLackTLS: return "the server answers with TLS: use an endpoint with tls://"
        case .service(let service): return "the server answers with \(service.rawValue): check the host and the port"
        case .unknown where cause == .protocolViolation: return Self.anotherProtocol
        // A part of a frame, perhaps.
        case .unknown where phase == .ready: return nil
        case .unknown, .none: break
        }
        return switch (phase, cause) {
        case (.securing, .closedByServer), (.securing, .reset), (.securing, .timedOut): "does this port speak TLS?"
        case (.handshaking, .closedByServer), (.handshaking, .reset):
            mayLackTLS && firstBytes == .none
                ? "the server may have refused the login without saying so, or does this port expect TLS?"
                : "the server may have refused the login without saying so"
        // Bytes that cannot be decoded, and that are not known.
        case (.ready, .protocolViolation), (.handshaking, .protocolViolation): wasSilent ? Self.anotherProtocol : nil
        default: mayExpectTLS && cause != .limitExceeded ? "does this port expect TLS?" : nil
        }
    }

    private static let anotherProtocol = "the server speaks another protocol, or another version of this one"
}

extension Endpoint {
    /// Whether the server may expect TLS, which the endpoint does not use. Processes and datagrams have none.
    package var mayLackTLS: Bool {
        switch target {
        case .host, .unix, .vsock: !isSecured && !usesDatagrams
        case .command, .descriptors: false
        }
    }
}

extension DisconnectCause {
    /// Whether a server that expects TLS ends a plaintext link like this.
    fileprivate var mayBeOfTLS: Bool {
        switch self {
        case .closedByServer, .reset, .protocolViolation, .limitExceeded: true
        default: false
        }
    }
}

extension DisconnectReport {
    /// That the server may not accept the certificate of this client, if it has not said anything else; otherwise `nil`.
    package var suspicion: String? { LinkEndClue(self).suspicion }

    /// That the link was idle, if a server or a device on the path may have ended it for that; otherwise `nil`.
    package var idleness: String? {
        guard phase == .ready, cause == .closedByServer || cause == .reset, requestsLost == 0 || cause == .reset,
            reason == nil, let details, let idleTime = details.idleTime, idleTime >= Self.shortestIdleTime
        else { return nil }
        let time = Quantity.time(idleTime)
        let remedy =
            details.sendsPings
            ? "let options.liveness.interval be shorter than that"
            : "let it keep them for longer, or send something more often: there are no pings on this link"
        return details.isIdleTimeUsual
            ? "it was idle for \(time), like the link before: the server or a load balancer closes idle connections; to do: \(remedy)"
            : "it was idle for \(time): if the server or a load balancer closes idle connections, \(remedy)"
    }

    /// Shorter ones are usual on links in use.
    private static let shortestIdleTime = Duration.seconds(5)
}
