import Testing

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts
@testable import TrunklineLoopback
@testable import TrunklineTesting

/// The codec's closing frame is the last frame of a link that closes cleanly. No other link sends it.
@Suite(.simulated, .timeLimit(.minutes(5)))
struct ClosingFrameTests {}

extension ClosingFrameTests {
    /// The standard layout with a closing frame.
    private struct Codec: FrameCodec, ClosingCodec, ServerSideCodec {
        var layout = FrameLayout.standard
        var matching: ResponseMatching { layout.matching }

        mutating func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? { try layout.decode(&input) }

        mutating func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
            try layout.encode(frame, into: &output)
        }

        func closingFrame() -> Frame? { Frame(.request, type: 0x4FF, body: "bye") }
        func serverSide() -> any FrameCodec { layout.serverSide() }
    }

    /// Runs `body` with a client of two servers at "a:1" and "b:1". The servers answer "slow" after a second, and
    /// everything else at once.
    private func simulate(
        options: ClientOptions = ClientOptions(),
        _ body: @escaping @Sendable (SimulatedNetwork, LoopbackServer, LoopbackServer, Client) async throws -> Void
    ) throws {
        let network = SimulatedNetwork(seed: 1)
        try network.runBlocking {
            let handler: LoopbackServer.Handler = { $0.body == "slow" ? .after(.seconds(1), .echo) : .echo }
            let first = try await network.serve(at: "a:1", speaking: Codec(), handler: handler)
            let second = try await network.serve(at: "b:1", speaking: Codec(), handler: handler)
            let client = network.client(of: ["a:1", "b:1"], speaking: Codec(), options: options)
            try await body(network, first, second, client)
            await client.closeNow()
            try await network.clock.sleep(for: .seconds(2))
            await first.stop()
            await second.stop()
        }
        #expect(network.openLinks == 0)
    }

    // MARK: A server that answers

    /// As in AMQP: `close` is answered with `close-ok` when everything before it has been worked off. A server that sees the
    /// end of the connection earlier may drop the rest.
    private struct AnsweringCodec: FrameCodec, ClosingCodec, ServerSideCodec {
        var layout = FrameLayout.standard
        /// Whether the final frame can be encoded.
        var canClose = true
        var matching: ResponseMatching { layout.matching }
        var closingIsAnswered: Bool { true }

        mutating func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
            var frame = try layout.decode(&input)
            if frame?.kind == .push, frame?.body == "close-ok" { frame?.markLinkEnding(.now) }
            return frame
        }

        mutating func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
            guard canClose || frame.type != 0x4FF else { throw FrameError(.malformed, "not today") }
            try layout.encode(frame, into: &output)
        }

        func closingFrame() -> Frame? { Frame(.request, type: 0x4FF, body: "close") }
        func serverSide() -> any FrameCodec { layout.serverSide() }
    }

    private func simulateAnswers(
        canClose: Bool = true,
        _ answer: @escaping @Sendable (Frame) -> Reaction,
        _ body: @escaping @Sendable (SimulatedNetwork, LoopbackServer, Client) async throws -> Void
    ) throws {
        let network = SimulatedNetwork(seed: 1)
        try network.runBlocking {
            let codec = AnsweringCodec(canClose: canClose)
            let server = try await network.serve(at: "a:1", speaking: codec) { request in
                request.body == "close" ? .after(.milliseconds(300), answer(request)) : .echo
            }
            let client = network.client(of: ["a:1"], speaking: codec)
            try await expectEcho("a", by: client)
            try await body(network, server, client)
            await client.closeNow()
            try await network.clock.sleep(for: .seconds(2))
            #expect(await server.connectionCount == 0)
            await server.stop()
        }
        #expect(network.openLinks == 0)
    }

    private static let closeOK = Reaction.push(Frame(.push, type: 2, body: "close-ok"))

    @Test func closingWaitsForTheAnswer() throws {
        for answer in [Self.closeOK, .close] {
            try simulateAnswers({ _ in answer }) { network, server, client in
                var reports = client.disconnects.makeAsyncIterator()
                let begin = network.clock.now
                async let isClosed: Void = client.close()
                try await network.clock.sleep(for: .milliseconds(200))
                #expect(await server.connectionCount == 1)
                await isClosed
                let duration = begin.duration(to: network.clock.now)
                #expect(duration >= .milliseconds(300) && duration < .seconds(1))
                let report = await reports.next()
                #expect(report?.cause == .closedLocally && report?.requestsLost == 0)
            }
        }
    }

    @Test func aServerThatDoesNotAnswerDelaysClosingBriefly() throws {
        try simulateAnswers({ _ in .noReply }) { network, _, client in
            let begin = network.clock.now
            await client.close()
            let duration = begin.duration(to: network.clock.now)
            #expect(duration >= .seconds(2) && duration < .seconds(5))
        }
    }

    /// Regression: closing waited 2 s for the answer to a frame that was never sent.
    @Test func aFinalFrameThatCannotBeEncodedIsNotWaitedFor() throws {
        try simulateAnswers(canClose: false, { _ in .noReply }) { network, _, client in
            let begin = network.clock.now
            await client.close()
            #expect(begin.duration(to: network.clock.now) < .milliseconds(500))
            #expect(await client.metrics.connection.unencodableFrames == 1)
        }
    }

    @Test func aDrainingLinkWaitsForTheAnswer() throws {
        for answer in [Self.closeOK, .close, .noReply] {
            try simulateAnswers({ _ in answer }) { network, server, client in
                var reports = client.disconnects.makeAsyncIterator()
                await client.renewLink()
                try await network.clock.sleep(for: .milliseconds(200))
                #expect(await server.connectionCount == 2)
                try await network.clock.sleep(for: .seconds(5))
                #expect(await server.connectionCount == 1)
                let report = await reports.next()
                #expect(report?.cause == .closedLocally && report?.requestsLost == 0 && report?.error == nil)
                try await expectEcho("b", by: client)
                #expect(await client.metrics.connection.links == 2)
            }
        }
    }

    @Test func closingSendsTheClosingFrameLast() throws {
        try simulate { network, server, _, client in
            let slow = client.start(ask("slow"))
            _ = try await server.waitForRequest()
            let quick = client.start(ask("quick"))
            await client.close()
            try await expectBody("slow", of: slow)
            try await expectBody("quick", of: quick)
            try await network.clock.sleep(for: .seconds(1))
            #expect(await server.received.map(\.body) == ["slow", "quick", "bye"])
            #expect(await server.connectionCount == 0)
        }
    }

    @Test func aConnectionWithoutAClientSendsTheClosingFrame() throws {
        try simulate { network, server, _, client in
            let connection = network.connection(to: ["a:1"], speaking: Codec())
            try await connection.write(Frame(.request, type: 0x410, body: "hello"))
            await connection.close()
            try await network.clock.sleep(for: .seconds(1))
            #expect(await server.received.map(\.body) == ["hello", "bye"])
        }
    }

    @Test func suspendAndCloseNowSendNoClosingFrame() throws {
        try simulate { network, server, _, client in
            try await expectEcho("a", by: client)
            await client.suspend()
            await client.resume()
            try await expectEcho("b", by: client)
            await client.closeNow()
            try await network.clock.sleep(for: .seconds(1))
            #expect(await server.received.map(\.body) == ["a", "b"])
        }
    }

    /// SMPP's unbind. The closing frame is a role of the layout, and has the same type as the server's goAway.
    @Test func aLayoutSendsTheFrameOfItsClosingRole() throws {
        let layout = FrameLayout {
            Field.length(UInt32.self, counting: .wholeFrame)
            Field.type(UInt32.self)
            Field.status(UInt32.self)
            Field.serial(UInt32.self)
            Field.body
        }
        .roles {
            $0.ping = 0x15
            $0.response = .bit(31)
            $0.goAway = 6
            $0.closing = 6
            $0.serials = 2...
        }
        let network = SimulatedNetwork(seed: 1)
        try network.runBlocking {
            let server = try await network.serve(at: "a:1", speaking: layout) { _ in .echo }
            let client = network.client(of: ["a:1"], speaking: layout)
            try await expectEcho("hello", by: client)
            await client.close()
            try await network.clock.sleep(for: .seconds(1))
            #expect(await server.received.map { [$0.type, UInt32($0.serial)] }.last == [6, 1])
            #expect(await server.received.count == 2)
            await server.stop()
        }
        #expect(network.openLinks == 0)
    }

    @Test func aClientWithoutALinkSendsNoClosingFrame() throws {
        try simulate { network, server, _, client in
            await client.close()
            #expect(await server.totalConnections == 0)
        }
    }

    @Test func aDrainingLinkSendsTheClosingFrameAfterItsLastResponse() throws {
        try simulate { network, first, second, client in
            let slow = client.start(ask("slow"))
            _ = try await first.waitForRequest()
            try await client.switchEndpoint(to: second.endpoint)
            await client.becomesReady(at: second.endpoint)
            try await expectEcho("quick", by: client)
            #expect(await first.received.map(\.body) == ["slow"])
            try await expectBody("slow", of: slow)
            try await first.waitForRequests(2)
            await client.close()
            try await network.clock.sleep(for: .seconds(2))
            #expect(await first.received.map(\.body) == ["slow", "bye"])
            #expect(await second.received.map(\.body) == ["quick", "bye"])
            #expect(await first.connectionCount == 0)
        }
    }

    /// The same for requests in several parts. These need a cancel frame, which the test can suppress.
    private struct PieceCodec: FrameCodec, CancellingCodec, ClosingCodec, ServerSideCodec {
        var layout = FrameLayout.standard
        var matching: ResponseMatching { layout.matching }
        let cancelsSilently = Lock(false)

        mutating func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? { try layout.decode(&input) }

        mutating func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
            try layout.encode(frame, into: &output)
        }

        func cancelFrame(for serial: SerialNumber, type: UInt32) -> Frame? {
            cancelsSilently.withLock { $0 } ? nil : layout.cancelFrame(for: serial, type: type)
        }

        func closingFrame() -> Frame? { Frame(.request, type: 0x4FF, body: "bye") }
        func serverSide() -> any FrameCodec { layout.serverSide() }
    }

    /// Regression: a write found the link closed by the peer, and the rest of its input waits for a slow subscriber.
    /// The closing frame was queued, and kept the link until its drain timeout.
    @Test func aLostDrainingLinkIsNotKeptForItsClosingFrame() throws {
        let network = SimulatedNetwork(seed: 1)
        let codec = PieceCodec()
        try network.runBlocking {
            let flood = (0..<20).map { _ in Reaction.push(Frame(.push, type: 2, body: filled(1000))) }
            let first = try await network.serve(at: "a:1", speaking: codec) { request in
                request.kind == .part ? .noReply : .sequence(flood)
            }
            let second = try await network.serve(at: "b:1", speaking: codec)
            let client = network.client(of: ["a:1", "b:1"], speaking: codec)
            let pushes = client.pushes(buffering: PushBuffering(maximumCount: 2, overflow: .suspendReading))
            let stream = client.open(Request(type: 0x404, body: "a"), partTimeout: .seconds(600)).responses
            try await client.post(ask("flood"))
            try await network.clock.sleep(for: .seconds(1))
            #expect(await client.connection.isPaused)
            try await client.switchEndpoint(to: second.endpoint)
            try await network.clock.sleep(for: .seconds(1))
            network.reset("a")
            async let post = failure(posting: Request(type: 0x404, body: "b"), isPart: true, to: stream)
            try await network.clock.sleep(for: .seconds(1))
            #expect(await client.connection.areLinksGone == [true, false])
            codec.cancelsSilently.withLock { $0 = true }
            stream.cancel()
            #expect(await post == "cancelled notSent")
            try await network.clock.sleep(for: .milliseconds(1))
            #expect(await client.connection.areLinksGone == [false])
            withExtendedLifetime(pushes) {}
            await client.closeNow()
            await first.stop()
            await second.stop()
        }
        #expect(network.openLinks == 0)
    }

    @Test func closingWaitsTwoSecondsForAServerThatStopsReading() throws {
        let options = ClientOptions { $0.requests.drainTimeout = .seconds(5) }
        try simulate(options: options) { network, server, _, client in
            try await expectEcho("a", by: client)
            await server.pauseReading()
            let stuck = client.start(ask(filled(1_000_000)), timeout: .seconds(1))
            let began = network.clock.now
            await client.close()
            // 1 s until the last request has ended, and 2 s in which the socket accepts no bytes.
            #expect(began.duration(to: network.clock.now) == .seconds(3))
            #expect(await failure(of: stuck)?.code == .timedOut)
        }
    }
}

extension Connection {
    /// For each link, whether a write has found it closed by the peer.
    fileprivate var areLinksGone: [Bool] { driver.links.all.map { $0.finalReads != nil } }
}
