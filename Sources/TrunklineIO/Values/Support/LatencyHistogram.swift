/// A count of durations by their length, from which percentiles are read.
///
/// The buckets are log-linear: 16 of equal width for each power of two of nanoseconds, from 2¹⁰ (about 1 µs) to 2⁴³
/// (about 2.4 h). Shorter durations are in the first bucket, longer ones in the last.
///
/// Memory is allocated for the buckets from the shortest to the longest duration: at most 4.3 KB.
public struct LatencyHistogram: Sendable, Hashable {
    @usableFromInline var counts: [UInt64] = []
    /// The bucket of `counts[0]`, a multiple of 4.
    @usableFromInline var first = 0
    @usableFromInline var nanoseconds: Int128 = 0

    @inlinable static var lowestPower: Int { 10 }
    @inlinable static var highestPower: Int { 42 }

    /// Creates an empty histogram.
    public init() {}

    /// Counts `duration`. A negative one counts as zero.
    public mutating func record(_ duration: Duration) { record(nanoseconds: duration.clampedNanoseconds) }

    @inlinable
    @inline(__always)
    package mutating func record(from start: Instant, to end: Instant) {
        record(nanoseconds: end.nanoseconds &- start.nanoseconds)
    }

    /// Inlined, because it runs once per request.
    @inlinable
    @inline(__always)
    package mutating func record(nanoseconds: Int64) {
        let bucket = Self.bucket(nanoseconds)
        if UInt(bitPattern: bucket &- first) >= UInt(bitPattern: counts.count) { makeRoom(for: bucket) }
        counts[bucket &- first] &+= 1
        self.nanoseconds &+= Int128(max(0, nanoseconds))
    }

    @inlinable
    @inline(__always)
    package mutating func record(nanoseconds: Int64, times: Int) {
        guard times > 0 else { return }
        let bucket = Self.bucket(nanoseconds)
        if UInt(bitPattern: bucket &- first) >= UInt(bitPattern: counts.count) { makeRoom(for: bucket) }
        counts[bucket &- first] &+= UInt64(truncatingIfNeeded: times)
        self.nanoseconds &+= Int128(max(0, nanoseconds)) &* Int128(times)
    }

    /// The four bits after the leading one choose among the 16 buckets of a power of two.
    @inlinable
    @inline(__always)
    static func bucket(_ nanoseconds: Int64) -> Int {
        let value = max(1 << lowestPower, min(nanoseconds, 1 << (highestPower + 1) - 1))
        let power = 63 &- value.leadingZeroBitCount
        return (power &- lowestPower) &<< 4 | Int(truncatingIfNeeded: value &>> (power &- 4)) & 15
    }

    private static func end(of bucket: Int) -> Int64 {
        Int64(16 + (bucket & 15) + 1) << ((bucket >> 4) + lowestPower - 4)
    }

    private static func start(of bucket: Int) -> Int64 { bucket == 0 ? 0 : end(of: bucket - 1) }

    /// With few neighbors: idle clients have histograms of one duration.
    @usableFromInline
    @inline(never)
    mutating func makeRoom(for bucket: Int) {
        let wanted = bucket & ~3
        let start = counts.isEmpty ? wanted : min(first, wanted)
        let end = max(first + counts.count, wanted + 4)
        // A new array has exactly this size; one that grows may be twice as large.
        var grown = [UInt64](repeating: 0, count: end - start)
        for (index, number) in counts.enumerated() { grown[first - start + index] = number }
        (counts, first) = (grown, start)
    }

    /// Adds the durations of `other`.
    public mutating func merge(_ other: LatencyHistogram) {
        for (index, added) in other.counts.enumerated() where added > 0 {
            let bucket = other.first + index
            if bucket < first || bucket - first >= counts.count { makeRoom(for: bucket) }
            counts[bucket - first] = counts[bucket - first].addingClamped(added)
        }
        let (sum, overflow) = nanoseconds.addingReportingOverflow(other.nanoseconds)
        nanoseconds = overflow ? .max : sum
    }

    /// Removes the durations of `other`, which should be among those of this histogram. If they are not, no count and
    /// no sum becomes negative.
    ///
    /// With an earlier value of the same histogram, the durations that were added since then remain.
    public mutating func remove(_ other: LatencyHistogram) {
        for (index, removed) in other.counts.enumerated() where removed > 0 {
            let position = other.first + index - first
            guard counts.indices.contains(position) else { continue }
            counts[position] -= min(removed, counts[position])
        }
        nanoseconds = max(0, nanoseconds - other.nanoseconds)
    }

    /// The number of durations.
    public var count: Int { Int(clamping: counts.reduce(UInt64(0)) { $0.addingClamped($1) }) }

    /// The exact sum of all durations. Those that are too short or too long for the buckets count with their own
    /// length.
    public var sum: Duration {
        let (attoseconds, overflow) = nanoseconds.multipliedReportingOverflow(by: 1_000_000_000)
        return Duration(attoseconds: overflow ? .max : attoseconds)
    }

    /// Returns the duration that `percent` of all durations do not exceed, or `nil` if the histogram is empty.
    ///
    /// The result is the end of a bucket. Between 1 µs and 2.4 h it is at most 1/16 more than the exact value. For
    /// shorter durations it is 1.088 µs, for longer ones 2.4 h.
    ///
    /// - Parameter percent: 0 to 100, such as 50 or 99.99. A value outside this range is clamped.
    public func percentile(_ percent: Double) -> Duration? {
        let count = count
        guard count > 0 else { return nil }
        let rank = max(1, (Double(count) * min(100, max(0, percent)) / 100).rounded(.up))
        var below: UInt64 = 0
        for (index, number) in counts.enumerated() {
            below = below.addingClamped(number)
            if Double(below) >= rank { return .nanoseconds(Self.end(of: first + index)) }
        }
        return .nanoseconds(Self.end(of: first + counts.count - 1))
    }

    /// The mean of all durations; `nil` if the histogram is empty.
    public var mean: Duration? {
        let count = count
        return count == 0 ? nil : sum / count
    }

    /// The buckets that are not empty, in ascending order: the end of each, and the number of its durations.
    ///
    /// All durations of a bucket are shorter than its end, except in the last one, which ends at 2.4 h.
    public var buckets: [(end: Duration, count: Int)] {
        counts.enumerated().compactMap { index, number in
            number == 0 ? nil : (.nanoseconds(Self.end(of: first + index)), Int(clamping: number))
        }
    }

    /// Returns, for each of `bounds`, the number of durations that do not exceed it, for exporters with bounds of their
    /// own.
    ///
    /// A bucket counts for a bound if it begins at the bound or before it. So a duration that equals a bound is
    /// counted, and durations that are at most 1/16 longer than a bound may be counted too.
    ///
    /// - Parameter bounds: Durations in ascending order.
    public func counts(upTo bounds: [Duration]) -> [Int] {
        var (index, total) = (0, 0)
        return bounds.map { bound in
            let nanoseconds = bound.clampedNanoseconds
            while index < counts.count, Self.start(of: first + index) <= nanoseconds {
                total = total.addingClamped(Int(clamping: counts[index]))
                index += 1
            }
            return total
        }
    }
}
