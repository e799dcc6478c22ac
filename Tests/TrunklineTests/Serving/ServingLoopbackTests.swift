import Testing
import Trunkline
import TrunklineTesting

/// Requests of the server, over real sockets. `JSONRPCLoopbackTests` has those of a protocol without a layout.
@Suite(.tags(.realThreads), .timeLimit(.minutes(5)))
struct ServingLoopbackTests {}

extension ServingLoopbackTests {
    /// With real threads, each of 5,000 is answered or refused.
    @Test func aBurstIsAnsweredOrRefused() async throws {
        try await withServerAndClient(speaking: refusingLayout) { server, client in
            try await whileServing(client, server, pause: { await moment() }) {
                $0.echoed
            } _: {
                let outcomes = await server.burst(of: 5000)
                let serving = await client.metrics.serving
                #expect(outcomes.total == 5000 && outcomes.failed == 0)
                #expect(outcomes.answered >= 64 && outcomes.answered == serving.answered)
                #expect(outcomes.refused == serving.refused && serving.dropped == 0)
                #expect(await server.journal.requestCount == 0)
            }
        }
    }

    @Test func aLinkThatEndsCancelsHandlers() async throws {
        try await withServerAndClient(speaking: refusingLayout) { server, client in
            try await whileServing(client, server, pause: { await moment() }) { _ in
                try await Task.sleep(for: .seconds(1000))
                return nil
            } _: {
                let hanging = (0..<3).map { _ in Task { try await server.request(.call()) } }
                while await client.metrics.serving.running < 3 { await moment() }
                await server.disconnectAll(reset: true)
                for task in hanging { await #expect(throws: TransportError.self) { try await task.value } }
                while await client.metrics.serving.running > 0 { await moment() }
                #expect(await client.metrics.serving.dropped == 3)
            }
        }
    }
}
