import Testing

@testable import TrunklineCluster
@testable import TrunklineCore
@testable import TrunklineIO

@Suite struct SlowStartTests {
    private let start = Instant(nanoseconds: 5_000_000_000)

    @Test(arguments: [
        (seconds: -5, share: 0.1), (seconds: 0, share: 0.1), (seconds: 2.5, share: 0.325), (seconds: 5, share: 0.55),
        (seconds: 7.5, share: 0.775), (seconds: 10, share: 1), (seconds: 1000, share: 1),
    ])
    func theShareGrowsInAStraightLine(_ row: (seconds: Double, share: Double)) {
        let now = start.advanced(by: .seconds(row.seconds))
        let share = SlowStart.share(since: start, at: now, over: SlowStart.defaultDuration)
        #expect(abs(share - row.share) < 1e-9)
    }

    @Test(arguments: [Duration.zero, .seconds(-1)])
    func aDurationThatIsNotPositiveGivesTheWholeShare(_ duration: Duration) {
        #expect(SlowStart.share(since: start, at: start, over: duration) == 1)
    }

    @Test func extremeInstantsNeverTrap() {
        let ends = [Instant.distantPast, start, .distantFuture]
        for since in ends {
            for now in ends {
                for duration in [Duration.nanoseconds(1), .seconds(10), .seconds(Int64.max)] {
                    #expect((0.1...1).contains(SlowStart.share(since: since, at: now, over: duration)))
                }
            }
        }
    }
}
