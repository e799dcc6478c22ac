import Testing
import Trunkline
import TrunklineTesting

/// What operators ask clients and connections for. Most of it is tested with the feature that it shows.
@Suite(.simulated, .timeLimit(.minutes(5)))
struct DiagnosticsTests {}

extension DiagnosticsTests {
    @Test func aConnectionDescribesItsLinkLikeAClient() throws {
        let network = SimulatedNetwork(seed: 1)
        try network.runBlocking {
            let server = try await network.serve(at: "db:7000", speaking: .standard, overTLS: false)
            let client = network.client(of: ["db:7000"], speaking: .standard, overTLS: false)
            let connection = network.connection(to: ["db:7000"], speaking: .standard, overTLS: false)
            try await client.connect()
            try await connection.write(Frame(.request, type: 0x410, serial: 1))
            let (ofClient, ofConnection) = (client.diagnostics, connection.diagnostics)
            let path = await ofClient.path
            #expect(path.description == "eth0 from 10.255.0.1")
            #expect(await ofConnection.path == path)
            #expect(await ofClient.paths.first { _ in true } == path)
            #expect(await ofConnection.paths.first { _ in true } == path)
            #expect(await ofClient.roundTripTime == nil)
            #expect(await ofConnection.roundTripTime == nil)
            #expect(await ofClient.tlsSession == nil)
            #expect(await ofConnection.tlsSession == nil)
            await client.closeNow()
            await connection.closeNow()
            await server.stop()
        }
    }
}
