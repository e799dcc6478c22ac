import Testing
import TrunklineTesting

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts
@testable import TrunklineLoopback

/// Exchanges that are cancelled, or lose their link, in every phase.
@Suite(.simulated, .timeLimit(.minutes(5)))
struct RequestPartCancellationTests {}

extension RequestPartCancellationTests {
    private static let joining: LoopbackServer.Handler = { _ in .perform(join) }

    // MARK: Cancelled

    @Test func partsWaitForTheirRequestAndEndWithIt() throws {
        try simulate(handler: Self.joining) { service, client in
            await service.server.stopAccepting()
            let stream = client.open(piece("a")).responses
            async let post = failure(posting: whole("b"), to: stream)
            try await service.pass(.seconds(1))
            stream.cancel()
            #expect(await post == "cancelled notSent")
            #expect(await failure(posting: whole("c"), to: stream) == "cancelled notSent")
            #expect(await service.server.journal.requestCount == 0)
        }
    }

    @Test func partsWaitForTheirRequestAndFollowIt() throws {
        try simulate(handler: Self.joining) { service, client in
            await service.server.stopAccepting()
            let stream = client.open(piece("a")).responses
            async let post = failure(posting: whole("b"), to: stream)
            try await service.pass(.seconds(1))
            try await service.server.resumeAccepting()
            #expect(await post == nil)
            #expect(await words(of: stream) == ["ab"])
        }
    }

    @Test func cancellingEndsTheServersReactionAndNothingFollowsTheCancelFrame() throws {
        let notes = Notes()
        let handler: LoopbackServer.Handler = { request in
            notes.add("request \(String(request.body))")
            return .perform { exchange in
                do {
                    while let frame = try await exchange.next() { notes.add("piece \(frame.body.count)") }
                } catch {
                    notes.add("\(error is CancellationError) \(Task.isCancelled)")
                    throw error
                }
            }
        }
        try simulate(handler: handler) { service, client in
            try await client.connect()
            let stream = client.open(piece("a")).responses
            try await stream.post(piece("b"), isPart: true)
            try await service.pass(.seconds(1))
            // More than the kernels hold: one part is partly written, the next one has not started.
            await service.server.pauseReading()
            async let half = failure(posting: piece(filled(1_000_000)), isPart: true, to: stream)
            try await service.pass(.seconds(1))
            async let none = failure(posting: piece(filled(5)), isPart: true, to: stream)
            try await service.pass(.seconds(1))
            stream.cancel()
            #expect(await half == "cancelled unknown")
            #expect(await none == "cancelled notSent")
            await service.server.resumeReading()
            try await service.pass(.seconds(1))
            #expect(notes.all == ["request a", "piece 1", "piece 1000000", "true true"])
            let journal = await service.server.journal
            #expect(journal.cancelCount == 1 && journal.droppedReplyCount == 1 && journal.unansweredCount == 0)
            #expect(await service.server.connectionCount == 1)
        }
    }

    @Test func cancellingAPostRemovesThatFrameOnly() throws {
        try simulate(handler: Self.joining) { service, client in
            try await client.connect()
            let stream = client.open(piece("a")).responses
            try await stream.post(piece("b"), isPart: true)
            await service.server.pauseReading()
            let big = Task(executorPreference: client.executor) {
                await failure(posting: piece(filled(300_000)), isPart: true, to: stream)
            }
            try await service.pass(.seconds(1))
            let small = Task(executorPreference: client.executor) {
                await failure(posting: piece("!"), isPart: true, to: stream)
            }
            try await service.pass(.seconds(1))
            small.cancel()
            big.cancel()
            #expect(await small.value == "cancelled notSent")
            #expect(await big.value == "cancelled unknown")
            await service.server.resumeReading()
            try await stream.post(whole("c"))
            let reply = await words(of: stream).first
            #expect(reply?.count == 300_003 && reply?.hasPrefix("ab") == true && reply?.hasSuffix("c") == true)
        }
    }

    @Test func aPostOfACancelledTaskIsNotSent() throws {
        try simulate(handler: Self.joining) { _, client in
            let stream = client.open(piece("a")).responses
            let task = Task(executorPreference: client.executor) {
                unsafe withUnsafeCurrentTask { unsafe $0?.cancel() }
                return await failure(posting: piece("!"), isPart: true, to: stream)
            }
            #expect(await task.value == "cancelled notSent")
            try await stream.post(whole("b"))
            #expect(await words(of: stream) == ["ab"])
        }
    }

    @Test func closingTheClientEndsPosts() throws {
        try simulate(handler: Self.joining) { service, client in
            let stream = client.open(piece("a")).responses
            try await stream.post(piece("b"), isPart: true)
            await service.server.pauseReading()
            async let half = failure(posting: piece(filled(1_000_000)), isPart: true, to: stream)
            try await service.pass(.seconds(1))
            async let none = failure(posting: whole("c"), to: stream)
            try await service.pass(.seconds(1))
            await client.closeNow()
            #expect(await half == "closed unknown")
            #expect(await none == "closed notSent")
        }
    }

    /// Regression: the request failed for lack of a serial, but its parts stayed. Their callers waited for ever.
    @Test func partsEndWithARequestThatDoesNotWaitForASerial() throws {
        try simulate(speaking: pieceLayout(serials: 50...50), handler: { _ in .noReply }) { service, client in
            let first = client.start(whole("a"))
            try await service.server.waitForRequests(1)
            let stream = client.open(piece("b"), options: CallOptions(waitsForReady: false)).responses
            // In the same batch.
            client.addPart(piece("c"), isPart: true, of: client.latestRequest, stream)
            #expect(await words(of: stream) == ["overloaded notSent"])
            #expect(await client.dispatcher.parts.heldCount == 0)
            #expect(await !client.dispatcher.parts.hasTargets)
            first.cancel()
            _ = await failure(of: first)
        }
    }

    /// The request waits its turn ("waits"), is queued on the link ("queued"), or waits for a retry ("rests").
    @Test(arguments: ["waits", "queued", "rests"])
    func closingTheClientEndsHeldParts(_ request: String) throws {
        let options = ClientOptions {
            if request == "waits" { $0.requests.maximumInFlight = 1 }
            $0.requests.timeout = .seconds(600)
        }
        try simulate(options: options, handler: { _ in .noReply }) { service, client in
            let first = client.start(whole("a"))
            try await service.server.waitForRequests(1)
            if request == "queued" {
                await service.server.pauseReading()
                _ = client.start(whole(filled(1_000_000)))
                try await service.pass(.seconds(1))
            }
            let retry = RetryPolicy.idempotent(tries: 2, backoff: Backoff(base: .seconds(60), cap: .seconds(60)))
            let stream = client.open(piece("b"), options: CallOptions(retry: retry)).responses
            if request == "rests" {
                try await service.server.waitForRequests(2)
                service.network.reset("db")
                try await service.pass(.milliseconds(10))
                #expect(await client.metrics.retries == 1)
            }
            async let post = failure(posting: piece("c"), isPart: true, to: stream)
            try await service.pass(.seconds(1))
            #expect(await client.dispatcher.parts.heldCount == 1)
            await client.closeNow()
            #expect(await post == "closed notSent")
            #expect(await failure(of: first) != nil)
        }
    }

    // MARK: Links

    @Test func aResetEndsThePostsOfItsLink() throws {
        try simulate(handler: Self.joining) { service, client in
            let stream = client.open(piece("a")).responses
            try await stream.post(piece("b"), isPart: true)
            try await service.pass(.seconds(1))
            await service.server.pauseReading()
            async let half = failure(posting: piece(filled(1_000_000)), isPart: true, to: stream)
            try await service.pass(.seconds(1))
            async let none = failure(posting: whole("c"), to: stream)
            try await service.pass(.seconds(1))
            await service.server.disconnectAll(reset: true)
            #expect(await half == "connectionLost unknown")
            #expect(await none == "connectionLost notSent")
            #expect(await failure(posting: whole("d"), to: stream) == "connectionLost notSent")
            #expect(await words(of: stream) == ["connectionLost unknown"])
            await service.server.resumeReading()
            try await service.pass(.seconds(1))
            // No part of it goes out on the next link.
            let other = client.open(piece("x")).responses
            try await other.post(whole("y"))
            #expect(await words(of: other) == ["xy"])
            let requests = await service.server.journal.requests
            #expect(requests.map { String($0.body.prefix(9)) } == ["a", "x"])
        }
    }

    @Test func aRequestIsRetriedOnlyIfNoPartWasAdded() throws {
        try simulate(handler: Self.joining) { service, client in
            let policy = RetryPolicy.idempotent(tries: 5)
            let alone = client.open(piece("a"), options: CallOptions(retry: policy)).responses
            try await service.server.waitForRequest { $0.body == "a" }
            await service.server.disconnectAll(reset: true)
            try await service.server.wait { $0.requestCount == 2 }
            try await alone.post(whole("b"))
            #expect(await words(of: alone) == ["ab"])

            let continued = client.open(piece("c"), options: CallOptions(retry: policy)).responses
            try await continued.post(piece("d"), isPart: true)
            try await service.server.wait { $0.requestPartCount == 2 }
            await service.server.disconnectAll(reset: true)
            #expect(await words(of: continued) == ["connectionLost unknown"])
            #expect(await failure(posting: whole("e"), to: continued) == "connectionLost notSent")
            try await service.pass(.seconds(30))
            #expect(await service.server.journal.requestCount == 3)
        }
    }

    @Test func anExchangeContinuesOnADrainingLink() throws {
        try simulate(handler: Self.joining) { service, _ in
            let other = try await service.startServer(at: "other:1", speaking: .standard, handler: Self.joining)
            let client = service.client(of: ["db:7000", "other:1"])
            try await client.connect()
            let stream = client.open(piece("a")).responses
            try await stream.post(piece("b"), isPart: true)
            await service.server.pauseReading()
            async let half = failure(posting: piece(filled(200_000)), isPart: true, to: stream)
            try await service.pass(.seconds(1))
            async let queued = failure(posting: piece(filled(5)), isPart: true, to: stream)
            try await service.pass(.seconds(1))
            try await client.switchEndpoint(to: service.endpoint("other:1"))
            try await service.pass(.seconds(1))
            await service.server.resumeReading()
            #expect(await half == nil)
            #expect(await queued == nil)
            try await stream.post(piece("c"), isPart: true)
            let elsewhere = client.open(piece("x")).responses
            try await elsewhere.post(whole("y"))
            #expect(await words(of: elsewhere) == ["xy"])
            try await stream.post(whole("d"))
            #expect(await words(of: stream).first?.count == 200_009)
            #expect(await other.journal.requestCount == 1)
            #expect(await service.server.journal.requestCount == 1)
            await client.closeNow()
            await other.stop()
        }
    }

    @Test func losingADrainingLinkEndsThePostsOnIt() throws {
        try simulate(handler: Self.joining) { service, _ in
            let other = try await service.startServer(at: "other:1", speaking: .standard, handler: Self.joining)
            let client = service.client(of: ["db:7000", "other:1"])
            let stream = client.open(piece("a")).responses
            try await stream.post(piece("b"), isPart: true)
            await service.server.pauseReading()
            async let half = failure(posting: piece(filled(1_000_000)), isPart: true, to: stream)
            try await service.pass(.seconds(1))
            try await client.switchEndpoint(to: service.endpoint("other:1"))
            async let none = failure(posting: piece(filled(5)), isPart: true, to: stream)
            try await service.pass(.seconds(1))
            await service.server.disconnectAll(reset: true)
            #expect(await half == "connectionLost unknown")
            #expect(await none == "connectionLost notSent")
            #expect(await words(of: stream) == ["connectionLost unknown"])
            #expect(await other.journal.requestCount == 0)
            await client.closeNow()
            await other.stop()
        }
    }
}
