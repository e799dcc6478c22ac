import Testing

@testable import TrunklineCluster
@testable import TrunklineCore
@testable import TrunklineIO

@Suite struct InFlightLimitTests {
    private let start = Instant(nanoseconds: 5_000_000_000)

    private func after(_ milliseconds: Int) -> Instant { start.advanced(by: .milliseconds(milliseconds)) }

    @Test(
        arguments: [
            (initial: 20, bounds: 1...100, value: 20),
            (initial: 0, bounds: 5...100, value: 5),
            (initial: 500, bounds: 5...100, value: 100),
            (initial: -3, bounds: -9...(-2), value: 1),
            (initial: .max, bounds: .min ... .max, value: .max),
        ] as [(initial: Int, bounds: ClosedRange<Int>, value: Int)]
    )
    func theInitialValueIsWithinTheBounds(_ row: (initial: Int, bounds: ClosedRange<Int>, value: Int)) {
        #expect(InFlightLimit(initial: row.initial, bounds: row.bounds).value == row.value)
    }

    @Test func theLimitGrowsByOnePerRoundTrip() {
        var limit = InFlightLimit(initial: 10, bounds: 1...100)
        for _ in 0..<9 { limit.succeeded(inFlight: 10, at: start) }
        #expect(limit.value == 10)
        limit.succeeded(inFlight: 10, at: start)
        #expect(limit.value == 11)
        for _ in 0..<10 { limit.succeeded(inFlight: 11, at: start) }
        #expect(limit.value == 11)
        limit.succeeded(inFlight: 11, at: start)
        #expect(limit.value == 12)
    }

    @Test(arguments: [(inFlight: 5, value: 11), (inFlight: 4, value: 10), (inFlight: -1, value: 10)])
    func aLimitThatIsNotUsedDoesNotGrow(_ row: (inFlight: Int, value: Int)) {
        var limit = InFlightLimit(initial: 10, bounds: 1...100)
        for _ in 0..<10 { limit.succeeded(inFlight: row.inFlight, at: start) }
        #expect(limit.value == row.value)
    }

    @Test func anOddLimitMustBeHalfInUse() {
        var limit = InFlightLimit(initial: 3, bounds: 1...100)
        for _ in 0..<3 { limit.succeeded(inFlight: 1, at: start) }
        #expect(limit.value == 3)
        for _ in 0..<3 { limit.succeeded(inFlight: 2, at: start) }
        #expect(limit.value == 4)
    }

    @Test func theLimitStopsAtItsUpperBound() {
        var limit = InFlightLimit(initial: 10, bounds: 1...11)
        for _ in 0..<1000 { limit.succeeded(inFlight: 11, at: start) }
        #expect(limit.value == 11)
    }

    @Test func overloadTakesATenthAway() {
        var limit = InFlightLimit(initial: 100, bounds: 1...100)
        limit.overloaded(at: start)
        #expect(limit.value == 90)
    }

    @Test func aBurstOfTimeoutsIsOneSignal() {
        var limit = InFlightLimit(initial: 100, bounds: 1...100)
        for _ in 0..<90 { limit.overloaded(at: start) }
        limit.overloaded(at: after(99))
        #expect(limit.value == 90)
        limit.overloaded(at: after(100))
        #expect(limit.value == 81)
    }

    @Test func theLimitStopsAtItsLowerBound() {
        var limit = InFlightLimit(initial: 10, bounds: 3...11)
        for turn in 0..<100 { limit.overloaded(at: after(turn * 100)) }
        #expect(limit.value == 3)
    }

    @Test func aSmallLimitShrinksByOne() {
        var limit = InFlightLimit(initial: 4, bounds: 1...11, backoffRatio: 1)
        for value in [3, 2, 1, 1] {
            limit.overloaded(at: after(value * 1000 * -1))
            #expect(limit.value == value)
        }
    }

    @Test func successesInTheQuietTimeDoNotCount() {
        var limit = InFlightLimit(initial: 10, bounds: 1...100)
        limit.overloaded(at: start)
        for _ in 0..<100 { limit.succeeded(inFlight: 10, at: after(99)) }
        #expect(limit.value == 9)
        for _ in 0..<9 { limit.succeeded(inFlight: 10, at: after(100)) }
        #expect(limit.value == 10)
    }

    /// A round trip that ends in a timeout is not continued after it.
    @Test func overloadForgetsSuccesses() {
        var limit = InFlightLimit(initial: 10, bounds: 1...100)
        for _ in 0..<9 { limit.succeeded(inFlight: 10, at: start) }
        limit.overloaded(at: start)
        for _ in 0..<8 { limit.succeeded(inFlight: 9, at: after(100)) }
        #expect(limit.value == 9)
    }

    @Test(arguments: [
        (ratio: 0.5, value: 50), (ratio: 0, value: 50), (ratio: -1, value: 50), (ratio: 2, value: 99),
        (ratio: .nan, value: 90), (ratio: .infinity, value: 99),
    ])
    func theRatioIsClamped(_ row: (ratio: Double, value: Int)) {
        var limit = InFlightLimit(initial: 100, bounds: 1...100, backoffRatio: row.ratio)
        limit.overloaded(at: start)
        #expect(limit.value == row.value)
    }

    @Test func extremeValuesNeverTrap() {
        var limit = InFlightLimit(initial: .max, bounds: .min ... .max)
        for now in [Instant.distantPast, start, .distantFuture, .distantFuture, .distantPast] {
            limit.succeeded(inFlight: .max, at: now)
            limit.overloaded(at: now)
            limit.succeeded(inFlight: .min, at: now)
        }
        #expect(limit.value > 0)
    }

    @Test func theLimitNeverLeavesItsBounds() {
        for seed in seeds(200) {
            var random = SeededGenerator(seed: seed)
            let lower = Int.random(in: 1...20, using: &random)
            let bounds = lower...Int.random(in: lower...40, using: &random)
            var limit = InFlightLimit(initial: Int.random(in: 0...50, using: &random), bounds: bounds)
            var (now, decreasedAt) = (start, Instant.distantPast)
            for _ in 0..<500 {
                now = now.advanced(by: .milliseconds(Int.random(in: 0...60, using: &random)))
                let before = limit.value
                if Int.random(in: 0..<20, using: &random) == 0 {
                    limit.overloaded(at: now)
                } else {
                    limit.succeeded(inFlight: Int.random(in: 0...before, using: &random), at: now)
                }
                #expect(bounds.contains(limit.value), "seed \(seed)")
                #expect(limit.value <= before + 1, "seed \(seed)")
                guard limit.value < before else { continue }
                if decreasedAt > .distantPast {
                    #expect(now.since(decreasedAt) >= .milliseconds(100), "seed \(seed)")
                }
                decreasedAt = now
            }
        }
    }
}
