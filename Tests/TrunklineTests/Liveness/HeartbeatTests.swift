import Testing

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts
@testable import TrunklineLoopback
@testable import TrunklineTesting

/// Heartbeats and dead links as a real client sees them, in virtual time: an interval of 30 s, a deadline of 10 s, and
/// a probe after 5 s.
@Suite(.simulated, .timeLimit(.minutes(5)))
struct HeartbeatTests {
    private let bound = Duration.seconds(40)

    // MARK: Dead links

    @Test(arguments: 1...20 as ClosedRange<UInt64>)
    func anIdleHalfOpenLinkIsReplacedWithinIntervalAndDeadline(_ seed: UInt64) throws {
        try simulate(seed: seed) { service, client in
            try await expectEcho("a", by: client)
            service.network.halfOpen("db")
            try await service.pass(bound)
            #expect(await client.metrics.connection.disconnects[.halfOpen, default: 0] == 1)
            try await expectEcho("b", by: client)
            #expect(await service.server.totalConnections == 2)
        }
    }

    @Test(arguments: 1...20 as ClosedRange<UInt64>)
    func requestsOnAHalfOpenLinkFailAfterTheProbe(_ seed: UInt64) throws {
        try simulate(seed: seed) { service, client in
            try await expectEcho("a", by: client)
            try await service.pass(.seconds(3))
            service.network.halfOpen("db")
            let began = service.now
            let error = await failure { () throws(ClientError) in
                try await client.send(ask("b"), timeout: .seconds(60))
            }
            #expect(error?.code == .connectionLost)
            #expect(error?.fate == .unknown)
            #expect((error?.cause as? TransportError)?.code == .halfOpen)
            let took = service.now - began
            // Counted at the earliest from the last byte that was received before.
            #expect((.seconds(12)...(.milliseconds(15_100))).contains(took), "\(took)")
            try await expectEcho("c", by: client)
        }
    }

    /// Each request times out before the probe is due, so none is old enough to cause one.
    @Test func shortTimeoutsDoNotHideAHalfOpenLink() throws {
        try simulate { service, client in
            try await expectEcho("a", by: client)
            service.network.halfOpen("db")
            let began = service.now
            while await client.metrics.connection.links == 1, service.now - began < .seconds(60) {
                _ = try? await client.send(ask("b"), timeout: .seconds(2))
            }
            #expect(service.now - began < .seconds(18))
        }
    }

    @Test func aLinkToAHangingServerIsReplacedAndItsLateDataIsIgnored() throws {
        try simulate { service, client in
            try await expectEcho("a", by: client)
            await service.server.fallSilent()
            let handle = client.start(ask("b"), timeout: .seconds(60))
            #expect(await failure(of: handle)?.code == .connectionLost)
            await service.server.speakAgain()
            try await expectEcho("c", by: client)
            #expect(await client.metrics.unknownResponses == 0)
        }
    }

    /// The socket is full, so the ping is never sent.
    @Test func aLinkToAServerThatStopsReadingIsReplaced() throws {
        try simulate { service, client in
            try await client.connect()
            try await service.server.waitForConnections(1)
            await service.server.pauseReading()
            let handle = client.start(ask(filled(1_000_000)), timeout: .seconds(600))
            try await service.pass(bound)
            #expect(handle.state == .completed)
            #expect(await failure(of: handle)?.fate == .unknown)
            await service.server.resumeReading()
            try await expectEcho("a", by: client)
        }
    }

    // MARK: Live links

    @Test func anIdleLinkIsKeptWithOnePingEveryThirtySeconds() throws {
        try simulate { service, client in
            try await client.connect()
            try await service.pass(.seconds(3600))
            let pings = await service.server.journal.pingCount
            #expect((118...120).contains(pings))
            let metrics = await client.metrics.connection
            #expect(metrics.pings == pings)
            #expect(metrics.disconnects[.halfOpen, default: 0] == 0 && metrics.links == 1)
        }
    }

    @Test(arguments: [HeartbeatMode.none, .oneWay])
    func withoutAHeartbeatNothingIsSentAndOneWayExpectsNoAnswer(_ heartbeat: HeartbeatMode) throws {
        let options = ClientOptions { $0.liveness.heartbeat = heartbeat }
        let server = LoopbackServer.Options { $0.answersPings = false }
        try simulate(server: server, options: options, handler: { _ in .noReply }) { service, client in
            try await client.connect()
            let handle = client.start(ask("a"), timeout: .seconds(7200))
            try await service.pass(.seconds(3601))
            let journal = await service.server.journal
            #expect(journal.pingCount == (heartbeat == .none ? 0 : 120))
            #expect(journal.totalConnections == 1)
            handle.cancel()
        }
    }

    @Test func aCodecWithoutPingHasNoHeartbeat() throws {
        let layout = FrameLayout {
            Field.type(UInt32.self)
            Field.serial(UInt32.self)
            Field.length(UInt32.self, counting: .body)
            Field.body
        }
        try simulate(speaking: layout) { service, client in
            try await client.connect()
            try await service.pass(.seconds(3600))
            #expect(await service.server.journal.bytesReceived == 0)
            #expect(await client.metrics.connection.links == 1)
        }
    }

    @Test func aServerThatAnswersNoPingButPushesIsAlive() throws {
        let options = ClientOptions { $0.liveness.interval = .seconds(5) }
        let server = LoopbackServer.Options { $0.answersPings = false }
        try simulate(server: server, options: options) { service, client in
            try await client.connect()
            for _ in 0..<100 {
                try await service.pass(.seconds(14))
                try await service.server.push(Frame(.push, type: 2))
            }
            #expect(await service.server.totalConnections == 1)
            #expect(await client.metrics.connection.pings >= 100)
        }
    }

    @Test func aRequestThatIsSlowerThanTheProbeSurvivesOnALiveLink() throws {
        try simulate(handler: { _ in .after(.seconds(600), .echo) }) { service, client in
            let reply = try await client.send(ask("slow"), timeout: .seconds(700))
            #expect(reply.body == "slow")
            #expect(await service.server.totalConnections == 1)
        }
    }

    @Test func aWaitingRequestCausesOneProbe() throws {
        try simulate(handler: { _ in .after(.seconds(29), .echo) }) { service, client in
            _ = try await client.send(ask("slow"), timeout: .seconds(60))
            #expect(await service.server.journal.pingCount == 1)
        }
    }

    @Test func oneWayMessagesCauseNoProbe() throws {
        try simulate(handler: { _ in .noReply }) { service, client in
            try await client.connect()
            for _ in 0..<29 {
                try await client.post(ask("note"))
                try await service.pass(.seconds(1))
            }
            #expect(await service.server.journal.pingCount == 0)
        }
    }

    /// A large request on a slow line: nothing is received for minutes, but the server's side accepts byte after byte.
    @Test func aSlowUploadIsProgress() throws {
        var conditions = NetworkConditions()
        conditions.bandwidth = 10_000
        conditions.sendBuffer = 20_000
        conditions.receiveWindow = 20_000
        try simulate(conditions: conditions) { service, client in
            let reply = try await client.send(ask(filled(600_000)), timeout: .seconds(3600))
            #expect(reply.body.count == 600_000)
            #expect(service.now > .seconds(60))
            #expect(await service.server.totalConnections == 1)
        }
    }

    // MARK: Clock jumps

    @Test(arguments: 1...20 as ClosedRange<UInt64>)
    func afterASleepTheLinkIsProbedBeforeItIsClosed(_ seed: UInt64) throws {
        try simulate(seed: seed) { service, client in
            try await expectEcho("a", by: client)
            try await service.pass(.milliseconds(30_000))  // about when the ping goes out
            service.network.stall(for: .seconds(3600))
            try await service.pass(.seconds(60))
            #expect(await client.metrics.connection.disconnects[.halfOpen, default: 0] == 0)
            #expect(await service.server.totalConnections == 1)
        }
    }

    /// The ping is sent, then the machine sleeps for an hour and its link does not survive.
    @Test func aLinkThatDiedDuringASleepIsClosedAfterAWholeDeadline() throws {
        try simulate { service, client in
            try await expectEcho("a", by: client)
            service.network.halfOpen("db")
            try await service.pass(.seconds(31))
            #expect(await client.metrics.connection.pings == 1)
            service.network.stall(for: .seconds(3600))
            try await service.pass(.milliseconds(9_900))
            #expect(await client.metrics.connection.pings == 2)
            #expect(await client.metrics.connection.disconnects[.halfOpen, default: 0] == 0)
            try await service.pass(.milliseconds(200))
            #expect(await client.metrics.connection.disconnects[.halfOpen, default: 0] == 1)
        }
    }

    // MARK: Suspended reading

    @Test func aLinkThatASubscriberDoesNotReadIsKept() throws {
        try simulate { service, client in
            let stream = client.pushes(buffering: PushBuffering(maximumCount: 1, overflow: .suspendReading))
            try await client.connect()
            for _ in 0..<4 { try await service.server.push(Frame(.push, type: 2)) }
            try await service.pass(.seconds(3600))
            #expect(await service.server.totalConnections == 1)
            var count = 0
            for await _ in stream.messages.prefix(4) { count += 1 }
            #expect(count == 4)
            // When the link is read again, it is monitored again.
            service.network.halfOpen("db")
            try await service.pass(bound)
            #expect(await client.metrics.connection.disconnects[.halfOpen, default: 0] == 1)
        }
    }

    // MARK: Round trips and the server's pings

    @Test func theRoundTripTimeIsThatOfTheNetwork() throws {
        var conditions = NetworkConditions()
        conditions.latency = .milliseconds(20) ... .milliseconds(20)
        let options = ClientOptions { $0.reconnecting.keepsLinkWarm = true }
        try simulate(conditions: conditions, options: options) { service, client in
            try await client.connect()
            #expect(await client.diagnostics.roundTripTime == nil)
            try await service.pass(.seconds(31))
            let fast = try #require(await client.diagnostics.roundTripTime)
            #expect(fast.latest >= .milliseconds(40) && fast.latest < .milliseconds(50))
            await service.server.answerPings(after: .seconds(2))
            try await service.pass(.seconds(35))
            let slow = try #require(await client.diagnostics.roundTripTime)
            #expect(slow.latest >= .seconds(2) && slow.minimum == fast.latest)
            #expect(slow.smoothed == (fast.latest * 7 + slow.latest) / 8)
            await service.server.disconnectAll()
            try await service.server.waitForConnections(1)
            try await service.pass(.seconds(1))
            #expect(await client.diagnostics.roundTripTime == nil)
        }
    }

    @Test(arguments: [false, true])
    func theServersPingsAreAnswered(_ hasRolePong: Bool) throws {
        let withRolePong = FrameLayout.standard.roles {
            $0.ping = 1
            $0.pong = 2
            $0.push = .types(3...9)
            $0.cancel = 10
        }
        let layout = hasRolePong ? withRolePong : .standard
        try simulate(speaking: layout) { service, client in
            try await client.connect()
            try await service.server.waitForConnections(1)
            for _ in 0..<10 {
                try await service.server.ping()
                try await service.pass(.seconds(20))
            }
            let journal = await service.server.journal
            #expect(journal.pongCount == 10)
            #expect(journal.pingCount == 0)
        }
    }

    /// Pings and pongs have one type, and both sides ping at about the same time. No ping is answered again and again,
    /// and no link counts as dead.
    @Test(arguments: 1...50 as ClosedRange<UInt64>)
    func pingsThatCrossDoNotMultiply(_ seed: UInt64) throws {
        let plain = standardLayout(serials: 0...0xffff)  // no free serial to tell pings from pongs
        try simulate(seed: seed, speaking: seed % 2 == 0 ? plain : .standard) { service, client in
            try await client.connect()
            for _ in 0..<40 {
                try await service.server.ping()
                try await service.pass(.milliseconds(29_990 + Int(seed % 7) * 5))
            }
            let journal = await service.server.journal
            #expect(journal.pingCount + journal.pongCount <= 120)
            #expect(journal.totalConnections == 1)
        }
    }
}
