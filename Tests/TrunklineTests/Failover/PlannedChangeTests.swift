import Synchronization
import Testing

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLoopback
@testable import TrunklineTesting

/// Planned changes: the next link is established while the present one stays in use.
@Suite(.simulated, .timeLimit(.minutes(5)))
struct PlannedChangeTests {}

extension PlannedChangeTests {
    // MARK: No request waits

    enum Change: CaseIterable, Sendable {
        case switchEndpoint, replaceEndpoints, goAway, goAwayOfTheOnlyServer, preference, age

        /// Whether the next link goes to the same server.
        var isToTheSame: Bool { self == .goAwayOfTheOnlyServer || self == .age }

        /// Begins the change, now or within 100 ms.
        fileprivate func begin(in world: ChangeWorld) async throws {
            switch self {
            case .switchEndpoint: try await world.client.switchEndpoint(to: world.second.endpoint)
            case .replaceEndpoints: await world.client.replaceEndpoints([world.second.endpoint])
            case .goAway, .goAwayOfTheOnlyServer: try await world.first.push(ChangeWorld.goAwayFrame)
            case .preference: await world.client.replaceEndpoints([world.second.endpoint, world.first.endpoint])
            case .age: break
            }
        }
    }

    /// Every request takes one round trip, as before the change. In plaintext, where the time is exact.
    @Test(arguments: Change.allCases)
    func noRequestWaitsForAChange(_ change: Change) throws {
        try ChangeWorld.run(overTLS: false) { options in
            if change == .preference { options.failover.returnsToPreferredAfter = .milliseconds(50) }
            if change == .age { options.failover.maximumLinkAge = .milliseconds(100) }
        } _: { world in
            if change == .goAwayOfTheOnlyServer { await world.client.replaceEndpoints([world.first.endpoint]) }
            try await world.client.connect()
            let roundTrip = ChangeWorld.latency * 2
            let latencies = try await world.latencies {
                try await world.pass(.milliseconds(10))
                try await change.begin(in: world)
                await world.becomesReady(after: 1)
                try await world.pass(.milliseconds(10))
            }
            #expect(latencies == [roundTrip])
            #expect(await world.endpoint == (change.isToTheSame ? world.first : world.second).endpoint)
            #expect(await world.client.metrics.connection.failedAttempts == 0)
            #expect(await world.second.totalConnections == (change.isToTheSame ? 0 : 1))
            try await world.pass(.milliseconds(10))
            #expect(await world.first.connectionCount == (change.isToTheSame ? 1 : 0))
        }
    }

    /// Regression: it was compared with the files of the link at the time of the look, so a link that had become ready
    /// with the new files meanwhile was renewed, too.
    @Test func aLookAtTheFilesOfAnEarlierLinkRenewsNothing() throws {
        try simulate(overTLS: true) { service, client in
            try await expectEcho("a", by: client)
            await client.renewLink()
            try await service.pass(.seconds(1))
            let earlier = try #require(await client.metrics.connection.link?.session)
            await client.renewLink()
            try await service.pass(.seconds(1))
            let links = await client.metrics.connection.links
            await client.connection.entered { $0.saw([nil], forLink: earlier) }
            try await service.pass(.seconds(1))
            #expect(await client.metrics.connection.links == links)
            let present = try #require(await client.metrics.connection.link?.session)
            #expect(present != earlier)
            await client.connection.entered { $0.saw([nil], forLink: present) }
            try await service.pass(.seconds(1))
            #expect(await client.metrics.connection.links == links + 1)
        }
    }

    @Test func aFailedChangeKeepsThePresentLinkAndIsRetried() throws {
        try ChangeWorld.run(overTLS: false) { world in
            try await world.client.connect()
            world.network.refuseConnections(to: "b")
            var states = world.client.states.makeAsyncIterator()
            let present = await states.next()
            let latencies = try await world.latencies {
                try await world.client.switchEndpoint(to: world.second.endpoint)
                try await world.pass(.seconds(1))
                #expect(await world.endpoint == world.first.endpoint)
                // One attempt at once, then one about every 100 ms.
                let failed = await world.client.metrics.connection.failedAttempts
                #expect((9...10).contains(failed), "\(failed)")
                world.network.acceptConnections(to: "b")
                await world.becomesReady(after: 1)
            }
            #expect(latencies == [ChangeWorld.latency * 2])
            #expect(await world.client.metrics.connection.links == 2)
            #expect(await world.first.totalConnections == 1)
            // There was no state in between.
            #expect(present?.isReady == true)
            let next = await states.next()
            guard case .ready(world.second.endpoint, _) = next else {
                Issue.record("\(String(describing: next))")
                return
            }
        }
    }

    /// Requests go out on the present link while the handshake of the next one is not answered.
    @Test func aHandshakeThatIsNotAnsweredIsRetried() throws {
        try ChangeWorld.run(overTLS: false) { world in
            try await world.client.connect()
            world.facts.loginDelay.withLock { $0 = nil }
            let latencies = try await world.latencies {
                try await world.client.switchEndpoint(to: world.second.endpoint)
                try await world.pass(.seconds(3))
                #expect(await world.endpoint == world.first.endpoint)
                #expect(await world.second.totalConnections == 2)
                world.facts.loginDelay.withLock { $0 = .zero }
                await world.becomesReady(after: 1)
            }
            #expect(latencies == [ChangeWorld.latency * 2])
            #expect(await world.client.metrics.connection.disconnects[.timedOut] ?? 0 >= 1)
        }
    }

    /// The next link is lost while its handshake waits for a response. Its closure has heard of the server, so it may
    /// return within its deadline, and the lost link stays behind the present one until then.
    @Test func requestsGoOutWhileTheHandshakeOfALostNextLinkReturns() throws {
        let (returns, gate) = AsyncStream.makeStream(of: Void.self)
        try ChangeWorld.run(overTLS: false) { options in
            options.handshake.perform = { handshaker in
                _ = try await handshaker.send(ask("hello"))
                do {
                    _ = try await handshaker.send(ask("login"))
                } catch {
                    for await _ in returns {}
                    throw error
                }
            }
        } _: { world in
            try await world.client.connect()
            world.facts.loginDelay.withLock { $0 = nil }
            let latencies = try await world.latencies {
                try await world.client.switchEndpoint(to: world.second.endpoint)
                try await world.second.waitForRequest { $0.body == "login" }
                world.network.reset("b")
                try await world.pass(.milliseconds(50))
                #expect(await world.client.connection.phases == ["ready", "lost while handshaking"])
                #expect(await world.endpoint == world.first.endpoint)
                try await expectEcho("meanwhile", by: world.client)
                #expect(await world.client.connection.phases == ["ready", "lost while handshaking"])
                #expect(await world.bodies(at: world.first).contains("meanwhile"))
                world.facts.loginDelay.withLock { $0 = .zero }
                gate.finish()
                await world.becomesReady(after: 1)
            }
            #expect(latencies == [ChangeWorld.latency * 2])
            #expect(await world.endpoint == world.second.endpoint)
            #expect(await world.client.metrics.connection.failedAttempts == 1)
        }
    }

    /// The server sends goAway every 10 ms, and the other server refuses connections.
    @Test func repeatedGoAwaysDoNotCauseMoreAttempts() throws {
        try ChangeWorld.run { world in
            try await world.client.connect()
            world.network.refuseConnections(to: "b")
            for _ in 0..<100 {
                try await world.first.push(ChangeWorld.goAwayFrame)
                try await world.pass(.milliseconds(10))
            }
            // Two attempts in each round, one round per 100 ms.
            #expect(await world.client.metrics.connection.attempts <= 22)
            try await expectEcho("a", by: world.client)
        }
    }

    /// The attempt goes to the server that sends goAway. The attempt ends, and the next one begins after the back-off.
    @Test func aGoAwayDuringARenewalRestartsIt() throws {
        try ChangeWorld.run {
            $0.failover.maximumLinkAge = .milliseconds(100)
        } _: { world in
            await world.client.replaceEndpoints([world.first.endpoint])
            let pushes = world.client.pushes()
            try await world.client.connect()
            world.facts.loginDelay.withLock { $0 = nil }
            try await world.first.wait { $0.received.count == 2 }
            // Only the ready link has a reader of pushes. A handshake holds the frames that it does not request.
            try await world.first.push(ChangeWorld.goAwayFrame)
            try await world.pass(.milliseconds(50))
            #expect(await world.first.connectionCount == 1)
            world.facts.loginDelay.withLock { $0 = .zero }
            try await expectEcho("a", by: world.client)
            await world.becomesReady(after: 2)
            withExtendedLifetime(pushes) {}
            await world.client.close()
            try await world.pass(.seconds(2))
            #expect(await world.first.connectionCount == 0)
        }
    }

    // MARK: Subscriptions and pushes

    @Test func subscriptionsAreRestoredBeforeTheOldLinkDrains() throws {
        try ChangeWorld.run { world in
            _ = try await world.client.subscribe(ask("topic"))
            world.facts.topicDelay.withLock { $0 = .milliseconds(500) }
            try await world.client.switchEndpoint(to: world.second.endpoint)
            try await world.second.waitForRequest { $0.body == "topic" }
            try await world.pass(.milliseconds(250))
            #expect(await world.endpoint == world.first.endpoint)
            try await expectEcho("meanwhile", by: world.client)
            #expect(await world.bodies(at: world.first) == ["login", "topic", "meanwhile"])
            #expect(await world.first.connectionCount == 1)
            await world.becomesReady(after: 1)
            try await expectEcho("next", by: world.client)
            #expect(await world.bodies(at: world.second) == ["login", "topic", "next"])
            #expect(await world.bodies(at: world.first) == ["login", "topic", "meanwhile"])
        }
    }

    @Test func aSubscriptionMadeDuringAChangeIsSentOnBothLinks() throws {
        try ChangeWorld.run { world in
            try await world.beginSwitch(loginDelay: .milliseconds(500))
            let subscription = try await world.client.subscribe(ask("topic"))
            #expect(subscription.response?.body == "topic")
            #expect(await world.endpoint == world.first.endpoint)
            await world.becomesReady(after: 1)
            #expect(await world.bodies(at: world.second) == ["login", "topic"])
            #expect(await world.bodies(at: world.first) == ["login", "topic"])
        }
    }

    @Test func aSubscriptionThatEndsBeforeItIsSentOnTheNextLinkIsNotRestored() throws {
        try ChangeWorld.run { world in
            let subscription = try await world.client.subscribe(ask("topic"))
            try await world.beginSwitch(loginDelay: .milliseconds(500))
            await subscription.end()
            await world.becomesReady(after: 1)
            try await expectEcho("next", by: world.client)
            #expect(await world.bodies(at: world.second) == ["login", "next"])
            #expect(await world.second.totalConnections == 1)
        }
    }

    /// The caller unsubscribes on the present link. The server of the next link may not know of it.
    @Test func aSubscriptionThatEndsAfterItWasSentOnTheNextLinkRestartsTheChange() throws {
        try ChangeWorld.run { world in
            let subscription = try await world.client.subscribe(ask("topic"))
            world.facts.topicDelay.withLock { $0 = .milliseconds(500) }
            try await world.client.switchEndpoint(to: world.second.endpoint)
            try await world.second.waitForRequest { $0.body == "topic" }
            await subscription.end()
            try await expectEcho("unsubscribe", by: world.client)
            #expect(await world.bodies(at: world.first).last == "unsubscribe")
            await world.becomesReady(after: 1)
            try await expectEcho("next", by: world.client)
            #expect(await world.bodies(at: world.second) == ["login", "topic", "login", "next"])
            try await world.pass(.milliseconds(100))
            #expect(await world.second.connectionCount == 1)
        }
    }

    @Test func pushesOfBothLinksCarryTheirSessions() throws {
        try ChangeWorld.run { world in
            let pushes = world.client.pushes().messages
            try await world.client.connect()
            let slow = world.client.start(ask("slow"))
            try await world.first.waitForRequest { $0.body == "slow" }
            try await world.beginSwitch(loginDelay: .milliseconds(100))
            try await world.first.push(Frame(.push, type: 2, body: "present"))
            // Sent during the handshake, and delivered when the link is ready.
            try await world.second.push(Frame(.push, type: 2, body: "early"))
            await world.becomesReady(after: 1)
            for (server, body) in [(world.first, "old 1"), (world.second, "next 1"), (world.first, "old 2")] {
                try await server.push(Frame(.push, type: 2, body: Bytes(body)))
                try await world.pass(.milliseconds(10))
            }
            var received: [String] = []
            for await push in pushes.prefix(5) {
                received.append("\(try #require(push.session)) \(String(push.body))")
            }
            #expect(received == ["1 present", "2 early", "1 old 1", "2 next 1", "1 old 2"])
            try await expectBody("slow", of: slow)
        }
    }

    /// The full buffer suspends reading on the present link, but not during the handshake of the next one.
    @Test func aFullBufferDoesNotHoldUpTheNextLink() throws {
        try ChangeWorld.run {
            $0.inbound.maximumHeld = 0
        } _: { world in
            let pushes = world.client.pushes(buffering: PushBuffering(maximumCount: 1, overflow: .suspendReading))
            try await world.client.connect()
            for _ in 0..<3 { try await world.first.push(Frame(.push, type: 2, body: "news")) }
            try await world.pass(.milliseconds(50))
            #expect(await world.client.connection.isPaused)
            try await world.client.switchEndpoint(to: world.second.endpoint)
            await world.becomesReady(after: 1)
            var sessions: [SessionID?] = []
            for await push in pushes.messages.prefix(3) { sessions.append(push.session) }
            #expect(sessions == [1, 1, 1])
        }
    }

    // MARK: Without overlap

    @Test func withoutOverlapTheNextAttemptBeginsWhenTheOldLinkIsClosed() throws {
        try ChangeWorld.run {
            $0.failover.overlap = .never
        } _: { world in
            let slow = world.client.start(ask("slow"))
            try await world.first.waitForRequest { $0.body == "slow" }
            try await world.client.switchEndpoint(to: world.second.endpoint)
            let waiting = world.client.start(ask("waits"))
            try await world.pass(.milliseconds(500))
            #expect(world.network.linksMade == 1)
            #expect(await world.endpoint == nil)
            try await expectBody("slow", of: slow)
            try await expectBody("waits", of: waiting)
            #expect(await world.bodies(at: world.first) == ["login", "slow"])
            #expect(await world.bodies(at: world.second) == ["login", "waits"])
            #expect(await world.first.connectionCount == 0)
        }
    }

    /// Regression: the abandoned rest of a request that the server did not read held up the next attempt for
    /// `failover.drainTimeout`.
    @Test func withoutOverlapAServerThatDoesNotReadHoldsUpTheNextAttemptForTwoSeconds() throws {
        try ChangeWorld.run {
            $0.failover.overlap = .never
        } _: { world in
            try await world.client.connect()
            await world.first.pauseReading()
            let large = world.client.start(ask(filled(8_000_000)))
            try await world.pass(.milliseconds(100))
            try await world.client.switchEndpoint(to: world.second.endpoint)
            try await world.pass(.milliseconds(100))
            large.cancel()
            let begin = world.now
            try await expectEcho("next", by: world.client)
            let time = world.now - begin
            #expect(time > .milliseconds(1900) && time < .milliseconds(2100), "\(time)")
            #expect(await world.client.metrics.connection.disconnects.values.reduce(0, +) == 1)
        }
    }

    @Test func withoutOverlapTheServerNeverSeesTwoLinks() throws {
        try ChangeWorld.run {
            $0.failover.overlap = .never
            $0.failover.maximumLinkAge = .milliseconds(100)
        } _: { world in
            let (first, network) = (world.first, world.network)
            let watching = Task(executorPreference: network.executor) {
                try await first.wait(within: .seconds(5)) { $0.connectionCount > 1 }
            }
            for number in 0..<1000 {
                try await expectEcho(Bytes("\(number)"), by: world.client)
                try await world.pass(.milliseconds(3))
            }
            #expect(await first.totalConnections > 20)
            switch await watching.result {
            case .success: Issue.record("there were two links")
            case .failure(let error): #expect((error as? LoopbackServer.WaitError)?.reason == .timedOut)
            }
        }
    }

    @Test func nothingIsSentAfterAGoAwayIfTheOptionForbidsIt() throws {
        try ChangeWorld.run {
            $0.failover.sendsAfterGoAway = false
        } _: { world in
            let slow = world.client.start(ask("slow"))
            try await world.first.waitForRequest { $0.body == "slow" }
            var states = world.client.states.makeAsyncIterator()
            _ = await states.next()
            try await world.first.push(ChangeWorld.goAwayFrame)
            #expect(await states.next()?.isReady == false)
            try await expectEcho("next", by: world.client)
            try await expectBody("slow", of: slow)
            #expect(await world.bodies(at: world.first) == ["login", "slow"])
            #expect(await world.bodies(at: world.second) == ["login", "next"])
        }
    }

    // MARK: Age

    @Test func linksAreRenewedWithoutALostRequest() throws {
        try ChangeWorld.run {
            $0.failover.maximumLinkAge = .seconds(1)
        } _: { world in
            let disconnects = world.client.disconnects
            for number in 0..<3000 {
                try await expectEcho(Bytes("\(number)"), by: world.client, retry: .never)
                try await world.pass(.milliseconds(32))
            }
            let metrics = await world.client.metrics.connection
            // The test takes at least 100 s. Each link is used for 0.9 s to 1 s, and until the next one is ready.
            #expect((95...125).contains(metrics.links), "\(metrics.links)")
            #expect(metrics.failedAttempts == 0)
            #expect(await world.second.totalConnections == 0)
            #expect(await world.first.connectionCount <= 2)
            await world.client.closeNow()
            var count = 0
            for await report in disconnects {
                count += 1
                #expect(report.requestsLost == 0 && report.cause == .closedLocally && report.endedBy == .client)
                #expect(report.lifetime <= .milliseconds(1100))
            }
            // The stream keeps the latest 64 reports for a reader that falls behind.
            #expect(count == 64)
        }
    }

    // MARK: The end of a change

    enum Phase: CaseIterable, Sendable {
        case resolving, connecting, handshaking, waiting

        fileprivate func begin(in world: ChangeWorld) async throws {
            switch self {
            case .resolving: world.network.setResolution(of: "b", ipv6: .never, ipv4: .never)
            case .connecting: world.network.swallowConnections(to: "b")
            case .handshaking: world.facts.loginDelay.withLock { $0 = nil }
            case .waiting: world.network.refuseConnections(to: "b")
            }
            try await world.client.switchEndpoint(to: world.second.endpoint)
            try await world.pass(.milliseconds(20))
        }
    }

    enum End: CaseIterable, Sendable { case close, closeNow, suspend }

    @Test(arguments: Phase.allCases, End.allCases)
    func aChangeEndsWhenItsClientClosesOrIsSuspended(_ phase: Phase, _ end: End) throws {
        try ChangeWorld.run { world in
            try await expectEcho("a", by: world.client)
            try await phase.begin(in: world)
            #expect(
                await (world.client.connection.entered { $0.machine.change?.attempt } == nil) == (phase == .waiting)
            )
            let (began, attempts) = (world.now, await world.client.metrics.connection.attempts)
            switch end {
            case .close: await world.client.close()
            case .closeNow: await world.client.closeNow()
            case .suspend: await world.client.suspend()
            }
            #expect(world.now == began)
            // The client's own timer may be armed for the deadline of a request that has been answered.
            if end != .suspend { #expect(await world.client.leftovers == []) }
            #expect(await world.client.connection.entered { $0.machine.change } == nil)
            try await world.pass(.seconds(60))
            #expect(await world.client.leftovers == [])
            #expect(await world.client.metrics.connection.attempts == attempts)
            #expect(world.network.openLinks == 0)
            #expect(world.network.armedTimers == 0)
            guard end == .suspend else { return }
            world.facts.loginDelay.withLock { $0 = .zero }
            await world.client.resume()
            try await expectEcho("b", by: world.client)
            #expect(await world.endpoint == world.first.endpoint)
        }
    }

    @Test(arguments: Phase.allCases)
    func aClientDeallocatedDuringAChangeLeavesNothingBehind(_ phase: Phase) throws {
        try ChangeWorld.run { world in
            func use() async throws -> (Weak<Client>, Weak<Connection>) {
                let other = world.withAnotherClient()
                try await expectEcho("a", by: other.client)
                try await phase.begin(in: other)
                return (Weak(other.client), Weak(other.client.connection))
            }
            let found = try await use()
            try await world.pass(.seconds(60))
            #expect(found.0.object == nil && found.1.object == nil)
            #expect(world.network.openLinks == 0)
            #expect(world.network.armedTimers == 0)
        }
    }

    @Test func losingTheOldLinkDoesNotEndTheAttempt() throws {
        try ChangeWorld.run { world in
            try await world.beginSwitch(loginDelay: .milliseconds(500))
            let lost = world.client.start(ask("slow"))
            try await world.first.waitForRequest { $0.body == "slow" }
            world.network.reset("a")
            let error = await failure(of: lost)
            #expect(error?.code == .connectionLost && error?.fate == .unknown)
            var states = world.client.states.makeAsyncIterator()
            guard case .handshaking(world.second.endpoint, _)? = await states.next() else {
                Issue.record("the attempt has ended")
                return
            }
            try await expectEcho("next", by: world.client)
            #expect(await world.bodies(at: world.second) == ["login", "next"])
            #expect(await world.client.metrics.connection.attempts == 2)
            #expect(await world.client.metrics.connection.links == 2)
        }
    }

    /// The connection does not know which frames are responses, so the old link closes as soon as the next one is ready
    /// and everything is written.
    @Test func aConnectionWithoutAClientReplacesItsLink() throws {
        try ChangeWorld.run { world in
            let connection = world.connection()
            let reading = Task(executorPreference: world.network.executor) {
                try await connection.withFrames { frames in
                    var read: [String] = []
                    for await frame in frames {
                        read.append("\(try #require(frame.session)) \(String(frame.body))")
                    }
                    return read
                }
            }
            try await connection.write(Frame(.request, type: 0x410, serial: 1, body: "a"))
            try await world.pass(.milliseconds(50))
            var states = connection.states.makeAsyncIterator()
            #expect(await states.next()?.isReady == true)
            world.facts.loginDelay.withLock { $0 = .milliseconds(100) }
            try await connection.switchEndpoint(to: world.second.endpoint)
            try await world.pass(.milliseconds(50))
            try await connection.write(Frame(.request, type: 0x410, serial: 2, body: "b"))
            let next = await states.next()
            #expect(next == .ready(world.second.endpoint, session: 2))
            try await connection.write(Frame(.request, type: 0x410, serial: 3, body: "c"))
            try await world.pass(.milliseconds(50))
            #expect(await world.bodies(at: world.first) == ["login", "a", "b"])
            #expect(await world.bodies(at: world.second) == ["login", "c"])
            #expect(await world.first.connectionCount == 0)
            await connection.close()
            #expect(try await reading.value == ["1 a", "1 b", "2 c"])
        }
    }
}

extension Connection {
    /// The phase of each link, in the order of their start.
    fileprivate var phases: [String] {
        driver.links.all.map { link in
            switch link.phase {
            case .handshaking(let handshake): handshake.loss == nil ? "handshaking" : "lost while handshaking"
            case .ready: "ready"
            case .draining: "draining"
            case .closed: "closed"
            }
        }
    }
}

// MARK: - Two servers

/// A client of servers at "a:1" and "b:1" in a network in which every packet takes the same time. Each link
/// begins with a login.
private struct ChangeWorld: Sendable {
    let network: SimulatedNetwork
    let first: LoopbackServer
    let second: LoopbackServer
    let client: Client
    let facts: Facts
    private let options: ClientOptions
    private let overTLS: Bool

    final class Facts: Sendable {
        /// How long a server takes to answer a login, or `nil` if it never answers.
        let loginDelay = Mutex<Duration?>(.zero)
        /// How long a server takes to accept a subscription.
        let topicDelay = Mutex(Duration.zero)
        /// Whether the loop of requests continues.
        let isAsking = Mutex(false)
    }

    static let latency = Duration.milliseconds(1)
    static let goAwayFrame = Frame(.push, type: 2, body: "!")

    static func run(
        overTLS: Bool = Wire.isSecured,
        _ change: @escaping @Sendable (inout ClientOptions) -> Void = { _ in },
        _ body: @escaping @Sendable (ChangeWorld) async throws -> Void
    ) throws {
        var conditions = NetworkConditions()
        conditions.latency = latency...latency
        conditions.resolutionDelay = latency...latency
        conditions.fragmentation = 0
        let network = SimulatedNetwork(seed: 1, conditions: conditions)
        let facts = Facts()
        try network.runBlocking {
            let codec = DrainingTests.PoliteCodec()
            let handler: LoopbackServer.Handler = { request in
                switch request.body {
                case "login":
                    guard let delay = facts.loginDelay.withLock({ $0 }) else { return .noReply }
                    return delay == .zero ? .echo : .after(delay, .echo)
                case "topic":
                    let delay = facts.topicDelay.withLock { $0 }
                    return delay == .zero ? .echo : .after(delay, .echo)
                case "slow": return .after(.seconds(1), .echo)
                default: return .echo
                }
            }
            let first = try await network.serve(at: "a:1", speaking: codec, overTLS: overTLS, handler: handler)
            let second = try await network.serve(at: "b:1", speaking: codec, overTLS: overTLS, handler: handler)
            let options = ClientOptions { options in
                options.reconnecting.policy = Backoff(minimum: .milliseconds(100), cap: .milliseconds(100))
                options.handshake.perform = { _ = try await $0.send(ask("login")) }
                change(&options)
            }
            let client = network.client(of: ["a:1", "b:1"], speaking: codec, options: options, overTLS: overTLS)
            let world = ChangeWorld(
                network: network,
                first: first,
                second: second,
                client: client,
                facts: facts,
                options: options,
                overTLS: overTLS
            )
            do {
                try await body(world)
            } catch {
                await client.closeNow()
                await first.stop()
                await second.stop()
                throw error
            }
            await client.closeNow()
            #expect(await client.leftovers == [])
            await first.stop()
            await second.stop()
        }
        #expect(network.openLinks == 0)
        #expect(network.armedTimers == 0)
    }

    var now: Duration { network.clock.now.offset }
    func pass(_ duration: Duration) async throws { try await network.clock.sleep(for: duration) }

    /// The same world with another client.
    func withAnotherClient() -> ChangeWorld {
        ChangeWorld(
            network: network,
            first: first,
            second: second,
            client: network.client(
                of: ["a:1", "b:1"],
                speaking: DrainingTests.PoliteCodec(),
                options: options,
                overTLS: overTLS
            ),
            facts: facts,
            options: options,
            overTLS: overTLS
        )
    }

    /// A connection to both servers without a client. The caller must close it.
    func connection() -> Connection {
        network.connection(
            to: ["a:1", "b:1"],
            speaking: DrainingTests.PoliteCodec(),
            options: options,
            overTLS: overTLS
        )
    }

    /// Connects, and begins a switch to a server that answers the handshake after `loginDelay`. Returns
    /// during that delay.
    func beginSwitch(loginDelay: Duration) async throws {
        try await client.connect()
        facts.loginDelay.withLock { $0 = loginDelay }
        try await client.switchEndpoint(to: second.endpoint)
        try await second.waitForRequest { $0.body == "login" }
    }

    /// Waits until a link with a session number above `session` is ready.
    func becomesReady(after session: SessionID) async {
        for await state in client.states {
            if case .ready(_, let next) = state, next > session { return }
        }
    }

    /// The endpoint of the ready link.
    var endpoint: Endpoint? {
        get async { if case .ready(let endpoint, _) = await client.connection.state { endpoint } else { nil } }
    }

    func bodies(at server: LoopbackServer) async -> [Bytes] { await server.received.map(\.body) }

    /// The times taken by requests that are made every 100 µs until `body` returns. The requests use several call
    /// options, and none of them may fail.
    func latencies(during body: () async throws -> Void) async throws -> Set<Duration> {
        let (client, clock, facts) = (client, network.clock, facts)
        facts.isAsking.withLock { $0 = true }
        let asking = Task(executorPreference: network.executor) {
            try await withThrowingTaskGroup(of: Duration.self, returning: Set<Duration>.self) { group in
                var number = 0
                while facts.isAsking.withLock({ $0 }) {
                    number += 1
                    let options =
                        switch number % 3 {
                        case 0: CallOptions(retry: .never)
                        case 1: CallOptions(waitsForReady: false)
                        default: CallOptions()
                        }
                    group.addTask {
                        let began = clock.now
                        _ = try await client.send(ask("x"), options: options)
                        return began.duration(to: clock.now)
                    }
                    try await clock.sleep(for: .microseconds(300))
                }
                var latencies: Set<Duration> = []
                for try await latency in group { latencies.insert(latency) }
                return latencies
            }
        }
        defer { facts.isAsking.withLock { $0 = false } }
        try await body()
        facts.isAsking.withLock { $0 = false }
        return try await asking.value
    }
}
