import Testing

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts
@testable import TrunklineLoopback
@testable import TrunklineTesting

/// Links on which bytes arrive, but no frames, and servers that answer nothing: what the client notices, and how.
@Suite(.simulated, .timeLimit(.minutes(5)))
struct LivenessTests {}

extension LivenessTests {
    enum Variant: String, CaseIterable, Sendable {
        case standard
        /// Matched by serial, without a ping.
        case plain
        /// Matched in order, without a ping.
        case ordered

        var layout: FrameLayout {
            switch self {
            case .standard: .standard
            case .plain:
                FrameLayout {
                    Field.type(UInt32.self)
                    Field.serial(UInt32.self)
                    Field.length(UInt32.self, counting: .body)
                    Field.body
                }
            case .ordered:
                FrameLayout {
                    Field.type(UInt32.self)
                    Field.length(UInt32.self, counting: .body)
                    Field.body
                }
            }
        }
    }

    /// A bit of the length in `standard` and `plain`. It adds 1 MiB.
    private static let wrongBit = 75

    // MARK: Lost framing

    /// Regression: 15 responses and 675 timeouts in 75 s, on a link without a ping, because any byte counted as
    /// progress. With few responses the frame grows more slowly than the minimum rate, with many it grows faster.
    @Test(arguments: [Variant.standard, .plain], [50, 500, 2000])
    func aWrongBitInALengthEndsTheLinkSoon(_ variant: Variant, _ milliseconds: Int) throws {
        try simulate(speaking: variant.layout) { service, client in
            try await expectEcho("a", by: client)
            await service.server.script(.flippingBit(Self.wrongBit))
            let began = service.now
            while await client.metrics.connection.links == 1, service.now - began < .seconds(75) {
                _ = client.start(ask("some twenty bytes"), timeout: .seconds(8))
                try await service.pass(.milliseconds(milliseconds))
            }
            #expect(service.now - began < .seconds(25))
            try await expectEcho("b", by: client)
            #expect(await client.metrics.connection.links == 2)
        }
    }

    /// The pongs themselves are taken for bytes of the frame.
    @Test func aPingThatIsFollowedOnlyByJunkEndsTheLink() throws {
        // The header of a push of 1 MiB, of which nothing else arrives.
        let header: Bytes = [0, 0, 0, 2, 0, 0, 0, 0, 0, 0x10, 0, 0]
        try simulate(handler: { $0.body == "junk" ? .sequence([.echo, .garbage(header)]) : .echo }) { service, client in
            try await expectEcho("junk", by: client)
            try await service.pass(.seconds(21))
            #expect(await service.server.journal.pingCount == 1)
            #expect(await client.metrics.connection.disconnects == [.halfOpen: 1])
            try await expectEcho("a", by: client)
        }
    }

    @Test(arguments: Variant.allCases)
    func aFrameThatIsNeverCompletedEndsTheLink(_ variant: Variant) throws {
        try simulate(speaking: variant.layout, handler: { $0.body == "half" ? .hangMidFrame() : .echo }) {
            service,
            client in
            var reports = client.disconnects.makeAsyncIterator()
            let handle = client.start(ask("half"), timeout: .seconds(60))
            try await service.pass(.seconds(9))
            #expect(await client.metrics.connection.disconnects.isEmpty)
            let error = await failure(of: handle)
            #expect(error?.code == .connectionLost && error?.fate == .unknown)
            // If the protocol has a ping, the link is probed first.
            #expect(service.now < .seconds(variant == .standard ? 21 : 11))
            let report = await reports.next()
            #expect(report?.cause == .halfOpen && report?.endedBy == .client)
            try await expectEcho("a", by: client)
        }
    }

    // MARK: Large and slow

    /// Runs `body` on a link that carries `bandwidth` bytes per second. The response to "large" has 30,000 bytes.
    private func simulateSlowLink(
        _ bandwidth: Int,
        speaking variant: Variant = .standard,
        minimumRate: Int? = 100,
        _ body: @escaping @Sendable (SimulatedService, Client) async throws -> Void
    ) throws {
        var conditions = NetworkConditions()
        conditions.bandwidth = bandwidth
        // A packet arrives as a whole. With small packets the bytes arrive one after the other.
        conditions.sendBuffer = 50
        conditions.receiveWindow = 50
        try simulate(
            speaking: variant.layout,
            options: ClientOptions { $0.liveness.minimumRate = minimumRate },
            overTLS: false,
            handler: { $0.body == "large" ? .reply(filled(30_000)) : .echo }
        ) { [conditions] service, client in
            try await client.connect()
            service.network.setConditions(conditions, for: "db")
            try await body(service, client)
        }
    }

    /// Requests behind the large response time out by the dozen, but the first request waits for it. Regression:
    /// without a minimum rate no frame counted as awaited, and its growth was not progress after three timeouts.
    @Test(arguments: [Variant.standard, .plain], [100, nil])
    func aLargeBodyThatArrivesSlowlyAndSteadilyIsProgress(_ variant: Variant, _ minimumRate: Int?) throws {
        try simulateSlowLink(300, speaking: variant, minimumRate: minimumRate) { service, client in
            let large = client.start(ask("large"), timeout: .seconds(200))
            try await service.pass(.seconds(1))
            for _ in 0..<40 {
                _ = client.start(ask("small"), timeout: .milliseconds(1500))
                try await service.pass(.seconds(2))
            }
            let reply = try await large.value
            #expect(reply.body.count == 30_000)
            #expect(service.now > .seconds(99))
            #expect(await client.metrics.connection.links == 1)
        }
    }

    @Test(arguments: [Variant.standard, .plain])
    func aBodyThatArrivesTooSlowlyEndsTheLink(_ variant: Variant) throws {
        try simulateSlowLink(50, speaking: variant) { service, client in
            let error = await failure { () throws(ClientError) in
                try await client.send(ask("large"), timeout: .seconds(600))
            }
            #expect(error?.code == .connectionLost)
            #expect((error?.cause as? TransportError)?.code == .halfOpen)
            #expect(service.now < .seconds(25))
            service.network.setConditions(NetworkConditions(), for: "db")
            try await expectEcho("a", by: client)
        }
    }

    @Test func withoutAMinimumRateABodyMayArriveAtAnySpeed() throws {
        try simulateSlowLink(50, minimumRate: nil) { _, client in
            let reply = try await client.send(ask("large"), timeout: .seconds(900))
            #expect(reply.body.count == 30_000)
            #expect(await client.metrics.connection.links == 1)
        }
    }

    // MARK: Servers that answer nothing

    /// One request per second is far too few for an error rate. Regression: 60 of 60 requests timed out
    /// without a failover.
    @Test(arguments: Variant.allCases, [HeartbeatMode.none, .oneWay, .pingPong])
    func aClientOfAHangingServerChangesToTheNextEndpoint(
        _ variant: Variant,
        _ heartbeat: HeartbeatMode
    ) throws {
        try simulate(speaking: variant.layout) { service, _ in
            let other = try await service.startServer(at: "other:7000", speaking: variant.layout)
            let options = ClientOptions {
                $0.liveness.heartbeat = heartbeat
                $0.requests.timeout = .seconds(1)
            }
            let client = service.client(of: ["db:7000", "other:7000"], speaking: variant.layout, options: options)
            try await expectEcho("a", by: client)
            await service.server.fallSilent()
            let began = service.now
            while await other.received.isEmpty, service.now - began < .seconds(120) {
                _ = client.start(ask("b"))
                try await service.pass(.seconds(1))
            }
            // With a ping, the link is dead only when its answer is due.
            let isAsked = variant == .standard && heartbeat == .pingPong
            #expect(service.now - began < .seconds(isAsked ? 20 : 10))
            try await expectEcho("c", by: client)
            // Matched in order, a stalled link is first replaced by one to the same server.
            let links = variant == .ordered ? 2 : 1
            #expect(await client.metrics.connection.disconnects == (isAsked ? [.halfOpen: 1] : [.unanswered: links]))
            await client.closeNow()
            await other.stop()
        }
    }

    /// Each request has its own link, because the protocol allows one request at a time.
    @Test func aHangingServerIsReplacedEvenIfEveryRequestHasItsOwnLink() throws {
        let codec = OneAtATimeCodec()
        try simulate(speaking: codec) { service, _ in
            let other = try await service.startServer(at: "other:7000", speaking: codec)
            let options = ClientOptions { $0.requests.timeout = .seconds(2) }
            let client = service.client(of: ["db:7000", "other:7000"], speaking: codec, options: options)
            await service.server.fallSilent()
            for _ in 0..<6 { _ = try? await client.send(ask("a")) }
            #expect(await other.received.count > 0)
            await client.closeNow()
            await other.stop()
        }
    }

    /// The first request holds the only serial, so no other request is ever written.
    @Test func aHangingServerIsReplacedEvenIfNothingElseCanBeWritten() throws {
        let layout = standardLayout(serials: 1...1)
        try simulate(speaking: layout) { service, _ in
            let other = try await service.startServer(at: "other:7000", speaking: layout)
            let options = ClientOptions {
                $0.liveness.heartbeat = .none
                $0.requests.timeout = .seconds(1)
            }
            let client = service.client(of: ["db:7000", "other:7000"], speaking: layout, options: options)
            await service.server.fallSilent()
            for _ in 0..<10 where await other.received.isEmpty { _ = try? await client.send(ask("a")) }
            #expect(await other.received.count > 0)
            await client.closeNow()
            await other.stop()
        }
    }

    /// Regression: matched in order, each request that waited behind an abandoned one counted twice, so half as many
    /// timeouts ended the link.
    @Test func aRequestThatTimesOutUnsentCountsOnce() throws {
        let options = ClientOptions {
            $0.requests.maximumInFlight = 1
            $0.requests.timeout = .seconds(6)
            $0.liveness.maximumStalls = 4
        }
        try simulate(
            speaking: Variant.ordered.layout,
            options: options,
            handler: { $0.body == "lost" ? .noReply : .echo }
        ) { service, client in
            let lost = client.start(ask("lost"))
            try await service.server.waitForRequests(1)
            lost.cancel()
            for links in [1, 1, 1, 2] {
                let error = await failure { () throws(ClientError) in try await client.send(ask("a")) }
                #expect(error?.code == .timedOut && error?.fate == .notSent)
                try await service.pass(.seconds(2))
                #expect(await client.metrics.connection.links == links)
            }
            try await expectEcho("b", by: client)
            let metrics = await client.metrics
            #expect(metrics.requests == 6 && metrics.connection.disconnects == [.unanswered: 1])
            #expect(await service.server.received.map(\.body) == ["lost", "b"])
        }
    }

    /// Regression: every lost link ended the count, so a server that hangs and whose links break now and then was never
    /// replaced. A link that the client ends itself does end the count: much may have changed when the client resumes.
    @Test(arguments: [false, true])
    func aLostLinkDoesNotEndTheCountOfTimeouts(suspends: Bool) throws {
        let options = ClientOptions { $0.requests.timeout = .seconds(3) }
        try simulate(speaking: Variant.plain.layout, options: options) { service, client in
            await service.server.fallSilent()
            for _ in 0..<3 {
                try await client.connect()
                service.network.reset("db")
                try await service.pass(.seconds(1))
                _ = try? await client.send(ask("a"))
                guard suspends else { continue }
                await client.suspend()
                await client.resume()
            }
            let disconnects = await client.metrics.connection.disconnects
            #expect(disconnects[.reset] == 3 && disconnects[.unanswered] == (suspends ? nil : 1))
        }
    }

    @Test func aClientReconnectsToItsOnlyServerAfterThatHung() throws {
        try simulate(speaking: Variant.plain.layout, options: ClientOptions { $0.requests.timeout = .seconds(1) }) {
            service,
            client in
            await service.server.fallSilent()
            for _ in 0..<20 { _ = try? await client.send(ask("a")) }
            await service.server.speakAgain()
            try await expectEcho("b", by: client)
            let links = await client.metrics.connection.links
            #expect((2...5).contains(links))
        }
    }

    // MARK: What is not a stall

    /// Runs `body` with a server that does not answer "late", and expects that the link is kept.
    private func expectLinkKept(
        _ options: ClientOptions = ClientOptions(),
        _ body: @escaping @Sendable (SimulatedService, Client) async throws -> Void
    ) throws {
        try simulate(
            speaking: Variant.plain.layout,
            options: options,
            handler: { $0.body == "late" ? .noReply : .echo }
        ) { service, client in
            try await body(service, client)
            try await expectEcho("a", by: client)
            #expect(await client.metrics.connection.links == 1)
        }
    }

    @Test func veryShortTimeoutsAreNotStalls() throws {
        try expectLinkKept { service, client in
            try await client.connect()
            for _ in 0..<20 { _ = try? await client.send(ask("late"), timeout: .milliseconds(1)) }
            try await service.pass(.seconds(60))
        }
    }

    @Test func cancelledRequestsAreNotStalls() throws {
        try expectLinkKept { service, client in
            for _ in 0..<20 {
                let handle = client.start(ask("late"))
                try await service.pass(.seconds(1))
                handle.cancel()
            }
        }
    }

    /// Some requests are answered and some are not.
    @Test func oneResponseAmongManyTimeoutsKeepsTheLink() throws {
        let options = ClientOptions {
            $0.requests.timeout = .seconds(1)
            $0.failover.errorRate = nil
        }
        try expectLinkKept(options) { _, client in
            for _ in 0..<10 {
                for _ in 0..<2 { _ = try? await client.send(ask("late")) }
                try await expectEcho("b", by: client)
            }
        }
    }

    @Test func withoutALimitOfStallsASilentLinkIsKept() throws {
        let options = ClientOptions {
            $0.requests.timeout = .seconds(1)
            $0.liveness.maximumStalls = nil
        }
        try expectLinkKept(options) { _, client in
            for _ in 0..<20 { _ = try? await client.send(ask("late")) }
        }
    }
}

/// A protocol without a ping that allows one request at a time.
private struct OneAtATimeCodec: FrameCodec, PipeliningCodec, ServerSideCodec {
    var base: any FrameCodec = LivenessTests.Variant.ordered.layout
    var matching: ResponseMatching { base.matching }
    func mayPipeline(behind request: Frame) -> Bool { false }
    mutating func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? { try base.decode(&input) }
    mutating func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
        try base.encode(frame, into: &output)
    }
    func serverSide() -> any FrameCodec { OneAtATimeCodec(base: ProtocolCodec(base).serverSide()) }
}
