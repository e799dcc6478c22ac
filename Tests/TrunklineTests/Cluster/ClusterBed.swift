import TrunklineTesting

@testable import TrunklineCluster
@testable import TrunklineCore
@testable import TrunklineIO

/// A cluster of simulated servers, each of which answers as a test says, and a load.
final class ClusterBed: Sendable {
    /// How a server answers.
    struct Manner: Sendable {
        let reaction: @Sendable (Frame) -> Reaction

        init(_ reaction: @escaping @Sendable (Frame) -> Reaction) { self.reaction = reaction }

        /// Answers after a millisecond.
        static let fast = Manner { _ in .after(.milliseconds(1), .echo) }
        /// Does not answer.
        static let hangs = Manner { _ in .noReply }
        /// Answers with an error, at once.
        static let rejects = Manner { _ in .status(ClusterPlan.failureStatus) }
    }

    private struct State {
        var manners: [Manner]
        /// The number of requests that each server has received.
        var received: [Int]
        /// Whether the load is to end.
        var isOver = false
        var errors: [ClientError] = []
    }

    let network: SimulatedNetwork
    private let lists = ClusterLists()
    private let state: Lock<State>

    private init(seed: UInt64, _ count: Int, _ manner: Manner) {
        network = SimulatedNetwork(seed: seed)
        state = Lock(
            State(manners: Array(repeating: manner, count: count), received: Array(repeating: 0, count: count))
        )
    }

    /// Runs `body` with a cluster of servers that are ready.
    ///
    /// - Parameter listed: The number of servers that the discovery has found; `nil` for all.
    static func run(
        seed: UInt64 = 1,
        servers count: Int,
        listed: Int? = nil,
        options: ClientOptions = ClientOptions(),
        answering manner: Manner = .fast,
        _ change: @escaping @Sendable (inout ClusterOptions) -> Void = { _ in },
        _ body: @escaping @Sendable (ClusterBed, Cluster, [LoopbackServer]) async throws -> Void
    ) async throws {
        let bed = ClusterBed(seed: seed, count, manner)
        let network = bed.network
        try await network.run {
            var servers: [LoopbackServer] = []
            for index in 0..<count {
                let server = try await network.startServer(
                    at: endpoint(index),
                    speaking: SeedCodec.strict,
                    options: LoopbackServer.Options { $0.successStatus = 200 },
                    handler: { bed.reaction(of: index, to: $0) }
                )
                servers.append(server)
            }
            let cluster = Cluster(
                discovering: Discovery(bed.lists),
                speaking: SeedCodec.strict,
                options: options,
                on: network.loops,
                change
            )
            bed.list(0..<(listed ?? count))
            try await cluster.connect()
            try await bed.pass(.seconds(1))
            try await body(bed, cluster, servers)
            await cluster.close()
            for server in servers { await server.stop() }
        }
    }

    static func endpoint(_ index: Int) -> Endpoint { .host("s\(index)", port: 7000) }

    private func reaction(of index: Int, to request: Frame) -> Reaction {
        let manner = state.withLock { state in
            state.received[index] += 1
            return state.manners[index]
        }
        return manner.reaction(request)
    }

    // MARK: What changes

    func set(_ index: Int, _ manner: Manner) { state.withLock { $0.manners[index] = manner } }

    func set(_ index: Int, _ reaction: @escaping @Sendable (Frame) -> Reaction) { set(index, Manner(reaction)) }

    func list(_ indices: Range<Int>) { lists.found(indices.map { ClusterEndpoint(Self.endpoint($0)) }) }

    func pass(_ time: Duration) async throws { try await network.clock.sleep(for: time) }

    /// Lets time pass until the cluster uses a server in a certain way. Returns how long that was; fails after an hour.
    @discardableResult
    func pass(until state: Cluster.ServerMetrics.State, _ index: Int, _ cluster: Cluster) async throws -> Duration {
        struct NeverHappened: Error { let state: Cluster.ServerMetrics.State }
        let began = network.clock.now
        while await cluster.state(of: index) != state {
            let time = began.duration(to: network.clock.now)
            guard time < .seconds(3600) else { throw NeverHappened(state: state) }
            try await pass(.milliseconds(50))
        }
        return began.duration(to: network.clock.now)
    }

    // MARK: Load

    /// The errors of the load, oldest first.
    var errors: [ClientError] { state.withLock { $0.errors } }

    /// Sends a request now and then, whatever has become of the others, while `body` runs.
    func underLoad(
        of cluster: Cluster,
        every pause: Duration,
        options: CallOptions = CallOptions(),
        _ body: @escaping @Sendable () async throws -> Void
    ) async throws {
        try await withLoad { group in
            group.addTask {
                await withDiscardingTaskGroup { calls in
                    while !self.isOver {
                        calls.addTask { await self.send(cluster, options) }
                        try? await self.pass(pause)
                    }
                }
            }
        } during: {
            try await body()
        }
    }

    /// Sends requests one after the other from each of several callers, while `body` runs.
    func underLoad(
        of cluster: Cluster,
        callers: Int,
        options: CallOptions = CallOptions(),
        _ body: @escaping @Sendable () async throws -> Void
    ) async throws {
        try await withLoad { group in
            for _ in 0..<callers {
                group.addTask {
                    while !self.isOver {
                        // A call that fails at once must not stop the time.
                        if await !self.send(cluster, options) { try? await self.pass(.milliseconds(1)) }
                    }
                }
            }
        } during: {
            try await body()
        }
    }

    private var isOver: Bool { state.withLock { $0.isOver } }

    private func withLoad(
        _ begin: (inout ThrowingTaskGroup<Void, any Error>) -> Void,
        during body: @escaping @Sendable () async throws -> Void
    ) async throws {
        state.withLock { $0.isOver = false }
        try await withThrowingTaskGroup(of: Void.self) { group in
            begin(&group)
            group.addTask {
                defer { self.state.withLock { $0.isOver = true } }
                try await body()
            }
            try await group.waitForAll()
        }
    }

    /// Returns whether the call succeeded.
    @discardableResult
    private func send(_ cluster: Cluster, _ options: CallOptions) async -> Bool {
        do throws(ClientError) {
            _ = try await cluster.send(ask("hello"), options: options)
            return true
        } catch {
            state.withLock { $0.errors.append(error) }
            return false
        }
    }

    // MARK: Facts

    /// The number of requests that each server has received.
    var received: [Int] { state.withLock { $0.received } }

    /// The number of requests that each server receives during a time.
    func received(in time: Duration) async throws -> [Int] {
        let before = received
        try await pass(time)
        return zip(received, before).map { $0 - $1 }
    }

    /// The share of a server in the requests of the next `time`, as a multiple of its fair share.
    func share(of index: Int, in time: Duration, among count: Int) async throws -> Double {
        let counts = try await received(in: time)
        return Double(counts[index] * count) / Double(max(1, counts.reduce(0, +)))
    }
}

extension Cluster {
    /// How the cluster uses a server of a bed.
    func state(of index: Int) async -> ServerMetrics.State? {
        await metrics.servers.first { $0.endpoint == ClusterBed.endpoint(index) }?.state
    }

    /// How often servers were ejected.
    var ejections: Int { get async { await metrics.servers.reduce(0) { $0 + $1.ejections } } }

    /// The latency scores of the servers.
    var scores: [Duration] { get async { await metrics.servers.map(\.latencyScore) } }
}
