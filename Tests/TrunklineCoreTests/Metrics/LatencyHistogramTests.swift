import Testing

@testable import TrunklineCore
@testable import TrunklineIO

@Suite struct LatencyHistogramTests {}

extension LatencyHistogramTests {
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

    @Test func removingLeavesTheOtherDurations() {
        var (all, some) = (LatencyHistogram(), LatencyHistogram())
        for microseconds in [10, 20, 20, 30_000] { all.record(.microseconds(microseconds)) }
        for microseconds in [20, 30_000] { some.record(.microseconds(microseconds)) }
        all.remove(some)
        #expect(all.count == 2 && all.sum == .microseconds(30) && all.mean == .microseconds(15))
        #expect(all.counts(upTo: [.microseconds(12), .microseconds(25), .seconds(1)]) == [1, 2, 2])
        // More than there is: nothing is left.
        all.remove(some)
        some.record(.seconds(100))
        all.remove(some)
        for _ in 0..<2 {
            some.record(.microseconds(10))
            all.remove(some)
        }
        #expect(all.count == 0 && all.sum == .zero && all.mean == nil && all.percentile(50) == nil)
    }

    /// Of 10,000 durations, one is above the 99.99th percentile.
    @Test func theRarestDurationsCanBeRead() throws {
        var histogram = LatencyHistogram()
        for _ in 0..<9998 { histogram.record(.milliseconds(1)) }
        histogram.record(.milliseconds(100))
        histogram.record(.seconds(10))
        #expect(try #require(histogram.percentile(99.98)) < .milliseconds(2))
        let rare = try #require(histogram.percentile(99.99))
        #expect(rare >= .milliseconds(100) && rare <= .milliseconds(107))
        #expect(try #require(histogram.percentile(100)) >= .seconds(10))
    }

    /// Compared with the exact counts, for the bounds that OpenTelemetry recommends.
    @Test(arguments: seeds(50))
    func boundsOfExportersCountEveryDurationThatDoesNotExceedThem(seed: UInt64) {
        let bounds = [5, 10, 25, 50, 75, 100, 250, 500, 750, 1000, 2500, 5000, 7500, 10_000].map {
            Duration.milliseconds($0)
        }
        var generator = SeededGenerator(seed: seed)
        var histogram = LatencyHistogram()
        let durations = (0..<500).map { _ in
            Duration.nanoseconds(
                Int64.random(in: 0...(1 << Int.random(in: 12...34, using: &generator)), using: &generator)
            )
        }
        for duration in durations + bounds { histogram.record(duration) }
        for (bound, count) in zip(bounds, histogram.counts(upTo: bounds)) {
            let exact = (durations + bounds).filter { $0 <= bound }.count
            let most = (durations + bounds).filter { $0 <= bound + bound / 16 }.count
            #expect(count >= exact && count <= most)
        }
    }

    @Test func aDurationThatEqualsABoundCountsForIt() {
        for milliseconds in [5, 10, 25, 50, 75, 100, 250, 500, 750, 1000, 2500, 5000, 7500, 10_000] {
            var histogram = LatencyHistogram()
            histogram.record(.milliseconds(milliseconds))
            #expect(histogram.counts(upTo: [.milliseconds(milliseconds)]) == [1])
            #expect(histogram.counts(upTo: [.milliseconds(milliseconds) * 15 / 16]) == [0])
        }
    }

    @Test func boundsOfExportersCountTheBucketsBelowThem() {
        var histogram = LatencyHistogram()
        for milliseconds in [1, 2, 3, 100, 2000] { histogram.record(.milliseconds(milliseconds)) }
        let bounds: [Duration] = [.microseconds(500), .milliseconds(5), .milliseconds(250), .seconds(10)]
        #expect(histogram.counts(upTo: bounds) == [0, 3, 4, 5])
        // The bucket of a millisecond begins at 983,040 ns.
        #expect(histogram.counts(upTo: [.nanoseconds(983_039), .nanoseconds(983_040)]) == [0, 1])
        #expect(histogram.mean == .microseconds(421_200))
    }
}
