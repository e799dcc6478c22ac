import Testing
import Trunkline
import TrunklineTesting

@testable import TrunklineLoopback

/// Clients that use more than their share of a server.
@Suite(.simulated, .timeLimit(.minutes(5)))
struct ServerLimitTests {}

extension ServerLimitTests {
    @Test func furtherConnectionsAreClosedAtOnce() throws {
        let network = SimulatedNetwork(seed: 1)
        try network.runBlocking {
            let options = LoopbackServer.Options { $0.maximumConnections = 2 }
            let server = try await network.startServer(at: "db:7000", speaking: .standard, options: options)
            let clients = (0..<3).map { _ in Client(to: "db:7000", speaking: .standard, on: network.loops) }
            for client in clients.prefix(2) { try await expectEcho("a", by: client) }
            let third = clients[2].start(ask("b"), options: CallOptions(retry: .never))
            try await network.clock.sleep(for: .seconds(1))
            let journal = await server.journal
            #expect(journal.connectionCount == 2 && journal.refusedConnectionCount >= 1 && journal.requestCount == 2)
            // When there is room, the client is accepted.
            await clients[0].close()
            third.cancel()
            try await expectEcho("c", by: clients[2], timeout: .seconds(60))
            for client in clients { await client.close() }
            await server.stop()
        }
    }

    /// A client that connects and sends nothing.
    @Test func aHandshakeThatDoesNotEndClosesItsConnection() throws {
        let authority = try TestAuthority()
        let identity = try authority.identity(for: "db")
        let network = SimulatedNetwork(seed: 1)
        try network.runBlocking {
            let options = LoopbackServer.Options { $0.tls = .init(identity) { $0.handshakeTimeout = .seconds(7) } }
            let server = try await network.startServer(at: "db:7000", speaking: .standard, options: options)
            // In plaintext, so it sends nothing.
            let mute = Connection(to: "db:7000", speaking: .standard, on: network.loops)
            async let reading: Void? = try? mute.withFrames { frames in for await _ in frames {} }
            let secured = Client(
                to: "tls://db:7000",
                speaking: .standard,
                options: ClientOptions { $0.tls.roots = .only(authority.root) },
                on: network.loops
            )
            try await expectEcho("a", by: secured)
            try await network.clock.sleep(for: .seconds(6))
            #expect(await server.journal.connectionCount == 2)
            try await server.wait(within: .seconds(2)) { $0.handshakeFailureCount == 1 }
            let journal = await server.journal
            #expect(journal.lastHandshakeFailure?.code == .timedOut)
            #expect((journal.lastFailure as? TransportError)?.code == .timedOut)
            await mute.closeNow()
            _ = await reading
            try await expectEcho("b", by: secured)
            await secured.close()
            await server.stop()
        }
    }
}
