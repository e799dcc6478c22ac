import Testing

@testable import TrunklineCluster
@testable import TrunklineCore

@Suite struct WeightedTurnsTests {}

extension WeightedTurnsTests {
    /// One cycle of the schedule.
    private func cycle(_ weights: [Double]) -> [Int] {
        let turns = WeightedTurns(weights)
        return (0..<UInt64(turns.count)).compactMap { turns[$0] }
    }

    /// The number of turns of each member in one cycle.
    private func counts(_ weights: [Double]) -> [Int] {
        var counts = weights.map { _ in 0 }
        for member in cycle(weights) { counts[member] += 1 }
        return counts
    }

    @Test func noMembersHaveNoTurns() {
        let turns = WeightedTurns([])
        #expect(turns.count == 0)
        #expect(turns[0] == nil)
        #expect(turns[.max] == nil)
    }

    @Test(arguments: [1, 2, 3, 10, 100, 1024, 3000])
    func equalWeightsTakeTurnsInOrder(_ count: Int) {
        #expect(cycle(Array(repeating: 0.3, count: count)) == Array(0..<count))
    }

    @Test(
        arguments: [
            (weights: [5, 1, 1], cycle: [0, 0, 1, 0, 2, 0, 0]),
            (weights: [1, 2], cycle: [1, 0, 1]),
            (weights: [10, 20, 10], cycle: [1, 0, 2, 1]),
            (weights: [0.25, 0.75], cycle: [1, 0, 1, 1]),
        ] as [(weights: [Double], cycle: [Int])]
    )
    func theOrderIsSmooth(_ row: (weights: [Double], cycle: [Int])) {
        #expect(cycle(row.weights) == row.cycle)
    }

    @Test func theScheduleRepeats() {
        let turns = WeightedTurns([1, 2])
        #expect((0..<9).map { turns[$0] } == [1, 0, 1, 1, 0, 1, 1, 0, 1])
        #expect(turns[.max] == turns[UInt64.max % 3])
    }

    @Test(
        arguments: [
            (weights: [3, 0, 1], counts: [3, 0, 1]),
            (weights: [3, .nan, 1], counts: [3, 0, 1]),
            (weights: [3, -.infinity, 1], counts: [3, 0, 1]),
            (weights: [0, -1, .nan], counts: [1, 1, 1]),
            (weights: [.infinity, .infinity, 0], counts: [1, 1, 0]),
            (weights: [.infinity, 1], counts: [1023, 1]),
            (weights: [1e-300, 1], counts: [1, 1023]),
            (weights: [.leastNonzeroMagnitude, .leastNonzeroMagnitude], counts: [1, 1]),
            (weights: [.greatestFiniteMagnitude, .greatestFiniteMagnitude / 2], counts: [2, 1]),
        ] as [(weights: [Double], counts: [Int])]
    )
    func extremeWeightsAreClamped(_ row: (weights: [Double], counts: [Int])) {
        #expect(counts(row.weights) == row.counts)
    }

    @Test func smallWholeWeightsAreMetExactly() {
        for seed in seeds(100) {
            var random = SeededGenerator(seed: seed)
            let weights = (0..<Int.random(in: 1...12, using: &random)).map { _ in
                Int.random(in: 1...20, using: &random)
            }
            let counts = counts(weights.map { Double($0) * 0.7 })
            for (count, weight) in zip(counts, weights) {
                #expect(count * weights[0] == weight * counts[0], "seed \(seed)")
            }
        }
    }

    /// The length is bounded, and the error is the documented one.
    @Test func anyWeightsAreNearlyMet() {
        for seed in seeds(100) {
            var random = SeededGenerator(seed: seed)
            let weights = (0..<Int.random(in: 1...50, using: &random)).map { _ in
                Double.random(in: 1...10, using: &random)
            }
            let (counts, sum) = (counts(weights), weights.reduce(0, +))
            let total = counts.reduce(0, +)
            #expect(total <= 1024, "seed \(seed)")
            let smallest = (weights.min() ?? 0) / sum
            for (count, weight) in zip(counts, weights) {
                let share = weight / sum
                let error = abs(Double(count) / Double(total) - share) / share
                #expect(error < 1 / (2048 * smallest), "seed \(seed)")
            }
        }
    }

    /// A member's turns are spread over the cycle: after any number of turns it has had its share, give or take two.
    @Test func turnsAreSpreadOverTheCycle() {
        for seed in seeds(50) {
            var random = SeededGenerator(seed: seed)
            let weights = (0..<Int.random(in: 2...20, using: &random)).map { _ in
                Double(Int.random(in: 1...9, using: &random))
            }
            let (cycle, sum) = (cycle(weights), weights.reduce(0, +))
            var had = weights.map { _ in 0.0 }
            for (turn, member) in cycle.enumerated() {
                had[member] += 1
                for index in weights.indices {
                    let due = Double(turn + 1) * weights[index] / sum
                    #expect(abs(had[index] - due) < 2, "seed \(seed)")
                }
            }
        }
    }

    @Test func everyPositiveWeightHasATurn() {
        #expect(counts([1] + Array(repeating: 1e6, count: 500)).allSatisfy { $0 > 0 })
        #expect(counts((1...2000).map { Double($0) }) == Array(repeating: 1, count: 2000))
    }
}
