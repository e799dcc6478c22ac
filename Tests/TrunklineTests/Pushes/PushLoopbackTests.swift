import Testing
import Trunkline
import TrunklineTesting

@testable import TrunklineLoopback

/// Streams of pushes are bounded, report dropped pushes, and do not delay responses.
@Suite(.tags(.realThreads), .timeLimit(.minutes(5)))
struct PushLoopbackTests {}

extension PushLoopbackTests {
    /// Responds to "flood" with a thousand numbered pushes and then an echo.
    private static let flood: LoopbackServer.Handler = { request in
        guard request.body == "flood" else { return .echo }
        return .sequence((0..<1000).map { .push(Frame(.push, type: 2, body: Bytes("\($0)"))) } + [.echo])
    }

    /// The elements of `stream` until its end, as text.
    private func words(of stream: some AsyncSequence<Push, Never>) async -> [String] {
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

    @Test(arguments: Mechanism.allCases)
    func anUnreadStreamIsBoundedByItsPolicy(_ mechanism: Mechanism) async throws {
        try await withServerAndClient(by: mechanism, handler: Self.flood) { _, client in
            let oldest = client.pushes(buffering: PushBuffering(maximumCount: 3, overflow: .dropOldest))
            let newest = client.pushes(buffering: PushBuffering(maximumCount: 3, overflow: .dropNewest))
            let finishing = client.pushes(buffering: PushBuffering(maximumCount: 3, overflow: .finish))
            let small = client.pushes(buffering: PushBuffering(maximumBytes: 9, overflow: .dropOldest))
            let roomy = client.pushes()
            try await expectEcho("flood", by: client)  // behind a thousand unread pushes
            #expect(await client.metrics.pushes == 1000)
            await client.close()
            #expect(await words(of: oldest) == ["dropped 997", "997", "998", "999"])
            #expect(await words(of: newest) == ["0", "1", "2", "dropped 997"])
            #expect(await words(of: finishing) == ["0", "1", "2", "dropped 1"])
            #expect(await words(of: small) == ["dropped 997", "997", "998", "999"])
            #expect(await words(of: roomy) == (0..<1000).map(String.init))
        }
    }

    @Test(arguments: Mechanism.allCases)
    func readingIsSuspendedAndResumedIfTheBufferingSaysSo(_ mechanism: Mechanism) async throws {
        try await withServerAndClient(by: mechanism, handler: Self.flood) { _, client in
            let stream = client.pushes(buffering: PushBuffering(maximumCount: 4, overflow: .suspendReading))
            async let reply = client.send(ask("flood"), timeout: .never)
            var numbers: [String] = []
            for await frame in stream.messages.prefix(1000) { numbers.append(String(frame.body)) }
            #expect(numbers == (0..<1000).map(String.init))
            let body = try await reply.body
            #expect(body == "flood")
        }
    }

    /// Regression: of streams that were created at the same time, some were not found when they ended. The client kept
    /// connecting for them.
    @Test func streamsThatAreCreatedAtTheSameTimeAllEnd() async throws {
        try await withServerAndClient { server, client in
            try await client.connect()
            await withTaskGroup(of: Void.self) { group in
                for _ in 0..<8 {
                    group.addTask {
                        let streams = (0..<1000).map { _ in client.pushes() }
                        withExtendedLifetime(streams) {}
                    }
                }
            }
            try await expectEcho("a", by: client)
            await server.disconnectAll()
            for await state in client.states where !state.isReady {
                #expect(state == .idle)
                break
            }
        }
    }

    @Test func aCancelledConsumerEndsOnlyItsOwnStream() async throws {
        try await withServerAndClient(handler: Self.flood) { _, client in
            let other = client.pushes()
            let stream = client.pushes()
            let consumer = Task { await words(of: stream) }
            try await client.connect()
            consumer.cancel()
            #expect(await consumer.value.isEmpty)
            try await expectEcho("flood", by: client)
            var count = 0
            for await _ in other.prefix(1000) { count += 1 }
            #expect(count == 1000)
        }
    }

    @Test func aDeallocatedStreamIsRemoved() async throws {
        try await withServerAndClient(handler: Self.flood) { _, client in
            var dropped: PushStream? = client.pushes(
                buffering: PushBuffering(maximumCount: 1, overflow: .suspendReading)
            )
            let kept = client.pushes()
            // Its full buffer has suspended reading. Its deallocation resumes reading.
            async let reply = client.send(ask("flood"))
            for await _ in kept.prefix(1) { break }
            #expect(dropped != nil)
            dropped = nil
            let body = try await reply.body
            #expect(body == "flood")
        }
    }

    @Test(arguments: Mechanism.allCases)
    func aStreamOutlivesItsLinkAndEndsWithItsClient(_ mechanism: Mechanism) async throws {
        try await withServerAndClient(by: mechanism) { server, client in
            let stream = client.pushes()
            try await client.connect()
            for round in 0..<3 {
                try await server.waitForConnections(1, within: patience)
                try await server.push(Frame(.push, type: 2, body: Bytes("\(round)")))
                // Behind the push on the same link.
                try await expectEcho("barrier", by: client)
                if round < 2 { await server.disconnectAll(reset: round == 0) }
            }
            await client.close()
            #expect(await words(of: stream) == ["0", "reconnected", "1", "reconnected", "2"])
            #expect(await words(of: stream).isEmpty)
            #expect(await words(of: client.pushes()).isEmpty)
        }
    }

    @Test func aStreamOfATypeGetsThatTypeOnly() async throws {
        let handler: LoopbackServer.Handler = { _ in
            .sequence((2..<8).map { .push(Frame(.push, type: $0, body: Bytes("\($0)"))) } + [.echo])
        }
        try await withServerAndClient(handler: handler) { _, client in
            let (one, some, all) = (
                client.pushes(ofType: 3), client.pushes(where: { (4...6).contains($0.type) }), client.pushes()
            )
            try await expectEcho("go", by: client)
            await client.close()
            #expect(await words(of: one) == ["3"])
            #expect(await words(of: some) == ["4", "5", "6"])
            #expect(await words(of: all) == ["2", "3", "4", "5", "6", "7"])
        }
    }

    @Test func severalIteratorsOfAStreamShareItsElements() async throws {
        try await withServerAndClient(handler: Self.flood) { _, client in
            let stream = client.pushes()
            let readers = (0..<4).map { _ in Task { await words(of: stream) } }
            try await expectEcho("flood", by: client)
            await client.close()
            var numbers: [Int] = []
            for reader in readers { numbers += await reader.value.compactMap(Int.init) }
            #expect(numbers.sorted() == Array(0..<1000))
        }
    }

    @Test func pushesAroundAResponseKeepTheirOrder() async throws {
        let handler: LoopbackServer.Handler = { _ in
            .sequence([
                .push(Frame(.push, type: 2, body: "a"), Frame(.push, type: 2, body: "b")), .echo,
                .push(Frame(.push, type: 2, body: "c")),
            ])
        }
        try await withServerAndClient(handler: handler) { _, client in
            let stream = client.pushes()
            try await expectEcho("go", by: client)
            // Sent before the response, so they are in the buffer: this reader does not wait.
            #expect(await words(of: stream.prefix(2)) == ["a", "b"])
            #expect(await words(of: stream.prefix(1)) == ["c"])
        }
    }

    @Test func aCancelledReaderTakesNothingFromTheBuffer() async throws {
        try await withServerAndClient(handler: Self.flood) { _, client in
            let stream = client.pushes()
            try await expectEcho("flood", by: client)
            let cancelled = Task {
                unsafe withUnsafeCurrentTask { unsafe $0?.cancel() }
                return await words(of: stream)
            }
            #expect(await cancelled.value.isEmpty)
            await client.close()
            #expect(await words(of: stream).count == 1000)
        }
    }
}
