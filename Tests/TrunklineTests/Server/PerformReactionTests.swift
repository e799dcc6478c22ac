import Testing
import TrunklineTesting

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLoopback

/// Closures of `Reaction.perform`, as the test server runs them.
@Suite(.simulated, .timeLimit(.minutes(5)))
struct PerformReactionTests {}

extension PerformReactionTests {
    struct Trouble: Error {}

    @Test func aClosureThatEndsWithoutAReplyClosesTheConnection() throws {
        let handler: LoopbackServer.Handler = { request in
            request.body == "throw" ? .perform { _ in throw Trouble() } : .perform { try await $0.part("1") }
        }
        try simulate(handler: handler) { service, client in
            #expect(await words(of: client.stream(whole("return"))) == ["+1", "connectionLost unknown"])
            #expect(await service.server.journal.lastBodyFailure == nil)
            #expect(await words(of: client.stream(whole("throw"))) == ["connectionLost unknown"])
            let journal = await service.server.journal
            #expect(journal.unansweredCount == 2 && journal.lastBodyFailure is Trouble)
            #expect(journal.description.contains("2 perform bodies without a reply"))
        }
    }

    /// The body of a cancelled request runs on. Its serial belongs to the next request.
    @Test func aCancelledRequestThatIsAnsweredKeepsNoSerial() throws {
        let patient = LoopbackServer.Options { $0.answersCancelled = true }
        let network = Lock<SimulatedNetwork?>(nil)
        let handler: LoopbackServer.Handler = { request in
            guard request.body == "slow" else { return .echo }
            return .perform { exchange in
                try await network.withLock { $0 }?.clock.sleep(for: .seconds(9))
                try await exchange.reply("late")
            }
        }
        let options = ClientOptions { $0.requests.quarantine = .milliseconds(50) }
        let layout = standardLayout(serials: 50...50)
        try simulate(speaking: layout, server: patient, options: options, handler: handler) { service, client in
            network.withLock { $0 = service.network }
            let error = await failure(of: client.start(whole("slow"), timeout: .milliseconds(50)))
            #expect(error?.code == .timedOut)
            try await service.network.clock.sleep(for: .milliseconds(100))
            let body = try await client.send(whole("quick"), timeout: .seconds(1)).body
            #expect(body == "quick")
            #expect(await service.server.journal.requestCount == 2)
        }
    }

    @Test func theReactionsAfterAClosureFollowIt() throws {
        let handler: LoopbackServer.Handler = { _ in
            .sequence([.perform { try await $0.part("1") }, .after(.seconds(1), .part("2")), .reply("3")])
        }
        try simulate(handler: handler) { service, client in
            #expect(await words(of: client.stream(whole("a"))) == ["+1", "+2", "3"])
            #expect(await service.server.exchangeCount == 0)
        }
    }

    @Test func partsReceivedBeforeTheClosureBeginsAreKeptForIt() throws {
        try simulate(handler: { _ in .after(.seconds(1), .perform(join)) }) { service, client in
            let stream = client.open(piece("a")).responses
            try await stream.post(piece("b"), isPart: true)
            try await stream.post(whole("c"))
            #expect(await words(of: stream) == ["abc"])
            // A closure that is cancelled before it began never begins.
            let other = client.open(piece("a")).responses
            try await other.post(piece("b"), isPart: true)
            other.cancel()
            try await service.server.waitForCancel()
            #expect(await service.server.exchangeCount == 0)
            #expect(await service.server.delayedCount == 0)
            #expect(await service.server.journal.droppedReplyCount == 1)
        }
    }

    @Test func aSecondReplyIsRejected() throws {
        let notes = Notes()
        let handler: LoopbackServer.Handler = { _ in
            .perform { exchange in
                try await exchange.reply("1")
                do { try await exchange.reply("2") } catch { notes.add("\(error is FrameError)") }
                do { try await exchange.part("2") } catch { notes.add("\(error is FrameError)") }
                let next = try await exchange.next()
                notes.add("\(next == nil)")
            }
        }
        try simulate(handler: handler) { service, client in
            try await expectReply("1", of: whole("a"), by: client)
            try await service.pass(.seconds(1))
            #expect(notes.all == ["true", "true", "true"])
            #expect(await client.metrics.unknownResponses == 0)
        }
    }

    @Test func aFrameThatCannotBeEncodedClosesTheConnection() throws {
        let notes = Notes()
        let handler: LoopbackServer.Handler = { _ in
            .perform { exchange in
                do {
                    try await exchange.reply(Frame(.response, type: 0x404, body: "taken for a part"))
                } catch {
                    notes.add("\((error as? FrameError)?.code == .unknownType)")
                    throw error
                }
            }
        }
        try simulate(handler: handler) { service, client in
            #expect(await words(of: client.stream(whole("a"))) == ["connectionLost unknown"])
            #expect(notes.all == ["true"])
            #expect(await service.server.journal.unencodableCount == 1)
        }
    }

    // MARK: Back-pressure

    @Test func aClosureThatReadsLateDelaysTheConnectionAndReleasesIt() throws {
        let notes = Notes()
        let handler: LoopbackServer.Handler = { request in
            guard request.kind == .part else { return .echo }
            return .perform { exchange in
                var (count, isOver) = (1, false)
                while !isOver, let frame = try await exchange.next() {
                    count += 1
                    isOver = frame.kind != .part
                }
                notes.add("\(count)")
                try await exchange.reply(Frame(.response, type: 0x403))
            }
        }
        try simulate(handler: handler) { service, client in
            try await client.connect()
            let stream = client.open(piece("")).responses
            for _ in 0..<1000 { try await stream.post(piece("x"), isPart: true) }
            try await expectEcho("aside", by: client)
            try await stream.post(whole(""))
            #expect(await words(of: stream) == [""])
            #expect(notes.all == ["1002"])
            #expect(await service.server.exchangeCount == 0)
        }
    }

    @Test func partsThatAClosureDoesNotReadAreLimited() throws {
        let handler: LoopbackServer.Handler = { _ in .after(.seconds(5), .perform(join)) }
        try simulate(handler: handler) { service, client in
            let stream = client.open(piece("")).responses
            async let posted = { for _ in 0..<2000 { try await stream.post(piece(filled(100)), isPart: true) } }()
            try await service.pass(.seconds(3))
            #expect(await service.server.heldCount == 256)
            try await posted
            try await stream.post(whole(""))
            var size = 0
            for try await frame in stream { size += frame.body.count }
            #expect(size == 200_000)
        }
    }

    @Test func aClientThatReadsSlowlyDelaysTheClosure() throws {
        let notes = Notes()
        let handler: LoopbackServer.Handler = { _ in
            .perform { exchange in
                for number in 0..<400 {
                    try await exchange.part(filled(10_000))
                    notes.add("\(number)")
                }
                try await exchange.reply("end")
            }
        }
        try simulate(handler: handler) { service, client in
            let buffering = ReplyBuffering(maximumBytes: 100_000)
            let stream = client.stream(whole("all"), buffering: buffering)
            try await service.pass(.seconds(3))
            // The reader's buffer, those of the kernels, and what was read at once.
            #expect((10..<200).contains(notes.all.count))
            #expect(await service.server.unsentCount <= 10_012)
            #expect(await words(of: stream).count == 401)
            #expect(notes.all.count == 400)
        }
    }

    // MARK: In order

    @Test func matchedInOrderAClosureKeepsItsTurnUntilItsReply() throws {
        let notes = Notes()
        let network = Lock<SimulatedNetwork?>(nil)
        let handler: LoopbackServer.Handler = { request in
            guard request.body == "slow" else { return .echo }
            return .perform { exchange in
                let next = try await exchange.next()
                #expect(next == nil)
                try await network.withLock { $0 }?.clock.sleep(for: .seconds(1))
                try await exchange.part("1")
                try await exchange.reply("slow")
                try await network.withLock { $0 }?.clock.sleep(for: .seconds(100))
                notes.add("ended")
            }
        }
        try simulate(speaking: PartsCodec.inOrder, handler: handler) { service, client in
            network.withLock { $0 = service.network }
            let began = service.now
            let slow = client.stream(ask("slow"))
            try await expectEcho("next", by: client)
            #expect(await words(of: slow) == ["+1", "slow"])
            #expect(service.now - began < .seconds(5))
            #expect(notes.all == [])
            try await service.pass(.seconds(200))
            #expect(notes.all == ["ended"])
            network.withLock { $0 = nil }
        }
    }

    // MARK: The end of the connection

    @Test(arguments: ["stop", "reset", "close"])
    func closuresEndWithTheirConnection(_ end: String) throws {
        let notes = Notes()
        let handler: LoopbackServer.Handler = { request in
            .perform { exchange in
                do {
                    if request.body == "read" { _ = try await exchange.next() }
                    while true { try await exchange.part(filled(50_000)) }
                } catch {
                    notes.add("\(error is CancellationError) \(Task.isCancelled)")
                    throw error
                }
            }
        }
        try simulate(handler: handler) { service, client in
            let streams = [
                client.stream(whole("read")), client.stream(whole("write"), buffering: ReplyBuffering(maximumCount: 1)),
            ]
            try await service.pass(.seconds(1))
            switch end {
            case "stop": await service.server.stop()
            case "reset": await service.server.disconnectAll(reset: true)
            default: await client.closeNow()
            }
            try await service.pass(.seconds(1))
            #expect(notes.all == ["true true", "true true"])
            #expect(await service.server.journal.unansweredCount == 0)
            for stream in streams { stream.cancel() }
        }
    }

    /// Sends `request` and expects `body`.
    private func expectReply(_ body: Bytes, of request: Request, by client: Client) async throws {
        let reply = try await client.send(request)
        #expect(reply.body == body)
    }
}
