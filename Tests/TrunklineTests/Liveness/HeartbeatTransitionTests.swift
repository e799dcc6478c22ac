import Testing
import TrunklineTesting

@testable import Trunkline

/// Heartbeats where a link begins and where it is left.
@Suite(.simulated, .timeLimit(.minutes(5)))
struct HeartbeatTransitionTests {
    /// The handshake has the first word. The machine of no link had the default policy: it was armed as soon as reading
    /// began, and sent a ping into the handshake.
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

    /// The timer was armed for the deadline of the ping and stayed so when the answer had come: with an interval below the
    /// deadline a ping went out every ten seconds, and a link that died was noticed that much later.
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

    /// A ping is out when its link is left. Its answer comes there, and is neither answered as the server's ping nor taken
    /// for an answer on the new link.
    @Test func theAnswerToAPingOnALinkThatIsLeftStaysThere() throws {
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
            #expect(await client.roundTripTime == nil)
            await client.closeNow()
            await other.stop()
        }
    }
}
