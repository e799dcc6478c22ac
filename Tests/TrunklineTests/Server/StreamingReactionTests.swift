import Testing
import Trunkline
import TrunklineTesting

@testable import TrunklineLoopback

/// How a test server delays replies in protocols matched in order.
@Suite(.simulated, .timeLimit(.minutes(5)))
struct StreamingReactionTests {}

extension StreamingReactionTests {
    /// Regression: later replies overtook the delayed one, and reached the wrong callers.
    @Test func matchedInOrderADelayedReplyDelaysLaterOnes() throws {
        let handler: LoopbackServer.Handler = {
            switch $0.body {
            case "slow": .after(.seconds(1), .echo)
            case "slower": .sequence([.after(.seconds(1), .push(Frame(.push, type: 2))), .after(.seconds(2), .echo)])
            case "told": .sequence([.echo, .after(.seconds(50), .push(Frame(.push, type: 2)))])
            default: .echo
            }
        }
        try simulate(speaking: PartsCodec.inOrder, handler: handler) { service, client in
            let bodies = ["a", "slow", "b", "slower", "told", "slow", "c"]
            let replies = await client.send(all: bodies.map { ask(Bytes($0)) })
            #expect(replies.compactMap { try? String($0.get().body) } == bodies)
            #expect(service.now > .seconds(5) && service.now < .seconds(6))
            #expect(await client.metrics.pushes == 1)
        }
    }

    @Test func matchedBySerialLaterRepliesOvertakeADelayedOne() throws {
        try simulate(handler: { $0.body == "slow" ? .after(.seconds(1), .echo) : .echo }) { service, client in
            let slow = client.start(ask("slow"))
            try await expectEcho("quick", by: client)
            #expect(service.now < .seconds(1))
            try await expectBody("slow", of: slow)
        }
    }

    @Test func endlessPartsWaitForAClientThatDoesNotRead() throws {
        let options = ClientOptions { $0.inbound.maximumHeld = 100_000 }
        let handler: LoopbackServer.Handler = { _ in .endlessParts(filled(100_000)) }
        try simulate(speaking: PartsCodec.standard, options: options, handler: handler) { service, client in
            let stream = client.stream(ask("x"), buffering: ReplyBuffering(maximumCount: 1))
            try await service.pass(.seconds(60))
            #expect(await service.server.journal.overflowCount == 0)
            #expect(await service.server.journal.bytesSent < 1_000_000)
            stream.cancel()
            try await service.server.wait { $0.cancelCount == 1 }
            let sent = await service.server.journal.bytesSent
            try await service.pass(.seconds(60))
            #expect(await service.server.journal.bytesSent - sent < 2_000_000)
        }
    }
}
