public import TrunklineCore

/// A certificate authority for tests.
///
/// A test creates it at run time, so the repository contains no key or certificate that could leak or expire.
///
/// ```swift
/// let authority = try TestAuthority()
/// let server = try await LoopbackServer.start(
///     speaking: .standard,
///     options: LoopbackServer.Options { $0.tls = .init(try authority.identity(for: "127.0.0.1")) }
/// )
/// let client = Client(
///     to: server.endpoint,
///     speaking: .standard,
///     options: ClientOptions { $0.tls.roots = .only(authority.root) }
/// )
/// ```
///
/// Keys use the curve P-256. Certificates are valid from one hour ago until thirty days from now, unless the argument
/// `validity` specifies another period. Use it only in tests: its private key is in memory, and it signs every
/// certificate that is requested. It needs the system's OpenSSL.
public final class TestAuthority: Sendable {
    /// The purpose of a certificate (RFC 5280 §4.2.1.12).
    public struct Usage: Sendable {
        /// The certificate of a server.
        public static let server = Usage(extensionValue: "serverAuth")
        /// The certificate of a client.
        public static let client = Usage(extensionValue: "clientAuth")
        static let code = Usage(extensionValue: "codeSigning")

        let extensionValue: String
    }

    /// The root certificate of this authority. To make a client or a server trust it, pass it in their `roots`.
    public let root: PEM
    private let certificate: Certificate
    /// The intermediate certificates up to the root, which is not included; its own comes first.
    private let chain: [Certificate]

    /// Creates an authority that signs its own certificate.
    ///
    /// - Throws: `TransportError` with the code `tls(.libraryMissing)` if OpenSSL is not installed, or
    ///   `tls(.configuration)` if it cannot create the certificate.
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

    /// Creates an intermediate authority, signed by this one. It has the same ``root``.
    public func intermediate(
        named name: String = "Trunkline test intermediate"
    ) throws(TransportError) -> TestAuthority {
        var request = CertificateRequest(subject: name)
        request.isAuthority = true
        return TestAuthority(try Certificate(request, signedBy: certificate), below: self)
    }

    /// Creates a certificate for `name` and its key.
    ///
    /// - Parameters:
    ///   - name: A host name, which may contain a wildcard, or an IP address.
    ///   - usage: The purpose of the certificate. Default: a server's.
    ///   - passphrase: The passphrase that encrypts the key; `nil`, the default, for an unencrypted key.
    /// - Throws: `TransportError` with the code `tls(.configuration)` if OpenSSL cannot create the certificate.
    public func identity(
        for name: String,
        usage: Usage = .server,
        passphrase: String? = nil
    ) throws(TransportError) -> TLSIdentity {
        try identity(forNames: [name], usage: usage, passphrase: passphrase)
    }

    /// Creates a certificate for several names and its key.
    ///
    /// - Parameters:
    ///   - names: Host names, which may contain wildcards, and IP addresses. The first one is also the subject.
    ///   - usage: The purpose of the certificate. Default: a server's.
    ///   - validity: The period in which it is valid, relative to now. Default: from one hour ago until thirty days
    ///     from now. Pass a range in the past for an expired certificate.
    ///   - withChain: Whether the identity includes the certificates between it and the root. Default `true`.
    ///   - passphrase: The passphrase that encrypts the key; `nil`, the default, for an unencrypted key.
    /// - Throws: `TransportError` with the code `tls(.configuration)` if OpenSSL cannot create the certificate.
    public func identity(
        forNames names: [String],
        usage: Usage = .server,
        validity: ClosedRange<Duration> = .seconds(-3600) ... .seconds(30 * 86_400),
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

    func selfSigned() throws(TransportError) -> TLSIdentity {
        TLSIdentity(certificates: root, privateKey: .text(try certificate.keyText(passphrase: nil)))
    }

    /// The pin of the authority's key. That key is in every certificate chain that the authority has signed.
    public var pin: PublicKeyPin { certificate.pin }
}

extension PEM {
    /// Writes the PEM text to a new file at `path` that only its owner may read.
    ///
    /// - Throws: `TransportError` if a file already exists at `path`, or if it cannot be written.
    public func write(toFile path: String) throws(TransportError) {
        try createFile(at: path, with: Array(try load()))
    }
}
