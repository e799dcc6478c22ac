/// The average latency of a server, in one word, so that many threads can change it without a lock.
///
/// A slow response raises the average to its latency at once; faster ones lower it with a time constant of 10 s. These are
/// the rules and the constant of Finagle's peak EWMA. A failure never lowers it: a server that fails fast must not attract
/// requests.
///
/// Only the first fast response within about a millisecond counts. Otherwise the time between two responses would be too
/// short to be measured, and a busy server would never become faster.
package struct LatencyAverage: Sendable, Equatable {
    /// The average in microseconds, as a `Float`, in the upper half, and the time of the latest change in ticks in the
    /// lower one.
    package let bits: UInt64

    /// The average of a server that has not answered yet.
    private static let seed: Float = 30_000
    /// One tick is 2²⁰ ns. The clock of ticks begins again after 52 days; after so long without a response, the average
    /// may be too old by a few seconds at most, which the next response corrects.
    private static let tick: Int64 = 20
    /// The time constant, in ticks.
    private static let timeConstant = Float(10e9 / Double(1 << tick))

    package init(bits: UInt64) { self.bits = bits }

    package init(at now: Instant) { self.init(Self.seed, Self.ticks(now)) }

    private init(_ microseconds: Float, _ ticks: UInt32) {
        bits = UInt64(microseconds.bitPattern) << 32 | UInt64(ticks)
    }

    /// The average, in microseconds.
    package var microseconds: Float { Float(bitPattern: UInt32(truncatingIfNeeded: bits >> 32)) }

    private var ticks: UInt32 { UInt32(truncatingIfNeeded: bits) }

    private static func ticks(_ instant: Instant) -> UInt32 {
        UInt32(truncatingIfNeeded: instant.nanoseconds >> tick)
    }

    /// Returns the average after a request that took `nanoseconds` and ended at `now`.
    ///
    /// - Parameter isAnswer: Whether the server answered. A failure, and a request that its caller gave up, took at least
    ///   this long.
    package func adding(nanoseconds: Int64, isAnswer: Bool, at now: Instant) -> LatencyAverage {
        let (sample, ticks) = (Float(max(0, nanoseconds)) / 1000, Self.ticks(now))
        if sample > microseconds { return LatencyAverage(sample, ticks) }
        let elapsed = ticks &- self.ticks
        // Another thread may have read the clock later and added its response earlier.
        guard elapsed > 0, elapsed < 1 << 31 else { return self }
        if !isAnswer { return LatencyAverage(microseconds, ticks) }
        let weight = Self.decay(Float(elapsed) / Self.timeConstant)
        return LatencyAverage(microseconds * weight + sample * (1 - weight), ticks)
    }

    /// Whether nothing has changed the average for longer than the time constant.
    package func isStale(at now: Instant) -> Bool {
        let elapsed = Self.ticks(now) &- ticks
        return elapsed < 1 << 31 && Float(elapsed) > Self.timeConstant
    }

    /// An approximation of e⁻ˣ, between 0 and 1 and decreasing, without a library of mathematics.
    private static func decay(_ x: Float) -> Float {
        let part = 1 + x / 8 + x * x / 128
        let square = part * part
        let fourth = square * square
        return 1 / (fourth * fourth)
    }
}
