import Testing
import Trunkline
import TrunklineTesting

/// TLS between the client and the test server, on real sockets.
@Suite struct TLSTests {
    @Test("a request over TLS is answered", .timeLimit(.minutes(1)))
    func answers() async throws {
        let authority = try TestAuthority()
        let identity = try authority.identity(for: "127.0.0.1")
        let server = try await LoopbackServer.start(
            speaking: .standard,
            options: LoopbackServer.Options { $0.tls = .init(identity) }
        )
        let client = Client(
            to: server.endpoint,
            speaking: .standard,
            options: ClientOptions { $0.tls.roots = .only(authority.root) }
        )
        let reply = try await client.send(Request(type: 0x410, body: "hello"))
        #expect(reply.body == "hello")
        let large = Bytes([UInt8](repeating: 7, count: 3_000_000))
        let echoed = try await client.send(Request(type: 0x410, body: large))
        #expect(echoed.body == large)
        await client.close()
        await server.stop()
    }
}
