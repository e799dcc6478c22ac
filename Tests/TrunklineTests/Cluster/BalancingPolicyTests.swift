import Testing
import TrunklineTesting

@testable import TrunklineCluster
@testable import TrunklineCore
@testable import TrunklineIO

/// Policies as a user writes them.
enum SamplePolicies {
    struct LowestEndpoint: BalancingPolicy {
        func pick(
            from candidates: BalancingCandidates,
            using generator: inout some RandomNumberGenerator
        ) -> BalancingCandidates.Server? {
            candidates.lazy.filter(\.isAvailable).min { "\($0.endpoint)" < "\($1.endpoint)" }
        }
    }

    struct FewestInFlight: BalancingPolicy {
        func pick(
            from candidates: BalancingCandidates,
            using generator: inout some RandomNumberGenerator
        ) -> BalancingCandidates.Server? {
            candidates.lazy.filter(\.isAvailable).min { $0.inFlight < $1.inFlight }
        }
    }

    struct Drawn: BalancingPolicy {
        func pick(
            from candidates: BalancingCandidates,
            using generator: inout some RandomNumberGenerator
        ) -> BalancingCandidates.Server? { candidates.randomElement(using: &generator) }
    }

    struct Undecided: BalancingPolicy {
        func pick(
            from candidates: BalancingCandidates,
            using generator: inout some RandomNumberGenerator
        ) -> BalancingCandidates.Server? { nil }
    }

    /// Chooses the first server of all zones, also if it may not be chosen.
    struct Stubborn: BalancingPolicy {
        func pick(
            from candidates: BalancingCandidates,
            using generator: inout some RandomNumberGenerator
        ) -> BalancingCandidates.Server? { candidates.all.first }
    }

    static func counting<Base: BalancingPolicy>(_ base: Base) -> Counting<Base> {
        Counting(base: base, counts: Counting.Counts())
    }

    static func ofUser(_ base: some BalancingPolicy) -> any BalancingPolicy { counting(base) }

    /// Delegates, and counts what it is asked.
    struct Counting<Base: BalancingPolicy>: BalancingPolicy {
        final class Counts: Sendable {
            private let counts = Lock((picks: 0, lists: [Int]()))

            var picks: Int { counts.withLock { $0.picks } }
            /// The number of servers of each list.
            var lists: [Int] { counts.withLock { $0.lists } }

            func notePick() { counts.withLock { $0.picks += 1 } }

            func noteList(_ count: Int) { counts.withLock { $0.lists.append(count) } }
        }

        let base: Base
        let counts: Counts

        func prepared(for candidates: BalancingCandidates) -> Counting {
            counts.noteList(candidates.count)
            return Counting(base: base.prepared(for: candidates), counts: counts)
        }

        func pick(
            from candidates: BalancingCandidates,
            using generator: inout some RandomNumberGenerator
        ) -> BalancingCandidates.Server? {
            counts.notePick()
            return base.pick(from: candidates, using: &generator)
        }
    }
}

/// What a policy decides for a table of servers that exist only as names.
@Suite(.simulated)
struct BalancingPolicyTests {}

extension BalancingPolicyTests {
    private typealias Server = SampleTable.Server

    private static func run(
        _ servers: [SampleTable.Server],
        _ balancing: any BalancingPolicy,
        localShare: Double? = nil,
        _ change: @escaping @Sendable (inout ClusterOptions) -> Void = { _ in },
        _ body: @escaping @Sendable (SampleTable) throws -> Void
    ) async throws {
        let network = SimulatedNetwork(seed: 1)
        try await network.run {
            let sample = SampleTable(servers, localShare: localShare, on: network.loops) {
                change(&$0)
                $0.balancing = balancing
            }
            try body(sample)
            await sample.client.close()
        }
    }

    /// The share of each server in many requests, which end at once.
    private static func shares(of sample: SampleTable, excluding excluded: [UInt64] = []) -> [Double] {
        var generator = SeededGenerator(seed: 1)
        var counts = [Int](repeating: 0, count: sample.links.count)
        for _ in 0..<10_000 {
            let wish = Wish(now: SampleTable.now, excluded: excluded)
            guard let link = sample.table.pick(wish, using: &generator) else { continue }
            link.end(.notSent, from: SampleTable.now, at: SampleTable.now)
            counts[Int(link.id) - 1] += 1
        }
        return counts.map { Double($0) / 10_000 }
    }

    private static func candidates(of sample: SampleTable, _ wish: Wish) -> BalancingCandidates {
        BalancingCandidates(sample.table.seats, wish, in: sample.table.seats.all.indices)
    }

    @Test(
        arguments: [
            .leastLoaded, .roundRobin, SamplePolicies.Drawn(), SamplePolicies.Undecided(),
            SamplePolicies.counting(.leastLoaded),
            SamplePolicies.counting(.roundRobin),
        ] as [any BalancingPolicy],
        [2, 3, 10, 40]
    )
    func theSharesOfEqualServersAreFair(_ balancing: any BalancingPolicy, count: Int) async throws {
        try await Self.run((0..<count).map { _ in Server() }, balancing) { sample in
            let fair = 1 / Double(count)
            #expect(Self.shares(of: sample).allSatisfy { (0.7 * fair...1.3 * fair).contains($0) })
        }
    }

    @Test(arguments: [.leastLoaded, .roundRobin, SamplePolicies.counting(.roundRobin)] as [any BalancingPolicy])
    func sharesFollowTheWeights(_ balancing: any BalancingPolicy) async throws {
        try await Self.run([1, 2, 3, 4].map { Server(weight: $0) }, balancing) { sample in
            let shares = Self.shares(of: sample)
            #expect(shares == shares.sorted() && shares[3] > 0.3 && shares[0] < 0.15, "\(shares)")
        }
    }

    @Test func aPolicySeesWhatItChoosesFrom() async throws {
        let servers = [Server(weight: 3), Server(isReady: false), Server(isLocal: true)]
        try await Self.run(servers, .leastLoaded, localShare: 1) { sample in
            let now = SampleTable.now
            sample.links[0].begin()
            sample.links[0].begin()
            sample.links[2].begin()
            sample.links[2].end(.answered, from: now, at: now.advanced(by: .milliseconds(2)))
            sample.links[0].end(.failed, from: now, isMeasured: false, at: now)
            let all = Self.candidates(of: sample, Wish(now: now, excluded: [3]))
            // Those of this zone come first.
            #expect(all.map(\.endpoint.host) == ["s2", "s0", "s1"])
            #expect(all.map(\.position) == [0, 1, 2])
            #expect(all.map(\.weight) == [1, 3, 1])
            #expect(all.map(\.isLocal) == [true, false, false])
            #expect(all.map(\.isAvailable) == [false, true, false], "s2 has failed, s1 is not ready")
            #expect(all.map(\.inFlight) == [0, 1, 0])
            #expect(all.map(\.slowStartShare) == [1, 1, 1])
            #expect(all.map(\.averageLatency) == [.milliseconds(2), nil, nil])
            #expect(all[0].errorShare == 0 && all[1].errorShare > 0 && all[1].errorShare < 0.1)
        }
    }

    @Test func aPolicyThatChoosesNothingLeavesTheChoiceToTheWeights() async throws {
        try await Self.run([1, 2, 7].map { Server(weight: $0) }, SamplePolicies.Undecided()) { sample in
            for link in sample.links {
                link.begin()
                link.end(.answered, from: SampleTable.now, at: SampleTable.now.advanced(by: .milliseconds(1)))
            }
            let shares = Self.shares(of: sample)
            #expect(shares[0] < shares[1] && shares[1] < shares[2], "\(shares)")
        }
    }

    @Test func aServerThatMayNotBeChosenIsNotUsed() async throws {
        let servers = [Server(isReady: false), Server(), Server()]
        try await Self.run(servers, SamplePolicies.Stubborn()) { sample in
            let shares = Self.shares(of: sample)
            #expect(shares[0] == 0 && shares[1] > 0.4 && shares[2] > 0.4, "\(shares)")
            #expect(Self.shares(of: sample, excluding: [2])[2] == 1)
            #expect(Self.shares(of: sample, excluding: [2, 3]).reduce(0, +) == 0)
        }
        try await Self.run([Server(), Server()], SamplePolicies.Stubborn()) { sample in
            #expect(Self.shares(of: sample) == [1, 0])
            #expect(Self.shares(of: sample, excluding: [1]) == [0, 1], "it has failed the request")
        }
    }

    /// The position of the server may be that of another one by now.
    @Test func aServerOfAnotherListIsNotUsed() async throws {
        struct Keeping: BalancingPolicy {
            let kept = Shared()

            final class Shared: Sendable {
                let server = Lock<BalancingCandidates.Server?>(nil)
            }

            func pick(
                from candidates: BalancingCandidates,
                using generator: inout some RandomNumberGenerator
            ) -> BalancingCandidates.Server? {
                kept.server.withLock { kept in
                    if kept == nil { kept = candidates.first }
                    return kept
                }
            }
        }
        let policy = Keeping()
        try await Self.run([Server(), Server()], policy) { #expect(Self.shares(of: $0) == [1, 0]) }
        try await Self.run([Server(), Server()], policy) { sample in
            #expect(Self.shares(of: sample).allSatisfy { (0.4...0.6).contains($0) })
        }
    }

    @Test func aPolicyIsNotAskedWithoutAChoice() async throws {
        let policy = SamplePolicies.counting(SamplePolicies.LowestEndpoint())
        for count in 0...1 {
            try await Self.run((0..<count).map { _ in Server() }, policy) { sample in
                #expect(Self.shares(of: sample).reduce(0, +) == Double(count))
            }
        }
        #expect(policy.counts.lists == [0, 1] && policy.counts.picks == 0)
        // But it may be asked about the only server of a zone, or by another policy.
        for count in 0...1 {
            let servers = (0..<count).map { _ in Server() }
            for base in [.leastLoaded, .roundRobin, SamplePolicies.Drawn()] as [any BalancingPolicy] {
                try await Self.run(servers, base) { sample in
                    var generator = SeededGenerator(seed: 1)
                    let candidates = Self.candidates(of: sample, Wish(now: SampleTable.now))
                    let picked = [base, sample.table.policy].map { $0.pick(from: candidates, using: &generator) }
                    #expect(picked.allSatisfy { ($0 == nil) == (count == 0) })
                }
            }
        }
    }

    @Test func aKeyDecidesInsteadOfThePolicy() async throws {
        let policy = SamplePolicies.counting(SamplePolicies.LowestEndpoint())
        try await Self.run((0..<5).map { _ in Server() }, policy) { sample in
            var generator = SeededGenerator(seed: 1)
            var used: Set<UInt64> = []
            for key in 0..<200 {
                let wish = Wish(now: SampleTable.now, key: RoutingKey(key).hash)
                let link = try #require(sample.table.pick(wish, using: &generator))
                link.end(.notSent, from: SampleTable.now, at: SampleTable.now)
                used.insert(link.id)
            }
            #expect(used.count == 5 && policy.counts.picks == 0)
        }
    }

    @Test func theClusterDrawsTheZoneFromWhichAPolicyChooses() async throws {
        let servers = [Server(), Server(isLocal: true), Server(), Server(isLocal: true)]
        for balancing in [.roundRobin, SamplePolicies.Drawn(), SamplePolicies.LowestEndpoint()] as [any BalancingPolicy]
        {
            try await Self.run(servers, balancing, localShare: 0.7) { sample in
                let shares = Self.shares(of: sample)
                #expect((0.66...0.74).contains(shares[1] + shares[3]), "\(shares)")
            }
        }
        // It may have rules of its own.
        try await Self.run(servers, SamplePolicies.Stubborn(), localShare: 0.7) { sample in
            #expect(Self.shares(of: sample) == [0, 1, 0, 0])
        }
        // No server of this zone may be chosen.
        try await Self.run(servers, SamplePolicies.LowestEndpoint(), localShare: 1) { sample in
            #expect(Self.shares(of: sample, excluding: [2, 4]).filter { $0 > 0.4 }.count == 2)
        }
    }

    @Test func aPolicyDoesNotExceedTheLimitOfAServer() async throws {
        let servers = [Server(), Server(), Server()]
        let limit = { @Sendable (options: inout ClusterOptions) in options.adaptiveLimit = 4...4 }
        for policy in [SamplePolicies.LowestEndpoint(), SamplePolicies.Stubborn()] as [any BalancingPolicy] {
            try await Self.run(servers, policy, limit) { sample in
                var generator = SeededGenerator(seed: 1)
                let wish = Wish(now: SampleTable.now)
                let links = (0..<13).map { _ in sample.table.pick(wish, using: &generator) }
                #expect(links.prefix(4).allSatisfy { $0?.id == 1 })
                #expect(sample.links.map(\.member.inFlight) == [4, 4, 4] && links[12] == nil)
                for link in links { link?.end(.notSent, from: SampleTable.now, at: SampleTable.now) }
            }
        }
    }

    /// Each list would begin with the first server: a list that changes often would give it most of the requests.
    @Test func roundRobinGoesOnWithANewList() async throws {
        try await Self.run([Server(), Server(), Server()], .roundRobin) { sample in
            var (policy, generator) = (sample.table.policy, SeededGenerator(seed: 1))
            let candidates = Self.candidates(of: sample, Wish(now: SampleTable.now))
            let order = (0..<6).map { _ in
                policy = policy.prepared(for: candidates)
                return policy.pick(from: candidates, using: &generator)?.position
            }
            #expect(order == [0, 1, 2, 0, 1, 2])
        }
    }

    /// Two clusters with the same options each got every second turn.
    @Test func roundRobinIsNotSharedByClusters() async throws {
        let policy = RoundRobin()
        try await Self.run([Server(), Server()], policy) { sample in
            let candidates = Self.candidates(of: sample, Wish(now: SampleTable.now))
            var generator = SeededGenerator(seed: 1)
            let clusters = [policy.prepared(for: candidates), policy.prepared(for: candidates)]
            let order = (0..<6).map { clusters[$0 % 2].pick(from: candidates, using: &generator)?.position }
            #expect(order == [0, 0, 1, 1, 0, 0])
        }
    }
}

/// Policies of a user in clusters.
@Suite(.simulated)
struct ClusterPolicyTests {}

extension ClusterPolicyTests {
    @Test func everyKindOfCallAsksThePolicy() async throws {
        let policy = SamplePolicies.counting(SamplePolicies.LowestEndpoint())
        let counts = policy.counts
        try await ClusterBed.run(servers: 3) {
            ($0.balancing, $0.hedgeBudget) = (policy, 1)
        } _: { bed, cluster, servers in
            var before = (bed.received, counts.picks)
            /// Checks what the calls since the last check did.
            func check(_ received: [Int], picks: Int, _ location: SourceLocation = #_sourceLocation) {
                #expect(zip(bed.received, before.0).map { $0 - $1 } == received, sourceLocation: location)
                #expect(counts.picks - before.1 == picks, sourceLocation: location)
                before = (bed.received, counts.picks)
            }
            _ = try await cluster.send(ask("a"))
            check([1, 0, 0], picks: 1)
            _ = try await cluster.send(ask("a"), options: CallOptions(waitsForReady: false))
            check([1, 0, 0], picks: 1)
            // Three groups, each of which has a choice of its own.
            for result in await cluster.send(all: (0..<48).map { ask($0) }) { _ = try result.get() }
            check([48, 0, 0], picks: 3)
            for try await _ in cluster.stream(ask("a")) {}
            check([1, 0, 0], picks: 1)
            _ = try await cluster.start(ask("a")).value
            check([1, 0, 0], picks: 1)
            try await cluster.post(ask("a"))
            try await cluster.enqueue(ask("a"))
            try cluster.tryEnqueue(ask("a"))
            try await bed.pass(.seconds(1))
            check([3, 0, 0], picks: 3)
            _ = try await cluster.subscribe(ask("a"))
            check([1, 0, 0], picks: 1)
            // The second copy goes elsewhere.
            bed.set(0, .hangs)
            _ = try await cluster.send(ask("a"), hedge: .after(.milliseconds(10)))
            check([1, 1, 0], picks: 2)
        }
    }

    @Test func aPolicyIsPreparedForEachListOfServers() async throws {
        let policy = SamplePolicies.counting(SamplePolicies.LowestEndpoint())
        let counts = policy.counts
        try await ClusterBed.run(servers: 4, listed: 2) {
            $0.balancing = policy
        } _: { bed, cluster, servers in
            #expect(counts.lists.last == 2)
            bed.list(1..<4)
            try await bed.pass(.seconds(1))
            #expect(counts.lists.last == 3)
            let before = bed.received
            for number in 0..<10 { _ = try await cluster.send(ask(number)) }
            #expect(zip(bed.received, before).map { $0 - $1 } == [0, 10, 0, 0])
            await servers[1].kill()
            try await bed.pass(.seconds(1))
            #expect(counts.lists.last == 2)
            for number in 0..<10 { _ = try await cluster.send(ask(number)) }
            #expect(zip(bed.received, before).map { $0 - $1 } == [0, 10, 10, 0])
        }
    }

    /// A request that failed is sent elsewhere, whatever the policy prefers.
    @Test func aRetryGoesToAnotherServer() async throws {
        let options = ClientOptions { $0.requests.retry = .idempotent() }
        for policy in [SamplePolicies.LowestEndpoint(), SamplePolicies.Stubborn()] as [any BalancingPolicy] {
            try await ClusterBed.run(servers: 3, options: options) {
                ($0.balancing, $0.ejection) = (policy, nil)
            } _: { bed, cluster, servers in
                bed.set(0) { _ in .close }
                for number in 0..<5 { _ = try await cluster.send(ask(number)) }
                #expect(bed.received[1] + bed.received[2] == 5)
                #expect(bed.errors.isEmpty)
            }
        }
    }

    /// What a policy calls may need the lock with which other policies are called.
    @Test func aPolicyIsCalledWithoutALock() async throws {
        struct Curious: BalancingPolicy {
            let table: Table

            final class Table: Sendable {
                let cluster = Lock<Cluster?>(nil)
            }

            func pick(
                from candidates: BalancingCandidates,
                using generator: inout some RandomNumberGenerator
            ) -> BalancingCandidates.Server? {
                let cluster = table.cluster.withLock { $0 }
                return cluster.flatMap { $0.picker.table.count == candidates.count ? candidates.first : nil }
            }
        }
        let table = Curious.Table()
        try await ClusterBed.run(servers: 2) {
            $0.balancing = Curious(table: table)
        } _: { bed, cluster, servers in
            table.cluster.withLock { $0 = cluster }
            for number in 0..<10 { _ = try await cluster.send(ask(number)) }
            #expect(bed.received == [10, 0])
            table.cluster.withLock { $0 = nil }
        }
    }

    @Test func theSameSeedRepeatsThePolicysDraws() async throws {
        let received = Lock<[[Int]]>([])
        for _ in 0..<2 {
            try await ClusterBed.run(seed: 7, servers: 5) {
                $0.balancing = SamplePolicies.Drawn()
            } _: { bed, cluster, servers in
                for number in 0..<100 { _ = try await cluster.send(ask(number)) }
                received.withLock { $0.append(bed.received) }
            }
        }
        let runs = received.withLock { $0 }
        #expect(runs[0] == runs[1] && runs[0].allSatisfy { $0 > 0 })
    }
}
