/// Explanations of failures in the log, for operators who do not know this package: what a cause means, and what to do
/// about it.
extension DisconnectCause {
    /// The cause in plain English.
    var meaning: String {
        switch self {
        case .nameResolution: "the name of the server could not be resolved"
        case .refused: "no server listens at the address, or a firewall refuses the connection"
        case .unreachable: "the address cannot be reached"
        case .pathLost: "the local address or interface of the link is gone"
        case .timedOut: "no answer in time"
        case .reset: "the server, or a device on the path, reset the connection"
        case .closedByServer: "the server closed the connection"
        case .goAway: "the server announced its shutdown"
        case .halfOpen:
            "nothing came back, not even the answer to a ping, and the system reports no error"
        case .unanswered: "requests were not answered before they timed out or were cancelled"
        case .exhausted:
            "requests that timed out or were cancelled, and that the server has not answered yet, hold at least half of the"
                + " serial numbers, or of requests.maximumInFlight"
        case .protocolViolation: "the server sent something that the protocol does not allow"
        case .limitExceeded:
            "the server sent more than a limit of this client allows, or does not speak this protocol"
        case .tls: "TLS failed"
        case .proxy: "the proxy did not connect to the server"
        case .handshakeRefused: "the handshake of the protocol failed"
        case .exited: "the child process ended"
        case .closedLocally: "the client ended the link itself"
        case .system: "the system reported an error"
        }
    }
}

extension ProxyFailure {
    /// The failure in plain English.
    fileprivate var meaning: String {
        switch self {
        case .unreachable: "the proxy cannot be reached"
        case .authenticationRequired: "the proxy requires a user name and a password, or another way to authenticate"
        case .credentialsRefused: "the proxy refused the user name or the password"
        case .notAllowed: "the rules of the proxy do not allow the connection"
        case .networkUnreachable: "the proxy found no route to the network of the server"
        case .hostUnreachable: "the proxy could not reach the server, or look up its name"
        case .refused: "the proxy found no server that listens at the port"
        case .timedOut: "the server did not answer the proxy in time"
        case .unsupported: "the proxy does not support the request"
        case .other: "the proxy did not connect to the server"
        case .closed: "the proxy closed the connection before it was established"
        case .protocolViolation: "the proxy sent something that its protocol does not allow"
        }
    }
}

extension DisconnectReport {
    /// The cause in plain English, as precisely as the error allows; `nil` if the error says it.
    var meaning: String? {
        // The message of a TLS error says that TLS failed, that of an exit that the process ended, and that of a tunnel who may
        // have closed it.
        switch cause {
        case .tls, .exited: if error != nil { return nil }
        case .closedLocally: if departure != nil || error != nil { return nil }
        case .goAway: if reason != nil { return nil }
        case .closedByServer, .reset: if (error as? TransportError)?.isOfTunnel == true { return nil }
        case .timedOut:
            if phase == .ready || phase == .draining {
                return
                    "the system gave the link up: the server, or the path to it, has acknowledged nothing in time, or a firewall"
                    + " of this host drops what leaves"
            }
        case .proxy: if case .proxy(let failure)? = (error as? TransportError)?.code { return failure.meaning }
        default: break
        }
        return cause.meaning
    }

    /// That the link was idle, if a server or a device on the path may have ended it for that; otherwise `nil`.
    var idleness: String? {
        guard phase == .ready, cause == .closedByServer || cause == .reset, requestsLost == 0 || cause == .reset,
            reason == nil, let details, let idleTime = details.idleTime, idleTime >= Self.shortestIdleTime
        else { return nil }
        let time = LogText.time(idleTime)
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

    /// What to do about a failure that repeats until an operator acts; `nil` for any other.
    var advice: String? {
        if suspicion != nil { return "renew the certificate of this client (options.tls.identity)" }
        return switch error {
        case let error as TransportError: error.advice
        case let error as FrameError:
            error.exceedsLimit ? "raise the limit that the error names, or let the server send less" : nil
        case let refusal as HandshakeRefusal:
            refusal.isPermanent ? refusal.kind.advice : nil
        case let error as ClientError:
            switch error.code {
            case .invalidRequest, .invalidResponse, .invalidArgument: "correct the closure options.handshake.perform"
            default: nil
            }
        default: nil
        }
    }
}

extension DisconnectReport {
    /// That the server may not accept the certificate of this client, if it has not said anything else; otherwise `nil`.
    var suspicion: String? { LinkEndClue(self).suspicion }

    /// What may be behind a failure whose error does not say it; `nil` if there is nothing to guess.
    var guess: String? { reason == nil ? LinkEndClue(self).guess : nil }
}

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

extension HandshakeRefusal.Kind {
    fileprivate var advice: String {
        switch self {
        case .credentials: "check the credentials that options.handshake sends"
        case .permission: "let the server permit what options.handshake asks for, or use another account"
        case .version: "let both sides use the same version of the protocol"
        case .busy: "see why the server takes no clients"
        case .other: "check what options.handshake sends, and the settings of the server"
        }
    }
}

extension TransportError {
    fileprivate var advice: String? {
        if let descriptorAdvice { return descriptorAdvice }
        guard isPermanent else { return nil }
        switch code {
        case .tls(let failure): return failure.advice
        case .proxy(.authenticationRequired), .proxy(.credentialsRefused):
            return "check the user name and the password of options.connecting.proxy"
        case .proxy(.notAllowed): return "let the proxy allow connections to this host and port"
        case .proxy: return "check options.connecting.proxy, and what the proxy supports"
        default: return "check the endpoint and options.connecting.sourceAddress"
        }
    }
}

extension TLSFailure {
    fileprivate var advice: String? {
        switch self {
        case .libraryMissing: "install the package"
        case .configuration: "check options.tls and the files that it names"
        case .untrusted: "check options.tls.roots, and that the server sends its intermediate certificates"
        case .expired: "renew the certificate of the server; if it is not expired, check the clock of this host"
        case .notYetValid: "check the clock of this host, and the certificate of the server"
        case .nameMismatch: "check the name of the endpoint, or set options.tls.serverName"
        case .wrongPurpose, .revoked: "replace the certificate of the server"
        case .pinMismatch: "check the certificate of the server, and options.tls.pins"
        case .protocolVersion: "check options.tls.minimumVersion, and the versions that the server supports"
        case .noApplicationProtocol: "check options.tls.applicationProtocols"
        case .notTLS: "check the port: the server does not speak TLS there"
        case .alert(45): "renew the certificate of this client (options.tls.identity)"
        case .alert(42...44), .alert(46): "replace the certificate of this client (options.tls.identity)"
        case .alert(48):
            "let the server trust the authority of this client's certificate, or replace options.tls.identity"
        case .alert(49): "let the server admit this client's certificate"
        case .alert(116): "set options.tls.identity: the server requires a certificate"
        default: "check the TLS settings of both sides"
        }
    }
}
