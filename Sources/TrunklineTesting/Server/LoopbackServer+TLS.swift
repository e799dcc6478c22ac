public import Trunkline

extension LoopbackServer {
    /// How a test server secures its connections.
    ///
    /// ```swift
    /// let authority = try TestAuthority()
    /// let server = try await LoopbackServer.start(
    ///     speaking: .standard,
    ///     options: LoopbackServer.Options { $0.tls = .init(try authority.identity(for: "127.0.0.1")) }
    /// )
    /// ```
    public struct TLS: Sendable {
        /// Who the server is.
        public var identity: TLSIdentity
        /// The oldest version to agree to. Default TLS 1.2.
        public var minimumVersion = TLSVersion.tls12
        /// Who is believed about clients, which must show a certificate then; `nil`, the default, asks for none.
        public var clientRoots: PEM?
        /// Whether a connection begins with TLS. If not, the reaction `startTLS` begins it. Default true.
        public var beginsAtOnce = true
        /// How long a handshake may take, from the connection, or from the reaction `startTLS`. A connection that is not secured
        /// by then is closed, and counted as a failed handshake (`timedOut`). Default 10 s.
        package var handshakeTimeout = Duration.seconds(10)
        /// What it speaks, by ALPN, the best first: clients that offer none of them are refused. Default: whatever.
        public var applicationProtocols: [String] = []

        /// A server that is `identity`, and asks its clients for nothing.
        public init(_ identity: TLSIdentity) { self.identity = identity }

        /// A server that is `identity`, but for what `change` changes.
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
