import Testing

@testable import TrunklineCluster
@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts
@testable import TrunklineLoopback
@testable import TrunklineTesting

/// Name servers that answer with a part of the addresses, another one each time.
@Suite(.simulated) struct RotatingDiscoveryTests {}

extension RotatingDiscoveryTests {
    private static let request = Request(type: 0x410, body: "hello")

    /// Runs `body` with a discovery of the name "orders", whose look-ups take no time.
    private func simulate(
        _ discovery: Discovery = .dns("orders:7000"),
        _ body: @escaping @Sendable (SimulatedNetwork, RunningDiscovery) async throws -> Void
    ) throws {
        let network = SimulatedNetwork(seed: 1)
        try network.runBlocking {
            network.setResolution(of: "orders", ipv6: .after(.zero), ipv4: .after(.zero))
            let running = RunningDiscovery(discovery, on: network.loop)
            try await body(network, running)
            running.cancel()
            try await network.clock.sleep(for: .milliseconds(1))
            #expect(running.isOver)
        }
    }

    private static func hosts(_ numbers: [Int]) -> [String] { numbers.map { "10.1.0.\($0)" } }

    private static func endpoints(_ numbers: [Int]) -> [String] { numbers.map { "10.1.0.\($0):7000" } }

    /// Lets the name have these addresses, one answer after the other.
    private static func answer(_ answers: [[Int]], _ network: SimulatedNetwork, _ running: RunningDiscovery)
        async throws
    {
        for answer in answers {
            network.setName("orders", hosts: hosts(answer))
            running.alarm.ring()
            let count = running.lists.count
            while running.lists.count == count { try await network.clock.sleep(for: .milliseconds(100)) }
        }
    }

    // MARK: Lists

    @Test func answersThatRotateAreAddedUp() throws {
        try simulate { network, running in
            try await Self.answer([[1, 2], [3, 1], [2, 1]], network, running)
            #expect(running.latest == Self.endpoints([2, 1]) && running.rotations.isEmpty)
            try await Self.answer([[3, 1]], network, running)
            // The servers of the answer come first.
            #expect(running.latest == Self.endpoints([3, 1, 2]))
            #expect(running.lists.last?.map(\.isFromEarlierAnswer) == [false, false, true])
            #expect(running.rotations == [[2, 3]])
            try await Self.answer([[2, 4], [3, 1]], network, running)
            #expect(running.latest == Self.endpoints([3, 1, 2, 4]))
            #expect(running.rotations.count == 1, "it is reported when it begins")
        }
    }

    /// A server that is restarted has left the answer when its neighbour is back.
    @Test func aRollingRestartIsNoRotation() throws {
        try simulate { network, running in
            for answer in [[1, 2, 3], [2, 3], [1, 3], [1, 2], [1, 2, 3], [1, 2, 4]] {
                try await Self.answer([answer], network, running)
                #expect(running.latest == Self.endpoints(answer))
            }
            #expect(running.rotations.isEmpty)
        }
    }

    @Test func rotationIsForgottenAfterTenMinutes() throws {
        try simulate { network, running in
            try await Self.answer([[1], [2], [1], [2]], network, running)
            #expect(running.latest == Self.endpoints([2, 1]))
            try await network.clock.sleep(for: .seconds(240))
            #expect(running.latest == Self.endpoints([2, 1]))
            try await network.clock.sleep(for: .seconds(400))
            #expect(running.latest == Self.endpoints([2]))
            try await Self.answer([[1]], network, running)
            #expect(running.latest == Self.endpoints([1]))
        }
    }

    /// An answer with one address of each family of several servers does not say that both are those of one server.
    @Test func addressesThatRotateAreNotThoseOfOneServer() throws {
        try simulate { network, running in
            for numbers in [(1, 1), (2, 2), (1, 1)] {
                network.setName("orders", hosts: ["10.1.0.\(numbers.0)", "fd00::\(numbers.1)"])
                running.alarm.ring()
                try await network.clock.sleep(for: .seconds(6))
                #expect(running.lists.last?.map(\.sibling) == ["orders", "orders"])
            }
            network.setName("orders", hosts: ["10.1.0.2", "fd00::2"])
            running.alarm.ring()
            try await network.clock.sleep(for: .seconds(6))
            #expect(running.lists.last?.map(\.sibling) == [nil, nil, nil, nil])
        }
    }

    /// A family that was not answered has not left out its addresses.
    @Test func halfAnAnswerIsNoRotation() throws {
        try simulate { network, running in
            network.setName("orders", hosts: ["10.1.0.1", "10.1.0.2", "fd00::1"])
            for number in 0..<20 {
                let (works, fails) = (NameAnswer.after(.zero), NameAnswer.failure(after: .zero))
                let isSix = number % 2 == 0
                network.setResolution(of: "orders", ipv6: isSix ? works : fails, ipv4: isSix ? fails : works)
                running.alarm.ring()
                try await network.clock.sleep(for: .seconds(6))
            }
            #expect(running.lists.last?.count == 3 && running.rotations.isEmpty)
        }
    }

    // MARK: SRV records

    private func srv(_ records: Lock<SRVServers.Records>) -> Discovery {
        Discovery(name: "test") { receiver in
            var servers = SRVServers(of: "_acme._tcp.x", isSecured: false)
            await servers.report(to: receiver) { () throws(TransportError) in records.withLock { $0 } }
        }
    }

    @Test func targetsThatRotateAreAddedUp() throws {
        let records = Lock<SRVServers.Records>([])
        try simulate(srv(records)) { network, running in
            for number in 1...3 { network.setName("s\(number).x.", hosts: ["10.1.0.\(number)"]) }
            func answer(_ numbers: [Int], priority: UInt16 = 1) async throws {
                records.withLock {
                    $0 = numbers.map {
                        (SRVRecord(priority: priority, weight: 1, port: 7000, target: "s\($0).x"), 1)
                    }
                }
                running.alarm.ring()
                try await network.clock.sleep(for: .seconds(6))
            }
            for numbers in [[1], [2], [1], [2]] { try await answer(numbers) }
            #expect(running.latest == Self.endpoints([2, 1]) && running.rotations == [[1, 2]])
            #expect(running.lists.last?.last?.metadata["target"] == "s1.x")
            // The servers of another priority take over: those before are not used beside them.
            try await answer([3], priority: 2)
            #expect(running.latest == Self.endpoints([3]))
            try await answer([1])
            #expect(running.latest == Self.endpoints([1]))
        }
    }

    // MARK: In a cluster

    /// Notes the links and the changes of a cluster.
    private final class Watch: ClientObserver {
        let interests: ClientEvent.Kinds = [.links, .endpoints]
        let delivery = EventDelivery.onEventLoop
        private let state = Lock((links: [Duration](), changes: [ClusterChange]()))

        func observe(_ events: [ClientEvent]) {
            for event in events {
                if event.name == "link.ready" { state.withLock { $0.links.append(event.time) } }
                if case .clusterChanged(let change) = event.content { state.withLock { $0.changes.append(change) } }
            }
        }

        var links: [Duration] { state.withLock { $0.links } }
        var changes: [ClusterChange] { state.withLock { $0.changes } }
        var rotations: [[Int]] {
            changes.compactMap { if case .answersRotate(let count, let known) = $0 { [count, known] } else { nil } }
        }
    }

    /// Runs `body` with servers at 10.1.0.1, 10.1.0.2, … and a cluster of those that the name "orders" has.
    private func withCluster(
        servers count: Int,
        seed: UInt64 = 1,
        _ body: @escaping @Sendable (SimulatedNetwork, Cluster, [LoopbackServer], Watch) async throws -> Void
    ) async throws {
        let (network, watch) = (SimulatedNetwork(seed: seed), Watch())
        try await network.run {
            var servers: [LoopbackServer] = []
            for host in Self.hosts(Array(1...count)) {
                servers.append(
                    try await network.startServer(at: .host(host, port: 7000), speaking: FrameLayout.standard)
                )
            }
            let cluster = Cluster(
                discovering: .dns("orders:7000"),
                speaking: .standard,
                options: ClientOptions { $0.observers = [watch] },
                on: network.loops
            )
            try await body(network, cluster, servers, watch)
            await cluster.close()
            for server in servers { await server.stop() }
        }
        #expect(network.openLinks == 0)
    }

    /// Every answer replaced most of the servers: about 580 links an hour with 8 of 20 addresses in each.
    @Test(arguments: [
        (count: 20, part: 8, most: 60), (count: 100, part: 8, most: 180), (count: 5, part: 1, most: 20),
        (count: 14, part: 13, most: 35),
    ])
    func linksStay(_ row: (count: Int, part: Int, most: Int)) async throws {
        try await withCluster(servers: row.count) { network, cluster, servers, watch in
            var random = SeededGenerator(seed: 1)
            for _ in 0..<360 {
                let part = (1...row.count).shuffled(using: &random).prefix(row.part)
                network.setName("orders", hosts: Self.hosts(Array(part)))
                #expect(try await cluster.send(Self.request).body == "hello")
                try await network.clock.sleep(for: .seconds(10))
            }
            #expect(watch.links.count <= row.most)
            #expect(watch.links.count { $0 > .seconds(1800) } <= row.most / 10)
            #expect(watch.rotations.count == 1, "\(watch.rotations)")
            #expect(watch.rotations.first?.first == row.part)
            #expect(await cluster.metrics.servers.count >= row.count * 19 / 20)
        }
    }

    /// Whether a server that the answers have left out still exists is unknown: it stays while it works.
    @Test func aLostServerOfAnEarlierAnswerIsRemoved() async throws {
        try await withCluster(servers: 3) { network, cluster, servers, watch in
            func used() async -> [String] { await cluster.metrics.servers.map { "\($0.endpoint)" }.sorted() }
            for number in [1, 2, 1, 2, 1] {
                network.setName("orders", hosts: Self.hosts([number]))
                _ = try await cluster.send(Self.request)
                try await network.clock.sleep(for: .seconds(37))
            }
            #expect(await used() == Self.endpoints([1, 2]) && watch.rotations == [[1, 2]])
            // Its link is lost, and it accepts another.
            network.reset("10.1.0.2")
            try await network.clock.sleep(for: .seconds(1))
            #expect(await used() == Self.endpoints([1, 2]))
            let links = watch.links.count
            await servers[1].kill()
            try await network.clock.sleep(for: .seconds(1))
            #expect(await used() == Self.endpoints([1]))
            guard case .servers(let added, let removed, 1)? = watch.changes.last, added.isEmpty else {
                Issue.record("\(watch.changes)")
                return
            }
            #expect(removed.map { "\($0)" } == Self.endpoints([2]))
            // It is not tried again because of earlier answers.
            try await servers[1].resumeAccepting()
            try await network.clock.sleep(for: .seconds(100))
            #expect(watch.links.count == links)
            #expect(await used() == Self.endpoints([1]))
            network.setName("orders", hosts: Self.hosts([2]))
            try await network.clock.sleep(for: .seconds(37))
            #expect(await used() == Self.endpoints([1, 2]))
        }
    }

    /// Beside the list of an ordinary name, nothing is remembered.
    @Test func aServerThatAnOrdinaryAnswerLeavesOutIsRemoved() async throws {
        try await withCluster(servers: 3) { network, cluster, servers, watch in
            network.setName("orders", hosts: Self.hosts([1, 2, 3]))
            _ = try await cluster.send(Self.request)
            for numbers in [[2, 3], [1, 3], [1, 2]] {
                network.setName("orders", hosts: Self.hosts(numbers))
                try await network.clock.sleep(for: .seconds(37))
                #expect(await cluster.metrics.servers.map { "\($0.endpoint)" }.sorted() == Self.endpoints(numbers))
            }
            #expect(watch.rotations.isEmpty)
        }
    }
}
