import Testing

@testable import Trunkline

@Suite struct LatencyHistogramTests {
    @Test func anEmptyHistogramHasNoPercentiles() {
        let histogram = LatencyHistogram()
        #expect(histogram.count == 0 && histogram.sum == .zero && histogram.mean == nil)
        #expect(histogram.percentile(50) == nil && histogram.buckets.isEmpty)
        #expect(histogram.counts(upTo: [.zero, .seconds(1)]) == [0, 0])
    }

    /// Compared with the exact percentiles of the same durations.
    @Test(arguments: seeds(50))
    func percentilesAreAtMostASixteenthTooLong(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        var histogram = LatencyHistogram()
        let powers = 10...Int.random(in: 11...43, using: &generator)
        let durations = (0..<Int.random(in: 1...2000, using: &generator)).map { _ in
            Int64.random(in: 1024...(1 << Int.random(in: powers, using: &generator)), using: &generator)
        }
        for duration in durations { histogram.record(.nanoseconds(duration)) }
        let sorted = durations.sorted()
        #expect(histogram.count == sorted.count && histogram.sum == .nanoseconds(sorted.reduce(0, +)))
        for percent in [0, 1, 50, 90, 99, 99.9, 99.99, 100] {
            let rank = max(1, Int((Double(sorted.count) * percent / 100).rounded(.up)))
            let exact = Duration.nanoseconds(sorted[rank - 1])
            let found = histogram.percentile(percent) ?? .zero
            // The longest duration is the beginning of the next bucket, which is not counted.
            #expect(found >= min(exact, .nanoseconds(1 << 43)) && found <= exact + exact / 16 + .nanoseconds(1))
        }
        #expect(histogram.buckets.map(\.count).reduce(0, +) == sorted.count)
        #expect(histogram.buckets.map(\.end) == histogram.buckets.map(\.end).sorted())
    }

    @Test func durationsOutsideTheBucketsCountAsTheNearest() {
        var histogram = LatencyHistogram()
        for duration in [Duration.zero, .seconds(-5), .nanoseconds(1), .seconds(86_400 * 365 * 300)] {
            histogram.record(duration)
        }
        #expect(histogram.count == 4)
        #expect(histogram.percentile(75) == .nanoseconds(1088))
        #expect(histogram.percentile(100) == .nanoseconds(1 << 43))
    }

    @Test func mergingAddsTheCounts() {
        var (a, b, all) = (LatencyHistogram(), LatencyHistogram(), LatencyHistogram())
        for microseconds in [10, 20, 30_000] {
            a.record(.microseconds(microseconds))
            all.record(.microseconds(microseconds))
        }
        for microseconds in [3, 20, 9_000_000] {
            b.record(.microseconds(microseconds))
            all.record(.microseconds(microseconds))
        }
        a.merge(b)
        #expect(a == all)
        a.merge(LatencyHistogram())
        #expect(a == all)
    }

    @Test func boundsOfExportersCountTheBucketsBelowThem() {
        var histogram = LatencyHistogram()
        for milliseconds in [1, 2, 3, 100, 2000] { histogram.record(.milliseconds(milliseconds)) }
        let bounds: [Duration] = [.microseconds(500), .milliseconds(5), .milliseconds(250), .seconds(10)]
        #expect(histogram.counts(upTo: bounds) == [0, 3, 4, 5])
        // The bucket of a millisecond ends at 1,015,808 ns.
        #expect(histogram.counts(upTo: [.nanoseconds(1_015_807), .nanoseconds(1_015_808)]) == [0, 1])
        #expect(histogram.mean == .microseconds(421_200))
    }
}
