import Testing

@testable import TrunklineCluster
@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts
@testable import TrunklineTesting

/// How few keys and subset members move when a server comes or goes.
@Suite(.simulated)
struct ClusterChurnTests {}

extension ClusterChurnTests {
    private static let keys = (0..<2000).map { RoutingKey($0).hash }

    /// Tables of servers that exist only as names.
    private struct Tables {
        let client: Client
        private let facts: ClusterFacts

        init(_ network: SimulatedNetwork) {
            client = Client(to: "nowhere:1", speaking: .standard, on: network.loops)
            facts = ClusterFacts(on: network.loop)
        }

        func table(_ names: [String]) -> (table: PickTable, links: [MemberLink]) {
            var links: [MemberLink] = []
            for (index, name) in names.enumerated() {
                let endpoint = Endpoint.host(name, port: 7000)
                let id = UInt64(index + 1)
                let member = ClusterMember(
                    id,
                    endpoint,
                    failureLimit: .max,
                    adaptiveLimit: nil,
                    facts,
                    at: Instant(nanoseconds: 0)
                )
                let readiness = LinkReadiness()
                readiness.set(true)
                let link = MemberLink(id, of: member, client, readiness, capacity: 1000, isLarge: false)
                links.append(link)
            }
            let seats = links.map {
                Seat($0.member, $0, others: [], large: [], weight: 1, isLocal: false, slowStart: nil)
            }
            let ring = ClusterRing(links.map { ($0.member.hash, 1) })
            let table = PickTable(
                seats,
                probes: [],
                localShare: nil,
                ClusterOptions(),
                ring,
                .leastLoaded,
                at: Instant(nanoseconds: 0)
            )
            return (table, links)
        }

        /// The server of each key.
        ///
        /// - Parameter staysInFlight: Whether the requests stay in flight, so that the bound of the loads has an effect.
        func homes(_ names: [String], staysInFlight: Bool) -> [String?] {
            let (table, links) = table(names)
            var generator = SeededGenerator(seed: 1)
            let homes = keys.map { key in
                let wish = Wish(now: Instant(nanoseconds: 0), key: key)
                let link = table.pick(wish, using: &generator)
                if !staysInFlight { link?.end(.answered, from: Instant(nanoseconds: 0), at: Instant(nanoseconds: 0)) }
                return link?.member.endpoint.host
            }
            if staysInFlight {
                let bound = HashRing.bound(total: keys.count - 1, share: 1 / Double(names.count), factor: 1.25)
                for link in links { #expect(link.inFlight <= bound, "\(link.member.endpoint)") }
            }
            return homes
        }
    }

    private func withTables(_ body: @escaping @Sendable (Tables) throws -> Void) async throws {
        let network = SimulatedNetwork(seed: 1)
        try await network.run {
            let tables = Tables(network)
            try body(tables)
            await tables.client.close()
        }
    }

    @Test(arguments: [3, 8, 30])
    func aServerMoreTakesKeysOnlyForItself(_ count: Int) async throws {
        try await withTables { tables in
            for seed in 0..<5 {
                let names = (0..<count).map { "s\(seed)-\($0)" }
                let before = tables.homes(names, staysInFlight: false)
                let after = tables.homes(names + ["new\(seed)"], staysInFlight: false)
                let moved = zip(before, after).filter { $0 != $1 }
                #expect(moved.allSatisfy { $0.1 == "new\(seed)" })
                // The shares differ by about 8 % (standard deviation).
                #expect(moved.count <= Self.keys.count * 14 / (10 * (count + 1)), "\(moved.count)")
                #expect(moved.count >= Self.keys.count * 6 / (10 * (count + 1)), "\(moved.count)")
                // The same, read backwards: a server that goes leaves only its own keys behind.
            }
        }
    }

    @Test(arguments: [3, 8, 30])
    func withBoundedLoadsOnlyTheSpillMovesInAddition(_ count: Int) async throws {
        try await withTables { tables in
            for seed in 0..<5 {
                let (few, many) = ((0..<count).map { "s\(seed)-\($0)" }, (0...count).map { "s\(seed)-\($0)" })
                let (home, newHome) = (
                    tables.homes(few, staysInFlight: false), tables.homes(many, staysInFlight: false)
                )
                let (before, after) = (tables.homes(few, staysInFlight: true), tables.homes(many, staysInFlight: true))
                func differences(_ a: [String?], _ b: [String?]) -> Int { zip(a, b).count { $0 != $1 } }
                let spill = differences(home, before) + differences(newHome, after)
                let moved = differences(before, after)
                #expect(moved <= differences(home, newHome) + spill, "\(moved) moved, spill \(spill)")
                #expect(!before.contains(nil) && !after.contains(nil))
            }
        }
    }

    @Test func aServerMoreOrLessChangesAtMostOneMemberOfASubset() {
        var generator = SeededGenerator(seed: 1)
        for seed in UInt64(0)..<300 {
            var hashes = (0..<Int.random(in: 2...60, using: &generator)).map { _ in generator.next() }
            let size = Int.random(in: 1...10, using: &generator)
            func subset() -> Set<UInt64> {
                Set(RendezvousSubset.choose(size, of: hashes, seed: seed).map { hashes[$0] })
            }
            var before = subset()
            for _ in 0..<20 {
                if hashes.count > 1, Bool.random(using: &generator) {
                    hashes.remove(at: Int.random(in: 0..<hashes.count, using: &generator))
                } else {
                    hashes.insert(generator.next(), at: Int.random(in: 0...hashes.count, using: &generator))
                }
                let after = subset()
                #expect(after.count == min(size, hashes.count))
                #expect(before.subtracting(after).count <= 1 && after.subtracting(before).count <= 1)
                before = after
            }
        }
    }
}
