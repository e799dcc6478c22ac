/// What a TLS context is made of: everything was read, nothing is looked up any more.
package struct TLSSettings: Sendable {
    /// Which side it is for, and what it asks of the other.
    package enum Role: Sendable {
        /// Verifies the server unless told otherwise.
        case client(verifies: Bool)
        /// Asks clients for a certificate that leads to one of the roots.
        case server(verifiesClients: Bool)
    }

    package var role: Role
    package var minimumVersion = TLSVersion.tls12
    /// Whether the system's roots count.
    package var trustsSystem = true
    /// Further roots, each text in PEM.
    package var roots: [Bytes] = []
    package var identity: Identity?
    package var applicationProtocols: [String] = []
    /// SHA-256 of public keys, one of which must be in the server's chain; none for any.
    package var pins: Set<PublicKeyPin> = []

    /// Certificates, the own one first, and the key, in PEM.
    package struct Identity: Sendable, CustomReflectable {
        let certificates: Bytes
        let key: Bytes
        let passphrase: String?

        package init(certificates: Bytes, key: Bytes, passphrase: String? = nil) {
            self.certificates = certificates
            self.key = key
            self.passphrase = passphrase
        }

        /// Nothing: a private key is not for those who look around.
        package var customMirror: Mirror { Mirror(self, children: []) }
    }

    package init(_ role: Role) { self.role = role }
}

/// A version of TLS.
public enum TLSVersion: Sendable, Hashable {
    /// TLS 1.2 (RFC 5246).
    case tls12
    /// TLS 1.3 (RFC 8446).
    case tls13
}

/// The hash of a public key that a server's chain must contain: SHA-256 of its SubjectPublicKeyInfo (RFC 7469 §2.4).
public struct PublicKeyPin: Sendable, Hashable {
    let digest: [UInt8]

    /// The pin as it is written in configurations, in base64, with or without a leading `sha256/` or `pin-sha256=`:
    ///
    /// ```
    /// openssl x509 -in server.pem -pubkey -noout | openssl pkey -pubin -outform der |
    ///     openssl dgst -sha256 -binary | base64
    /// ```
    ///
    /// `nil` when that is not the base64 of 32 bytes.
    public init?(base64 text: String) {
        var text = text[...]
        for prefix in ["sha256//", "sha256/", "pin-sha256="] where text.hasPrefix(prefix) {
            text = text.dropFirst(prefix.count)
        }
        guard let digest = decodedBase64(text), digest.count == 32 else { return nil }
        self.digest = digest
    }

    /// The pin of these 32 bytes; `nil` when they are more or fewer.
    package init?(sha256 digest: some Sequence<UInt8>) {
        self.digest = Array(digest)
        guard self.digest.count == 32 else { return nil }
    }
}

/// The bytes of base64 (RFC 4648 §4); `nil` when it is none. Padding may be missing.
private func decodedBase64(_ text: Substring) -> [UInt8]? {
    var bytes: [UInt8] = []
    var bits: UInt32 = 0
    var count = 0
    for character in text.utf8 {
        let value: UInt8
        switch character {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"): value = character - UInt8(ascii: "A")
        case UInt8(ascii: "a")...UInt8(ascii: "z"): value = character - UInt8(ascii: "a") + 26
        case UInt8(ascii: "0")...UInt8(ascii: "9"): value = character - UInt8(ascii: "0") + 52
        case UInt8(ascii: "+"): value = 62
        case UInt8(ascii: "/"): value = 63
        case UInt8(ascii: "="), UInt8(ascii: "\n"), UInt8(ascii: "\r"): continue  // as a command or a file ends
        default: return nil
        }
        bits = bits << 6 | UInt32(value)
        count += 6
        if count >= 8 {
            count -= 8
            bytes.append(UInt8(truncatingIfNeeded: bits >> UInt32(count)))
        }
    }
    return bytes
}
