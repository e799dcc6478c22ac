/// What may be behind the end of an attempt or a link whose error does not say it.
package struct LinkEndClue: Sendable {
    private let phase: DisconnectReport.Phase
    private let cause: DisconnectCause
    private let mayLackTLS: Bool
    private let wasSilent: Bool
    private let hasSpoken: Bool
    private let certificateProblem: String?
    private let firstBytes: FirstBytes

    /// `hasSpoken`: this client had written something; a server may close a link on which nothing was said.
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

    package var mayExpectTLS: Bool {
        guard mayLackTLS, wasSilent, hasSpoken, phase == .handshaking || phase == .ready else { return false }
        return firstBytes == .service(.tls) || firstBytes == .none && cause.mayBeOfTLS
    }

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
        case (.ready, .protocolViolation), (.handshaking, .protocolViolation): wasSilent ? Self.anotherProtocol : nil
        default: mayExpectTLS && cause != .limitExceeded ? "does this port expect TLS?" : nil
        }
    }

    private static let anotherProtocol = "the server speaks another protocol, or another version of this one"
}

extension Endpoint {
    /// Processes and datagrams have no TLS.
    var mayLackTLS: Bool {
        switch target {
        case .host, .unix, .vsock: !isSecured && !usesDatagrams
        case .command, .descriptors: false
        }
    }
}

extension DisconnectCause {
    fileprivate var mayBeOfTLS: Bool {
        switch self {
        case .closedByServer, .reset, .protocolViolation, .limitExceeded: true
        default: false
        }
    }
}

extension DisconnectReport {
    package var suspicion: String? { LinkEndClue(self).suspicion }

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
