import Testing

@testable import TrunklineCluster
@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts
@testable import TrunklineLogging
@testable import TrunklineLoopback
@testable import TrunklineTesting

/// Lists with more servers than a cluster uses.
@Suite(.simulated) struct ClusterSubsetTests {}

extension ClusterSubsetTests {
    /// Addresses at which no server listens.
    private static func list(_ numbers: Range<Int>) -> [ClusterEndpoint] {
        numbers.map { ClusterEndpoint(.host("10.\($0 >> 16 & 255).\($0 >> 8 & 255).\($0 & 255)", port: 7000)) }
    }

    /// Runs `body` with a cluster that does not connect again soon, and returns the lines of its log.
    private func withCluster(
        _ change: @escaping @Sendable (inout ClusterOptions) -> Void = { _ in },
        _ body: @escaping @Sendable (SimulatedNetwork, Cluster, ClusterLists) async throws -> Void
    ) async throws -> [LogRecord] {
        let (network, lines) = (SimulatedNetwork(seed: 1), Lock<[LogRecord]>([]))
        try await network.run {
            let lists = ClusterLists()
            let options = ClientOptions {
                $0.reconnecting.policy = Backoff(base: .seconds(3600), cap: .seconds(3600))
                $0.logging = ClientLogging { line in lines.withLock { $0.append(line) } }
            }
            let cluster = Cluster(
                discovering: Discovery(lists),
                speaking: .standard,
                options: options,
                on: network.loops,
                change
            )
            cluster.begin()
            try await body(network, cluster, lists)
            await cluster.close()
        }
        #expect(network.openLinks == 0)
        return lines.withLock { $0 }
    }

    private static func endpoints(_ numbers: Range<Int>) -> Set<Endpoint> { Set(list(numbers).map(\.endpoint)) }

    /// Every server of a list got a link, however many there were.
    @Test func aListOfThousandsIsLimited() async throws {
        let lines = try await withCluster { network, cluster, lists in
            var endpoints = cluster.endpoints.makeAsyncIterator()
            #expect(await endpoints.next()?.isEmpty == true)
            lists.found(Self.list(0..<5000))
            let first = Set(await endpoints.next()?.map(\.endpoint) ?? [])
            #expect(first.count == 1000 && first.isSubset(of: Self.endpoints(0..<5000)))
            try await network.clock.sleep(for: .seconds(1))
            #expect(await cluster.metrics.servers.count == 1000)
            // A server more changes one member at most, and those that stay in the list keep their places.
            for count in 5001...5010 { lists.found(Self.list(0..<count)) }
            try await network.clock.sleep(for: .seconds(1))
            let more = Set(await cluster.metrics.servers.map(\.endpoint))
            #expect(more.count == 1000 && more.subtracting(first).isSubset(of: Self.endpoints(5000..<5010)))
            lists.found(Self.list(500..<5010))
            try await network.clock.sleep(for: .seconds(1))
            let fewer = Set(await cluster.metrics.servers.map(\.endpoint))
            #expect(fewer.count == 1000)
            #expect(fewer.isSuperset(of: more.intersection(Self.endpoints(500..<5010))))
            // A short list is used as a whole.
            lists.found(Self.list(0..<3))
            try await network.clock.sleep(for: .seconds(1))
            #expect(Set(await cluster.metrics.servers.map(\.endpoint)) == Self.endpoints(0..<3))
        }
        let told = lines.filter { $0.event == "servers.subset" }
        #expect(told.map(\.level) == [.info])
        #expect(
            told.map(\.message) == ["the list has 5,000 servers, of which 1,000 are used (ClusterOptions.subset)"]
        )
        #expect(told.first.map { $0.fields.map { "\($0.name)=\($0.value)" } } == ["servers=1000", "found=5000"])
    }

    /// A source that is wrong or hostile: other servers in each list, most of them several times, with odd weights.
    @Test func endlessListsAreLimited() async throws {
        let lines = try await withCluster {
            $0.subset = 50
        } _: { network, cluster, lists in
            for number in 0..<20 {
                var list = Self.list(10_000 * number..<10_000 * number + 5000)
                for index in list.indices { list[index].weight = index % 3 == 0 ? 0 : 1 }
                lists.found(list + list.shuffled() + list)
                try await network.clock.sleep(for: .milliseconds(100))
                let used = await cluster.metrics.servers.map(\.endpoint)
                #expect(used.count == 50 && Set(used).isSubset(of: list.map(\.endpoint)))
            }
            lists.found([])
            try await network.clock.sleep(for: .milliseconds(100))
            #expect(await cluster.metrics.servers.count == 50)
        }
        #expect(lines.count { $0.event == "servers.subset" } == 1, "it is told once")
    }

    @Test func withoutASubsetAllServersAreUsed() async throws {
        let lines = try await withCluster {
            $0.subset = nil
        } _: { network, cluster, lists in
            lists.found(Self.list(0..<1100))
            try await network.clock.sleep(for: .seconds(1))
            #expect(await cluster.metrics.servers.count == 1100)
        }
        #expect(!lines.contains { $0.event == "servers.subset" })
    }

    @Test func aListOfTheSizeOfTheSubsetIsUsedAsAWhole() async throws {
        let lines = try await withCluster {
            $0.subset = 3
        } _: { network, cluster, lists in
            lists.found(Self.list(0..<3) + Self.list(0..<3))
            try await network.clock.sleep(for: .seconds(1))
            #expect(await cluster.metrics.servers.count == 3)
        }
        #expect(!lines.contains { $0.event == "servers.subset" })
    }
}
