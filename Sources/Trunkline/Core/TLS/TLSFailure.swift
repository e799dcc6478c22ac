/// Why there is no TLS, or no more of it. In `TransportError.Code.tls(_:)`.
@nonexhaustive
public enum TLSFailure: Sendable, Hashable {
    /// No library that speaks TLS was found on this system. The message says what to install.
    case libraryMissing
    /// The options of `ClientOptions.TLS` cannot be used: a file that cannot be read, a key that does not fit its
    /// certificate, a wrong passphrase.
    case configuration
    /// `TLSIdentity.passphrase` threw. The next attempt asks again.
    case noPassphrase
    /// The server's certificate leads to none of the roots, or something in its chain is not to be trusted (RFC 5280).
    case untrusted
    /// A certificate of the chain has expired.
    case expired
    /// A certificate of the chain is not valid yet.
    case notYetValid
    /// The certificate is for other names, or other addresses (RFC 9525).
    case nameMismatch
    /// The certificate is not for servers (RFC 5280 §4.2.1.12).
    case wrongPurpose
    /// The certificate was revoked.
    case revoked
    /// No public key of the chain is one of the pins.
    case pinMismatch
    /// The two have no version of TLS in common.
    case protocolVersion
    /// The two have no application protocol in common (RFC 7301).
    case noApplicationProtocol
    /// The server broke off with this alert (RFC 8446 §6.2), as with 42 to 49 and 116 for a client certificate that is
    /// missing or that it does not accept.
    case alert(UInt8)
    /// The server answered with something that is no TLS.
    case notTLS
    /// The link ended without the alert that says so: bytes may be missing (RFC 8446 §6.1).
    case truncated
    /// Something that TLS does not allow, or that the library refused.
    case protocolViolation

    /// Whether the next attempt would fail in the same way until somebody mends something.
    package var isPermanent: Bool {
        switch self {
        case .noPassphrase, .truncated, .protocolViolation: false
        // 20 to 22, 50, 51, 80 and 90: corrupted on the way, an internal error, a user who changed their mind.
        case .alert(let number): ![10, 20, 21, 22, 50, 51, 80, 90].contains(number)
        default: true
        }
    }
}
