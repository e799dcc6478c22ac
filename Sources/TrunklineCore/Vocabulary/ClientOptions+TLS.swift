extension ClientOptions {
    /// The TLS options of links to endpoints of the form `tls://host:port`.
    ///
    /// By default the server's certificate must chain to one of the system's roots, be valid now, and be issued for the
    /// endpoint's name or address. See <doc:TLS>.
    public struct TLS: Sendable {
        /// The root certificates to which a server's certificate must chain.
        public enum Roots: Sendable {
            /// The certificate authorities that the system trusts.
            case system
            /// Only these certificates.
            case only(PEM)
            /// The system's certificate authorities and these certificates.
            case systemAnd(PEM)
        }

        /// The check of a server's identity.
        public enum Verification: Sendable, Hashable {
            /// The server's certificate must chain to one of the roots and be issued for the server's name (RFC 9525)
            /// or IP address.
            case full
            /// The server need not prove its identity: an attacker on the network path can read and change everything.
            /// Use this only in tests.
            ///
            /// Pins are still checked. With pins, the server must at least own a pinned key.
            case insecureNone
        }

        /// The minimum TLS version. Default TLS 1.2; older versions cannot be chosen (RFC 8996).
        ///
        /// If the system's OpenSSL configuration requires a later version, that version is the minimum.
        public var minimumVersion = TLSVersion.tls12
        /// The root certificates to trust. Default: the system's.
        ///
        /// The system's roots are in the directory or file that OpenSSL was built to use, or that the environment
        /// variables `SSL_CERT_DIR` and `SSL_CERT_FILE` name.
        public var roots = Roots.system
        /// The check of a server's identity. Default `full`.
        public var verification = Verification.full
        /// The server name that the client requests (SNI, RFC 6066 §3) and that the certificate must be issued for.
        /// Default `nil`: the host of the endpoint.
        ///
        /// Required for Unix domain sockets. Set it if the endpoint is an IP address and the certificate has a name.
        public var serverName: String?
        /// The certificate and private key that the client presents if the server requests a certificate (mutual TLS).
        /// Default none.
        public var identity: TLSIdentity?
        /// The application protocols that the client offers by ALPN (RFC 7301), in order of preference. Default none;
        /// each has 1 to 255 bytes of UTF-8.
        ///
        /// If there are any and the server chooses none of them, the attempt fails with `noApplicationProtocol`.
        public var applicationProtocols: [String] = []
        /// The pinned public keys. The server's certificate chain must contain at least one of them, in addition to all
        /// other checks. Default none.
        ///
        /// Use at least two pins, one of them for a key kept in reserve. If the only pinned key is lost, no client can
        /// connect.
        public var pins: Set<PublicKeyPin> = []
        /// How often the client checks whether a PEM file of ``roots-swift.property`` or ``identity`` has changed,
        /// while it has a link. Default 60 s, at least 1 ms; `nil` for never.
        ///
        /// If a file has changed, the client establishes the next link with it and then drains the present link: a
        /// planned change, as with ``Client/renewLink()``. Without this check, the client uses the new files only when
        /// it establishes the next link for another reason.
        ///
        /// A file counts as changed if stat(2) reports a different inode, size or status change time (ctime). The
        /// client reads the file again only when it establishes the next link.
        public var rotationCheck: Duration? = .seconds(60)

        /// Creates options with the default values.
        public init() {}
    }
}
