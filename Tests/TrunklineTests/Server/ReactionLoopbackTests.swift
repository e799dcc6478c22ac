import Testing
import Trunkline
import TrunklineTesting

@testable import TrunklineLoopback

/// Every reaction as a client sees it.
@Suite(.tags(.realThreads), .timeLimit(.minutes(5)))
struct ReactionLoopbackTests {}

extension ReactionLoopbackTests {
    // MARK: Replies

    @Test func anEchoRepeatsTypeAndBody() async throws {
        try await withServerAndClient { server, client in
            let reply = try await client.send(Request(type: 0x410, body: "hello"))
            #expect(!reply.isPart)
            #expect(reply.type == 0x410)
            #expect(reply.serial == 50)
            #expect(reply.body == "hello")
            let received = await server.received
            #expect(received.map(\.kind) == [.request])
            #expect(received.first?.body == "hello")
        }
    }

    @Test func aReplyHasTheBodyAndTheTypeThatTheHandlerChose() async throws {
        let handler: LoopbackServer.Handler = { request in
            request.body == "body" ? .reply("other") : .reply(Frame(.response, type: 0x500, serial: 7, body: "own"))
        }
        try await withServerAndClient(handler: handler) { _, client in
            let first = try await client.send(Request(type: 0x410, body: "body"))
            let second = try await client.send(Request(type: 0x410, body: "frame"))
            #expect(first.type == 0x410)
            #expect(first.body == "other")
            #expect(second.type == 0x500)
            #expect(second.body == "own")
        }
    }

    @Test func anErrorStatusIsAnErrorResponseWithStatusAndBody() async throws {
        try await withServerAndClient(speaking: strictLayout, handler: { _ in .status(404, "no such thing") }) {
            _,
            client in
            let error = await failure { () throws(ClientError) in try await client.send(Request(type: 7, body: "x")) }
            #expect(error?.code == .rejected)
            #expect(error?.fate == .answered)
            #expect(error?.response?.status == 404)
            #expect(error?.response?.body == "no such thing")
        }
    }

    @Test func anEchoIsASuccessInAProtocolWithAStatus() async throws {
        try await withServerAndClient(speaking: strictLayout) { _, client in
            let reply = try await client.send(Request(type: 7, body: "x"))
            #expect(reply.status == 200)
        }
    }

    @Test func aRequestWithoutReplyTimesOutAndSendsACancelFrame() async throws {
        try await withServerAndClient(handler: { _ in .noReply }) { server, client in
            try await client.connect()
            let error = await failure { () throws(ClientError) in
                try await client.send(Request(type: 0x410), timeout: .seconds(1))
            }
            #expect(error?.code == .timedOut)
            #expect(error?.fate == .unknown)
            let cancel = try await server.waitForCancel(within: patience)
            #expect(cancel.serial == 50)
        }
    }

    @Test func aSecondReplyIsCountedAndDiscarded() async throws {
        try await withServerAndClient(handler: { $0.body == "twice" ? .twice : .echo }) { _, client in
            let reply = try await client.send(Request(type: 0x410, body: "twice"))
            #expect(reply.body == "twice")
            _ = try await client.send(Request(type: 0x410, body: "once"))
            let metrics = await client.metrics
            #expect(metrics.unknownResponses == 1)
            #expect(metrics.responses == 2)
        }
    }

    @Test func aReplyWithAnUnknownSerialIsCountedAndDiscarded() async throws {
        try await withServerAndClient(handler: { _ in .sequence([.unknownSerial, .echo]) }) { _, client in
            let reply = try await client.send(Request(type: 0x410, body: "a"))
            #expect(reply.body == "a")
            #expect(await client.metrics.unknownResponses == 1)
        }
    }

    // MARK: Order and time

    @Test func aDelayedReplyComesAfterOthers() throws {
        let handler: LoopbackServer.Handler = { $0.body == "slow" ? .after(.seconds(1), .echo) : .echo }
        try simulate(handler: handler) { service, _ in
            let connection = service.connection(to: ["db:7000"], speaking: .standard)
            try await connection.write(Frame(.request, type: 0x410, serial: 1, body: "slow"))
            try await connection.write(Frame(.request, type: 0x410, serial: 2, body: "quick"))
            #expect(await serials(of: connection, 2) == [2, 1])
            await connection.closeNow()
        }
    }

    @Test func delaysInASequenceAddUpAndKeepItsOrder() async throws {
        let handler: LoopbackServer.Handler = { _ in
            .sequence([
                .push(Frame(.push, type: 2)), .after(.milliseconds(5), .push(Frame(.push, type: 3))),
                .after(.milliseconds(5), .echo), .push(Frame(.push, type: 4)),
            ])
        }
        try await withServerAndConnection(handler: handler) { _, connection in
            try await connection.write(Frame(.request, type: 0x410, serial: 1))
            #expect(await frames(of: connection, 4).map(\.type) == [2, 3, 0x410, 4])
        }
    }

    @Test func aCancelledRequestGetsNoDelayedReply() async throws {
        try await withServerAndClient(handler: { _ in .after(.seconds(60), .echo) }) { server, client in
            let pending = client.start(Request(type: 0x410))
            try await server.waitForRequests(1, within: patience)
            pending.cancel()
            let error = await failure { () throws(ClientError) in try await pending.value }
            #expect(error?.code == .cancelled)
            #expect(error?.fate == .unknown)
            try await server.waitForCancel(of: pending.serial, within: patience)
            #expect(await server.journal.droppedReplyCount == 1)
        }
    }

    @Test func repliesToCancelledRequestsCountAsLate() async throws {
        let options = LoopbackServer.Options { $0.answersCancelled = true }
        let handler: LoopbackServer.Handler = { _ in .outOfOrder(window: 2) }
        try await withServerAndClient(options: options, handler: handler) { server, client in
            let pending = client.start(Request(type: 0x410, body: "slow"))
            try await server.waitForRequests(1, within: patience)
            pending.cancel()
            try await server.waitForCancel(within: patience)
            // The second request fills the window. Its own reply comes first, then the late one.
            _ = try await client.send(Request(type: 0x410, body: "quick"))
            try await server.wait(within: patience) { $0.replyCount == 2 }
            await server.script(.echo)
            _ = try await client.send(Request(type: 0x410, body: "last"))
            let metrics = await client.metrics
            #expect(metrics.lateResponses == 1)
            #expect(metrics.heldSerials == 0)
        }
    }

    @Test func outOfOrderRepliesAreReversed() async throws {
        try await withServerAndConnection(handler: { _ in .outOfOrder(window: 4) }) { _, connection in
            for serial in 1...4 {
                try await connection.write(Frame(.request, type: 0x410, serial: SerialNumber(serial)))
            }
            #expect(await serials(of: connection, 4) == [4, 3, 2, 1])
        }
    }

    @Test func theSameSeedShufflesRepliesAlike() async throws {
        var orders: [[SerialNumber]] = []
        for _ in 0..<2 {
            try await withServerAndConnection(handler: { _ in .shuffled(window: 16, seed: 42) }) { _, connection in
                for serial in 1...16 {
                    try await connection.write(Frame(.request, type: 0x410, serial: SerialNumber(serial)))
                }
                orders.append(await serials(of: connection, 16))
            }
        }
        #expect(orders[0] == orders[1])
        #expect(orders[0] != Array(1...16))
        #expect(orders[0].sorted() == Array(1...16))
    }

    @Test func repliesOutOfOrderReachTheirRequests() async throws {
        try await withServerAndClient(handler: { _ in .shuffled(window: 10, seed: 1) }) { _, client in
            let results = await client.send(all: (0..<100).map { Request(type: 0x410, body: Bytes("\($0)")) })
            #expect(results.compactMap { try? String($0.get().body) } == (0..<100).map(String.init))
        }
    }

    @Test func heldRepliesCanBeReleased() async throws {
        try await withServerAndClient(handler: { _ in .outOfOrder(window: 100) }) { server, client in
            async let reply = client.send(Request(type: 0x410, body: "held"))
            try await server.waitForRequests(1, within: patience)
            await server.releaseHeld()
            #expect(try await reply.body == "held")
        }
    }

    // MARK: Pushes

    @Test func pushesAroundAReplyArriveInOrder() async throws {
        let handler: LoopbackServer.Handler = { request in
            .sequence([.push(Frame(.push, type: 2, body: "1"), Frame(.push, type: 2, body: "2")), .echo])
        }
        try await withServerAndClient(handler: handler) { _, client in
            let pushes = client.pushes(ofType: 2)
            _ = try await client.send(Request(type: 0x410))
            var texts: [String] = []
            for await frame in pushes.messages.prefix(2) { texts.append(String(frame.body)) }
            #expect(texts == ["1", "2"])
        }
    }

    @Test func aPingReachesTheClient() async throws {
        try await withServerAndConnection(handler: { _ in .sequence([.ping, .echo]) }) { _, connection in
            try await connection.write(Frame(.request, type: 0x410, serial: 1))
            #expect(await frames(of: connection, 2).map(\.kind) == [.ping, .response])
        }
    }

    // MARK: Pieces

    @Test func aBitIsFlippedInEveryFrameThatHasIt() async throws {
        // The lowest bit of the first byte of the body.
        let handler: LoopbackServer.Handler = { _ in .flippingBit(12 * 8 + 7) }
        try await withServerAndClient(handler: handler) { _, client in
            let replies = [try await client.send(ask("abc")).body, try await client.send(ask("")).body]
            #expect(replies == ["`bc", ""])
        }
    }

    @Test(arguments: [1, 2, 5, 13])
    func aReplyInPiecesIsPutTogether(size: Int) async throws {
        try await withServerAndClient(handler: { _ in .inPieces(of: size) }) { _, client in
            let requests = (0..<20).map { Request(type: 0x410, body: Bytes("a body of some length \($0)")) }
            let results = await client.send(all: requests)
            #expect(results.compactMap { try? $0.get().body } == requests.map(\.body))
        }
    }

    @Test func piecesAndWholeFramesKeepTheirOrder() async throws {
        let handler: LoopbackServer.Handler = { request in request.serial % 2 == 0 ? .oneByteAtATime() : .echo }
        try await withServerAndConnection(handler: handler) { _, connection in
            for serial in 1...10 {
                try await connection.write(Frame(.request, type: 0x410, serial: SerialNumber(serial), body: "body"))
            }
            #expect(await serials(of: connection, 10) == Array(1...10))
        }
    }

    // MARK: Faults

    @Test func aConnectionClosedMidFrameLosesTheRequest() async throws {
        try await withServerAndClient { server, client in
            await server.script(.closeMidFrame())
            let error = await failure { () throws(ClientError) in try await client.send(Request(type: 0x410, body: "x"))
            }
            #expect(error?.code == .connectionLost)
            #expect(error?.fate == .unknown)
            #expect((error?.cause as? TransportError)?.code == .closedByPeer)
            let reply = try await client.send(Request(type: 0x410, body: "again"))
            #expect(reply.body == "again")
            #expect(await server.totalConnections == 2)
        }
    }

    @Test func aClosedConnectionLosesTheRequest() async throws {
        try await withServerAndClient { server, client in
            await server.script(.close)
            let error = await failure { () throws(ClientError) in try await client.send(Request(type: 0x410)) }
            #expect(error?.code == .connectionLost)
            #expect((error?.cause as? TransportError)?.code == .closedByPeer)
            _ = try await client.send(Request(type: 0x410))
        }
    }

    @Test func aReplySentBeforeTheCloseArrives() async throws {
        let large = Bytes([UInt8](repeating: 7, count: 3_000_000))
        try await withServerAndClient { server, client in
            await server.script(.sequence([.reply(large), .close]))
            let reply = try await client.send(Request(type: 0x410))
            #expect(reply.body.count == large.count)
        }
    }

    @Test func aResetConnectionLosesTheRequest() async throws {
        try await withServerAndClient { server, client in
            await server.script(.reset)
            let error = await failure { () throws(ClientError) in try await client.send(Request(type: 0x410)) }
            #expect(error?.code == .connectionLost)
            #expect((error?.cause as? TransportError)?.code == .reset)
            _ = try await client.send(Request(type: 0x410))
        }
    }

    @Test func aServerThatStopsReadingAnswersLater() async throws {
        try await withServerAndClient { server, client in
            await server.script(.sequence([.echo, .stopReading]))
            _ = try await client.send(Request(type: 0x410, body: "first"))
            let error = await failure { () throws(ClientError) in
                try await client.send(Request(type: 0x410, body: "second"), timeout: .milliseconds(20))
            }
            #expect(error?.code == .timedOut)
            #expect(await server.journal.requestCount == 1)
            await server.resumeReading()
            _ = try await client.send(Request(type: 0x410, body: "third"))
            #expect(await server.received.map(\.kind) == [.request, .request, .cancel, .request])
            #expect(await client.metrics.lateResponses == 1)
        }
    }

    @Test func garbageIsAProtocolViolationAndEndsTheLink() async throws {
        try await withServerAndClient(speaking: strictLayout) { server, client in
            await server.script(.garbage([1, 2, 3, 4]))
            let error = await failure { () throws(ClientError) in try await client.send(Request(type: 7)) }
            #expect(error?.code == .protocolViolation)
            #expect((error?.cause as? FrameError)?.code == .unexpectedBytes)
            _ = try await client.send(Request(type: 7))
            #expect(await server.totalConnections == 2)
        }
    }

    @Test(arguments: [false, true])
    func anAbsurdLengthIsRejectedWithoutWaitingForTheBody(isStrict: Bool) async throws {
        try await withServerAndClient(speaking: isStrict ? strictLayout : .standard) { server, client in
            await server.script(.absurdLength)
            let error = await failure { () throws(ClientError) in try await client.send(Request(type: 0x410)) }
            #expect(error?.code == .protocolViolation)
            #expect((error?.cause as? FrameError)?.code == .illegalLength)
            _ = try await client.send(Request(type: 0x410))
        }
    }

    /// Regression: such a frame was omitted silently, and the client waited for it until its deadline.
    @Test(
        arguments: [
            .push(Frame(.push, type: 0x1_0000)), .oneByteAtATime(.reply(Frame(.response, type: 0x1_0000))),
            .reply(Frame(.response, type: 0x1_0000)),
        ] as [Reaction]
    )
    func aFrameThatCannotBeEncodedEndsItsLink(reaction: Reaction) async throws {
        let handler: LoopbackServer.Handler = { $0.body == "x" ? .sequence([.echo, reaction, .echo]) : reaction }
        try await withServerAndClient(speaking: strictLayout, handler: handler) { server, client in
            // Frames before it are sent.
            let reply = try await client.send(Request(type: 7, body: "x"))
            #expect(reply.body == "x")
            let error = await failure { () throws(ClientError) in
                try await client.send(Request(type: 7, body: "y"), options: CallOptions(retry: .never))
            }
            #expect(error?.code == .connectionLost)
            let journal = await server.journal
            #expect(journal.replyCount == 1)
            #expect(journal.lastEncodingFailure?.code == .unknownType)
        }
    }
}

/// The next `count` frames of `connection`.
func frames(of connection: Connection, _ count: Int) async -> [Frame] {
    let frames = try? await connection.withFrames { stream in
        var frames: [Frame] = []
        for await frame in stream.prefix(count) { frames.append(frame) }
        return frames
    }
    return frames ?? []
}

/// The serials of the next `count` frames of `connection`.
func serials(of connection: Connection, _ count: Int) async -> [SerialNumber] {
    await frames(of: connection, count).map(\.serial)
}
