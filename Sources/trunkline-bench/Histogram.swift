import Synchronization

/// A histogram of latencies, with buckets 3 % wide. Recording allocates nothing.
@safe
final class Histogram: Sendable {
    /// Copies, so that callers rarely write to the same cache line.
    private static let shards = 16
    /// One bucket for each nanosecond below 64 ns; above, 32 buckets for every doubling.
    private static let buckets = 58 * 32 + 64

    /// Safe: allocated for the lifetime of this object, and atomic.
    nonisolated(unsafe) private let counts: UnsafeMutablePointer<Atomic<Int>>

    init() {
        unsafe counts = .allocate(capacity: Self.shards * Self.buckets)
        for index in 0..<Self.shards * Self.buckets { unsafe (counts + index).initialize(to: Atomic(0)) }
    }

    deinit {
        unsafe counts.deinitialize(count: Self.shards * Self.buckets)
        unsafe counts.deallocate()
    }

    func record(_ nanoseconds: UInt64, times: Int = 1, caller: Int) {
        let index = (caller % Self.shards) * Self.buckets + Self.bucket(nanoseconds)
        unsafe counts[index].wrappingAdd(times, ordering: .relaxed)
    }

    func percentile(_ fraction: Double) -> Double {
        var sums = [Int](repeating: 0, count: Self.buckets)
        for index in 0..<Self.shards * Self.buckets {
            sums[index % Self.buckets] += unsafe counts[index].load(ordering: .relaxed)
        }
        let rank = Int((Double(sums.reduce(0, +)) * fraction).rounded(.up))
        var seen = 0
        for (bucket, count) in sums.enumerated() where count > 0 {
            seen += count
            if seen >= rank { return Self.middle(of: bucket) }
        }
        return 0
    }

    private static func bucket(_ value: UInt64) -> Int {
        let shift = max(0, 58 - value.leadingZeroBitCount)
        return shift * 32 + Int(value >> UInt64(shift))
    }

    private static func middle(of bucket: Int) -> Double {
        let shift = max(0, bucket / 32 - 1)
        return (Double(bucket - shift * 32) + (shift > 0 ? 0.5 : 0)) * Double(UInt64(1) << UInt64(shift))
    }
}
