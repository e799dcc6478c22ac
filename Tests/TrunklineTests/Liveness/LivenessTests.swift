import Testing
import TrunklineTesting

@testable import Trunkline

/// Links on which bytes come, but no frames, and servers that answer nothing: what is noticed, and by what.
@Suite(.simulated, .timeLimit(.minutes(5)))
struct LivenessTests {
    enum Wording: String, CaseIterable, Sendable {
        case standard
        /// By serial, without a ping.
        case plain
        /// In order, without a ping.
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

    /// In the length of `standard` and `plain`, a MiB more.
    private static let wrongBit = 75

    // MARK: Lost framing

    /// 75 s, 15 answers, 675 timeouts, and one link without a ping: any byte was a sign of life. Few answers grow the frame
    /// by less than the minimum rate, many by more.
    @Test(arguments: [Wording.standard, .plain], [50, 500, 2000])
    func oneWrongBitInALengthCostsTheLinkSoon(_ wording: Wording, _ milliseconds: Int) throws {
        try simulate(speaking: wording.layout) { service, client in
            try await expectEcho("a", by: client)
            await service.server.script(.flippingBit(Self.wrongBit))
            let began = service.now
            while await client.statistics.connection.links == 1, service.now - began < .seconds(75) {
                _ = client.start(ask("some twenty bytes"), timeout: .seconds(8))
                try await service.pass(.milliseconds(milliseconds))
            }
            #expect(service.now - began < .seconds(25))
            try await expectEcho("b", by: client)
            #expect(await client.statistics.connection.links == 2)
        }
    }

    /// The pongs themselves are taken for pieces of the frame.
    @Test func aPingFollowedByJunkAloneCostsTheLink() throws {
        // A push of a MiB, of which nothing but its header comes.
        let header: Bytes = [0, 0, 0, 2, 0, 0, 0, 0, 0, 0x10, 0, 0]
        try simulate(handler: { $0.body == "junk" ? .sequence([.echo, .garbage(header)]) : .echo }) { service, client in
            try await expectEcho("junk", by: client)
            try await service.pass(.seconds(21))
            #expect(await service.server.journal.pingCount == 1)
            #expect(await client.statistics.connection.disconnects == [.halfOpen: 1])
            try await expectEcho("a", by: client)
        }
    }

    @Test(arguments: Wording.allCases)
    func aFrameThatIsNeverCompletedCostsTheLink(_ wording: Wording) throws {
        try simulate(speaking: wording.layout, handler: { $0.body == "half" ? .hangMidFrame() : .echo }) {
            service,
            client in
            var reports = client.disconnects.makeAsyncIterator()
            let handle = client.start(ask("half"), timeout: .seconds(60))
            try await service.pass(.seconds(9))
            #expect(await client.statistics.connection.disconnects.isEmpty)
            let error = await failure(of: handle)
            #expect(error?.code == .connectionLost && error?.fate == .unknown)
            // With a ping it is asked first.
            #expect(service.now < .seconds(wording == .standard ? 21 : 11))
            let report = await reports.next()
            #expect(report?.cause == .halfOpen && report?.endedBy == .client)
            try await expectEcho("a", by: client)
        }
    }

    // MARK: Large and slow

    /// Runs `body` on a link that carries `bandwidth` bytes per second; the answer to "large" has 30,000.
    private func simulateSlowLink(
        _ bandwidth: Int,
        speaking wording: Wording = .standard,
        minimumRate: Int? = 100,
        _ body: @escaping @Sendable (SimulatedService, Client) async throws -> Void
    ) throws {
        var conditions = NetworkConditions()
        conditions.bandwidth = bandwidth
        // Packets travel whole: small ones, so that the bytes come one after the other.
        conditions.sendBuffer = 50
        conditions.receiveWindow = 50
        try simulate(
            speaking: wording.layout,
            options: ClientOptions { $0.liveness.minimumRate = minimumRate },
            overTLS: false,
            handler: { $0.body == "large" ? .reply(filled(30_000)) : .echo }
        ) { [conditions] service, client in
            try await client.connect()
            service.network.setConditions(conditions, for: "db")
            try await body(service, client)
        }
    }

    /// Requests behind it time out by the dozen, and yet it is what the first one waits for. Without a minimum rate no frame
    /// was ever known to be awaited, and its growth was no progress after three timeouts.
    @Test(arguments: [Wording.standard, .plain], [100, nil])
    func aLargeBodyThatComesSlowlyAndSteadilyIsProgress(_ wording: Wording, _ minimumRate: Int?) throws {
        try simulateSlowLink(300, speaking: wording, minimumRate: minimumRate) { service, client in
            let large = client.start(ask("large"), timeout: .seconds(200))
            try await service.pass(.seconds(1))
            for _ in 0..<40 {
                _ = client.start(ask("small"), timeout: .milliseconds(1500))
                try await service.pass(.seconds(2))
            }
            let reply = try await large.value
            #expect(reply.body.count == 30_000)
            #expect(service.now > .seconds(99))
            #expect(await client.statistics.connection.links == 1)
        }
    }

    @Test(arguments: [Wording.standard, .plain])
    func aBodyThatComesTooSlowlyCostsTheLink(_ wording: Wording) throws {
        try simulateSlowLink(50, speaking: wording) { service, client in
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

    @Test func withoutAMinimumRateABodyMayBeAsSlowAsItLikes() throws {
        try simulateSlowLink(50, minimumRate: nil) { _, client in
            let reply = try await client.send(ask("large"), timeout: .seconds(900))
            #expect(reply.body.count == 30_000)
            #expect(await client.statistics.connection.links == 1)
        }
    }

    // MARK: Servers that answer nothing

    /// One request per second is far below what an error rate needs: 60 of 60 timed out without a failover.
    @Test(arguments: Wording.allCases, [HeartbeatMode.none, .oneWay, .pingPong])
    func aClientOfAServerThatHangsGoesOnToTheNext(
        _ wording: Wording,
        _ heartbeat: HeartbeatMode
    ) throws {
        try simulate(speaking: wording.layout) { service, _ in
            let other = try await service.startServer(at: "other:7000", speaking: wording.layout)
            let options = ClientOptions {
                $0.liveness.heartbeat = heartbeat
                $0.requests.timeout = .seconds(1)
            }
            let client = service.client(of: ["db:7000", "other:7000"], speaking: wording.layout, options: options)
            try await expectEcho("a", by: client)
            await service.server.fallSilent()
            let began = service.now
            while await other.received.isEmpty, service.now - began < .seconds(120) {
                _ = client.start(ask("b"))
                try await service.pass(.seconds(1))
            }
            // With a ping the first link is replaced by one to the same server, and that one's silence tells.
            let isAsked = wording == .standard && heartbeat == .pingPong
            #expect(service.now - began < .seconds(isAsked ? 35 : 10))
            try await expectEcho("c", by: client)
            // In order, a link that has stalled is replaced by one to the same server before that.
            let links = wording == .ordered ? 2 : 1
            #expect(await client.statistics.connection.disconnects == (isAsked ? [.halfOpen: 2] : [.unanswered: links]))
            await client.closeNow()
            await other.stop()
        }
    }

    /// Where each of them has a link of its own, as each is answered before the next.
    @Test func aServerThatHangsIsLeftThoughEveryRequestHasALinkOfItsOwn() throws {
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

    /// The first request holds the only serial, so that none of the others is ever written.
    @Test func aServerThatHangsIsLeftThoughNothingMoreMayGoOut() throws {
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

    /// In order, each that waited behind one that was given up counted twice: half as many cost the link.
    @Test func aRequestThatExpiresUnsentIsOneTimeout() throws {
        let options = ClientOptions {
            $0.requests.maximumInFlight = 1
            $0.requests.timeout = .seconds(6)
            $0.liveness.maximumStalls = 4
        }
        try simulate(
            speaking: Wording.ordered.layout,
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
                #expect(await client.statistics.connection.links == links)
            }
            try await expectEcho("b", by: client)
            let statistics = await client.statistics
            #expect(statistics.requests == 6 && statistics.connection.disconnects == [.unanswered: 1])
            #expect(await service.server.received.map(\.body) == ["lost", "b"])
        }
    }

    /// Every link that was lost ended the count: a server that hangs and whose links break now and then was never left. One
    /// that the client ends itself ends it: much may have changed until it resumes.
    @Test(arguments: [false, true])
    func aLostLinkDoesNotEndTheSilence(suspends: Bool) throws {
        let options = ClientOptions { $0.requests.timeout = .seconds(3) }
        try simulate(speaking: Wording.plain.layout, options: options) { service, client in
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
            let disconnects = await client.statistics.connection.disconnects
            #expect(disconnects[.reset] == 3 && disconnects[.unanswered] == (suspends ? nil : 1))
        }
    }

    @Test func theOnlyServerThatHangsIsComeBackTo() throws {
        try simulate(speaking: Wording.plain.layout, options: ClientOptions { $0.requests.timeout = .seconds(1) }) {
            service,
            client in
            await service.server.fallSilent()
            for _ in 0..<20 { _ = try? await client.send(ask("a")) }
            await service.server.speakAgain()
            try await expectEcho("b", by: client)
            let links = await client.statistics.connection.links
            #expect((2...5).contains(links))
        }
    }

    // MARK: What proves nothing

    /// Runs `body` with a server that leaves "late" unanswered. The link lives.
    private func expectLinkKept(
        _ options: ClientOptions = ClientOptions(),
        _ body: @escaping @Sendable (SimulatedService, Client) async throws -> Void
    ) throws {
        try simulate(
            speaking: Wording.plain.layout,
            options: options,
            handler: { $0.body == "late" ? .noReply : .echo }
        ) { service, client in
            try await body(service, client)
            try await expectEcho("a", by: client)
            #expect(await client.statistics.connection.links == 1)
        }
    }

    @Test func veryShortTimeoutsProveNothing() throws {
        try expectLinkKept { service, client in
            try await client.connect()
            for _ in 0..<20 { _ = try? await client.send(ask("late"), timeout: .milliseconds(1)) }
            try await service.pass(.seconds(60))
        }
    }

    @Test func cancelledRequestsProveNothing() throws {
        try expectLinkKept { service, client in
            for _ in 0..<20 {
                let handle = client.start(ask("late"))
                try await service.pass(.seconds(1))
                handle.cancel()
            }
        }
    }

    /// Some are answered and some are not: the link lives.
    @Test func oneAnswerAmongManyTimeoutsKeepsTheLink() throws {
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

    @Test func aLimitOfNoneKeepsASilentLink() throws {
        let options = ClientOptions {
            $0.requests.timeout = .seconds(1)
            $0.liveness.maximumStalls = nil
        }
        try expectLinkKept(options) { _, client in
            for _ in 0..<20 { _ = try? await client.send(ask("late")) }
        }
    }
}

/// Lets nothing follow a request before it is answered, and has no ping.
private struct OneAtATimeCodec: FrameCodec, PipeliningCodec, ServerSideCodec {
    var base: any FrameCodec = LivenessTests.Wording.ordered.layout
    var matching: ResponseMatching { base.matching }
    func mayPipeline(behind request: Frame) -> Bool { false }
    mutating func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? { try base.decode(&input) }
    mutating func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
        try base.encode(frame, into: &output)
    }
    func serverSide() -> any FrameCodec { OneAtATimeCodec(base: base._serverSide()) }
}
