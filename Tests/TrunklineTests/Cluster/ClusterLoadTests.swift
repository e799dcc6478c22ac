import Testing

@testable import TrunklineCluster
@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLoopback
@testable import TrunklineTesting

/// A cluster under steady load: servers that are slow, and servers that restart one after the other.
@Suite(.simulated, .timeLimit(.seeded))
struct ClusterLoadTests {}

extension ClusterLoadTests {
    /// What the callers of a steady load have met.
    private final class Load: Sendable {
        private let state = Lock((isOver: false, calls: 0, slowest: Duration.zero, errors: [ClientError]()))

        var isOver: Bool { state.withLock { $0.isOver } }
        var calls: Int { state.withLock { $0.calls } }
        var slowest: Duration { state.withLock { $0.slowest } }
        var errors: [ClientError] { state.withLock { $0.errors } }

        func end() { state.withLock { $0.isOver = true } }

        /// Sends requests one after the other until the end.
        func run(_ cluster: Cluster, _ network: SimulatedNetwork, _ options: CallOptions) async {
            while !isOver {
                let began = network.clock.now.offset
                var failure: ClientError?
                do throws(ClientError) { _ = try await cluster.send(ask("hello"), options: options) } catch {
                    failure = error
                }
                let took = network.clock.now.offset - began
                state.withLock { state in
                    state.calls += 1
                    state.slowest = max(state.slowest, took)
                    if let failure { state.errors.append(failure) }
                }
                // A call that fails at once must not stop the time.
                if failure != nil { try? await network.clock.sleep(for: .milliseconds(1)) }
            }
        }
    }

    /// Runs `body` with a cluster and its servers while `callers` send requests.
    private func underLoad(
        _ seed: UInt64,
        servers count: Int,
        callers: Int,
        balancing: any BalancingPolicy = .leastLoaded,
        options: CallOptions = CallOptions(),
        answeringAfter delay: @escaping @Sendable (Int) -> Duration = { _ in .milliseconds(20) },
        _ body: @escaping @Sendable (SimulatedNetwork, [LoopbackServer]) async throws -> Void
    ) async throws -> Load {
        let network = SimulatedNetwork(seed: seed)
        let load = Load()
        try await network.run {
            var servers: [LoopbackServer] = []
            for number in 0..<count {
                servers.append(
                    try await network.startServer(at: .host("s\(number)", port: 7000), speaking: SeedCodec.wide) { _ in
                        .after(delay(number), .echo)
                    }
                )
            }
            let cluster = Cluster(
                discovering: .static(servers.map { ClusterEndpoint($0.endpoint) }),
                speaking: SeedCodec.wide,
                on: network.loops
            ) { $0.balancing = balancing }
            try await cluster.connect()
            try await withThrowingTaskGroup(of: Void.self) { [servers] group in
                for _ in 0..<callers { group.addTask { await load.run(cluster, network, options) } }
                group.addTask {
                    try await body(network, servers)
                    load.end()
                }
                try await group.waitForAll()
            }
            #expect(await cluster.leftLoads == [])
            await cluster.close()
            for server in servers { await server.stop() }
        }
        #expect(network.openLinks == 0)
        return load
    }

    @Test func aSlowServerSoonGetsLessThanHalfOfItsShare() async throws {
        for seed in seeds(2) {
            await Task.yield()
            let count = 3 + Int(seed % 6)
            let delay = { @Sendable (number: Int) in Duration.milliseconds(number == 0 ? 200 : 20) }
            let load = try await underLoad(seed, servers: count, callers: 4 * count, answeringAfter: delay) {
                network,
                servers in
                try await network.clock.sleep(for: .seconds(4))
                var before: [Int] = []
                for server in servers { before.append(await server.journal.requestCount) }
                try await network.clock.sleep(for: .seconds(1))
                var counts: [Int] = []
                for (server, before) in zip(servers, before) {
                    counts.append(await server.journal.requestCount - before)
                }
                let fair = counts.reduce(0, +) / count
                #expect(counts[0] < fair / 2, "seed \(seed): \(counts)")
                #expect(counts.dropFirst().allSatisfy { $0 > fair / 2 }, "seed \(seed): \(counts)")
            }
            #expect(load.errors.isEmpty, "seed \(seed): \(load.errors.prefix(3))")
        }
    }

    /// Restarts all servers, one after the other.
    private static func restart(
        _ servers: [LoopbackServer],
        isPolite: Bool,
        _ network: SimulatedNetwork,
        _ seed: UInt64
    ) async throws {
        var random = SeededGenerator(seed: seed)
        for server in servers {
            if isPolite {
                await server.stopAccepting()
                try await server.push(ClusterWorld.goAway)
                try await network.clock.sleep(for: .milliseconds(Int.random(in: 100...1000, using: &random)))
            }
            await server.kill()
            try await network.clock.sleep(for: .milliseconds(Int.random(in: 10...2000, using: &random)))
            try await server.resumeAccepting()
            try await server.waitForConnections(1, within: .seconds(60))
            try await network.clock.sleep(for: .milliseconds(Int.random(in: 100...1000, using: &random)))
        }
    }

    @Test(arguments: [.leastLoaded, .roundRobin] as [any BalancingPolicy])
    func aRollingRestartThatIsAnnouncedCostsNothing(_ balancing: any BalancingPolicy) async throws {
        for seed in seeds(2) {
            await Task.yield()
            let load = try await underLoad(seed, servers: 3 + Int(seed % 3), callers: 8, balancing: balancing) {
                network,
                servers in
                try await network.clock.sleep(for: .seconds(1))
                try await Self.restart(servers, isPolite: true, network, seed)
            }
            #expect(load.errors.isEmpty, "seed \(seed): \(load.errors.count) errors, \(load.errors.prefix(2))")
            #expect(load.slowest < .seconds(1), "seed \(seed)")
            #expect(load.calls > 1000)
        }
    }

    @Test func aRollingRestartWithoutAWordFailsOnlyRequestsThatWereSent() async throws {
        for seed in seeds(2) {
            await Task.yield()
            let load = try await underLoad(seed, servers: 3 + Int(seed % 3), callers: 8) { network, servers in
                try await network.clock.sleep(for: .seconds(1))
                try await Self.restart(servers, isPolite: false, network, seed)
            }
            let others = load.errors.filter { $0.fate != .unknown || $0.code != .connectionLost }
            #expect(others.isEmpty, "seed \(seed): \(others.prefix(2))")
            #expect(!load.errors.isEmpty && load.errors.count < 100, "seed \(seed): \(load.errors.count) errors")
            #expect(load.slowest < .seconds(1), "seed \(seed): \(load.slowest)")
        }
    }

    /// A server that said goAway gave requests back that it had not received. If they were not to be sent again, they
    /// failed, although other servers were ready.
    @Test func serversThatSayGoAwayFailNoRequest() async throws {
        for seed in seeds(4) {
            await Task.yield()
            let load = try await underLoad(seed, servers: 3, callers: 40, options: CallOptions(retry: .never)) {
                network,
                servers in
                try await network.clock.sleep(for: .seconds(1))
                for round in 0..<60 {
                    try await servers[round % 3].push(ClusterWorld.goAway)
                    try await network.clock.sleep(for: .milliseconds(100))
                }
            }
            #expect(load.errors.isEmpty, "seed \(seed): \(load.errors.count) errors, \(load.errors.prefix(2))")
            #expect(load.calls > 1000)
        }
    }
}
