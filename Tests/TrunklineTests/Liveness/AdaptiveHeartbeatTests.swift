import Testing

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts
@testable import TrunklineLoopback
@testable import TrunklineTesting

/// How a client learns the interval of heartbeats (`liveness.adaptiveInterval`), in virtual time: from 30 s to 10 min,
/// beginning with 3.5 min.
@Suite(.simulated, .timeLimit(.seeded))
struct AdaptiveHeartbeatTests {}

extension AdaptiveHeartbeatTests {
    private static let hour = Duration.seconds(3600)
    private static let day = Duration.seconds(86_400)
    private static let range = Duration.seconds(30)...(.seconds(600))

    private func learning(
        within range: ClosedRange<Duration> = AdaptiveHeartbeatTests.range,
        _ change: (inout ClientOptions) -> Void = { _ in }
    ) -> ClientOptions {
        ClientOptions {
            $0.liveness.adaptiveInterval = range
            change(&$0)
        }
    }

    /// The number of links that were lost.
    private func losses(of client: Client) async -> Int { await client.metrics.connection.links - 1 }

    // MARK: Devices that forget

    /// The losses are those that the rule needs (`AdaptiveInterval` proves the bound of three): 210 s and 130 s are lost;
    /// 30 s survive; 90 s are lost, or survive. If 210 s survive, the first longer interval that is lost is the only loss.
    @Test(
        arguments: [
            (45, 3, 30), (60, 3, 30), (120, 2, 90), (300, 1, 250), (600, 1, 550),
        ] as [(Int, Int, Int)],
        [false, true]
    )
    func theIntervalConvergesBelowTheLimit(_ device: (limit: Int, losses: Int, interval: Int), resets: Bool) throws {
        try simulate(within: Self.day * 3, options: learning()) { service, client in
            service.network.forgetIdleLinks(to: "db", after: .seconds(device.limit), resets: resets)
            try await client.connect()
            try await service.pass(Self.hour * 6)
            #expect(await losses(of: client) == device.losses)
            #expect(await client.diagnostics.heartbeatInterval == .seconds(device.interval))
            #expect(await client.metrics.connection.heartbeatInterval == .seconds(device.interval))
            // Then nothing is lost.
            try await service.pass(Self.day * 2)
            #expect(await losses(of: client) == device.losses)
            #expect(await client.diagnostics.heartbeatInterval == .seconds(device.interval))
            let causes = await client.metrics.connection.losses
            #expect(causes == [resets ? .reset : .halfOpen: device.losses])
        }
    }

    @Test func withoutADeviceTheIntervalReachesTheUpperBound() throws {
        try simulate(within: Self.day * 2, options: learning()) { service, client in
            try await client.connect()
            #expect(await client.diagnostics.heartbeatInterval == .seconds(210))
            try await service.pass(Self.hour * 6)
            #expect(await client.diagnostics.heartbeatInterval == .seconds(600))
            #expect(await losses(of: client) == 0)
            // An interval includes the time until the pong and the lateness of the timer.
            let pings = await client.metrics.connection.pings
            try await service.pass(Self.day)
            #expect((140...144).contains(await client.metrics.connection.pings - pings))
            let learned = try #require(await client.diagnostics.learnedIntervals.first)
            #expect(learned.longestSurvived == .seconds(600) && learned.shortestLost == nil)
            #expect(learned.change == .grown && learned.endpoint == service.endpoint("db:7000"))
        }
    }

    @Test func theNextLinkHasTheShorterIntervalAtOnce() throws {
        let collector = EventCollector(.links)
        try simulate(options: learning { $0.observers = [collector] }) { service, client in
            service.network.forgetIdleLinks(to: "db", after: .seconds(120))
            try await client.connect()
            try await service.pass(.seconds(225))
            #expect(await losses(of: client) == 1)
            #expect(await client.diagnostics.heartbeatInterval == .seconds(130))
            let learned = collector.events.compactMap { event -> LearnedInterval? in
                if case .heartbeatIntervalChanged(let learned) = event.content { learned } else { nil }
            }
            #expect(learned.map(\.change) == [.shortened])
            #expect(learned.map(\.interval) == [.seconds(130)])
            #expect(learned == (await client.diagnostics.learnedIntervals))
            #expect(collector.names.count { $0 == "heartbeat.interval" } == 1)
            // It is planned before the link is ready.
            let order = collector.names.filter { $0 == "heartbeat.interval" || $0 == "link.ready" }
            #expect(order == ["link.ready", "heartbeat.interval", "link.ready"])
            await client.renewAndSettle(service)
            #expect(await client.diagnostics.heartbeatInterval == .seconds(130))
        }
    }

    @Test func aDeviceThatForgetsSoonerThanTheLowerBoundIsReported() throws {
        let collector = EventCollector(.links)
        let options = learning(within: .seconds(60)...(.seconds(120))) { $0.observers = [collector] }
        try simulate(options: options) { service, client in
            service.network.forgetIdleLinks(to: "db", after: .seconds(45))
            try await client.connect()
            try await service.pass(Self.hour)
            #expect(await client.diagnostics.learnedIntervals.map(\.change) == [.lostAtMinimum])
            #expect(await client.diagnostics.heartbeatInterval == .seconds(60))
            let changes = collector.events.compactMap { event -> LearnedInterval.Change? in
                if case .heartbeatIntervalChanged(let learned) = event.content { learned.change } else { nil }
            }
            #expect(changes == [.shortened, .lostAtMinimum], "what stays is no news")
        }
    }

    @Test func endpointsLearnSeparately() throws {
        try simulate { service, _ in
            let other = try await service.startServer(at: "other:7000", speaking: .standard)
            let client = service.client(of: ["db:7000", "other:7000"], options: learning())
            service.network.forgetIdleLinks(to: "db", after: .seconds(60))
            try await client.connect()
            // The loss counts against the endpoint, so the client goes to the other one.
            try await service.pass(Self.hour * 12)
            #expect(await client.diagnostics.heartbeatInterval == .seconds(600))
            #expect(await losses(of: client) == 1)
            try await client.switchEndpoint(to: service.endpoint("db:7000"))
            await client.becomesReady(at: service.endpoint("db:7000"))
            #expect(await client.diagnostics.heartbeatInterval == .seconds(130))
            let learned = await client.diagnostics.learnedIntervals
            #expect(learned.map(\.endpoint) == [service.endpoint("db:7000"), service.endpoint("other:7000")])
            #expect(learned.map(\.interval) == [.seconds(130), .seconds(600)])
            await client.closeNow()
            await other.stop()
        }
    }

    @Test func pathsLearnSeparately() throws {
        try simulate(options: learning()) { service, client in
            let network = service.network
            network.addInterface("wlan0", address: "192.168.0.7", metric: 600)
            network.forgetIdleLinks(to: "db", after: .seconds(60))
            try await client.connect()
            try await service.pass(Self.hour)
            #expect(await client.diagnostics.heartbeatInterval == .seconds(30))
            // The address is removed, and the link with it: no failure of the interval.
            network.setInterface("eth0", isUp: false)
            try await service.pass(.seconds(1))
            #expect(await client.diagnostics.heartbeatInterval == .seconds(210))
            network.setInterface("eth0", isUp: true)
            network.setInterface("wlan0", isUp: false)
            try await service.pass(.seconds(1))
            #expect(await client.diagnostics.heartbeatInterval == .seconds(30))
            let learned = await client.diagnostics.learnedIntervals
            #expect(learned.map(\.change) == [.shortened, .started] && Set(learned.map(\.path)).count == 2)
        }
    }

    @Test func longerIntervalsAreTriedAgainAfterSevenDays() throws {
        try simulate(within: Self.day * 20, options: learning()) { service, client in
            service.network.forgetIdleLinks(to: "db", after: .seconds(300))
            try await client.connect()
            try await service.pass(Self.day * 6)
            #expect(await client.diagnostics.heartbeatInterval == .seconds(250))
            #expect(await losses(of: client) == 1)
            // It is tried again, and still lost: one link a week.
            try await service.pass(Self.day * 2)
            #expect(await client.diagnostics.heartbeatInterval == .seconds(250))
            #expect(await losses(of: client) == 2)
            service.network.forgetIdleLinks(to: "db", after: nil)
            try await service.pass(Self.day * 7)
            #expect(await client.diagnostics.heartbeatInterval == .seconds(600))
            #expect(await losses(of: client) == 2)
        }
    }

    // MARK: What is no failure of the interval

    private func expectNothingLearned(
        _ options: ClientOptions? = nil,
        seed: UInt64 = 1,
        sourceLocation: SourceLocation = #_sourceLocation,
        _ body: @escaping @Sendable (SimulatedService, Client) async throws -> Void
    ) throws {
        try simulate(seed: seed, options: options ?? learning()) { service, client in
            try await client.connect()
            try await body(service, client)
            try await service.pass(.seconds(60))
            try await client.connect()
            #expect(await losses(of: client) > 0, sourceLocation: sourceLocation)
            let learned = await client.diagnostics.learnedIntervals
            #expect(learned.map(\.change) == [.started], "\(learned)", sourceLocation: sourceLocation)
            #expect(learned.first?.shortestLost == nil, sourceLocation: sourceLocation)
            #expect(await client.diagnostics.heartbeatInterval == .seconds(210), sourceLocation: sourceLocation)
        }
    }

    @Test(arguments: 1...5 as ClosedRange<UInt64>, [false, true])
    func aLossUnderTrafficChangesNothing(seed: UInt64, resets: Bool) throws {
        try expectNothingLearned(seed: seed) { service, client in
            for number in 0..<100 {
                try await expectEcho(Bytes("\(number)"), by: client)
                try await service.pass(.seconds(6))
            }
            if resets { service.network.reset("db") } else { service.network.halfOpen("db") }
            _ = try? await client.send(ask("lost"), timeout: .seconds(60))
        }
    }

    @Test func anOrderlyCloseChangesNothing() throws {
        try expectNothingLearned { service, _ in
            try await service.pass(.seconds(150))
            await service.server.disconnectAll()
        }
    }

    /// The reset does not answer anything that was written.
    @Test func aResetOfAnIdleLinkChangesNothing() throws {
        try expectNothingLearned { service, _ in
            try await service.pass(.seconds(150))
            service.network.reset("db")
        }
    }

    /// The attempts that follow fail, too.
    @Test func aServerThatIsDownChangesNothing() throws {
        try expectNothingLearned { service, client in
            service.network.swallowConnections(to: "db")
            service.network.halfOpen("db")
            try await service.pass(.seconds(300))
            service.network.acceptConnections(to: "db")
            await client.reconnectNow()
        }
    }

    /// The machine slept for longer than the interval.
    @Test func aLinkThatIsLostBySleepChangesNothing() throws {
        try expectNothingLearned { service, _ in
            service.network.forgetIdleLinks(to: "db", after: .seconds(1000))
            try await service.pass(.seconds(100))
            service.network.putToSleep(for: .seconds(5000))
            try await service.pass(.seconds(30))
        }
    }

    // MARK: Options

    @Test func withoutTheOptionTheIntervalIsFixed() throws {
        try simulate { service, client in
            #expect(await client.diagnostics.heartbeatInterval == nil)
            try await client.connect()
            try await service.pass(Self.hour)
            #expect(await client.diagnostics.heartbeatInterval == .seconds(30))
            #expect(await client.diagnostics.learnedIntervals.isEmpty)
        }
    }

    @Test(arguments: [HeartbeatMode.oneWay, .none])
    func theOptionHasNoEffectWithoutAnswers(_ mode: HeartbeatMode) throws {
        try simulate(options: learning { $0.liveness.heartbeat = mode }) { service, client in
            try await client.connect()
            try await service.pass(Self.hour)
            #expect(await client.diagnostics.heartbeatInterval == (mode == .none ? nil : .seconds(30)))
            #expect(await client.diagnostics.learnedIntervals.isEmpty)
            #expect(
                await client.connection.entered { $0.context.optionsForDialing.connecting.keepAlive?.idle }
                    == .seconds(60)
            )
        }
    }

    /// The kernel would keep links alive, or notice their loss first.
    @Test func theKernelProbesAfterTheLongestInterval() throws {
        try simulate(options: learning()) { _, client in
            #expect(
                await client.connection.entered { $0.context.optionsForDialing.connecting.keepAlive?.idle }
                    == .seconds(611)
            )
        }
        try simulate(options: learning { $0.connecting.keepAlive = nil }) { _, client in
            #expect(await client.connection.entered { $0.context.optionsForDialing.connecting.keepAlive } == nil)
        }
        try simulate(options: learning { $0.connecting.keepAlive?.idle = Self.hour }) { _, client in
            #expect(
                await client.connection.entered { $0.context.optionsForDialing.connecting.keepAlive?.idle } == Self.hour
            )
        }
    }

    @Test func anIntervalOfTheHandshakeIsUsedAndTeachesNothing() throws {
        let options = learning {
            $0.handshake.perform = { link in await link.setLiveness { $0.interval = .seconds(20) } }
        }
        try simulate(options: options) { service, client in
            service.network.forgetIdleLinks(to: "db", after: .seconds(10))
            try await client.connect()
            #expect(await client.diagnostics.heartbeatInterval == .seconds(20))
            try await service.pass(.seconds(100))
            #expect(await losses(of: client) > 0)
            #expect(await client.diagnostics.learnedIntervals.isEmpty)
        }
    }

    @Test func aRangeOfTheHandshakeBoundsTheInterval() throws {
        let options = learning {
            $0.handshake.perform = { link in
                await link.setLiveness { $0.adaptiveInterval = .seconds(10)...(.seconds(100)) }
            }
        }
        try simulate(options: options) { service, client in
            try await client.connect()
            #expect(await client.diagnostics.heartbeatInterval == .seconds(100))
            try await service.pass(Self.hour)
            #expect(await client.diagnostics.heartbeatInterval == .seconds(100))
        }
    }

    @Test func aConnectionWithoutAClientLearns() throws {
        let network = SimulatedNetwork(seed: 1)
        try network.runBlocking {
            let server = try await network.serve(at: "db:7000", speaking: .standard)
            network.forgetIdleLinks(to: "db", after: .seconds(120))
            let connection = network.connection(to: ["db:7000"], speaking: .standard, options: learning())
            async let reading: Void = connection.withFrames { frames in for await _ in frames {} }
            try await network.clock.sleep(for: Self.hour * 3)
            #expect(await connection.diagnostics.heartbeatInterval == .seconds(90))
            #expect(await connection.diagnostics.learnedIntervals.map(\.interval) == [.seconds(90)])
            await connection.closeNow()
            try await reading
            await server.stop()
        }
    }

    // MARK: Random traffic

    /// Requests at random times, some of which are the first bytes after the device has forgotten the link.
    @Test(arguments: 1...UInt64(seeds(12).count))
    func withRandomTrafficFewRequestsAreLostAndNoneLater(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let limit = Duration.seconds(Int.random(in: 35...400, using: &random))
        let longest = Int.random(in: 20...500, using: &random)
        let resets = Bool.random(using: &random)
        let generator = random
        try simulate(seed: seed, within: Self.day * 3, options: learning()) { service, client in
            var random = generator
            service.network.forgetIdleLinks(to: "db", after: limit, resets: resets)
            var (sent, failed, lateFailures) = (0, 0, 0)
            while service.now < Self.day * 2 {
                try await service.pass(.seconds(Int.random(in: 1...longest, using: &random)))
                sent += 1
                do throws(ClientError) {
                    _ = try await client.send(ask(sent), timeout: .seconds(60))
                } catch {
                    failed += 1
                    if service.now > Self.day { lateFailures += 1 }
                    #expect(error.code == .connectionLost && error.fate == .unknown, "\(error)")
                }
            }
            let losses = await losses(of: client)
            #expect(losses <= 3 && failed <= losses && lateFailures == 0, "\(limit): \(losses), \(failed)")
            let metrics = await client.metrics
            #expect(metrics.requests == sent && metrics.failed == failed && metrics.responses == sent - failed)
        }
    }
}

extension Client {
    /// Replaces the link, and waits until the next one is in use.
    fileprivate func renewAndSettle(_ service: SimulatedService) async {
        renewLink()
        try? await service.pass(.seconds(1))
    }
}
