/// A PEM text (RFC 7468) with certificates or a private key. Its description does not contain the text.
public struct PEM: Sendable {
    private enum Source: Sendable, CustomStringConvertible, CustomReflectable {
        case file(String)
        case text(Bytes)

        var description: String {
            switch self {
            case .file(let path): "PEM in \(path.escaped())"
            case .text(let text): "PEM of \(text.count) bytes"
            }
        }

        /// Empty: reflection must not reveal a private key.
        var customMirror: Mirror { Mirror(self, children: []) }
    }

    private let source: Source

    /// A regular file of at most 16 MiB.
    ///
    /// The file is read when the client secures its first link, and read again for a later link if it has changed. So
    /// certificates and keys can be rotated; see ``ClientOptions/TLS-swift.struct/rotationCheck``.
    ///
    /// If `path` contains a NUL byte or is not a regular file (a terminal, or a FIFO such as `<(command)` of a shell),
    /// the attempt fails with `tls(.configuration)`. Pass the output of a command as ``text(_:)``.
    public static func file(_ path: String) -> PEM { PEM(source: .file(path)) }

    static func text(_ text: Bytes) -> PEM { PEM(source: .text(text)) }

    /// The PEM text itself. To replace a certificate or key while the client exists, use ``file(_:)``.
    public static func text(_ text: String) -> PEM { PEM(source: .text(Bytes(text))) }

    package var isFile: Bool { if case .file = source { true } else { false } }

    package func load() throws(TransportError) -> Bytes {
        switch source {
        case .text(let text): return text
        case .file(let path):
            switch contents(ofFile: path, limit: 16 * 1024 * 1024) {
            case .success(let bytes): return Bytes(bytes)
            case .failure(let error) where error.isDescriptorShortage: throw error
            case .failure(let error): throw TransportError(.tls(.configuration), errno: error.errno, error.message)
            }
        }
    }

    package var version: FileVersion? {
        switch source {
        case .text: nil
        case .file(let path): FileVersion(ofFile: path)
        }
    }
}

/// A certificate and its private key. With them a client identifies itself to a server (mutual TLS).
public struct TLSIdentity: Sendable {
    package let certificates: PEM
    package let privateKey: PEM
    /// Called whenever the key is read, and cancelled at the end of the attempt to connect.
    let passphrase: (@Sendable () async throws -> String)?

    /// Creates an identity from PEM texts.
    ///
    /// The texts are read when the first link is secured. Texts that are invalid or do not match fail that attempt with
    /// `tls(.configuration)`.
    ///
    /// - Parameters:
    ///   - certificates: The identity's certificate, followed by the intermediate certificates that chain it to a root.
    ///   - privateKey: The private key of the first certificate.
    ///   - passphrase: Returns the passphrase of an encrypted private key; `nil` if the key is not encrypted. It is
    ///     called whenever the key is read, and cancelled when the attempt to connect ends. If it throws, the attempt
    ///     fails with `tls(.noPassphrase)` and a message that contains the description of the error. The next attempt
    ///     calls it again.
    public init(
        certificates: PEM,
        privateKey: PEM,
        passphrase: (@Sendable () async throws -> String)? = nil
    ) {
        self.certificates = certificates
        self.privateKey = privateKey
        self.passphrase = passphrase
    }

    package func load() async throws(TransportError) -> TLSSettings.Identity {
        let secret: String?
        do { secret = try await passphrase?() } catch {
            throw TransportError(.tls(.noPassphrase), "the passphrase closure of options.tls.identity failed: \(error)")
        }
        return TLSSettings.Identity(
            certificates: try certificates.load(),
            key: try privateKey.load(),
            passphrase: secret
        )
    }
}
