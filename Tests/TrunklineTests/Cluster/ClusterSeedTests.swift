import Testing
import Trunkline
import TrunklineTesting

/// Simulated lives of a cluster, each decided by its seed. In each of them:
/// - Every call ends once and in time, with its own response or with an error that agrees with what the servers
///   received.
/// - A server that is ejected gets no request, outside of a panic, and no call waits while a server has room.
/// - A server that is left out is used again within a bound, whatever its probe is.
/// - After the faults, all servers serve again within a bound, and with about the same share if nothing makes them
///   differ.
/// - Nothing is left over at the end.
///
/// `TRUNKLINE_SEEDS=20000` sets the number of seeds. `TRUNKLINE_SEED=7` runs the seed 7 alone and prints all that
/// happens.
@Suite(.simulated, .timeLimit(.minutes(60)))
struct ClusterSeedTests {}

extension ClusterSeedTests {
    @Test func everyCallOfAClusterEndsOnceWithTheRightOutcome() async {
        if let seed = TestEnvironment.seed { return report(seed) }
        let count = TestEnvironment.seeds ?? 15
        var tally: [String: Int] = [:]
        var folded: UInt64 = 0
        var failed = 0
        for seed in 0..<count {
            // A simulation occupies the thread. Other tests run between two of them.
            await Task.yield()
            let life = ClusterLife(seed: seed)
            life.run()
            folded = folded &* 31 &+ life.world.network.fingerprint
            tally.merge(life.world.tally, uniquingKeysWith: +)
            if !life.world.violations.isEmpty {
                failed += 1
                Issue.record("seed \(seed): \(life.world.violations.prefix(5).joined(separator: "; "))")
            }
            if seed % 25 == 0 {
                let again = ClusterLife(seed: seed)
                again.run()
                let isSame = again.world.network.fingerprint == life.world.network.fingerprint
                #expect(isSame, "seed \(seed) did not repeat itself")
            }
        }
        print("ClusterSeedTests: \(count) seeds, \(failed) failed, fingerprint \(folded)")
        for (name, times) in tally.sorted(by: { $0.key < $1.key }) { print("    \(name): \(times)") }
        if count >= 300 { expectVariety(tally) }
    }

    /// The scenario is useful only if all of this happens now and then.
    private func expectVariety(_ tally: [String: Int]) {
        let outcomes = [
            "success", "cancelled notSent", "cancelled unknown", "timedOut notSent", "timedOut unknown",
            "connectionLost unknown", "unavailable notSent", "closed notSent", "closed unknown", "rejected answered",
            "overloaded notSent",
        ].map { "outcome \($0)" }
        let faults = ClusterFault.allCases.map { "fault \($0)" }
        let news = ClusterNews.allCases.map { "news \($0)" }
        let ways = ClusterCalls.Way.allCases.map { "call \($0)" }
        for name in outcomes + faults + news + ways + [
            "panic", "probing", "shares", "ejection", "end of an ejection", "waiting calls", "release of a crowd",
            "more links", "hedged", "second copies",
            "received several times", "recovered", "piece success", "piece timedOut notSent", "piece closed notSent",
            "piece cancelled notSent", "recovered with answers that rotate",
        ] {
            #expect(tally[name, default: 0] > 0, "\(name) never happened")
        }
    }

    /// Runs `seed` and prints what happens.
    private func report(_ seed: UInt64) {
        let life = ClusterLife(seed: seed, recordsTrace: true)
        life.run()
        print("seed \(seed): \(life.world.plan)")
        for line in life.world.log { print("  \(line)") }
        for violation in life.world.violations { Issue.record("seed \(seed): \(violation)") }
        print("seed \(seed): fingerprint \(life.world.network.fingerprint)")
    }
}
