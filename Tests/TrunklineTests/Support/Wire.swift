import Testing
import TrunklineTesting

@testable import TrunklineCore
@testable import TrunklineIO

/// The transport of the tests of behaviour: plaintext, or TLS if `TRUNKLINE_TLS` is set. The tests and their
/// assertions are the same.
enum Wire {
    static let isSecured = TestEnvironment.usesTLS

    /// Created on demand, so that plaintext tests need no TLS library.
    private static let (root, identity) = {
        do throws(TransportError) {
            let authority = try TestAuthority()
            return (authority.root, try authority.identity(forNames: ["127.0.0.1", "localhost", "db"]))
        } catch {
            fatalError("TLS cannot be tested: \(error)")
        }
    }()

    /// The same server options, over TLS with a certificate for every name that the tests use.
    static func server(_ options: LoopbackServer.Options, overTLS: Bool = isSecured) -> LoopbackServer.Options {
        guard overTLS, options.tls == nil else { return options }
        return LoopbackServer.Options {
            $0 = options
            $0.tls = .init(identity)
        }
    }

    /// The same client options, with trust in that certificate.
    static func client(_ options: ClientOptions, overTLS: Bool = isSecured) -> ClientOptions {
        guard overTLS else { return options }
        return ClientOptions {
            $0 = options
            $0.tls.roots = .only(root)
            $0.tls.serverName = "db"
        }
    }

    /// The same endpoint, secured over TLS.
    static func endpoint(_ endpoint: Endpoint, overTLS: Bool = isSecured) -> Endpoint {
        overTLS ? endpoint.secured() : endpoint
    }

    /// Starts a real server. The caller must stop it.
    static func startServer(
        at address: SocketAddress = .loopback(port: 0),
        speaking codec: some FrameCodec,
        options: LoopbackServer.Options = LoopbackServer.Options(),
        handler: @escaping LoopbackServer.Handler = { _ in .echo }
    ) async throws -> LoopbackServer {
        try await LoopbackServer.start(at: address, speaking: codec, options: server(options), handler: handler)
    }
}

/// Runs `body` with a real server.
func withServer<Result>(
    speaking codec: some FrameCodec,
    options: LoopbackServer.Options = LoopbackServer.Options(),
    handler: @escaping LoopbackServer.Handler = { _ in .echo },
    _ body: nonisolated(nonsending) (LoopbackServer) async throws -> Result
) async throws -> Result {
    try await withLoopbackServer(speaking: codec, options: Wire.server(options), handler: handler, body)
}

extension SimulatedNetwork {
    /// Starts a simulated server. The caller must stop it.
    func serve(
        at endpoint: Endpoint,
        speaking codec: some FrameCodec,
        options: LoopbackServer.Options = LoopbackServer.Options(),
        overTLS: Bool = Wire.isSecured,
        handler: @escaping LoopbackServer.Handler = { _ in .echo }
    ) async throws -> LoopbackServer {
        let options = Wire.server(options, overTLS: overTLS)
        return try await startServer(at: endpoint, speaking: codec, options: options, handler: handler)
    }

    /// Creates a client of simulated servers. The caller must close it.
    func client(
        of endpoints: [Endpoint],
        speaking codec: some FrameCodec,
        options: ClientOptions = ClientOptions(),
        overTLS: Bool = Wire.isSecured
    ) -> Client {
        let endpoints = endpoints.map { Wire.endpoint($0, overTLS: overTLS) }
        return Client(to: endpoints, speaking: codec, options: Wire.client(options, overTLS: overTLS), on: loops)
    }

    /// Creates a connection to simulated servers, without a client. The caller must close it.
    func connection(
        to endpoints: [Endpoint],
        speaking codec: some FrameCodec,
        options: ClientOptions = ClientOptions(),
        overTLS: Bool = Wire.isSecured
    ) -> Connection {
        let endpoints = endpoints.map { Wire.endpoint($0, overTLS: overTLS) }
        let options = ConnectionOptions(Wire.client(options, overTLS: overTLS))
        return Connection(to: endpoints, speaking: codec, options: options, on: loops)
    }
}

extension ConnectionOptions {
    /// Takes the options of a connection from those of a client.
    init(_ options: ClientOptions) {
        self.init()
        (connecting, tls, reconnecting) = (options.connecting, options.tls, options.reconnecting)
        (handshake, failover, liveness) = (options.handshake, options.failover, options.liveness)
        (diagnosis, inbound, drainTimeout) = (options.diagnosis, options.inbound, options.requests.drainTimeout)
    }
}

extension TestAuthority {
    /// The TLS context of a server with the name `name`.
    func serverContext(for name: String = "db") throws -> any TLSContext {
        let identity = try identity(for: name)
        var settings = TLSSettings(.server(verifiesClients: false))
        settings.trustsSystem = false
        settings.identity = TLSSettings.Identity(
            certificates: try identity.certificates.load(),
            key: try identity.privateKey.load()
        )
        return try OpenSSLContext(settings)
    }
}
