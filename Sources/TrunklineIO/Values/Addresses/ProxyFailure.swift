/// The reason why a link could not be established through a proxy. It is the value of
/// ``TransportError/Code-swift.enum/proxy(_:)``.
@nonexhaustive
public enum ProxyFailure: Sendable, Hashable {
    /// The proxy itself could not be reached: its name is unknown, or it refused the connection, or no route leads to
    /// it. If nothing answers, the error is ``TransportError/Code-swift.enum/timedOut``.
    case unreachable
    /// The proxy wants a user name and a password and was given none, or it wants another way to authenticate.
    /// Permanent.
    case authenticationRequired
    /// The proxy does not accept the user name or the password. Permanent.
    case credentialsRefused
    /// The rules of the proxy do not allow the connection (RFC 1928 §6, reply 2; HTTP status 403). Permanent.
    case notAllowed
    /// The proxy found no route to the network of the server (RFC 1928 §6, reply 3).
    case networkUnreachable
    /// The proxy could not reach the server, or could not look up its name (reply 4; HTTP status 502 or 503).
    case hostUnreachable
    /// No server listens at the port (reply 5).
    case refused
    /// The server did not answer the proxy in time (reply 6; HTTP status 504).
    case timedOut
    /// The proxy does not know the command or the kind of address (replies 7 and 8; HTTP status 405 or 501). Permanent.
    case unsupported
    /// The proxy has failed for another reason: the reply of SOCKS, or the status of HTTP.
    case other(UInt16)
    /// The proxy closed or reset the connection before it was established.
    case closed
    /// The proxy has sent something that its protocol does not allow. Perhaps it is a proxy of another kind, or none.
    case protocolViolation

    package var isPermanent: Bool {
        switch self {
        case .authenticationRequired, .credentialsRefused, .notAllowed, .unsupported: true
        default: false
        }
    }
}

extension TransportError {
    package static func proxy(_ failure: ProxyFailure, _ message: String) -> TransportError {
        TransportError(.proxy(failure), message)
    }
}
