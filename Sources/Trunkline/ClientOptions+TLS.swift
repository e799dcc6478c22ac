extension ClientOptions {
    /// Links to endpoints that are written `tls://host:port`.
    ///
    /// The defaults ask for what is right on the public internet: the server's certificate leads to one of the system's
    /// roots, is valid today, and is for the name or address that the endpoint has. See the article <doc:TLS>.
    public struct TLS: Sendable {
        /// Who is believed about a server.
        public enum Roots: Sendable {
            /// The certification authorities that the system trusts.
            case system
            /// These certificates, and no others.
            case only(PEM)
            /// These certificates beside the system's.
            case systemAnd(PEM)
        }

        /// How a server proves who it is.
        public enum Verification: Sendable, Hashable {
            /// By a certificate that leads to a root and is for its name (RFC 9525) or its IP address.
            case full
            /// Not at all: whoever is on the way can read and change everything. Pins are still looked for: with one, the
            /// server at least has that key. For tests.
            case insecureNone
        }

        /// The oldest version to agree to. Default TLS 1.2; nothing older can be chosen (RFC 8996).
        public var minimumVersion = TLSVersion.tls12
        /// Who is believed about a server. Default: the system's roots, which for OpenSSL is the directory or file that it
        /// was built with, or the ones in the environment variables `SSL_CERT_DIR` and `SSL_CERT_FILE`.
        public var roots = Roots.system
        /// How a server proves who it is. Default `full`.
        public var verification = Verification.full
        /// The name that is asked for (SNI, RFC 6066 §3) and that the certificate must be for; `nil`, the default, for the
        /// host of the endpoint. Needed for Unix domain sockets, and where the endpoint has an address but the certificate a
        /// name.
        public var serverName: String?
        /// Whom the server is shown when it asks (mutual TLS). Default nobody.
        public var identity: TLSIdentity?
        /// What is offered by ALPN (RFC 7301), the best first. Where there are any, a server that chooses none is refused with
        /// `noApplicationProtocol`. Default none.
        public var applicationProtocols: [String] = []
        /// Public keys of which at least one must be in the server's chain, besides everything else that is asked of it.
        /// Default none. Have two, one of a key that is in reserve: with one, the day the key is lost is the last.
        public var pins: Set<PublicKeyPin> = []

        /// The defaults.
        public init() {}
    }
}
