import Testing
import TrunklineTesting

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLoopback

/// Replies in parts, read as they arrive: order, ends, timeouts and cancellation.
@Suite(.simulated, .timeLimit(.minutes(5)))
struct StreamingTests {}

extension StreamingTests {
    /// Answers "n" with n parts, the numbers from 0 on, `delay` apart, and then an echo.
    static func count(every delay: Duration = .zero) -> LoopbackServer.Handler {
        { .parts(numbers(Int(String($0.body)) ?? 0), every: delay) }
    }

    @Test(arguments: PartsCodec.bothMatchings)
    func partsComeInOrderAndTheResponseLast(_ codec: PartsCodec) throws {
        try simulate(speaking: codec, handler: Self.count()) { _, client in
            #expect(await words(of: client.stream(ask(3))) == ["+0", "+1", "+2", "3"])
            // A response without parts is a stream of one element.
            #expect(await words(of: client.stream(ask(0))) == ["0"])
            let stream = client.stream(ask(1))
            #expect(await words(of: stream) == ["+0", "1"])
            #expect(await words(of: stream) == [])
            #expect(await client.metrics.parts == 4)
            #expect(await client.metrics.responses == 3)
            #expect(await client.metrics.unexpectedFrames == 0)
        }
    }

    @Test(arguments: PartsCodec.bothMatchings)
    func concurrentStreamsDoNotMix(_ codec: PartsCodec) throws {
        try simulate(speaking: codec, handler: Self.count(every: .milliseconds(3))) { _, client in
            let streams = (0..<20).map { client.stream(ask($0)) }
            for (number, stream) in streams.enumerated() {
                #expect(await words(of: stream) == (0..<number).map { "+\($0)" } + ["\(number)"])
            }
        }
    }

    @Test func anErrorResponseIsThrownAfterTheParts() throws {
        let handler: LoopbackServer.Handler = { _ in .parts(numbers(2), then: .status(500, "no more")) }
        try simulate(speaking: PartsCodec.rich, handler: handler) { _, client in
            #expect(await words(of: client.stream(ask("a"))) == ["+0", "+1", "rejected answered"])
        }
    }

    // MARK: Timeouts

    @Test func aLongReplyDoesNotTimeOutWhileItsPartsArrive() throws {
        try simulate(speaking: PartsCodec.standard, handler: Self.count(every: .seconds(7))) { service, client in
            let began = service.now
            #expect(await words(of: client.stream(ask(50))).count == 51)
            #expect(service.now - began > .seconds(300))
        }
    }

    @Test func theTimeoutOfAPartStartsWhenItIsRequested() throws {
        let handler: LoopbackServer.Handler = { _ in .sequence([.part("a"), .after(.seconds(30), .part("b"))]) }
        try simulate(speaking: PartsCodec.standard, handler: handler) { service, client in
            var parts = client.stream(ask("x"), partTimeout: .seconds(20)).makeAsyncIterator()
            let element1 = try await parts.next()
            #expect(element1?.body == "a")
            // The reader's own time does not count, however long it takes.
            try await service.pass(.seconds(25))
            let element2 = try await parts.next()
            #expect(element2?.body == "b")
            try await service.pass(.seconds(100))
            let began = service.now
            let error = await Self.nextFailure(of: &parts)
            #expect(error?.code == .timedOut)
            #expect(error?.fate == .unknown)
            #expect(service.now - began == .seconds(20))
            let element3 = try await parts.next()
            #expect(element3 == nil)
            try await service.server.waitForCancel(of: 50)
            #expect(await client.metrics.pending == 0)
        }
    }

    /// Regression: no reader waits for an element, so its timeout has not started. The event loop checked it again
    /// after every nanosecond.
    @Test func aVeryShortPartTimeoutDoesNotKeepTheLoopBusy() throws {
        try simulate(speaking: PartsCodec.standard, handler: Self.count(every: .seconds(1))) { service, client in
            let stream = client.stream(ask(3), partTimeout: .after(.nanoseconds(1)))
            try await service.pass(.seconds(10))
            #expect(await words(of: stream) == ["+0", "+1", "+2", "3"])
        }
    }

    @Test func theTimeoutOfTheWholeReplyStartsWithTheCall() throws {
        try simulate(speaking: PartsCodec.standard, handler: Self.count(every: .seconds(1))) { service, client in
            let began = service.now
            let found = await words(of: client.stream(ask(100), timeout: .milliseconds(3500)))
            #expect(found == ["+0", "+1", "+2", "+3", "timedOut unknown"])
            #expect(service.now - began == .milliseconds(3500))
            #expect(await words(of: client.stream(ask(1), timeout: .seconds(0))) == ["timedOut notSent"])
            #expect(await words(of: client.stream(ask(1), partTimeout: .seconds(0))) == ["timedOut notSent"])
        }
    }

    @Test func withoutALinkTheFirstPartTimesOutLikeAnyCall() throws {
        try simulate(speaking: PartsCodec.standard, handler: Self.count()) { service, client in
            await client.suspend()
            let unsent = await words(of: client.stream(ask(1)))
            #expect(unsent == ["timedOut notSent"])
            #expect(service.now >= .seconds(8) && service.now < .seconds(9))
            let refused = await words(of: client.stream(ask(1), options: CallOptions(waitsForReady: false)))
            #expect(refused == ["unavailable notSent"])
            #expect(await service.server.journal.requestCount == 0)
        }
    }

    // MARK: Cancellation

    @Test func breakingOutOfTheLoopSendsACancelFrame() throws {
        let handler: LoopbackServer.Handler = { $0.body == "all" ? .endlessParts("x") : .echo }
        try simulate(speaking: PartsCodec.standard, handler: handler) { service, client in
            for try await part in client.stream(ask("all")) {
                #expect(part.body == "x")
                break
            }
            try await service.server.waitForCancel(of: 50)
            #expect(await client.metrics.pending == 0)
            try await expectEcho("next", by: client)
            #expect(await client.metrics.unknownResponses == 0)
        }
    }

    @Test func anUnreadStreamIsCancelledWhenItIsDeallocated() throws {
        let handler: LoopbackServer.Handler = { _ in .endlessParts("x") }
        try simulate(speaking: PartsCodec.standard, handler: handler) { service, client in
            do {
                let stream = client.stream(ask("all"))
                try await service.server.waitForRequest { $0.body == "all" }
                stream.cancel()
                stream.cancel()
                #expect(await words(of: stream) == ["cancelled unknown"])
            }
            try await service.server.waitForCancel(of: 50)
            _ = client.stream(ask("unread"))
            // Deallocated before anything of it was written.
            try await service.pass(.seconds(1))
            #expect(await service.server.journal.requestCount == 1)
            #expect(await client.metrics.pending == 0)
        }
    }

    /// The reader is cancelled at every instant of the reply. The stream ends with the right outcome and leaves
    /// nothing behind.
    @Test(arguments: PartsCodec.bothMatchings)
    func aReaderMayBeCancelledAtAnyTime(_ codec: PartsCodec) throws {
        for step in 0..<40 {
            try simulate(seed: UInt64(step), speaking: codec, handler: Self.count(every: .milliseconds(1))) {
                service,
                client in
                let stream = client.stream(ask(5))
                let reader = Task(executorPreference: service.network.executor) { await words(of: stream) }
                try await service.pass(.microseconds(step * 500))
                reader.cancel()
                let found = await reader.value
                #expect(["5", "cancelled notSent", "cancelled unknown", "cancelled answered"].contains(found.last))
                // The next reply has only its own parts.
                #expect(await words(of: client.stream(ask(2))) == ["+0", "+1", "2"])
                try await service.pass(.seconds(70))
                #expect(await client.metrics.heldSerials == 0)
                #expect(await client.metrics.unknownResponses == 0)
                #expect(await client.metrics.pending == 0)
            }
        }
    }

    @Test func matchedInOrderTheRestOfACancelledReplyIsDiscardedInItsPlace() throws {
        try simulate(speaking: PartsCodec.inOrder, handler: Self.count(every: .seconds(1))) { _, client in
            let given = client.stream(ask(9))
            var parts = given.makeAsyncIterator()
            let element4 = try await parts.next()
            #expect(element4?.body == "0")
            let next = client.stream(ask(2), partTimeout: .seconds(60))
            given.cancel()
            #expect(await words(of: next) == ["+0", "+1", "2"])
            #expect(await client.metrics.lateResponses == 1)
            #expect(await client.metrics.unknownResponses == 0)
        }
    }

    @Test func unsolicitedPartsAreOnlyCounted() throws {
        try simulate(speaking: PartsCodec.standard) { service, client in
            let request = Request(type: 0x410, body: "a")
            await service.server.script(.sequence([.echo] + Array(repeating: .part("x"), count: 1000)))
            _ = try await client.send(request)
            try await expectEcho("b", by: client)
            #expect(await client.metrics.unknownResponses == 1000)
            #expect(await client.metrics.parts == 0)
            #expect(await service.server.totalConnections == 1)
        }
    }

    /// A malformed part fails its own request, streamed or not, and no other.
    @Test(arguments: PartsCodec.bothMatchings)
    func aMalformedPartFailsItsRequestAlone(_ codec: PartsCodec) throws {
        try simulate(speaking: codec) { service, client in
            let malformed = Reaction.parts(["a", "garbled", "b"])
            await service.server.script(malformed, malformed)
            #expect(await words(of: client.stream(ask("x"))) == ["+a", "protocolViolation unknown"])
            let error = await failure { () throws(ClientError) in try await client.send(ask("y")) }
            #expect(error?.code == .protocolViolation)
            try await expectEcho("z", by: client)
            #expect(await service.server.totalConnections == 1)
            #expect(await client.metrics.unknownResponses == 0)
        }
    }

    // MARK: Closing

    @Test func closingWaitsForTheReplyToEnd() throws {
        try simulate(speaking: PartsCodec.standard, handler: Self.count(every: .seconds(1))) { service, client in
            let stream = client.stream(ask(5))
            try await service.server.waitForRequests(1)
            await client.close()
            #expect(await words(of: stream) == ["+0", "+1", "+2", "+3", "+4", "5"])
            #expect(await words(of: client.stream(ask(5))) == ["closed notSent"])
        }
    }

    @Test func closeNowLeavesThePartsThatHaveArrived() throws {
        try simulate(speaking: PartsCodec.standard, handler: Self.count(every: .seconds(2))) { service, client in
            let stream = client.stream(ask(5))
            try await service.server.waitForRequests(1)
            try await service.pass(.seconds(3))
            await client.closeNow()
            #expect(await words(of: stream) == ["+0", "+1", "closed unknown"])
        }
    }

    /// The error that is thrown instead of the next element.
    static func nextFailure(of parts: inout ReplyStream<Response>.AsyncIterator) async -> ClientError? {
        do throws(ClientError) {
            let part = try await parts.next()
            Issue.record("no error, but \(String(describing: part))")
            return nil
        } catch {
            return error
        }
    }
}
