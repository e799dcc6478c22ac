import Testing

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts
@testable import TrunklineTesting

/// Endpoints of different kinds in the order of preference.
@Suite(.simulated) struct TransportLadderTests {}

extension TransportLadderTests {
    /// The preferred transport does not get through, and later does.
    @Test(arguments: [true, false]) func theNextKindIsUsedUntilThePreferredOneGetsThrough(_ prefersTCP: Bool) throws {
        let (tcp, udp) = (Endpoint("tcp:7000"), Endpoint("udp://udp:7000"))
        let options = ClientOptions {
            $0.failover.returnsToPreferredAfter = .seconds(30)
            $0.requests.retry = .idempotent(tries: 5)
            $0.requests.timeout = .seconds(60)
        }
        let network = SimulatedNetwork(seed: 1)
        try network.runBlocking {
            let stream = try await network.startServer(at: tcp, speaking: FrameLayout.standard)
            let datagrams = try await network.startServer(at: udp, speaking: FrameLayout.standard)
            let ladder = prefersTCP ? [tcp, udp] : [udp, tcp]
            let client = network.client(of: ladder, speaking: FrameLayout.standard, options: options, overTLS: false)
            network.swallowConnections(to: prefersTCP ? "tcp" : "udp")
            try await expectEcho("one", by: client, timeout: .seconds(60))
            #expect(await client.endpoint == ladder[1])
            network.acceptConnections(to: prefersTCP ? "tcp" : "udp")
            // Calls go on meanwhile, and none of them notices the change.
            async let ready: Void = client.becomesReady(at: ladder[0])
            for _ in 0..<600 {
                try await expectEcho("on", by: client)
                try await network.clock.sleep(for: .milliseconds(200))
            }
            await ready
            #expect(await client.endpoint == ladder[0])
            #expect(await client.metrics.connection.losses[.closedLocally] == 1)
            try await expectEcho("two", by: client)
            await client.close()
            try await network.clock.sleep(for: .seconds(1))
            await stream.stop()
            await datagrams.stop()
        }
        #expect(network.openLinks == 0)
    }
}

extension Client {
    /// The endpoint of the ready link.
    fileprivate var endpoint: Endpoint? {
        get async { if case .ready(let endpoint, _) = await connection.state { endpoint } else { nil } }
    }
}
