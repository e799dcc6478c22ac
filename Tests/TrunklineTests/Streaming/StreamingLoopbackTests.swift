import Testing
import TrunklineTesting

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLoopback

/// Replies in parts over real sockets: very long ones, very many, and readers that stop early.
@Suite(.tags(.realThreads), .timeLimit(.minutes(15)))
struct StreamingLoopbackTests {}

extension StreamingLoopbackTests {
    /// "count size" is answered with that many parts of that size and an echo, "all" with parts without end.
    private static let handler: LoopbackServer.Handler = { request in
        let numbers = String(request.body).split(separator: " ").compactMap { Int($0) }
        guard numbers.count == 2 else { return request.body == "all" ? .endlessParts(filled(1000)) : .echo }
        return .parts(Array(repeating: filled(numbers[1]), count: numbers[0]))
    }

    @Test(arguments: Mechanism.allCases)
    func aVeryLongReplyTakesLittleMemory(_ mechanism: Mechanism) async throws {
        try await withServerAndClient(by: mechanism, speaking: PartsCodec.standard, handler: Self.handler) {
            _,
            client in
            var (count, bytes, mostHeld) = (0, 0, 0)
            for try await frame in client.stream(ask("1600 65536")) where frame.isPart {
                (count, bytes) = (count + 1, bytes + frame.body.count)
                // A reader that is slower than the server: reading is suspended until the reader has caught up.
                if count == 1 {
                    while await !client.connection.isPaused { await moment() }
                }
                if count % 16 == 0 { mostHeld = max(mostHeld, await client.metrics.parts - count) }
            }
            #expect(bytes == 1600 * 65_536)
            // 1 MiB of buffer, and at most as much again that was read at once.
            #expect(mostHeld <= 34)
        }
    }

    @Test(arguments: PartsCodec.bothMatchings)
    func aThousandConcurrentRepliesDoNotMix(_ codec: PartsCodec) async throws {
        try await withServerAndClient(
            speaking: codec,
            handler: { .parts([$0.body, $0.body], every: .milliseconds($0.body.count % 3)) }
        ) { _, client in
            await withTaskGroup(of: Bool.self) { group in
                for number in 0..<1000 {
                    group.addTask {
                        await words(of: client.stream(ask(number))) == ["+\(number)", "+\(number)", "\(number)"]
                    }
                }
                #expect(await group.reduce(into: 0) { $0 += $1 ? 1 : 0 } == 1000)
            }
            #expect(await client.metrics.pending == 0)
            #expect(await client.metrics.heldSerials == 0)
        }
    }

    @Test(arguments: Mechanism.allCases)
    func endingAStreamEarlySendsACancelFrameAndKeepsTheLink(_ mechanism: Mechanism) async throws {
        try await withServerAndClient(by: mechanism, speaking: PartsCodec.standard, handler: Self.handler) {
            server,
            client in
            for round in 0..<20 {
                for try await _ in client.stream(ask("all")).prefix(round) {}
                try await expectEcho("next", by: client)
            }
            // Streams that were released unread may not have been sent at all.
            let asked = await server.received.filter { $0.body == "all" }
            try await server.wait(within: patience) { $0.cancelCount == asked.count }
            #expect(asked.count >= 19)
            #expect(await client.metrics.pending == 0)
            #expect(await server.totalConnections == 1)
        }
    }

    /// Readers that stop at any time, on a few threads: every stream ends, and has only its own parts.
    @Test(arguments: PartsCodec.bothMatchings)
    func manyReadersStopAtAnyTime(_ codec: PartsCodec) async throws {
        let rounds = max(20, stormRequests / 1000)
        try await withServerAndClient(
            speaking: codec,
            handler: { .parts(Array(repeating: $0.body, count: 20), every: .microseconds(200)) }
        ) { _, client in
            let mixed = await withTaskGroup(of: Int.self) { group in
                for reader in 0..<16 {
                    group.addTask {
                        var mixed = 0
                        for round in 0..<rounds {
                            let body = Bytes("\(reader) \(round)")
                            let buffering = ReplyBuffering(maximumCount: 1 + round % 4)
                            let task = Task {
                                var mixed = 0
                                var left = (reader + round) % 25
                                for try await part in client.stream(ask(body), buffering: buffering) {
                                    if part.body != body { mixed += 1 }
                                    left -= 1
                                    if left < 0 { break }
                                }
                                return mixed
                            }
                            for _ in 0..<round % 7 { await Task.yield() }
                            if round % 3 == 0 { task.cancel() }
                            mixed += (try? await task.value) ?? 0
                        }
                        return mixed
                    }
                }
                return await group.reduce(0, +)
            }
            #expect(mixed == 0)
            let reply = try await client.send(ask("last"))
            #expect(reply.body.count == 4 * 21)
            #expect(await client.metrics.pending == 0)
            #expect(await client.metrics.unknownResponses == 0)
            #expect(await !client.connection.isPaused)
        }
    }
}
