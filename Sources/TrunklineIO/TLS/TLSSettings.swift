package struct TLSSettings: Sendable {
    package enum Role: Sendable {
        case client(verifies: Bool)
        case server(verifiesClients: Bool)
    }

    package var role: Role
    /// Loads the roots without verification, for `TLSEngine.verificationFailure`.
    package var examines = false
    package var minimumVersion = TLSVersion.tls12
    package var trustsSystem = true
    package var roots: [Bytes] = []
    package var identity: Identity?
    package var applicationProtocols: [String] = []
    package var pins: Set<PublicKeyPin> = []

    package struct Identity: Sendable, CustomReflectable {
        let certificates: Bytes
        let key: Bytes
        let passphrase: String?

        init(certificates: Bytes, key: Bytes, passphrase: String? = nil) {
            self.certificates = certificates
            self.key = key
            self.passphrase = passphrase
        }

        /// Empty: reflection must not reveal a private key.
        package var customMirror: Mirror { Mirror(self, children: []) }
    }

    package init(_ role: Role) { self.role = role }

    var needsRoots: Bool {
        switch role {
        case .client(let verifies), .server(let verifies): verifies || examines
        }
    }
}

/// A version of TLS.
public enum TLSVersion: Sendable, Hashable {
    /// TLS 1.2 (RFC 5246).
    case tls12
    /// TLS 1.3 (RFC 8446).
    case tls13
}

/// The hash of a public key that must be in a server's certificate chain: the SHA-256 of its SubjectPublicKeyInfo (RFC
/// 7469 §2.4).
public struct PublicKeyPin: Sendable, Hashable {
    let digest: [UInt8]

    /// Creates a pin from base64, with or without a leading `sha256/`, `sha256//` or `pin-sha256=`.
    ///
    /// This command prints the base64 of a certificate's key:
    ///
    /// ```
    /// openssl x509 -in server.pem -pubkey -noout | openssl pkey -pubin -outform der |
    ///     openssl dgst -sha256 -binary | base64
    /// ```
    ///
    /// Returns `nil` if the text is not the base64 of 32 bytes.
    public init?(base64 text: String) {
        var text = text[...]
        for prefix in ["sha256//", "sha256/", "pin-sha256="] where text.hasPrefix(prefix) {
            text = text.dropFirst(prefix.count)
        }
        guard let digest = decodedBase64(text), digest.count == 32 else { return nil }
        self.digest = digest
    }

    package init?(sha256 digest: some Sequence<UInt8>) {
        self.digest = Array(digest)
        guard self.digest.count == 32 else { return nil }
    }
}

/// RFC 4648 §4. Padding may be missing.
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
        case UInt8(ascii: "="), UInt8(ascii: "\n"), UInt8(ascii: "\r"): continue  // padding or a line end
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
