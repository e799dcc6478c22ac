import Testing
import Trunkline
import TrunklineCluster
import TrunklineTesting

/// Handshakes of the clients of a cluster.
@Suite(.simulated)
struct ClusterHandshakeTests {}

extension ClusterHandshakeTests {
    /// A handshake that adds endpoints, as a single client needs it, does not lead the client of one server to another.
    @Test func aHandshakeThatAddsEndpointsDoesNotLeadToAnotherServer() async throws {
        let network = SimulatedNetwork(seed: 1)
        try await network.run {
            let endpoints: [Endpoint] = ["s0:7000", "s1:7000"]
            var servers: [LoopbackServer] = []
            for endpoint in endpoints {
                servers.append(try await network.startServer(at: endpoint, speaking: .standard) { _ in .echo })
            }
            let options = ClientOptions { $0.handshake.perform = { await $0.addEndpoints(endpoints) } }
            let cluster = Cluster(
                discovering: .static(endpoints.map { ClusterEndpoint($0) }),
                speaking: .standard,
                options: options,
                on: network.loops
            )
            try await cluster.connect()
            try await network.clock.sleep(for: .seconds(1))
            #expect(await cluster.metrics.servers.map(\.state) == [.serving, .serving])
            await servers[0].kill()
            try await network.clock.sleep(for: .seconds(10))
            #expect(await cluster.metrics.servers.map(\.state) == [.connecting, .serving])
            #expect(await servers[1].journal.connectionCount == 1)
            await cluster.close()
            for server in servers { await server.stop() }
        }
    }
}
