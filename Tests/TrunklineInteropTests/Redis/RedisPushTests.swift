import Testing
import Trunkline

/// Pushes among the replies, and subscriptions after the link or the server was lost.
extension RedisTests {
    /// Publishes a message to `channel` until it reaches a subscriber. Attempts before that reach none.
    private static func publish(_ message: Bytes, to channel: Bytes, from client: Client) async throws {
        try await RedisServer.wait {
            try await client.send(Command("PUBLISH", channel, message)) == .integer(1)
        }
    }

    private static func message(_ text: Bytes, on channel: Bytes = "news") -> RESPValue {
        .push([.string("message"), .string(channel), .string(text)])
    }

    @Test(.timeLimit(.minutes(10)))
    func pushesAndRepliesShareOneLink() async throws {
        try await RedisServer.run { _, client, other in
            let pushes = client.pushes(buffering: PushBuffering(maximumCount: 10_000))
            let confirmation = try await client.subscribe(Command("SUBSCRIBE", "news")).response
            let expected: RESPValue = .push([.string("subscribe"), .string("news"), .integer(1)])
            #expect(confirmation == expected)
            // While messages arrive, the commands of this link are answered in order.
            async let published = other.send(all: (0..<5000).map { Command("PUBLISH", "news", "\($0)") })
            async let echoed = client.send(all: (0..<5000).map { Command("ECHO", "\($0)") })
            let (receivers, echoes) = await (published, echoed)
            #expect(try receivers.allSatisfy { try $0.get() == .integer(1) })
            for (index, echo) in echoes.enumerated() { #expect(try echo.get() == .string(Bytes("\(index)"))) }
            var index = 0
            for await push in pushes.messages.prefix(5000) {
                #expect(try RESPValue(push.body) == Self.message(Bytes("\(index)")))
                index += 1
            }
            #expect(index == 5000)
            // Redis sends a message to its own publisher before the reply.
            #expect(try await client.send(Command("PUBLISH", "news", "mine")) == .integer(1))
            #expect(try await client.send(Command("UNSUBSCRIBE", "news")).elements.first?.text == "unsubscribe")
            #expect(try await client.send(Command("PSUBSCRIBE", "n*")).elements.first?.text == "psubscribe")
            #expect(try await client.send(Command("PING")) == .string("PONG"))
            #expect(await client.metrics.unknownResponses == 0)
        }
    }

    @Test(.timeLimit(.minutes(10)))
    func aKilledLinkIsReplacedAndItsSubscriptionsAreRestored() async throws {
        try await RedisServer.run { _, client, other in
            var pushes = client.pushes().makeAsyncIterator()
            _ = try await client.subscribe(Command("SUBSCRIBE", "news"))
            let subscription = try await client.subscribe(Command("SUBSCRIBE", "weather")).subscription
            for round in 1...3 {
                try await Self.publish("before \(round)", to: "news", from: other)
                let before = await pushes.next().flatMap(Self.value)
                #expect(before == Self.message("before \(round)"))
                let id = try await client.send(Command("CLIENT", "ID"))
                guard case .integer(let number) = id else { throw FrameError(.malformed, "no id") }
                #expect(try await other.send(Command("CLIENT", "KILL", "ID", "\(number)")) == .integer(1))
                // Every message that reaches a subscriber reaches the new link, because the old link has ended.
                try await Self.publish("after \(round)", to: "weather", from: other)
                guard case .reconnected? = await pushes.next() else {
                    Issue.record("the push stream has no reconnected element before the message")
                    return
                }
                let after = await pushes.next().flatMap(Self.value)
                #expect(after == Self.message("after \(round)", on: "weather"))
                #expect(try await client.send(Command("ECHO", "still in order")) == .string("still in order"))
            }
            // A subscription that has ended is not restored.
            await subscription.end()
            _ = try await client.send(Command("UNSUBSCRIBE", "weather"))
            #expect(try await other.send(Command("CLIENT", "KILL", "TYPE", "pubsub")) == .integer(1))
            try await Self.publish("last", to: "news", from: other)
            #expect(try await other.send(Command("PUBLISH", "weather", "nobody")) == .integer(0))
        }
    }

    @Test(.timeLimit(.minutes(10)))
    func theClientReconnectsToARestartedServer() async throws {
        try await RedisServer.run { server, client, other in
            var pushes = client.pushes().makeAsyncIterator()
            _ = try await client.subscribe(Command("SUBSCRIBE", "news"))
            let waiting = try client.start(Command("BLPOP", "gate", "0"))
            try await RedisServer.wait { waiting.state == .written }
            _ = try await other.send(Command("SET", "k", "old"))
            await server.process.kill()
            let error = await #expect(throws: ClientError.self) { try await waiting.value }
            #expect(error?.code == .connectionLost && error?.fate == .unknown)
            // The request waits for the server, which has lost its data.
            async let value = client.send(Command("GET", "k"))
            try await server.process.start()
            #expect(try await value == .null)
            try await Self.publish("again", to: "news", from: other)
            guard case .reconnected? = await pushes.next() else {
                Issue.record("the push stream has no reconnected element before the message")
                return
            }
            let message = await pushes.next().flatMap(Self.value)
            #expect(message == Self.message("again"))
        }
    }

    private static func value(_ push: Push) -> RESPValue? {
        if case .message(let frame) = push { try? RESPValue(frame.body) } else { nil }
    }
}
