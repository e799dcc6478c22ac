import Testing

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLoopback
@testable import TrunklineTesting

/// Replies in parts and their link: its loss, its replacement, and suspended reading.
@Suite(.simulated, .timeLimit(.minutes(5)))
struct StreamingLinkTests {}

extension StreamingLinkTests {
    @Test(arguments: 0...3, [RetryPolicy.ifUnsent, .idempotent()])
    func aLinkMayBeLostAtEveryPart(_ count: Int, _ retry: RetryPolicy) throws {
        try simulate(speaking: PartsCodec.standard, handler: { _ in .parts(numbers(5)) }) { service, client in
            await service.server.script(.sequence(numbers(count).map { .part($0) } + [.close]))
            let found = await words(of: client.stream(ask("x"), options: CallOptions(retry: retry)))
            let isRetried = count == 0 && retry != .ifUnsent
            let before = numbers(count).map { "+" + String($0) }
            let all = numbers(5).map { "+" + String($0) } + ["x"]
            // Not retried after a part has arrived, because the reader has received that part.
            #expect(found == (isRetried ? all : before + ["connectionLost unknown"]))
            #expect(await client.metrics.pending == 0)
            #expect(await client.metrics.heldSerials == 0)
        }
    }

    @Test(arguments: PartsCodec.bothMatchings)
    func aReplyContinuesOnADrainingLink(_ codec: PartsCodec) throws {
        let network = SimulatedNetwork(seed: 1)
        try network.runBlocking {
            let handler: LoopbackServer.Handler = {
                .parts(numbers($0.body == "slow" ? 3 : 1), every: .milliseconds(500))
            }
            let first = try await network.serve(at: "a:1", speaking: codec, handler: handler)
            let second = try await network.serve(at: "b:1", speaking: codec, handler: handler)
            let client = network.client(of: ["a:1", "b:1"], speaking: codec)
            let stream = client.stream(ask("slow"))
            let given = client.stream(ask("slow"))
            let joined = client.start(ask("slow"))
            try await first.waitForRequests(3)
            try await client.switchEndpoint(to: second.endpoint)
            await client.becomesReady(at: second.endpoint)
            #expect(await words(of: client.stream(ask("quick"))) == ["+0", "quick"])
            given.cancel()
            #expect(await words(of: stream) == ["+0", "+1", "+2", "slow"])
            try await expectBody("012slow", of: joined)
            try await network.clock.sleep(for: .seconds(10))
            #expect(await first.connectionCount == 0)
            #expect(await client.metrics.unknownResponses == 0)
            await client.close()
            #expect(await client.metrics.heldSerials == 0)
            await first.stop()
            await second.stop()
        }
        #expect(network.openLinks == 0)
    }

    // MARK: Back-pressure

    /// 64 KiB every 20 ms, without end.
    private static let flood: LoopbackServer.Handler = {
        $0.body == "flood" ? .endlessParts(filled(65_536), every: .milliseconds(20)) : .echo
    }

    /// A link whose reading is suspended by the client itself is not closed for silence.
    @Test func aReaderMayPauseForAnHourDuringAReply() throws {
        try simulate(speaking: PartsCodec.standard, handler: Self.flood) { service, client in
            var parts = client.stream(ask("flood")).makeAsyncIterator()
            _ = try await parts.next()
            try await service.pass(.seconds(3600))
            #expect(await service.server.totalConnections == 1)
            #expect(await client.connection.isPaused)
            let held = await client.metrics.parts
            #expect(held < 48)
            for _ in 0..<100 { _ = try await parts.next() }
            #expect(await client.metrics.parts < held + 148)
            #expect(await client.metrics.connection.pings == 0)
        }
    }

    @Test func otherResponsesWaitOnlyWhileAStreamIsFull() throws {
        try simulate(speaking: PartsCodec.standard, handler: Self.flood) { service, client in
            var parts = client.stream(ask("flood")).makeAsyncIterator()
            _ = try await parts.next()
            try await service.pass(.seconds(1))
            let error = await failure { () throws(ClientError) in try await client.send(ask("a")) }
            #expect(error?.code == .timedOut)
            let reader = Task(executorPreference: service.network.executor) {
                while try await parts.next() != nil {}
            }
            try await expectEcho("b", by: client)
            reader.cancel()
            _ = await reader.result
            try await expectEcho("c", by: client)
            #expect(await !client.connection.isPaused)
        }
    }

    @Test func deallocatingAFullStreamResumesReading() throws {
        try simulate(speaking: PartsCodec.standard, handler: Self.flood) { service, client in
            var stream: ReplyStream<Response>? = client.stream(ask("flood"), buffering: ReplyBuffering(maximumCount: 1))
            try await service.pass(.seconds(1))
            #expect(await client.connection.isPaused)
            #expect(stream != nil)
            stream = nil
            try await expectEcho("a", by: client)
            #expect(await client.dispatcher.streams.fullReplies.isEmpty)
        }
    }

    @Test func aFullStreamOfALostLinkDoesNotSuspendReadingOnTheNextOne() throws {
        try simulate(speaking: PartsCodec.standard, handler: Self.flood) { service, client in
            let stream = client.stream(ask("flood"), timeout: .seconds(10))
            try await service.pass(.seconds(1))
            #expect(await client.connection.isPaused)
            await client.suspend()
            await client.resume()
            try await expectEcho("a", by: client)
            let left = await words(of: stream)
            #expect(left.count > 1)
            #expect(left.last == "connectionLost unknown")
        }
    }

    @Test func aFullStreamFailsIfItsBufferingSaysSo() throws {
        let handler: LoopbackServer.Handler = { _ in .parts(numbers(10), every: .milliseconds(10)) }
        try simulate(speaking: PartsCodec.standard, handler: handler) { service, client in
            let buffering = ReplyBuffering(maximumCount: 3, overflow: .fail)
            let stream = client.stream(ask("a"), buffering: buffering)
            try await service.pass(.seconds(1))
            #expect(await words(of: stream) == ["+0", "+1", "+2", "overloaded unknown"])
            #expect(await service.server.journal.cancelCount == 1)
            #expect(await client.metrics.pending == 0)
            // The response has its own place in the buffer.
            await service.server.script(.parts(numbers(3)))
            let full = client.stream(ask("b"), buffering: buffering)
            try await service.pass(.seconds(1))
            #expect(await words(of: full) == ["+0", "+1", "+2", "b"])
        }
    }
}
