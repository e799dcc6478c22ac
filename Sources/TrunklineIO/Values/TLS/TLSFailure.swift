/// The reason why TLS could not be set up, or failed on an established link. It is the value of
/// ``TransportError/Code-swift.enum/tls(_:)``.
@nonexhaustive
public enum TLSFailure: Sendable, Hashable {
    /// No TLS library was found on this system. The message of the error names the package to install.
    case libraryMissing
    /// The options of ``ClientOptions/TLS-swift.struct`` cannot be used: for example, a file cannot be read, a key does
    /// not match its certificate, or the passphrase is wrong.
    case configuration
    /// The `passphrase` closure of the ``TLSIdentity`` threw an error. The next attempt calls it again.
    case noPassphrase
    /// The server's certificate chain does not lead to one of the roots, or contains a certificate that is not trusted
    /// (RFC 5280).
    case untrusted
    /// A certificate in the server's certificate chain has expired.
    case expired
    /// A certificate in the server's certificate chain is not valid yet.
    case notYetValid
    /// The server's certificate is not issued for its name or address (RFC 9525).
    case nameMismatch
    /// The server's certificate is not valid for use by servers (RFC 5280 §4.2.1.12).
    case wrongPurpose
    /// The TLS library reported the certificate as revoked. The client itself checks neither revocation lists nor OCSP.
    case revoked
    /// No public key in the server's certificate chain is one of the pins (``ClientOptions/TLS-swift.struct/pins``).
    case pinMismatch
    /// The client and the server have no version of TLS in common.
    case protocolVersion
    /// The client and the server have no application protocol in common (RFC 7301).
    case noApplicationProtocol
    /// The server ended TLS with this alert (RFC 8446 §6.2). Alerts 42 to 49 and 116, for example, mean that the client
    /// certificate is missing or not accepted.
    case alert(UInt8)
    /// The server sent something that is not TLS.
    case notTLS
    /// The link ended without the alert that announces its end (`close_notify`). Bytes may be missing (RFC 8446 §6.1).
    case truncated
    /// A violation of the TLS protocol, or another failure that the TLS library reported.
    case protocolViolation

    package var isPermanent: Bool {
        switch self {
        case .noPassphrase, .truncated, .protocolViolation: false
        // 10: unexpected message; 20 to 22, 50, 51: corrupted data; 80: internal error; 90: canceled by the user.
        case .alert(let number): ![10, 20, 21, 22, 50, 51, 80, 90].contains(number)
        default: true
        }
    }
}
