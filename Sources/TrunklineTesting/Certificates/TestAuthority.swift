public import Trunkline

/// A certification authority for tests, made when the test runs: nothing secret is checked in, and nothing expires.
///
/// ```swift
/// let authority = try TestAuthority()
/// let server = try await LoopbackServer.start(
///     speaking: .standard,
///     options: LoopbackServer.Options { $0.tls = .init(try authority.identity(for: "127.0.0.1")) }
/// )
/// let client = Client(to: server.endpoint, speaking: .standard, options: ClientOptions { $0.tls.roots = .only(authority.root) })
/// ```
///
/// Keys are of the curve P-256, certificates are valid from an hour ago for a day, unless told otherwise. Not for anything
/// but tests: its own key is in memory, and it signs whatever it is asked to.
public final class TestAuthority: Sendable {
    /// What a certificate is for (RFC 5280 §4.2.1.12).
    public struct Usage: Sendable {
        /// For a server.
        public static let server = Usage(extensionValue: "serverAuth")
        /// For a client that the server asks for a certificate.
        public static let client = Usage(extensionValue: "clientAuth")
        /// To sign code, which no link needs.
        package static let code = Usage(extensionValue: "codeSigning")

        let extensionValue: String
    }

    /// Its own certificate.
    public let root: PEM
    private let certificate: Certificate
    /// The certificates between it and the root, its own first.
    private let chain: [Certificate]

    /// A new authority, which signs its own certificate.
    ///
    /// Throws `tls(.libraryMissing)` where there is no OpenSSL.
    public init(named name: String = "Trunkline test authority") throws(TransportError) {
        var request = CertificateRequest(subject: name)
        request.isAuthority = true
        certificate = try Certificate(request, signedBy: nil)
        chain = []
        root = .text(try certificate.text())
    }

    private init(_ certificate: Certificate, below authority: TestAuthority) {
        self.certificate = certificate
        chain = [certificate] + authority.chain
        root = authority.root
    }

    /// An authority below this one.
    public func intermediate(
        named name: String = "Trunkline test intermediate"
    ) throws(TransportError) -> TestAuthority {
        var request = CertificateRequest(subject: name)
        request.isAuthority = true
        return TestAuthority(try Certificate(request, signedBy: certificate), below: self)
    }

    /// A certificate for `name` (a host name, also with a wildcard, or an IP address) and its key: see
    /// `identity(forNames:)`.
    public func identity(
        for name: String,
        usage: Usage = .server,
        passphrase: String? = nil
    ) throws(TransportError) -> TLSIdentity {
        try identity(forNames: [name], usage: usage, passphrase: passphrase)
    }

    /// A certificate for `names` (host names, also with a wildcard, and IP addresses), and its key.
    ///
    /// - Parameters:
    ///   - usage: What it is for.
    ///   - validity: From when until when, counted from now.
    ///   - withChain: Whether it comes with the certificates between it and the root.
    ///   - passphrase: What its key is encrypted with; `nil` for a key in the clear.
    public func identity(
        forNames names: [String],
        usage: Usage = .server,
        validity: ClosedRange<Duration> = .seconds(-3600) ... .seconds(86400),
        withChain: Bool = true,
        passphrase: String? = nil
    ) throws(TransportError) -> TLSIdentity {
        var request = CertificateRequest(subject: names.first ?? "nobody")
        request.names = names
        request.usage = usage
        request.validity = validity
        let certificate = try Certificate(request, signedBy: self.certificate)
        var text = try certificate.text()
        if withChain { for above in chain { text += try above.text() } }
        let key = PEM.text(try certificate.keyText(passphrase: passphrase))
        guard let passphrase else { return TLSIdentity(certificates: .text(text), privateKey: key) }
        return TLSIdentity(certificates: .text(text), privateKey: key) { passphrase }
    }

    /// Its own certificate, which it has signed itself, as the one of a server.
    package func selfSigned() throws(TransportError) -> TLSIdentity {
        TLSIdentity(certificates: root, privateKey: .text(try certificate.keyText(passphrase: nil)))
    }

    /// The pin of its own key, which is in every chain that it has signed.
    public var pin: PublicKeyPin { certificate.pin }
}

extension PEM {
    /// Writes the text to a new file at `path` that nobody else may read, for servers that want files.
    public func write(toFile path: String) throws(TransportError) {
        try createFile(at: path, with: Array(try load()))
    }
}
