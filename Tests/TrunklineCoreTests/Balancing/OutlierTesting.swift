import Testing

@testable import TrunklineCluster
@testable import TrunklineCore
@testable import TrunklineIO

/// Rules with members 0, 1, 2, … that are all ready, and the generator.
struct RuledCluster {
    var rules: OutlierRules
    var generator: SeededGenerator

    /// Without jitter, unless `change` sets it.
    init(_ count: Int, seed: UInt64 = 0, _ change: (inout OutlierRules.Settings) -> Void = { _ in }) {
        var settings = OutlierRules.Settings()
        settings.jitter = 0
        change(&settings)
        rules = OutlierRules(settings)
        generator = SeededGenerator(seed: seed)
        for id in 0..<UInt64(count) {
            _ = rules.add(id)
            _ = rules.setReady(id, true)
        }
    }

    mutating func fail(_ id: UInt64, _ count: Int, at now: Instant) -> [OutlierRules.Action] {
        rules.noteFailuresInARow(id, count: count, at: now, using: &generator)
    }

    mutating func closeInterval(_ facts: [OutlierRules.Facts], at now: Instant) -> [OutlierRules.Action] {
        rules.closeInterval(facts, at: now, using: &generator)
    }

    mutating func endProbe(_ id: UInt64, _ succeeded: Bool, at now: Instant) -> [OutlierRules.Action] {
        rules.probeEnded(id, succeeded: succeeded, at: now, using: &generator)
    }

    /// Ejects a member, and returns until when.
    @discardableResult mutating func eject(_ id: UInt64, at now: Instant) -> Instant {
        end(fail(id, 5, at: now))
    }

    @discardableResult mutating func failProbe(_ id: UInt64, at now: Instant) -> Instant {
        _ = rules.probeBegan(id)
        return end(endProbe(id, false, at: now))
    }

    mutating func succeedProbe(_ id: UInt64, at now: Instant) -> [OutlierRules.Action] {
        _ = rules.probeBegan(id)
        return endProbe(id, true, at: now)
    }

    private func end(_ actions: [OutlierRules.Action]) -> Instant {
        guard case .ejected(_, let until, _)? = actions.first, actions.count == 1 else {
            Issue.record("\(actions) instead of an ejection")
            return .distantPast
        }
        return until
    }

    /// Facts of members in the order of their numbers: successes and failures, all with a latency of 1 ms.
    static func facts(_ counts: [UInt64: (Int, Int)], answers: Int) -> [OutlierRules.Facts] {
        counts.sorted { $0.key < $1.key }.map {
            OutlierRules.Facts(
                id: $0.key,
                successes: $0.value.0,
                failures: $0.value.1,
                latencyNanoseconds: Int64(answers) * 1_000_000,
                answers: answers
            )
        }
    }
}

extension OutlierRules.Facts {
    /// The facts of another member.
    init(_ facts: Self, id: UInt64) {
        self = facts
        self.id = id
    }
}
