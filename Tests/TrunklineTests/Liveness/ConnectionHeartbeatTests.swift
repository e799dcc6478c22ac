import Testing
import TrunklineTesting

@testable import TrunklineCore
@testable import TrunklineLayouts
@testable import TrunklineLoopback

/// Heartbeats of connections without a client, and timers after they are closed.
@Suite(.simulated, .timeLimit(.minutes(5)))
struct ConnectionHeartbeatTests {}

extension ConnectionHeartbeatTests {
    @Test func aConnectionWithoutAClientAnswersPingsAndDeliversNoPongs() throws {
        let network = SimulatedNetwork(seed: 1)
        try network.runBlocking {
            let server = try await network.serve(at: "db:7000", speaking: .standard)
            let connection = network.connection(to: ["db:7000"], speaking: .standard)
            async let kinds = frames(of: connection, 2)
            try await server.waitForConnections(1)
            try await network.clock.sleep(for: .seconds(100))
            #expect(await connection.diagnostics.roundTripTime != nil)
            try await server.ping()
            try await network.clock.sleep(for: .seconds(2))
            try await server.push(Frame(.push, type: 2))
            let received = await kinds.map(\.kind)
            #expect(received == [.ping, .push])
            #expect(await server.journal.pongCount == 1)
            await connection.closeNow()
            await server.stop()
        }
    }

    /// No task requests frames, so nothing is read, and silence proves nothing.
    @Test func aConnectionThatIsNotReadIsNotClosedForSilence() throws {
        let network = SimulatedNetwork(seed: 1)
        try network.runBlocking {
            let server = try await network.serve(at: "db:7000", speaking: .standard)
            let connection = network.connection(to: ["db:7000"], speaking: .standard)
            try await connection.write(Frame(.request, type: 0x410))
            try await network.clock.sleep(for: .seconds(3600))
            #expect(await server.totalConnections == 1)
            await connection.closeNow()
            await server.stop()
        }
    }

    @Test func noTimerIsLeftWhenTheConnectionIsClosed() throws {
        let network = SimulatedNetwork(seed: 1)
        try network.runBlocking {
            let server = try await network.serve(at: "db:7000", speaking: .standard)
            let client = network.client(of: ["db:7000"], speaking: .standard)
            try await expectEcho("a", by: client)
            #expect(await client.connection.isWatched)
            await client.close()
            #expect(await !client.connection.isWatched)
            await server.stop()
        }
    }
}
