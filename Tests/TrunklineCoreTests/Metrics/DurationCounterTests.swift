import Testing

@testable import TrunklineCore
@testable import TrunklineIO

@Suite struct DurationCounterTests {}

extension DurationCounterTests {
    /// Compared with a histogram of the same durations.
    @Test(arguments: seeds(50))
    func equalDurationsInARowCountLikeOthers(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        var (counter, expected) = (DurationCounter(), LatencyHistogram())
        for _ in 0..<100 {
            let nanoseconds = [0, 0, -5, Int64.random(in: 0...(1 << 44), using: &generator)][
                Int.random(in: 0..<4, using: &generator)
            ]
            for _ in 0..<Int.random(in: 1...5, using: &generator) {
                counter.record(nanoseconds: nanoseconds)
                expected.record(nanoseconds: nanoseconds)
                #expect(counter.histogram == expected)
            }
        }
    }

    @Test func aNewCounterIsEmpty() { #expect(DurationCounter().histogram == LatencyHistogram()) }
}
