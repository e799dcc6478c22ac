import Testing
import TrunklineTesting

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts
@testable import TrunklineLoopback

/// Frames that a client adds to a request in flight.
@Suite(.simulated, .timeLimit(.minutes(5)))
struct RequestPartTests {}

extension RequestPartTests {
    @Test func aRequestInPartsArrivesWholeAndInOrder() throws {
        try simulate(handler: { _ in .perform(join) }) { service, client in
            let stream = client.open(piece("a")).responses
            for letter in ["b", "c", "d"] { try await stream.post(piece(Bytes(letter)), isPart: true) }
            try await stream.post(whole("e"))
            #expect(await words(of: stream) == ["abcde"])
            #expect(await failure(posting: whole("late"), to: stream) == "closed notSent")
            let journal = await service.server.journal
            #expect(journal.requestCount == 1 && journal.requestPartCount == 4 && journal.replyCount == 1)
            #expect(journal.cancelCount == 0)
            #expect(journal.requests.map(\.kind) == [.part])
        }
    }

    /// Parts with types of their own could not be sent if anything besides types distinguished frames: "the layout has no
    /// role for part frames".
    @Test func typesMarkPartsOfRequestsBesideOtherRoles() throws {
        let layout = FrameLayout {
            Field.type(UInt32.self)
            Field.serial(UInt32.self)
            Field.integer("flags", UInt8.self)
            Field.length(UInt32.self, counting: .body)
            Field.body
        }
        for layout in [
            layout.roles {
                $0.ping = 1
                $0.cancel = 0x401
                $0.part = 0x404
                $0.goAway = 9
            },
            layout.roles {
                $0.cancel = 0x401
                $0.response = .bit(0, of: "flags")
                $0.part = 0x404
                $0.closing = 9
                $0.requests = 0x402...0x403
            },
        ] {
            try simulate(speaking: layout, handler: { _ in .perform(join) }) { service, client in
                let upload = client.open(piece("a"))
                try await upload.send(Request(body: "b"))
                try await upload.finish(whole("c"))
                #expect(await words(of: upload.responses) == ["abc"])
                #expect(await service.server.journal.requestPartCount == 2)
            }
        }
    }

    @Test func partsOfTheReplyArriveWhilePartsOfTheRequestAreSent() throws {
        let handler: LoopbackServer.Handler = { _ in
            .perform { exchange in
                try await exchange.part(exchange.request.body)
                while let frame = try await exchange.next() {
                    guard frame.kind == .part else { break }
                    try await exchange.part(frame.body)
                }
                try await exchange.reply("end")
            }
        }
        try simulate(handler: handler) { _, client in
            let stream = client.open(piece("0")).responses
            var parts = stream.makeAsyncIterator()
            for number in 0..<20 {
                let part = try await parts.next()
                #expect(part?.body == Bytes("\(number)") && part?.isPart == true && part?.type == 0x404)
                try await stream.post(piece(Bytes("\(number + 1)")), isPart: true)
            }
            try await stream.post(whole(""))
            #expect(await words(of: stream) == ["+20", "end"])
        }
    }

    @Test func windowUpdatesReachTheExchangeAndNotTheHandler() throws {
        let notes = Notes()
        let handler: LoopbackServer.Handler = { request in
            notes.add("\(request.type)")
            return .perform { exchange in
                try await exchange.part("1")
                let update = try await exchange.next()
                #expect(update?.type == 0x405 && update?.body == "more")
                try await exchange.reply("2")
            }
        }
        try simulate(handler: handler) { service, client in
            let stream = client.stream(whole("get"))
            try await stream.post(update("more"))
            // It may be on its way when the reply ends, and then belongs to no exchange.
            let isLate = await failure(posting: update("late"), to: stream)
            #expect(isLate == nil || isLate == "closed notSent")
            #expect(await words(of: stream) == ["+1", "2"])
            try await service.pass(.seconds(1))
            #expect(notes.all == ["\(0x403)"])
            #expect(await service.server.journal.cancelCount == 0)
        }
    }

    // MARK: Many requests

    /// Regression: every batch of events looked at all held parts, and so did the end of every request. With 12,000 open
    /// requests that took 15 s, and other clients on the loop waited.
    @Test(arguments: ["answered", "cancelled", "reset"])
    func aRequestCostsItsOwnPartsOnly(_ ending: String) throws {
        let count = 4000
        let options = ClientOptions { $0.reconnecting.policy = Backoff(base: .milliseconds(1), cap: .milliseconds(1)) }
        try simulate(options: options, handler: { _ in .perform(join) }) { service, client in
            try await client.connect()
            await service.server.pauseReading()
            let streams = (0..<count).map { number in
                let stream = client.open(piece(filled(500)), timeout: .never, partTimeout: .never).responses
                client.addPart(piece("\(number)"), isPart: true, of: client.latestRequest, stream)
                client.addPart(whole("."), isPart: false, of: client.latestRequest, stream)
                return stream
            }
            try await service.pass(.milliseconds(100))
            #expect(await client.dispatcher.parts.heldCount > count)
            switch ending {
            case "cancelled": client.cancelAll()
            case "reset":
                service.network.reset("db")
                await service.server.resumeReading()
            default: await service.server.resumeReading()
            }
            var lengths: [Int: Int] = [:]
            for stream in streams {
                var length = 0
                do { for try await response in stream { length += response.body.count } } catch { length = -1 }
                lengths[length < 500 ? length : 500, default: 0] += 1
            }
            // After a reset, the requests that had not started went out on the next link.
            switch ending {
            case "answered": #expect(lengths == [500: count])
            case "cancelled": #expect(lengths == [-1: count])
            default: #expect(lengths[500, default: 0] > count / 2 && lengths[-1, default: 0] > 0)
            }
            let parts = await client.dispatcher.parts
            #expect(parts.heldCount == 0 && parts.queued.isEmpty)
            #expect(parts.visitedCount < 20 * count)
            await service.server.resumeReading()
        }
    }

    // MARK: Back-pressure

    @Test func aServerThatReadsSlowlyDelaysTheCaller() throws {
        let handler: LoopbackServer.Handler = { _ in .after(.seconds(5), .perform(join)) }
        try simulate(handler: handler) { service, client in
            // Pings are not read meanwhile.
            let stream = client.open(piece("a")).responses
            let began = service.now
            for _ in 0..<100 { try await stream.post(piece(filled(65_536)), isPart: true) }
            #expect(service.now - began > .seconds(4))
            try await stream.post(whole("z"))
            var size = 0
            for try await frame in stream { size += frame.body.count }
            #expect(size == 100 * 65_536 + 2)
        }
    }

    @Test func partsShareTheRoomBelowTheWatermarkWithRequests() throws {
        let options = ClientOptions {
            $0.outbound.highWatermark = 4096
            $0.outbound.lowWatermark = 2048
        }
        let handler: LoopbackServer.Handler = { $0.kind == .part ? .perform(join) : .echo }
        try simulate(options: options, handler: handler) { _, client in
            await withTaskGroup(of: Void.self) { group in
                for _ in 0..<8 {
                    group.addTask {
                        let stream = client.open(piece(filled(3000))).responses
                        for _ in 0..<30 { _ = await failure(posting: piece(filled(3000)), isPart: true, to: stream) }
                        #expect(await failure(posting: whole("z"), to: stream) == nil)
                        #expect(await words(of: stream).first?.count == 31 * 3000 + 1)
                    }
                }
                for number in 0..<50 {
                    group.addTask { _ = try? await expectEcho(Bytes("\(number)"), by: client) }
                }
            }
            #expect(await client.metrics.responses == 58)
        }
    }

    /// Nothing but the write of another request tells the client that there is room again.
    @Test func aHeldPartGoesOutAfterAWriteWithoutOtherTraffic() throws {
        let options = ClientOptions {
            ($0.outbound.highWatermark, $0.outbound.lowWatermark) = (1000, 500)
            $0.liveness.heartbeat = .none
        }
        let handler: LoopbackServer.Handler = { $0.kind == .part ? .perform(join) : .after(.seconds(5), .echo) }
        try simulate(options: options, handler: handler) { service, client in
            let stream = client.open(piece("a")).responses
            let id = client.latestRequest
            try await service.server.waitForRequests(1)
            let began = service.now
            // In one batch. Neither makes an event when it is put on the link.
            let large = client.stream(ask(filled(2000)))
            client.addPart(piece("b"), isPart: true, of: id, stream)
            try await service.server.wait { $0.requestCount == 2 && $0.requestPartCount == 1 }
            #expect(service.now - began < .seconds(1))
            #expect(await service.server.journal.replyCount == 0)
            try await stream.post(whole("c"))
            #expect(await words(of: stream) == ["abc"])
            #expect(await words(of: large).first?.count == 2000)
        }
    }

    /// While a part is held, the requests behind it wait. When too many of them wait, they go out before the batch
    /// ends. The room that the link had at the beginning of the batch is smaller by then.
    ///
    /// - Parameter cancelsOne: Whether the only waiting request leaves, so that later ones need not wait.
    @Test(arguments: [false, true])
    func aBatchWithAHeldPartDoesNotExceedTheLimitInFlight(cancelsOne: Bool) throws {
        let options = ClientOptions {
            $0.requests.maximumInFlight = 64
            $0.requests.maximumWaiting = 10
        }
        let handler: LoopbackServer.Handler = { $0.kind == .part ? .perform(join) : .after(.seconds(1), .echo) }
        try simulate(options: options, handler: handler) { service, client in
            let stream = client.open(piece("a")).responses
            let id = client.latestRequest
            try await service.server.waitForRequests(1)
            // A command from outside the loop keeps all commands that follow in one batch.
            client.commandQueue.post(.resumeReading)
            client.addPart(piece("b"), isPart: true, of: id, stream)
            var handles = (0..<21).map { client.start(ask($0)) }
            if cancelsOne { handles[20].cancel() }
            handles += (21..<121).map { client.start(ask($0)) }
            try await service.pass(.milliseconds(500))
            #expect(await service.server.journal.requestCount == 64)
            #expect(await service.server.journal.replyCount == 0)
            var ends: [String: Int] = [:]
            for handle in handles {
                do throws(ClientError) {
                    _ = try await handle.value
                    ends["answered", default: 0] += 1
                } catch {
                    ends["\(error.code) \(error.fate)", default: 0] += 1
                }
            }
            let others = cancelsOne ? ["overloaded notSent": 47, "cancelled notSent": 1] : ["overloaded notSent": 48]
            #expect(ends == others.merging(["answered": 73]) { $1 })
            try await stream.post(whole("c"))
            #expect(await words(of: stream) == ["abc"])
        }
    }

    /// Parts of a queued request are held in front of those of a request that has started. Regression: each of the
    /// latter was searched for from the first held part on. 30,000 of them blocked the event loop for minutes (in
    /// a debug build).
    @Test func manyPartsGoOutInOneBatchInReasonableTime() throws {
        let count = 30_000
        let options = ClientOptions {
            $0.requests.maximumInFlight = 1
            $0.requests.timeout = .seconds(600)
            ($0.outbound.highWatermark, $0.outbound.lowWatermark) = (1 << 30, 1 << 30)
        }
        try simulate(options: options, handler: { _ in .perform(join) }) { service, client in
            let started = client.open(piece("a")).responses
            let id = client.latestRequest
            try await service.server.waitForRequests(1)
            let waits = client.open(piece("b")).responses
            for (stream, id) in [(waits, id.advanced(by: 1)), (started, id)] {
                for _ in 1..<count { client.addPart(piece("-"), isPart: true, of: id, stream) }
                client.addPart(whole("!"), isPart: false, of: id, stream)
            }
            // In the order in which they were added.
            let letters = String(repeating: "-", count: count - 1) + "!"
            let (first, second) = (await words(of: started), await words(of: waits))
            #expect(first == ["a" + letters] && second == ["b" + letters])
        }
    }

    // MARK: The end of the reply

    /// Regression: while any request was sent in parts, a response behind a part that exceeds the limit was not counted.
    /// It came in the same read, so it answered its request.
    @Test func aResponseBehindAPartThatExceedsTheLimitIsCountedAlsoAmongRequestsInParts() throws {
        let options = ClientOptions { $0.requests.maximumReplySize = 5 }
        let parts = ["1234", "56", "7"].map { Reaction.part(Frame(.part, type: 0x404, body: $0)) }
        let handler: LoopbackServer.Handler = { $0.kind == .part ? .noReply : .sequence(parts + [.reply("8")]) }
        try simulate(conditions: .wide, options: options, handler: handler) { service, client in
            let stream = client.open(piece("a"), partTimeout: .seconds(600)).responses
            try await service.server.waitForRequests(1)
            let error = await failure { () throws(ClientError) in try await client.send(whole("b")) }
            #expect(error?.code == .overloaded && error?.fate == .answered)
            let metrics = await client.metrics
            #expect(metrics.parts == 2 && metrics.responses == 1 && metrics.lateResponses == 0)
            #expect(metrics.pending == 1 && metrics.heldSerials == 1)
            stream.cancel()
        }
    }

    /// Regression: the last part was taken for a separate request, and its response for the response to
    /// another request.
    @Test func aReplyBeforeTheEndOfItsRequestEndsTheRequestToo() throws {
        let notes = Notes()
        let handler: LoopbackServer.Handler = { request in
            notes.add(String(request.body))
            return .perform { exchange in
                guard exchange.request.kind == .part else { return try await exchange.reply("whole") }
                _ = try await exchange.next()
                try await exchange.reply(Frame(.response, type: 0x403, body: "enough"))
            }
        }
        try simulate(speaking: pieceLayout(serials: 50...50), handler: handler) { service, client in
            for _ in 0..<20 {
                let stream = client.open(piece("a")).responses
                var ending: String?
                while ending == nil { ending = await failure(posting: piece(filled(4096)), isPart: true, to: stream) }
                #expect(ending == "closed notSent" || ending == "closed unknown")
                #expect(await words(of: stream) == ["enough"])
                // The serial is free, and the server no longer waits for the rest.
                let reply = try await client.send(whole("b"))
                #expect(reply.body == "whole")
            }
            try await service.pass(.seconds(1))
            #expect(Set(notes.all) == ["a", "b"])
            #expect(await service.server.journal.cancelCount == 20)
            #expect(await service.server.exchangeCount == 0)
        }
    }

    /// Regression: the cancel frame was missing if the reply had ended in the read in which it exceeded its limit.
    @Test func aReplyThatIsTooLargeEndsItsRequestToo() throws {
        let parts = (1...3).map { Reaction.part(Frame(.part, type: 0x404, body: Bytes("\($0)"))) }
        let end = Reaction.reply(Frame(.response, type: 0x403, body: "4"))
        try simulate(conditions: .wide, handler: { _ in .sequence(parts + [end]) }) { service, client in
            let buffering = ReplyBuffering(maximumCount: 1, overflow: .fail)
            let stream = client.open(piece("a"), buffering: buffering).responses
            try await service.server.wait { $0.cancelCount == 1 }
            let error = await failure { () throws(ClientError) in for try await _ in stream {} }
            #expect(error?.code == .overloaded && error?.fate == .answered)
        }
    }

    // MARK: Invalid requests

    /// In order, only the latest request can have pieces: one that was opened, and not one of a channel.
    @Test func protocolsMatchedInOrderHavePartsOnlyOfOpenedRequests() throws {
        try simulate(speaking: LaneCodec()) { _, client in
            #expect(await words(of: client.open(ask("a")).responses) == ["invalidRequest notSent"])
        }
        try simulate(speaking: PartsCodec.inOrder) { _, client in
            let stream = client.stream(ask("a"))
            #expect(await failure(posting: ask("b"), to: stream) == "invalidRequest notSent")
            #expect(await words(of: stream) == ["a"])
        }
    }

    @Test func aFrameThatCannotBeEncodedFailsAlone() throws {
        try simulate(handler: { _ in .perform(join) }) { _, client in
            let stream = client.open(piece("a")).responses
            #expect(await failure(posting: whole("b"), isPart: true, to: stream) == "invalidRequest notSent")
            #expect(await failure(posting: Request(type: 0x401), to: stream) == "invalidRequest notSent")
            try await stream.post(whole("c"))
            #expect(await words(of: stream) == ["ac"])
            let refused = client.open(whole("a")).responses
            #expect(await words(of: refused) == ["invalidRequest notSent"])
            #expect(await failure(posting: piece("b"), isPart: true, to: refused) == "invalidRequest notSent")
        }
    }
}
