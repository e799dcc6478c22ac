/// A text in PEM (RFC 7468): certificates, or a private key. What it says is in no description of it.
public struct PEM: Sendable {
    private enum Source: Sendable, CustomStringConvertible, CustomReflectable {
        case file(String)
        case text(Bytes)

        /// Where the text is, or how long it is.
        var description: String {
            switch self {
            case .file(let path): "PEM in \(path.escaped())"
            case .text(let text): "PEM of \(text.count) bytes"
            }
        }

        /// Nothing: a private key is not for those who look around.
        var customMirror: Mirror { Mirror(self, children: []) }
    }

    private let source: Source

    /// The regular file at `path`, of at most 16 MiB. It is read when a link is to be secured, and again when it has changed
    /// since the last one: that is how certificates and keys are rotated.
    ///
    /// A path that is not a regular file (a FIFO such as `<(command)` of a shell makes, a terminal), or that contains a NUL
    /// byte, fails the attempt with `tls(.configuration)`. Give what a command prints as `.text`.
    public static func file(_ path: String) -> PEM { PEM(source: .file(path)) }

    /// The text itself, as bytes.
    package static func text(_ text: Bytes) -> PEM { PEM(source: .text(text)) }

    /// The text itself.
    public static func text(_ text: String) -> PEM { PEM(source: .text(Bytes(text))) }

    /// Whether the text may be another the next time.
    package var isFile: Bool { if case .file = source { true } else { false } }

    /// Throws `tls(.configuration)` for a file that cannot be read.
    package func load() throws(TransportError) -> Bytes {
        switch source {
        case .text(let text): return text
        case .file(let path):
            switch contents(ofFile: path, limit: 16 * 1024 * 1024) {
            case .success(let bytes): return Bytes(bytes)
            case .failure(let error): throw TransportError(.tls(.configuration), errno: error.errno, error.message)
            }
        }
    }

    /// Changes with the file; the same for ever where there is none.
    package var version: FileVersion? {
        switch source {
        case .text: nil
        case .file(let path): FileVersion(ofFile: path)
        }
    }
}

/// Who one is in TLS: a certificate and the private key that belongs to it.
public struct TLSIdentity: Sendable {
    /// The own certificate, and behind it those that lead towards a root.
    package let certificates: PEM
    /// The private key of the first certificate.
    package let privateKey: PEM
    /// What an encrypted key is decrypted with. Asked whenever the key is read; it has until the end of the attempt to
    /// connect, and is cancelled then. When it throws, the attempt fails with `tls(.noPassphrase)`, whose message has the
    /// description of the error, and the next one asks again.
    package let passphrase: (@Sendable () async throws -> String)?

    /// An identity of these texts. Whether they fit is known when the first link is secured.
    public init(
        certificates: PEM,
        privateKey: PEM,
        passphrase: (@Sendable () async throws -> String)? = nil
    ) {
        self.certificates = certificates
        self.privateKey = privateKey
        self.passphrase = passphrase
    }

    /// Reads everything and asks for the passphrase.
    package func load() async throws(TransportError) -> TLSSettings.Identity {
        let secret: String?
        do { secret = try await passphrase?() } catch {
            throw TransportError(.tls(.noPassphrase), "there is no passphrase for the private key: \(error)")
        }
        return TLSSettings.Identity(
            certificates: try certificates.load(),
            key: try privateKey.load(),
            passphrase: secret
        )
    }
}
