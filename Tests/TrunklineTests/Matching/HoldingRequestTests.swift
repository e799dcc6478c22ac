import Testing
import Trunkline

@testable import TrunklineTesting

/// Requests that nothing may follow, in a protocol with serials, as IDLE of IMAP: "the client MUST NOT send a command while
/// the server is waiting for the DONE" (RFC 2177, section 3).
@Suite(.simulated, .timeLimit(.minutes(5)))
struct HoldingRequestTests {}

extension HoldingRequestTests {
    private func simulate(
        _ options: ClientOptions = ClientOptions(),
        _ body: @escaping @Sendable (SimulatedNetwork, LoopbackServer, Client) async throws -> Void
    ) throws {
        try TrunklineTests.simulate(speaking: WordsCodec(), options: options, handler: { WordsCodec.answer(to: $0) }) {
            try await body($0.network, $0.server, $1)
        }
    }

    private func ask(_ text: String) -> Request { Request(body: Bytes(text)) }

    @Test func nothingFollowsTheRequestUntilItIsAnswered() throws {
        try simulate { network, server, client in
            let before = client.start(ask("slow"), timeout: .seconds(20))
            let holder = client.start(ask("hold slow"), timeout: .seconds(20))
            let after = (0..<5).map { client.start(ask("echo \($0) slow"), timeout: .seconds(20)) }
            try await client.enqueue(ask("message"))
            try await network.clock.sleep(for: .milliseconds(900))
            #expect(await server.journal.requests.map { String($0.body) } == ["slow", "hold slow"])
            #expect(await client.metrics.waiting.forTurn == 6)
            for handle in [before, holder] + after { _ = try await handle.value }
            #expect(await server.journal.requestCount == 8)
            #expect(network.clock.now < .init(offset: .seconds(3)))
        }
    }

    /// The link is silent for longer than the interval of pings, and none is sent. It is sent again afterwards.
    @Test func noPingFollowsTheRequest() throws {
        let options = ClientOptions { $0.liveness.interval = .seconds(10) }
        try simulate(options) { network, server, client in
            _ = try await client.send(ask("hold slower"), timeout: .seconds(200))
            #expect(await server.journal.pingCount == 0)
            try await network.clock.sleep(for: .seconds(60))
            #expect(await server.journal.pingCount > 3)
            #expect(await client.metrics.connection.links == 1)
        }
    }

    /// The server does not answer an abandoned request, for which the others wait.
    @Test func anAbandonedRequestThatIsNotAnsweredCostsItsLink() throws {
        try simulate { network, server, client in
            let holder = client.start(ask("hold"), timeout: .seconds(1))
            #expect(await failure(of: holder)?.code == .timedOut)
            let late = await failure(of: client.start(ask("echo"), timeout: .seconds(2)))
            #expect(late?.code == .timedOut && late?.fate == .notSent)
            #expect(late?.message == "deadline exceeded; a request is in flight that no other may follow")
            let reply = try await client.send(ask("echo"), timeout: .seconds(20))
            #expect(reply.body == "echo")
            #expect(await client.metrics.connection.links == 2)
            #expect(network.clock.now < .init(offset: .seconds(12)))
        }
    }

    // MARK: What the handshake negotiates

    /// As `connection.tune` of AMQP 0-9-1: the server proposes the heartbeat and the largest frame.
    @Test func theHandshakeSetsTheLimitsOfItsLink() throws {
        let options = ClientOptions { options in
            options.liveness.interval = .seconds(1000)
            options.handshake.perform = { link in
                await link.setLiveness { $0.interval = .seconds(5) }
                await link.setMaximumInFlight(2)
                try await link.setMaximumFrameSize(50)
            }
        }
        try simulate(options) { network, server, client in
            let handles = (0..<4).map { client.start(ask("\($0) slow")) }
            try await network.clock.sleep(for: .milliseconds(500))
            #expect(await server.journal.requestCount == 2)
            for handle in handles { _ = try await handle.value }
            let long = await failure(of: client.start(ask(String(repeating: "x", count: 60))))
            #expect(long?.code == .invalidRequest && long?.fate == .notSent)
            try await network.clock.sleep(for: .seconds(12))
            #expect(await server.journal.pingCount == 2)
        }
    }

    @Test func aRejectedRequestOfTheHandshakeIsNamed() throws {
        let options = ClientOptions { options in
            options.reconnecting.maximumAttempts = 1
            options.handshake.perform = { link in
                let requests = [Request(type: 6, body: "echo"), Request(type: 7, body: "!error * 404 NO_QUEUE")]
                for result in await link.send(all: requests) { _ = try result.get() }
            }
        }
        try simulate(options) { _, _, client in
            let cause = await failure(of: client.start(ask("echo")))?.cause as? ClientError
            #expect(cause?.code == .rejected && cause?.request?.type == 7 && cause?.reason?.name == "NO_QUEUE")
            let message = "the server answered with NO_QUEUE (404); request 2 of 2 has type 0x7 and a body of 21 bytes"
            #expect(cause?.message == message)
        }
    }

    // MARK: Uploads without a cancel frame, and answers to pushes

    /// As an HTTP/1.1 request whose body is not sent to its end: the connection must be closed (RFC 9112, section 8).
    @Test func abandoningAnUploadEndsItsLink() throws {
        try simulate { network, server, client in
            _ = try await client.send(ask("echo"))
            let upload = client.open(ask("begin"))
            try await upload.send(ask("piece"))
            _ = try await server.waitForRequest { $0.body == "piece" }
            let other = client.start(ask("slow"))
            _ = try await server.waitForRequest { $0.body == "slow" }
            upload.cancel()
            let error = await failure(of: other)
            #expect(error?.code == .connectionLost && error?.fate == .unknown)
            _ = try await client.send(ask("echo"))
            #expect(await client.metrics.connection.links == 2)
        }
    }

    @Test func manyPushesAreAcknowledgedWithoutWaiting() throws {
        try simulate { network, server, client in
            let pushes = client.pushes()
            try await client.connect()
            for number in 0..<100 { try await server.broadcast(Frame(.push, body: Bytes("\(number)"))) }
            var count = 0
            for await push in pushes {
                guard case .message(let message) = push else { continue }
                try await client.enqueue(Request(body: message.body), answering: message)
                count += 1
                if count == 100 { break }
            }
            try await client.enqueue(all: (0..<100).map { ask("\($0)") })
            _ = try await client.send(ask("echo"))
            let bodies = await server.journal.requests.map { String($0.body) }
            #expect(bodies == (0..<100).map { "\($0)" } + (0..<100).map { "\($0)" } + ["echo"])
            let created = PushMessage(body: "no")
            await #expect(throws: ClientError.self) { try await client.enqueue(ask("a"), answering: created) }
        }
    }
}
