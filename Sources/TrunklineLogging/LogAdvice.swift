import TrunklineCore

/// Failures explained for operators who do not know this package.
extension DisconnectCause {
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
    var meaning: String? {
        // The message of the error itself says that TLS failed, that the process ended, or who may have closed a
        // tunnel.
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

    /// `nil` unless the failure repeats until an operator acts.
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
    var guess: String? { reason == nil ? LinkEndClue(self).guess : nil }
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
