public import TrunklineCore

extension LoopbackServer {
    /// The TLS options of a test server.
    ///
    /// ```swift
    /// let authority = try TestAuthority()
    /// let server = try await LoopbackServer.start(
    ///     speaking: .standard,
    ///     options: LoopbackServer.Options { $0.tls = .init(try authority.identity(for: "127.0.0.1")) }
    /// )
    /// ```
    public struct TLS: Sendable {
        /// The certificate and key that the server presents.
        public var identity: TLSIdentity
        /// The oldest TLS version that the server accepts. Default TLS 1.2.
        public var minimumVersion = TLSVersion.tls12
        /// The root certificates that client certificates must lead to. If set, clients must present a certificate.
        /// Default `nil`: the server requests no certificate.
        public var clientRoots: PEM?
        /// Whether a connection begins with TLS. If `false`, ``Reaction/startTLS`` begins it. Default `true`.
        public var beginsAtOnce = true
        /// From the connection or the reaction `startTLS` on. A connection not secured by then is closed as `timedOut`.
        var handshakeTimeout = Duration.seconds(10)
        /// The protocols that the server offers by ALPN, in order of preference. Clients that offer none of them are
        /// refused. Default empty: no protocol is negotiated.
        public var applicationProtocols: [String] = []

        /// Creates settings for a server with `identity`, which requests no client certificates.
        public init(_ identity: TLSIdentity) { self.identity = identity }

        /// Creates settings for a server with `identity`, modified by `change`.
        public init(_ identity: TLSIdentity, _ change: (inout TLS) -> Void) {
            self.identity = identity
            change(&self)
        }

        func context() async throws(TransportError) -> any TLSContext {
            var settings = TLSSettings(.server(verifiesClients: clientRoots != nil))
            settings.trustsSystem = false
            settings.minimumVersion = minimumVersion
            settings.applicationProtocols = applicationProtocols
            if let clientRoots { settings.roots = [try clientRoots.load()] }
            settings.identity = try await identity.load()
            return try OpenSSLContext(settings)
        }
    }
}
