import Testing

@testable import TrunklineCluster
@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLoopback
@testable import TrunklineTesting

/// Subscriptions on one or all of the simulated servers of a cluster. A server pushes its name once a second on each
/// link on which it has received the request.
@Suite(.simulated, .timeLimit(.seeded))
struct ClusterSubscriptionTests {}

extension ClusterSubscriptionTests {
    private static let subscribe = Request(type: 100, body: "prices")
    private static let unsubscribe = Request(type: 101, body: "prices")

    /// What a stream has received.
    private final class Received: Sendable {
        struct Element: Equatable {
            let time: Duration
            /// The server; `nil` for a gap.
            let server: Endpoint?
        }

        private let state = Lock([Element]())

        var all: [Element] { state.withLock { $0 } }

        func read(_ pushes: PushStream, _ network: SimulatedNetwork) async {
            for await push in pushes {
                let time = network.clock.now.offset
                switch push {
                case .message(let message):
                    #expect(message.endpoint.map { "\($0)" } == "\(String(message.body)):7000")
                    state.withLock { $0.append(Element(time: time, server: message.endpoint)) }
                case .reconnected: state.withLock { $0.append(Element(time: time, server: nil)) }
                default: Issue.record("\(push)")
                }
            }
        }

        /// The number of pushes of each server since a time.
        func counts(since time: Duration) -> [String: Int] {
            all.reduce(into: [:]) { counts, element in
                if element.time > time, let server = element.server { counts["\(server)", default: 0] += 1 }
            }
        }

        func gaps(since time: Duration) -> Int { all.count { $0.time > time && $0.server == nil } }
    }

    /// Runs `body` with a cluster of `count` servers, of which the first `listed` are found at first.
    private func run(
        _ count: Int,
        listed: Int? = nil,
        seed: UInt64 = 1,
        options: ClientOptions = ClientOptions(),
        _ change: @escaping @Sendable (inout ClusterOptions) -> Void = { _ in },
        refusing: @escaping @Sendable (Int) -> Bool = { _ in false },
        hanging: @escaping @Sendable (Int) -> Bool = { _ in false },
        _ body: @escaping @Sendable (Setting) async throws -> Void
    ) async throws {
        let network = SimulatedNetwork(seed: seed)
        try await network.run {
            var servers: [LoopbackServer] = []
            for number in 0..<count {
                let push = Reaction.push(Frame(.push, type: 2, body: Bytes("s\(number)")))
                let pushes = Reaction.sequence(
                    [.status(200, Self.subscribe.body), push] + (0..<300).map { _ in .after(.seconds(1), push) }
                )
                servers.append(
                    try await network.startServer(at: Setting.endpoint(number), speaking: SeedCodec.strict) { frame in
                        if hanging(number) { return .noReply }
                        if frame.type != Self.subscribe.type { return .status(200) }
                        return refusing(number) ? .status(500) : pushes
                    }
                )
            }
            let lists = ClusterLists()
            let cluster = Cluster(
                discovering: Discovery(lists),
                speaking: SeedCodec.strict,
                options: options,
                on: network.loops,
                change
            )
            let setting = Setting(network: network, lists: lists, cluster: cluster, servers: servers)
            setting.list(0..<(listed ?? count))
            async let reading: Void = setting.received.read(cluster.pushes(), network)
            try await cluster.connect()
            try await body(setting)
            #expect(await cluster.leftLoads == [])
            await cluster.close()
            await reading
            for server in servers { await server.stop() }
        }
        #expect(network.openLinks == 0)
        #expect(network.loop.timers.armedCount == 0)
    }

    private struct Setting: Sendable {
        let network: SimulatedNetwork
        let lists: ClusterLists
        let cluster: Cluster
        let servers: [LoopbackServer]
        let received = Received()

        static func endpoint(_ number: Int) -> Endpoint { Endpoint(stringLiteral: "s\(number):7000") }

        var now: Duration { network.clock.now.offset }

        func list(_ numbers: some Sequence<Int>) { lists.found(numbers.map { ClusterEndpoint(Self.endpoint($0)) }) }

        func pass(_ seconds: Int) async throws { try await network.clock.sleep(for: .seconds(seconds)) }

        /// The number of requests of a type that each server has received.
        func requests(_ type: UInt32) async -> [Int] {
            var counts: [Int] = []
            for server in servers { counts.append(await server.received.count { $0.type == type }) }
            return counts
        }

        /// The only server with the subscription.
        func holder(since time: Duration) -> Int? {
            let counts = received.counts(since: time)
            guard counts.count == 1 else { return nil }
            return servers.indices.first { counts["\(Self.endpoint($0))"] != nil }
        }
    }

    @Test func aSubscriptionOnOneServerMovesWhenItsLinkIsLost() async throws {
        try await run(3) { setting in
            let subscription = try await setting.cluster.subscribe(Self.subscribe)
            #expect(subscription.response?.body == "prices")
            try await setting.pass(5)
            let first = try #require(setting.holder(since: .zero))
            let lost = setting.now
            await setting.servers[first].kill()
            try await setting.pass(5)
            let second = try #require(setting.holder(since: lost + .milliseconds(100)))
            #expect(second != first && setting.received.gaps(since: lost) == 1)
            // It stays there when the first server is back.
            try await setting.servers[first].resumeAccepting()
            let back = setting.now
            try await setting.pass(10)
            #expect(
                setting.holder(since: back) == second && setting.received.counts(since: back).values.first ?? 0 >= 9
            )
            try await subscription.end(sending: Self.unsubscribe)
            #expect(await setting.requests(101)[second] == 1)
            #expect(await setting.requests(101).reduce(0, +) == 1)
            await setting.servers[second].kill()
            try await setting.pass(5)
            #expect(await setting.requests(100).reduce(0, +) == 2, "a subscription that has ended does not move")
        }
    }

    @Test func aSubscriptionMovesBeforeItsServerGoesAway() async throws {
        try await run(3) { setting in
            _ = try await setting.cluster.subscribe(Self.subscribe)
            try await setting.pass(5)
            let first = try #require(setting.holder(since: .zero))
            let time = setting.now
            try await setting.servers[first].push(ClusterWorld.goAway)
            try await setting.pass(5)
            let second = try #require(setting.holder(since: time + .milliseconds(100)))
            #expect(second != first && setting.received.gaps(since: time) >= 1)
        }
    }

    @Test func aSubscriptionMovesFromAServerThatIsRemoved() async throws {
        try await run(2) { setting in
            _ = try await setting.cluster.subscribe(Self.subscribe)
            try await setting.pass(5)
            let first = try #require(setting.holder(since: .zero))
            let time = setting.now
            setting.list([1 - first])
            try await setting.pass(5)
            #expect(setting.holder(since: time + .seconds(2)) == 1 - first)
        }
    }

    @Test func theOnlyServerIsSubscribedOnAgain() async throws {
        try await run(1) { setting in
            let subscription = try await setting.cluster.subscribe(Self.subscribe)
            let time = setting.now
            await setting.servers[0].kill()
            try await setting.pass(5)
            try await setting.servers[0].resumeAccepting()
            try await setting.pass(40)
            #expect(setting.received.counts(since: time).values.first ?? 0 > 5)
            #expect(setting.received.gaps(since: time) == 1)
            #expect(await setting.requests(100) == [2])
            await subscription.end()
        }
    }

    @Test func aServerThatRefusesAMoveIsReported() async throws {
        let broken = Lock<Set<Int>>([])
        try await run(2) {
            $0.ejection = nil
        } refusing: { number in
            broken.withLock { $0.contains(number) }
        } _: { setting in
            let changes = setting.cluster.changes
            _ = try await setting.cluster.subscribe(Self.subscribe)
            try await setting.pass(3)
            let first = try #require(setting.holder(since: .zero))
            broken.withLock { $0 = [1 - first] }
            await setting.servers[first].kill()
            for await case .subscriptionFailed(let endpoint, let error) in changes {
                #expect(endpoint == Setting.endpoint(1 - first))
                #expect((error as? ClientError)?.code == .rejected)
                break
            }
            broken.withLock { $0 = [] }
            let time = setting.now
            try await setting.pass(10)
            #expect(setting.holder(since: time) == 1 - first)
        }
    }

    @Test func allServersAreSubscribedOnAlsoLaterOnes() async throws {
        try await run(3, listed: 2) { setting in
            try await setting.pass(1)
            let subscription = try await setting.cluster.subscribe(Self.subscribe, on: .all)
            #expect(subscription.response?.body == "prices")
            #expect(await setting.requests(100) == [1, 1, 0])
            setting.list(0..<3)
            try await setting.pass(5)
            #expect(await setting.requests(100) == [1, 1, 1])
            await setting.servers[1].kill()
            try await setting.servers[1].resumeAccepting()
            try await setting.pass(40)
            #expect(await setting.requests(100) == [1, 2, 1])
            let time = setting.now
            try await setting.pass(10)
            #expect(setting.received.counts(since: time) == ["s0:7000": 10, "s1:7000": 10, "s2:7000": 10])
            #expect(setting.received.gaps(since: .zero) == 1)
            try await subscription.end(sending: Self.unsubscribe)
            #expect(await setting.requests(101) == [1, 1, 1])
            await setting.servers[0].kill()
            try await setting.servers[0].resumeAccepting()
            try await setting.pass(40)
            #expect(await setting.requests(100) == [1, 2, 1])
        }
    }

    @Test func aRefusalByOneServerEndsTheSubscriptionOnAll() async throws {
        try await run(3) { _ in
        } refusing: {
            $0 == 1
        } _: { setting in
            try await setting.pass(1)
            let error = await #expect(throws: ClientError.self) {
                try await setting.cluster.subscribe(Self.subscribe, on: .all)
            }
            #expect(error?.code == .rejected && error?.fate == .answered)
            let counts = await setting.requests(100)
            #expect(counts[1] == 1)
            for server in setting.servers {
                await server.kill()
                try await server.resumeAccepting()
            }
            try await setting.pass(40)
            #expect(await setting.requests(100) == counts)
        }
    }

    /// The call failed when its time was over, and nothing was repeated on the servers that had accepted. If the server
    /// that hung was the first one, no other was asked.
    @Test func aServerThatHangsDoesNotFailASubscriptionOnAll() async throws {
        for hung in 0..<5 {
            let hanging = Lock<Set<Int>>([hung])
            try await run(5) { _ in
            } hanging: { number in
                hanging.withLock { $0.contains(number) }
            } _: { setting in
                let changes = setting.cluster.changes
                try await setting.pass(1)
                let began = setting.now
                let subscription = try await setting.cluster.subscribe(
                    Self.subscribe,
                    on: .all,
                    timeout: .seconds(2)
                )
                #expect(setting.now - began == .seconds(2))
                #expect(subscription.pendingServers == [Setting.endpoint(hung)])
                #expect(subscription.response?.body == "prices")
                #expect(await setting.requests(100) == [1, 1, 1, 1, 1])
                // It is asked again, in vain, and then with success.
                try await setting.pass(12)
                hanging.withLock { $0 = [] }
                for await case .subscriptionAccepted(let endpoint) in changes {
                    #expect(endpoint == Setting.endpoint(hung))
                    break
                }
                let time = setting.now
                try await setting.pass(10)
                let counts = setting.received.counts(since: time)
                #expect(counts.count == 5 && counts.values.allSatisfy { $0 >= 9 }, "\(counts)")
                try await subscription.end(sending: Self.unsubscribe)
                #expect(await setting.requests(101) == [1, 1, 1, 1, 1])
                #expect(await setting.cluster.metrics.calls == 1)
            }
        }
    }

    /// A server that hung has the subscription as soon as its link is replaced, too.
    @Test func aServerThatHangsIsSubscribedOnByItsNextLink() async throws {
        let hanging = Lock(true)
        try await run(3) { _ in
        } hanging: { number in
            number == 1 && hanging.withLock { $0 }
        } _: { setting in
            try await setting.pass(1)
            let subscription = try await setting.cluster.subscribe(Self.subscribe, on: .all, timeout: .seconds(2))
            #expect(subscription.pendingServers == [Setting.endpoint(1)])
            hanging.withLock { $0 = false }
            await setting.servers[1].kill()
            try await setting.servers[1].resumeAccepting()
            try await setting.pass(40)
            let time = setting.now
            try await setting.pass(10)
            #expect(setting.received.counts(since: time).values.sorted() == [10, 10, 10])
            await subscription.end()
        }
    }

    @Test func aSubscriptionOnAllFailsIfNoServerAnswers() async throws {
        try await run(3) { _ in
        } hanging: { _ in
            true
        } _: { setting in
            try await setting.pass(1)
            let error = await #expect(throws: ClientError.self) {
                try await setting.cluster.subscribe(Self.subscribe, on: .all, timeout: .seconds(4))
            }
            #expect(error?.code == .timedOut && error?.fate == .unknown)
            #expect(await setting.requests(100) == [1, 1, 1], "the others are asked after a second")
            let metrics = await setting.cluster.metrics
            #expect(metrics.calls == 1 && metrics.failures.map(\.value) == [1])
            try await setting.pass(30)
            #expect(await setting.requests(100) == [1, 1, 1], "nothing is repeated")
        }
    }

    /// Without a metric, the refusal by one of all servers was no failure of a call.
    @Test func aRefusalByOneServerIsAFailureAndNamesTheOthers() async throws {
        try await run(3) { _ in
        } refusing: {
            $0 == 1
        } _: { setting in
            try await setting.pass(1)
            var texts: [String] = []
            for _ in 0..<5 {
                do throws(ClientError) {
                    _ = try await setting.cluster.subscribe(Self.subscribe, on: .all)
                } catch {
                    #expect(error.code == .rejected && error.endpoint == Setting.endpoint(1))
                    texts.append("\(error)")
                }
            }
            #expect(texts.contains { $0.contains("the subscription was accepted by s") }, "\(texts)")
            let metrics = await setting.cluster.metrics
            #expect(metrics.calls == 5 && metrics.failures == [ClientMetrics.Failure(.rejected, .answered): 5])
        }
    }

    /// Each move counted as a call.
    @Test func aMoveIsNoCall() async throws {
        try await run(3) { setting in
            try await setting.pass(1)
            let subscription = try await setting.cluster.subscribe(Self.subscribe)
            for _ in 0..<4 {
                let time = setting.now
                try await setting.pass(3)
                let holder = try #require(setting.holder(since: time))
                await setting.servers[holder].kill()
                try await setting.pass(1)
                try await setting.servers[holder].resumeAccepting()
            }
            #expect(await setting.requests(100).reduce(0, +) == 5)
            #expect(await setting.cluster.metrics.calls == 1)
            await subscription.end()
        }
    }

    /// The end waited for the time-out of a move to a server that hung.
    @Test func theEndDoesNotWaitForAMoveThatHangs() async throws {
        let hanging = Lock<Set<Int>>([])
        try await run(2) {
            $0.ejection = nil
        } hanging: { number in
            hanging.withLock { $0.contains(number) }
        } _: { setting in
            let subscription = try await setting.cluster.subscribe(Self.subscribe)
            try await setting.pass(3)
            let first = try #require(setting.holder(since: .zero))
            hanging.withLock { $0 = [1 - first] }
            await setting.servers[first].kill()
            try await setting.pass(2)
            #expect(await setting.requests(100)[1 - first] == 1)
            let time = setting.now
            try await subscription.end(sending: Self.unsubscribe)
            #expect(setting.now - time < .milliseconds(100))
            try await setting.pass(1)
            #expect(await setting.requests(101)[1 - first] == 1, "the server may know the subscription")
            hanging.withLock { $0 = [] }
            try await setting.servers[first].resumeAccepting()
            try await setting.pass(30)
            #expect(await setting.requests(100).reduce(0, +) == 2)
        }
    }

    /// All subscriptions moved to the first server that was ready after an outage, and stayed there.
    @Test func subscriptionsAreSpreadAfterAnOutage() async throws {
        let options = ClientOptions { $0.reconnecting.policy = Backoff(base: .milliseconds(1), cap: .milliseconds(2)) }
        try await run(4, options: options, { $0.balancing = .roundRobin }) { setting in
            for _ in 0..<200 { _ = try await setting.cluster.subscribe(Self.subscribe) }
            for server in setting.servers { await server.kill() }
            let before = await setting.requests(100)
            try await setting.pass(2)
            for server in setting.servers {
                try await server.resumeAccepting()
                try await setting.network.clock.sleep(for: .milliseconds(5))
            }
            try await setting.pass(60)
            let moved = zip(await setting.requests(100), before).map { $0 - $1 }
            #expect(moved.reduce(0, +) == 200 && moved.allSatisfy { $0 > 20 }, "\(moved)")
        }
    }

    /// With a minute of losses, restarts and wrong lists, every subscription is with the right servers in the end, and
    /// a gap is reported for each loss.
    @Test func subscriptionsFollowTheServers() async throws {
        for seed in seeds(20) {
            await Task.yield()
            try await run(4, seed: seed, { $0.linksPerEndpoint = 1...2 }) { setting in
                var random = SeededGenerator(seed: seed)
                let scope: Cluster.SubscriptionScope = seed % 2 == 0 ? .one : .all
                async let subscribing = Self.subscribed(setting, scope)
                for _ in 0..<Int.random(in: 1...20, using: &random) {
                    try await Self.cause(Int.random(in: 0..<6, using: &random), setting, &random)
                    try await setting.network.clock.sleep(for: .milliseconds(Int.random(in: 0...3000, using: &random)))
                }
                setting.network.heal()
                setting.list(0..<4)
                let subscription = try await subscribing
                try await setting.pass(60)
                let time = setting.now
                try await setting.pass(10)
                let counts = setting.received.counts(since: time)
                #expect(counts.count == (scope == .one ? 1 : 4), "seed \(seed)")
                #expect(counts.values.allSatisfy { $0 == 10 }, "seed \(seed): \(counts)")
                try await subscription.end(sending: Self.unsubscribe)
                #expect(await setting.requests(101).reduce(0, +) == counts.count, "seed \(seed)")
            }
        }
    }

    /// Subscribes, again if it is not known whether the server has received the request.
    private static func subscribed(_ setting: Setting, _ scope: Cluster.SubscriptionScope) async throws -> Subscription
    {
        while true {
            do throws(ClientError) {
                return try await setting.cluster.subscribe(subscribe, on: scope)
            } catch {
                guard error.code == .connectionLost || error.code == .timedOut else { throw error }
            }
        }
    }

    private static func cause(_ fault: Int, _ setting: Setting, _ random: inout SeededGenerator) async throws {
        let number = Int.random(in: 0..<4, using: &random)
        let host = "s\(number)"
        switch fault {
        case 0:
            await setting.servers[number].kill()
            try await setting.network.clock.sleep(for: .milliseconds(Int.random(in: 0...2000, using: &random)))
            try await setting.servers[number].resumeAccepting()
        case 1: try await setting.servers[number].push(ClusterWorld.goAway)
        case 2: setting.network.reset(host)
        case 3:
            setting.network.partition(host)
            try await setting.network.clock.sleep(for: .milliseconds(Int.random(in: 0...20000, using: &random)))
            setting.network.heal(host)
        case 4: setting.list((0..<4).shuffled(using: &random).prefix(Int.random(in: 1...4, using: &random)))
        default: setting.list(0..<4)
        }
    }
}
