import Testing

@testable import TrunklineCluster
@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts
@testable import TrunklineLogging
@testable import TrunklineLoopback
@testable import TrunklineTesting

/// A zone whose servers fail, beside one whose servers work.
@Suite(.simulated) struct ClusterZoneTests {}

extension ClusterZoneTests {
    private static let request = Request(type: 0x410, body: "hello")

    /// A protocol with error responses.
    private static let codec = FrameLayout {
        Field.type(UInt16.self)
        Field.serial(UInt32.self)
        Field.status(UInt16.self)
        Field.length(UInt32.self, counting: .body)
        Field.body
    }

    private struct Setting: Sendable {
        let network: SimulatedNetwork
        let cluster: Cluster
        let servers: [LoopbackServer]

        /// Sends requests, and returns how many failed and how many each server received.
        func send(_ count: Int) async -> (failures: Int, received: [Int]) {
            var before: [Int] = []
            for server in servers { before.append(await server.journal.requestCount) }
            var failures = 0
            for _ in 0..<count { do { _ = try await cluster.send(ClusterZoneTests.request) } catch { failures += 1 } }
            var received: [Int] = []
            for (server, before) in zip(servers, before) { received.append(await server.journal.requestCount - before) }
            return (failures, received)
        }
    }

    /// Runs `body` with a cluster of servers in this zone, the first ones of which fail, and in another zone.
    private func run(
        local: Int,
        failing: Int,
        remote: Int,
        _ change: @escaping @Sendable (inout ClusterOptions) -> Void = { _ in },
        _ body: @escaping @Sendable (Setting) async throws -> Void
    ) async throws {
        let (network, lines) = (SimulatedNetwork(seed: 1), Lock<[LogRecord]>([]))
        try await network.run {
            var (servers, found): ([LoopbackServer], [ClusterEndpoint]) = ([], [])
            for number in 0..<local + remote {
                let endpoint = Endpoint(stringLiteral: "s\(number):7000")
                let server = try await network.startServer(at: endpoint, speaking: Self.codec) { _ in
                    number < failing ? .status(500) : .echo
                }
                servers.append(server)
                found.append(ClusterEndpoint(endpoint, zone: number < local ? "here" : "there"))
            }
            let cluster = Cluster(
                discovering: .static(found),
                speaking: Self.codec,
                options: ClientOptions { $0.logging = ClientLogging { line in lines.withLock { $0.append(line) } } },
                on: network.loops
            ) {
                $0.zone = "here"
                $0.isFailure = { $0.status >= 500 }
                change(&$0)
            }
            try await cluster.connect()
            try await network.clock.sleep(for: .seconds(1))
            try await body(Setting(network: network, cluster: cluster, servers: servers))
            await cluster.close()
            for server in servers { await server.stop() }
        }
        #expect(!lines.withLock { $0.contains { $0.event == "cluster.panic" } })
    }

    /// If this zone had most of the servers, a panic began, and its servers were used again: every request failed,
    /// beside servers of another zone that worked.
    @Test(arguments: [(local: 6, remote: 3), (local: 3, remote: 3), (local: 3, remote: 6), (local: 1, remote: 1)])
    func theTrafficOfABadZoneGoesOver(_ row: (local: Int, remote: Int)) async throws {
        for balancing in [.roundRobin, .leastLoaded] as [any BalancingPolicy] {
            try await run(local: row.local, failing: row.local, remote: row.remote) {
                $0.balancing = balancing
            } _: { setting in
                let (failures, _) = await setting.send(500)
                // Five of each server, and some of those that are not ejected, because half of all are.
                #expect(5 * row.local...10 * row.local ~= failures, "\(failures)")
                let (later, received) = await setting.send(300)
                #expect(later == 0 && received.prefix(row.local).allSatisfy { $0 == 0 }, "\(received)")
            }
        }
    }

    /// A half of the zone carries 70 % of its requests, and the other half is ejected or not.
    @Test(arguments: [0.5, 0.1])
    func theTrafficOfAnAilingZoneGoesOverInProportion(_ maximumShare: Double) async throws {
        try await run(local: 4, failing: 2, remote: 4) {
            $0.ejection?.maximumShare = maximumShare
            $0.balancing = .roundRobin
        } _: { setting in
            _ = await setting.send(200)
            let (_, received) = await setting.send(1000)
            let remote = received.dropFirst(4).reduce(0, +)
            #expect(260...340 ~= remote, "\(received)")
            #expect(received[0] == 0 || received[1] == 0 || maximumShare == 0.1, "\(received)")
        }
    }

    /// Links that are lost count like ejections.
    @Test func aZoneThatIsGoneBeginsNoPanic() async throws {
        try await run(local: 6, failing: 0, remote: 3) { setting in
            for number in 0..<6 {
                setting.network.refuseConnections(to: "s\(number)")
                setting.network.reset("s\(number)")
            }
            try await setting.network.clock.sleep(for: .seconds(1))
            let (failures, received) = await setting.send(90)
            #expect(failures == 0 && received.dropFirst(6).reduce(0, +) == 90, "\(received)")
        }
    }
}
