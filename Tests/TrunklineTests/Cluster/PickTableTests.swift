import Testing
import TrunklineTesting

@testable import TrunklineCluster
@testable import TrunklineCore
@testable import TrunklineIO

/// How a table of servers that exist only as names divides requests.
@Suite(.simulated)
struct PickTableTests {}

extension PickTableTests {
    private typealias Server = SampleTable.Server

    private static let now = SampleTable.now

    /// Runs `body` with a table of servers, and with the link of each.
    private func withTable(
        _ servers: [SampleTable.Server],
        localShare: Double? = nil,
        _ change: @escaping @Sendable (inout ClusterOptions) -> Void = { _ in },
        _ body: @escaping @Sendable (PickTable, [MemberLink]) throws -> Void
    ) async throws {
        let network = SimulatedNetwork(seed: 1)
        try await network.run {
            let sample = SampleTable(servers, localShare: localShare, on: network.loops, change)
            try body(sample.table, sample.links)
            await sample.client.close()
        }
    }

    /// The share of each server of many requests, which end at once.
    private static func shares(_ table: PickTable, _ links: [MemberLink], excluding excluded: [UInt64] = []) -> [Double]
    {
        var generator = SeededGenerator(seed: 1)
        var counts = [Int](repeating: 0, count: links.count)
        for _ in 0..<20_000 {
            let wish = Wish(now: now, excluded: excluded)
            guard let link = table.pick(wish, using: &generator) else { continue }
            link.end(.notSent, from: now, at: now)
            counts[Int(link.id) - 1] += 1
        }
        return counts.map { Double($0) / 20_000 }
    }

    /// The neighbor in the list got the requests for which two servers were drawn that are not ready.
    @Test(arguments: [.leastLoaded, .roundRobin] as [any BalancingPolicy])
    func theOthersTakeOverInProportionToTheirWeights(_ balancing: any BalancingPolicy) async throws {
        let servers = [12, 12, 1, 1, 2].enumerated().map { Server(weight: $1, isReady: $0 > 1) }
        try await withTable(servers, { $0.balancing = balancing }) { table, links in
            let shares = Self.shares(table, links)
            let (first, second, third) = (shares[2], shares[3], shares[4])
            #expect((0.22...0.28).contains(first) && (0.22...0.28).contains(second), "\(shares)")
            #expect((0.46...0.54).contains(third), "\(shares)")
        }
        try await withTable(servers.map { Server(weight: $0.weight) }, { $0.balancing = balancing }) { table, links in
            let shares = Self.shares(table, links, excluding: [1, 2])
            #expect((0.22...0.28).contains(shares[2]) && (0.46...0.54).contains(shares[4]), "\(shares)")
        }
    }

    /// A zone with servers without weight, which are to be the last resort, got its whole share.
    @Test(arguments: [.leastLoaded, .roundRobin] as [any BalancingPolicy])
    func serversWithoutWeightAreTheLastResort(_ balancing: any BalancingPolicy) async throws {
        let empty = [Server(weight: 0, isLocal: true), Server(weight: 0, isLocal: true)]
        try await withTable(empty + [Server(), Server()], localShare: 1, { $0.balancing = balancing }) { table, links in
            let shares = Self.shares(table, links)
            #expect(shares[0] == 0 && shares[1] == 0 && shares[2] > 0.4 && shares[3] > 0.4, "\(shares)")
            // Not even if no other server may be chosen for a request: the others are ready.
            #expect(Self.shares(table, links, excluding: [3, 4]).reduce(0, +) == 0)
        }
        try await withTable(empty, localShare: 1, { $0.balancing = balancing }) { table, links in
            #expect(Self.shares(table, links).allSatisfy { $0 > 0.4 })
        }
    }

    @Test func aKeyHasOneServerAlsoAmongThoseWithoutWeight() async throws {
        try await withTable((0..<5).map { _ in Server(weight: 0) } + [Server(isReady: false)]) { _, links in
            // The server with weight is in the list, and on the ring, but has no link.
            let seats = links.dropLast().map {
                Seat($0.member, $0, others: [], large: [], weight: 0, isLocal: false, slowStart: nil)
            }
            let ring = ClusterRing(links.map { ($0.member.hash, $0 === links.last ? 1 : 0) })
            let table = PickTable(
                seats,
                probes: [],
                localShare: nil,
                ClusterOptions(),
                ring,
                .leastLoaded,
                at: Self.now
            )
            var generator = SeededGenerator(seed: 1)
            var homes: [UInt64: Int] = [:]
            for key in 0..<500 {
                let wish = Wish(now: Self.now, key: RoutingKey(key).hash)
                let picked = (0..<3).map { _ in
                    let link = table.pick(wish, using: &generator)
                    link?.end(.notSent, from: Self.now, at: Self.now)
                    return link?.id
                }
                let home = try #require(picked[0])
                #expect(picked.allSatisfy { $0 == home })
                homes[home, default: 0] += 1
            }
            #expect(homes.count == 5 && homes.values.allSatisfy { $0 > 50 }, "\(homes)")
        }
    }

    /// The sum of all servers was made anew for each request with a key.
    @Test func theLoadOfManyServersIsAddedUpNowAndThen() async throws {
        try await withTable((0..<200).map { _ in Server() }) { _, links in
            let seats = links.map {
                Seat($0.member, $0, others: [], large: [], weight: 1, isLocal: false, slowStart: nil)
            }
            let sum = LoadSum()
            func value(_ milliseconds: Int) -> Int {
                sum.value(at: Instant(nanoseconds: Int64(milliseconds) * 1_000_000), of: seats)
            }
            for link in links { link.begin() }
            #expect(value(1) == 200)
            links[0].begin()
            sum.countPick(of: seats)
            #expect(value(1) == 201, "a request more is counted without adding up")
            links[1].begin()
            #expect(value(1) == 201)
            #expect(value(2) == 202, "after a millisecond, all are added up")
            for _ in 0..<26 { sum.countPick(of: seats) }
            #expect(value(2) == 202, "after many requests, too")
            // Few servers are added up each time.
            let few = Array(seats.prefix(5))
            let exact = LoadSum()
            #expect(exact.value(at: Self.now, of: few) == 7)
            links[4].begin()
            #expect(exact.value(at: Self.now, of: few) == 8)
        }
    }
}
