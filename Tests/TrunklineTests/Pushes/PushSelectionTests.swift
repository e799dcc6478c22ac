import Synchronization
import Testing
import Trunkline
import TrunklineTesting

@testable import TrunklineCore
@testable import TrunklineLoopback

/// Streams of selected pushes, and finishing a stream.
@Suite(.simulated, .timeLimit(.minutes(5)))
struct PushSelectionTests {}

extension PushSelectionTests {
    /// The elements of `stream` until its end, as text.
    private func words(of stream: PushStream) async -> [String] {
        var words: [String] = []
        for await push in stream {
            switch push {
            case .message(let frame): words.append(String(frame.body))
            case .dropped(let count): words.append("dropped \(count)")
            case .reconnected: words.append("reconnected")
            }
        }
        return words
    }

    /// Lines. "!topic text" is a push. A push whose text is "bad" is malformed; with "worse" it has no key either.
    private static let lines = DelimitedCodec(delimiter: "\n")
        .reading { frame in
            let text = String(frame.body)
            guard text.hasPrefix("!") else { return }
            frame.kind = .push
            if text.hasSuffix("bad") || text.hasSuffix("worse") { frame.markMalformed(.malformed) }
        }
        .keyingPushes { push in
            let text = String(push.body)
            guard !text.hasSuffix("worse"), let topic = text.dropFirst().split(separator: " ").first else { return nil }
            return PushKey(String(topic))
        }

    /// Responds to a request with the pushes that it names, and then an echo.
    private static let repeater: LoopbackServer.Handler = { request in
        let pushes = String(request.body).split(separator: ",").map {
            Reaction.push(Frame(.push, body: Bytes("!\($0)")))
        }
        return .sequence(pushes + [.echo])
    }

    @Test func pushesAreSelectedByAPredicate() throws {
        try simulate(speaking: Self.lines, handler: Self.repeater) { _, client in
            let short = client.pushes { $0.body.count < 6 }
            let long = client.pushes(where: { $0.body.count >= 6 }, buffering: PushBuffering(maximumCount: 2))
            try await expectEcho("a 1,bb 22,a bad,cc 333,dd 444,ee 555", by: client)
            await client.close()
            #expect(await words(of: short) == ["!a 1", "dropped 1"])
            #expect(await words(of: long) == ["dropped 3", "!dd 444", "!ee 555"])
        }
    }

    /// Of two pushes that arrive together, the waiting reader takes the first, so the second is not one too many.
    @Test(arguments: [PushBuffering.Overflow.dropOldest, .dropNewest, .finish])
    func aWaitingReaderLeavesRoomInTheBuffer(_ overflow: PushBuffering.Overflow) throws {
        try simulate(speaking: Self.lines, handler: Self.repeater) { _, client in
            let stream = client.pushes(buffering: PushBuffering(maximumCount: 1, overflow: overflow))
            async let words = words(of: stream)
            try await expectEcho("a 1", by: client)  // now the reader waits for the next one
            try await expectEcho("a 2,a 3", by: client)
            await client.close()
            #expect(await words == ["!a 1", "!a 2", "!a 3"])
        }
    }

    @Test func pushesAreSelectedByTheirKey() throws {
        try simulate(speaking: Self.lines, handler: Self.repeater) { service, client in
            let (a, b, again, none) = (
                client.pushes(forKey: "a"), client.pushes(forKey: "b"), client.pushes(forKey: "a"),
                client.pushes(forKey: 1)
            )
            try await expectEcho("a 1,b 2,c 3,a bad,a 4", by: client)
            service.network.reset("db")
            try await expectEcho("b worse,a 5,b 6", by: client)
            await client.close()
            let expected = ["!a 1", "dropped 1", "!a 4", "reconnected", "!a 5", "dropped 1"]
            #expect(await words(of: a) == expected)
            #expect(await words(of: again) == expected)
            #expect(await words(of: b) == ["!b 2", "reconnected", "!b 6", "dropped 1"])
            #expect(await words(of: none) == ["reconnected", "dropped 1"])
        }
    }

    @Test func aNamedFieldIsAKey() throws {
        let layout = FrameLayout {
            Field.type(UInt8.self)
            Field.serial(UInt16.self)
            Field.integer("channel", UInt16.self)
            Field.bytes("topic", 2)
            Field.length(UInt8.self, counting: .body)
            Field.body
        }
        .roles { $0.push = 1 }
        let handler: LoopbackServer.Handler = { _ in
            let pushes = (0..<6).map { number in
                var push = Frame(.push, type: 1, body: Bytes("\(number)"))
                push["channel"] = UInt64(number % 3)
                push[bytes: "topic"] = Bytes("t\(number % 2)")
                return Reaction.push(push)
            }
            return .sequence(pushes + [.echo])
        }
        try simulate(speaking: layout.keyingPushes(by: "channel"), handler: handler) { _, client in
            let (first, second) = (client.pushes(forKey: 0), client.pushes(forKey: 2))
            _ = try await client.send(Request(type: 2))
            await client.close()
            #expect(await words(of: first) == ["0", "3"])
            #expect(await words(of: second) == ["2", "5"])
        }
        try simulate(speaking: layout.keyingPushes(by: "topic"), handler: handler) { _, client in
            let stream = client.pushes(forKey: "t1")
            _ = try await client.send(Request(type: 2))
            await client.close()
            #expect(await words(of: stream) == ["1", "3", "5"])
        }
    }

    @Test func theKeyOfAPushIsComputedOnceForAllStreams() throws {
        let asked = Mutex(0)
        let codec = LengthPrefixedCodec(UInt32.self)
            .reading { if $0.body.first == 0x21 { $0.kind = .push } }
            .keyingPushes { push in
                asked.withLock { $0 += 1 }
                return UInt64(String(push.body.dropFirst())).map { .number($0) }
            }
        try simulate(speaking: codec, handler: Self.repeater) { _, client in
            let streams = (0..<10_000).map { client.pushes(forKey: .number(UInt64($0))) }
            try await expectEcho("17,9999,17", by: client)
            #expect(asked.withLock { $0 } == 3)
            for stream in streams { stream.finish() }
            try await expectEcho("17", by: client)
            #expect(asked.withLock { $0 } == 3)
            #expect(await words(of: streams[17]) == ["!17", "!17"])
            #expect(await words(of: streams[9999]) == ["!9999"])
            #expect(await words(of: streams[1]).isEmpty)
        }
    }

    // MARK: Finishing

    @Test func aFinishedStreamDeliversItsBufferAndEnds() throws {
        try simulate(speaking: Self.lines, handler: Self.repeater) { service, client in
            let (stream, other) = (client.pushes(), client.pushes())
            try await expectEcho("a 1,a 2", by: client)
            stream.finish()
            try await expectEcho("a 3", by: client)
            #expect(await words(of: stream) == ["!a 1", "!a 2"])
            #expect(await words(of: stream).isEmpty)
            stream.finish()
            await client.close()
            #expect(await words(of: other) == ["!a 1", "!a 2", "!a 3"])
        }
    }

    @Test func finishingEndsAllWaitingReaders() throws {
        try simulate(speaking: Self.lines, handler: Self.repeater) { service, client in
            let stream = client.pushes()
            let readers = (0..<3).map { _ in
                Task(executorPreference: service.network.executor) { await words(of: stream) }
            }
            try await expectEcho("a 1", by: client)
            try await service.pass(.seconds(1))
            stream.finish()
            var taken: [String] = []
            for reader in readers { taken += await reader.value }
            #expect(taken == ["!a 1"])
        }
    }

    /// Regression: a finished stream whose buffer was not read kept reading from the socket suspended.
    @Test func finishingAFullStreamResumesReading() throws {
        try simulate(options: ClientOptions { $0.requests.timeout = nil }) { service, client in
            let stream = client.pushes(buffering: PushBuffering(maximumCount: 1, overflow: .suspendReading))
            try await service.server.waitForConnections(1)
            try await service.server.push(Frame(.push, type: 2, body: "a"))
            try await service.pass(.seconds(1))
            let reply = client.start(ask("waits"))
            try await service.pass(.seconds(5))
            #expect(reply.state == .written)
            stream.finish()
            try await expectBody("waits", of: reply)
            #expect(await words(of: stream) == ["a"])
        }
    }
}
