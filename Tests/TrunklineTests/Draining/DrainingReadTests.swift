import Testing

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLoopback
@testable import TrunklineTesting

/// Frames that were received but not delivered when their link began to drain. The socket does not report them again.
@Suite(.simulated, .timeLimit(.minutes(5)))
struct DrainingReadTests {}

extension DrainingReadTests {
    /// Runs `body` with a client of the servers at "a:1" and "b:1". These answer with `bytes` and an echo behind
    /// them, all at once.
    private func simulate(
        sending bytes: [UInt8],
        overTLS: Bool,
        sendsAfterGoAway: Bool = true,
        _ body: @escaping @Sendable (SimulatedNetwork, [LoopbackServer], Client) async throws -> Void
    ) throws {
        let network = SimulatedNetwork(seed: 1, conditions: .wide)
        let codec = PartsCodec.standard
        try network.runBlocking {
            var servers: [LoopbackServer] = []
            for address in ["a:1", "b:1"] as [Endpoint] {
                servers.append(
                    try await network.serve(at: address, speaking: codec, overTLS: overTLS) { _ in
                        .sequence([.garbage(Bytes(bytes)), .echo])
                    }
                )
            }
            let options = ClientOptions {
                $0.inbound.maximumHeld = 0
                $0.failover.sendsAfterGoAway = sendsAfterGoAway
            }
            let client = network.client(of: ["a:1", "b:1"], speaking: codec, options: options, overTLS: overTLS)
            try await body(network, servers, client)
            await client.closeNow()
            for server in servers { await server.stop() }
        }
        #expect(network.openLinks == 0)
    }

    /// Regression: the link began to drain while a subscriber had suspended reading. When reading resumed, the socket
    /// had nothing more, and the response behind the leftover frames waited until its deadline.
    @Test(arguments: [false, true])
    func leftoverFramesAreReadWhenReadingResumes(overTLS: Bool) throws {
        // As many as one turn delivers, and some that are left over.
        try simulate(sending: numberedPushes(ReadShare.frames + 100), overTLS: overTLS) { network, servers, client in
            let pushes = client.pushes(buffering: PushBuffering(maximumCount: 2, overflow: .suspendReading))
            let handle = client.start(ask("a"))
            try await network.clock.sleep(for: .seconds(1))
            #expect(await client.connection.isPaused)
            try await client.switchEndpoint(to: servers[1].endpoint)
            try await network.clock.sleep(for: .seconds(1))
            #expect(handle.state == .written)
            await expectNumberedPushes(ReadShare.frames, from: pushes)
            try await expectBody("a", of: handle)
            #expect(await client.metrics.connection.links == 2)
        }
    }

    /// The link begins to drain because of a goAway among the first frames, or stays ready until the next link is
    /// ready. Reading the leftover frames takes several turns.
    @Test(arguments: [false, true], [false, true])
    func leftoverFramesAreReadAfterAGoAway(overTLS: Bool, sendsAfterGoAway: Bool) throws {
        let bytes: [UInt8] = [0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0] + numberedPushes(3 * ReadShare.frames)
        try simulate(sending: bytes, overTLS: overTLS, sendsAfterGoAway: sendsAfterGoAway) { network, servers, client in
            try await expectEcho("a", by: client)
            #expect(await servers[0].totalConnections == 1)
            if sendsAfterGoAway { try await network.clock.sleep(for: .seconds(10)) }
            #expect(await client.metrics.connection.disconnects[.goAway] == 1)
        }
    }
}
