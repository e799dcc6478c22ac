import Testing
import Trunkline
import TrunklineTesting

/// The tests that the article "Testing your code" shows.
@Suite(.simulated) struct DocumentedTests {}

extension DocumentedTests {
    @Test func reconnectsAfterAnOutage() async throws {
        let network = SimulatedNetwork(seed: 7)
        let reply = try await network.run {
            let server = try await network.startServer(at: "db:7000", speaking: .standard)
            let client = Client(to: "db:7000", speaking: .standard, on: network.loops)
            try await client.connect()
            await server.kill()
            try await network.clock.sleep(for: .seconds(300))
            try await server.resumeAccepting()
            let reply = try await client.send(Request(type: 0x410, body: "tea"), timeout: .seconds(60))
            await client.close()
            await server.stop()
            return reply
        }
        #expect(reply.body == "tea")
    }

    @Test(arguments: 1...100 as ClosedRange<UInt64>) func answersEveryRequest(seed: UInt64) async throws {
        let network = SimulatedNetwork(seed: seed)
        let bodies = try await network.run {
            let server = try await network.startServer(at: "db:7000", speaking: .standard)
            let client = Client(to: "db:7000", speaking: .standard, on: network.loops)
            async let first = client.send(Request(type: 0x410, body: "one"))
            async let second = client.send(Request(type: 0x410, body: "two"))
            let bodies = try await [first.body, second.body]
            await client.close()
            await server.stop()
            return bodies
        }
        #expect(bodies == ["one", "two"])
    }
}
