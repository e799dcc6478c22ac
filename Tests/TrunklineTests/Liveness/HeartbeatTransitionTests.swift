import Testing
import TrunklineTesting

@testable import TrunklineCore
@testable import TrunklineLayouts
@testable import TrunklineLoopback

/// Heartbeats when a link begins, and when it begins to drain.
@Suite(.simulated, .timeLimit(.minutes(5)))
struct HeartbeatTransitionTests {}

extension HeartbeatTransitionTests {
    /// No other traffic comes before the handshake. Regression: without a link, the liveness machine had the default
    /// policy. It was armed as soon as reading began, and sent a ping into the handshake.
    @Test func noPingGoesOutDuringTheHandshake() throws {
        let options = ClientOptions {
            $0.connecting.timeout = .seconds(300)
            $0.handshake.timeout = .seconds(200)
            $0.handshake.perform = { _ = try await $0.send(ask("login"), timeout: .seconds(200)) }
        }
        try simulate(options: options, handler: { _ in .after(.seconds(100), .echo) }) { service, client in
            try await client.connect()
            #expect(service.now > .seconds(100))
            #expect(await service.server.journal.pingCount == 0)
            try await service.pass(.seconds(31))
            #expect(await service.server.journal.pingCount == 1)
        }
    }

    /// Regression: the timer was armed for the deadline of the ping, and stayed armed after the pong. With an interval
    /// below the deadline, a ping was sent every ten seconds, and a dead link was noticed that much later.
    @Test func pingsGoOutAtTheirIntervalHoweverLongTheDeadlineIs() throws {
        let options = ClientOptions {
            $0.liveness.interval = .seconds(1)
            $0.liveness.deadline = .seconds(10)
        }
        try simulate(options: options) { service, client in
            try await client.connect()
            try await service.pass(.milliseconds(5500))
            #expect(await service.server.journal.pingCount == 5)
        }
    }

    /// A ping is not answered yet when its link begins to drain. The pong arrives on that link. It is neither answered
    /// like a ping of the server nor counted as a pong on the new link.
    @Test func thePongOnADrainingLinkStaysThere() throws {
        let server = LoopbackServer.Options { $0.pongDelay = .seconds(2) }
        try simulate(server: server, handler: { _ in .after(.seconds(20), .echo) }) { service, _ in
            let other = try await service.startServer(at: "other:7000", speaking: .standard)
            let client = service.client(of: ["db:7000", "other:7000"])
            let handle = client.start(ask("slow"), timeout: .seconds(60))
            try await service.pass(.seconds(6))  // probed at 5 s
            #expect(await service.server.journal.pingCount == 1)
            try await client.switchEndpoint(to: service.endpoint("other:7000"))
            try await expectBody("slow", of: handle)
            let journal = await service.server.journal
            #expect(journal.pingCount == 1 && journal.pongCount == 0)
            #expect(await client.diagnostics.roundTripTime == nil)
            await client.closeNow()
            await other.stop()
        }
    }
}
