import Testing
import Trunkline
import TrunklineTesting

/// Hundreds of simulated lives of a client, each decided by its seed. In each of them:
/// - Every call returns once and in time, with its own response or with an error that agrees with what the
///   servers received.
/// - After the faults, the client recovers within a bound.
/// - Nothing is left over at the end.
///
/// `TRUNKLINE_SEEDS=20000` sets the number of seeds. `TRUNKLINE_SEED=7` runs the seed 7 alone and prints
/// all that happens.
@Suite(.simulated, .timeLimit(.minutes(60)))
struct ClientSeedTests {}

extension ClientSeedTests {
    @Test func everyRequestEndsOnceWithTheRightOutcome() async {
        if let seed = TestEnvironment.seed { return report(seed, lastLines: .max) }
        let count = TestEnvironment.seeds ?? (Wire.isSecured ? 100 : 200)
        var tally: [String: Int] = [:]
        var folded: UInt64 = 0
        var failed = 0
        for seed in 0..<count {
            // A simulation occupies the thread. Other tests run between two of them.
            await Task.yield()
            let life = SeedLife(seed: seed)
            life.run()
            folded = folded &* 31 &+ life.world.network.fingerprint
            tally.merge(life.world.tally, uniquingKeysWith: +)
            if !life.world.violations.isEmpty {
                failed += 1
                Issue.record("seed \(seed): \(life.world.violations.joined(separator: "; "))")
                if failed == 1 { report(seed, lastLines: 500) }
            }
            // TLS has its own random numbers, which decide the length of some of its messages.
            if seed % 25 == 0, !Wire.isSecured {
                let again = SeedLife(seed: seed)
                again.run()
                let isSame = again.world.network.fingerprint == life.world.network.fingerprint
                #expect(isSame, "seed \(seed) did not repeat itself")
            }
        }
        print("ClientSeedTests: \(count) seeds, \(failed) failed, fingerprint \(folded)")
        for (name, times) in tally.sorted(by: { $0.key < $1.key }) { print("    \(name): \(times)") }
        if count >= 200 { expectVariety(tally, seeds: count) }
    }

    /// The scenario is useful only if all of this happens now and then.
    private func expectVariety(_ tally: [String: Int], seeds: UInt64) {
        let outcomes = [
            "success", "cancelled notSent", "cancelled unknown", "timedOut notSent", "timedOut unknown",
            "connectionLost unknown", "connectionLost notSent", "unavailable notSent", "closed notSent",
            "closed unknown", "rejected answered", "overloaded notSent", "protocolViolation unknown",
        ].map { "outcome \($0)" }
        let ends = [
            "halfOpen", "reset", "refused", "timedOut", "closedByServer", "handshakeRefused", "goAway", "exhausted",
            "unanswered", "pathLost",
        ]
        .filter { $0 != "exhausted" || seeds >= 500 }  // in one of 400 seeds
        .map { "end \($0)" }
        let faults = SeedFault.allCases.map { "fault \($0)" }
        for name in outcomes + faults + ends + [
            "planned change", "late", "retried", "retry refused", "pings", "subscribed", "streamed", "stream abandoned",
            "routed start", "routed stream", "routed upload", "shared part",
        ] {
            #expect(tally[name, default: 0] > 0, "\(name) never happened")
        }
    }

    /// Runs `seed` once more and prints what happens.
    private func report(_ seed: UInt64, lastLines: Int) {
        let life = SeedLife(seed: seed, recordsTrace: true)
        life.run()
        print("seed \(seed): \(life.world.plan)")
        for line in life.world.network.trace.suffix(lastLines) { print("    \(line)") }
        for line in life.world.log { print("  \(line)") }
        for violation in life.world.violations { Issue.record("seed \(seed): \(violation)") }
        print("seed \(seed): fingerprint \(life.world.network.fingerprint)")
    }
}
