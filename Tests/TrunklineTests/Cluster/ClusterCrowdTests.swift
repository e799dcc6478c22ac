import Testing

@testable import TrunklineCluster
@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLoopback
@testable import TrunklineTesting

/// Where requests go while only some of the servers of a cluster are ready.
@Suite(.simulated)
struct ClusterCrowdTests {}

extension ClusterCrowdTests {
    /// Servers that count their requests, and refuse connections at first.
    private struct Bed: Sendable {
        let network: SimulatedNetwork
        let servers: [LoopbackServer]
        private let counts = Lock<[Int: Int]>([:])

        init(_ count: Int, on network: SimulatedNetwork) async throws {
            self.network = network
            var servers: [LoopbackServer] = []
            for number in 0..<count {
                servers.append(
                    try await network.startServer(at: Self.endpoint(number), speaking: SeedCodec.wide) { [counts] _ in
                        counts.withLock { $0[number, default: 0] += 1 }
                        return .after(.milliseconds(5), .echo)
                    }
                )
                network.refuseConnections(to: "s\(number)")
            }
            self.servers = servers
        }

        static func endpoint(_ number: Int) -> Endpoint { .host("s\(number)", port: 7000) }

        func accept(_ number: Int) { network.acceptConnections(to: "s\(number)") }

        func pass(_ milliseconds: Int) async throws { try await network.clock.sleep(for: .milliseconds(milliseconds)) }

        /// The number of requests of each server since the last call.
        func takeCounts() -> [Int] {
            let taken = counts.withLock { exchange(&$0, with: [:]) }
            return servers.indices.map { taken[$0] ?? 0 }
        }
    }

    private static var options: ClientOptions {
        ClientOptions { $0.reconnecting.policy = Backoff(base: .milliseconds(1), cap: .milliseconds(2)) }
    }

    private func run(
        _ count: Int,
        listing listed: Range<Int>,
        _ change: @escaping @Sendable (inout ClusterOptions) -> Void = { _ in },
        _ body: @escaping @Sendable (Bed, Cluster, ClusterLists) async throws -> Void
    ) async throws {
        let network = SimulatedNetwork(seed: 1)
        try await network.run {
            let (bed, lists) = (try await Bed(count, on: network), ClusterLists())
            lists.found(listed.map { ClusterEndpoint(Bed.endpoint($0)) })
            let cluster = Cluster(
                discovering: Discovery(lists),
                speaking: SeedCodec.wide,
                options: Self.options,
                on: network.loops,
                change
            )
            try await body(bed, cluster, lists)
            #expect(await cluster.leftLoads == [])
            #expect(await cluster.diagnostics.audit() == [])
            await cluster.close()
            for server in bed.servers { await server.stop() }
        }
        #expect(network.loop.timers.armedCount == 0)
    }

    /// All 5,000 went to the first server that was ready.
    @Test(arguments: [.leastLoaded, .roundRobin] as [any BalancingPolicy], [0, 10])
    func callsThatWaitedAreSpreadOverTheServers(_ balancing: any BalancingPolicy, pause: Int) async throws {
        try await run(5, listing: 0..<5, { $0.balancing = balancing }) { bed, cluster, _ in
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<5000 { group.addTask { _ = try await cluster.send(ask("hello")) } }
                try await bed.pass(100)
                for number in 0..<5 {
                    bed.accept(number)
                    try await bed.pass(pause)
                }
                try await group.waitForAll()
            }
            let counts = bed.takeCounts()
            #expect(counts.reduce(0, +) == 5000 && counts.allSatisfy { (700...1400).contains($0) }, "\(counts)")
        }
    }

    /// The first server that is ready gets its share after each moment, and all before long.
    @Test func callsThatWaitedDoNotWaitForServersThatDoNotCome() async throws {
        try await run(5, listing: 0..<5) { bed, cluster, _ in
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<5000 { group.addTask { _ = try await cluster.send(ask("hello")) } }
                try await bed.pass(100)
                bed.accept(0)
                try await bed.pass(40)
                var counts: [Int] = []
                for _ in 0..<8 {
                    counts.append(bed.takeCounts()[0])
                    try await bed.pass(50)
                }
                #expect(counts[0] <= 16, "\(counts)")
                #expect(counts[1] > 900 && counts[1] < 1200, "\(counts)")
                #expect(counts.reduce(0, +) == 5000, "\(counts)")
                try await group.waitForAll()
            }
        }
    }

    @Test func aCallGoesOnBeforeItsDeadline() async throws {
        try await run(5, listing: 0..<5) { bed, cluster, _ in
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in 0..<1000 {
                    let timeout = Timeout.after(.milliseconds(120 + number))
                    group.addTask { _ = try await cluster.send(ask("hello"), timeout: timeout) }
                }
                try await bed.pass(100)
                bed.accept(0)
                try await group.waitForAll()
            }
            #expect(bed.takeCounts()[0] == 1000)
        }
    }

    /// Without a crowd, the first server that is ready is used at once.
    @Test func fewCallsGoOnAtOnce() async throws {
        try await run(5, listing: 0..<5) { bed, cluster, _ in
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<8 { group.addTask { _ = try await cluster.send(ask("hello")) } }
                try await bed.pass(100)
                bed.accept(0)
                let began = bed.network.clock.now
                try await group.waitForAll()
                #expect(began.duration(to: bed.network.clock.now) < .milliseconds(30))
            }
        }
    }

    /// Sends requests, one after the other, until a task is cancelled.
    private static func load(_ cluster: Cluster, _ bed: Bed) async throws {
        while !Task.isCancelled {
            do { _ = try await cluster.send(ask("hello")) } catch { if !Task.isCancelled { throw error } }
            try? await bed.network.clock.sleep(for: .milliseconds(1))
        }
    }

    /// When all servers were replaced, the first new one that was ready got all requests, although the old ones worked.
    @Test(arguments: [.leastLoaded, .roundRobin] as [any BalancingPolicy])
    func aNewListIsTakenOverAsItsServersAreReady(_ balancing: any BalancingPolicy) async throws {
        try await run(10, listing: 0..<5, { $0.balancing = balancing }) { bed, cluster, lists in
            for number in 0..<5 { bed.accept(number) }
            // The attempts to connect to the others take long.
            for number in 5..<10 {
                bed.accept(number)
                bed.network.partition("s\(number)")
            }
            try await withThrowingTaskGroup(of: Void.self) { group in
                try await cluster.connect()
                for _ in 0..<40 { group.addTask { try await Self.load(cluster, bed) } }
                try await bed.pass(500)
                lists.found((5..<10).map { ClusterEndpoint(Bed.endpoint($0)) })
                try await bed.pass(500)
                #expect(bed.takeCounts().prefix(5).allSatisfy { $0 > 100 })
                for number in 5..<10 {
                    bed.network.heal("s\(number)")
                    try await bed.pass(350)
                    _ = bed.takeCounts()
                    try await bed.pass(50)
                    let counts = bed.takeCounts()
                    let share = Double(counts[5...].reduce(0, +)) / Double(counts.reduce(0, +))
                    let fair = Double(number - 4) / 5
                    #expect((fair - 0.12...fair + 0.12).contains(share), "\(number): \(counts)")
                }
                #expect(await cluster.metrics.servers.count == 5)
                group.cancelAll()
                try await group.waitForAll()
            }
        }
    }

    /// A server that was removed is used no longer than its successor needs to answer, or to fail.
    @Test func aServerThatIsRemovedDoesNotWaitForAnAddressThatDoesNotWork() async throws {
        try await run(3, listing: 0..<2) { bed, cluster, lists in
            for number in 0..<2 { bed.accept(number) }
            try await cluster.connect()
            try await bed.pass(500)
            lists.found([0, 2].map { ClusterEndpoint(Bed.endpoint($0)) })
            try await bed.pass(100)
            #expect(await cluster.metrics.servers.map(\.endpoint) == [0, 2].map { Bed.endpoint($0) })
            bed.network.partition("s2")
            lists.found([0, 1].map { ClusterEndpoint(Bed.endpoint($0)) })
            try await bed.pass(100)
            #expect(await cluster.metrics.servers.map(\.endpoint) == [0, 1].map { Bed.endpoint($0) })
            // The attempt to connect takes 3 s.
            lists.found([0, 2].map { ClusterEndpoint(Bed.endpoint($0)) })
            try await bed.pass(2000)
            #expect(await cluster.metrics.servers.count == 3)
            try await bed.pass(1500)
            #expect(await cluster.metrics.servers.map(\.endpoint) == [0, 2].map { Bed.endpoint($0) })
        }
    }

    /// The table was made anew for each change, which took quadratic time while thousands of servers connected.
    @Test func manyChangesMakeOneTable() async throws {
        try await run(3, listing: 0..<3) { bed, cluster, _ in
            for number in 0..<3 { bed.accept(number) }
            try await cluster.connect()
            try await bed.pass(100)
            let (before, after) = await cluster.changeTable(times: 1000)
            #expect(after == before, "the table is made when all has changed")
            try await bed.pass(1)
            let (last, _) = await cluster.changeTable(times: 0)
            #expect(last == before + 1)
        }
    }
}

extension Cluster {
    /// Says that servers have changed. Returns the number of tables that were made before and after.
    fileprivate func changeTable(times: Int) -> (Int, Int) {
        let before = tableUpdate.count
        for _ in 0..<times { tableChanged() }
        return (before, tableUpdate.count)
    }
}
