package import TrunklineCore

/// The average latency of a server, in one word, so that many threads can change it without a lock.
///
/// A slow response raises the average to its latency at once; faster ones lower it with a time constant of 10 s.
/// Whenever it is read, it has decayed with the same constant since its latest change, so that a server that was slow
/// and gets no requests is tried again. These are the rules and the constant of Finagle's peak EWMA. An error or a
/// failure lowers it no faster than time does: a server that fails fast must not attract requests.
///
/// It is unknown until the first response, whatever fails before. But the time for which a request was not answered is
/// a bound: a server that hangs from the beginning does not count as fast as the others.
///
/// A response replaces an unknown average, and one that nothing has changed for longer than the time constant. An error
/// in place of that response makes it unknown: the server works, but nothing says how fast.
///
/// Only the first fast response within about a millisecond counts. Otherwise the time between two responses would be
/// too short to be measured, and a busy server would never become faster.
package struct LatencyAverage: Sendable, Equatable {
    /// The average at the latest change in microseconds, as a `Float`, in the upper half, 0 if it is unknown and a
    /// negative number if only a bound is known; and the time of the change in ticks in the lower one.
    package let bits: UInt64

    /// What has come of a request.
    package enum Outcome {
        case answer
        /// The server answered with an error.
        case error
        /// The server did not answer, or the caller gave up: an answer takes at least this long.
        case nothing
    }

    /// The least average that is known, in microseconds.
    private static let least: Float = 0.001

    package init(bits: UInt64) { self.bits = bits }

    /// An unknown average.
    package init(at now: Instant) { self.init(0, DecayClock.ticks(now)) }

    private init(_ microseconds: Float, _ ticks: UInt32) {
        bits = UInt64(microseconds.bitPattern) << 32 | UInt64(ticks)
    }

    /// The average at the latest change.
    @inline(__always)
    private var value: Float { Float(bitPattern: UInt32(truncatingIfNeeded: bits >> 32)) }

    /// The time of the latest change.
    @inline(__always)
    package var ticks: UInt32 { UInt32(truncatingIfNeeded: bits) }

    /// Whether the server has answered.
    @inline(__always)
    package var isKnown: Bool { Int64(bitPattern: bits) >= 1 << 32 }

    /// Whether the average or a bound is known.
    package var isMeasured: Bool { bits >> 32 != 0 }

    /// The average in microseconds, if it was changed just now; `nil` if it was not, or is unknown.
    @inline(__always)
    package func freshMicroseconds(at now: Instant) -> Float? {
        isKnown && DecayClock.isFresh(ticks, at: now) ? value : nil
    }

    /// Whether an answer that took `nanoseconds` and came at `now` changes nothing, as most do.
    @inline(__always)
    package func ignores(nanoseconds: Int64, at now: Instant) -> Bool {
        DecayClock.ticks(now) == ticks && Float(nanoseconds) * 0.001 <= value
    }

    /// The average in microseconds; 0 if it is unknown.
    @inline(__always)
    package func microseconds(at now: Instant) -> Float { max(0, remainder(at: now)) }

    /// What remains of the average, or of the bound as a negative number.
    @inline(__always)
    private func remainder(at now: Instant) -> Float {
        value * DecayClock.remainder(after: DecayClock.elapsed(since: ticks, at: now))
    }

    /// The microseconds of two servers, for comparing them. A server that has not answered yet counts as fast as the
    /// other one, but no faster than its bound.
    package static func compare(_ a: LatencyAverage, _ b: LatencyAverage, at now: Instant) -> (Float, Float) {
        let (x, y) = (a.remainder(at: now), b.remainder(at: now))
        if a.isKnown { return (x, b.isKnown ? y : max(x, -y)) }
        return b.isKnown ? (max(y, -x), y) : (max(1, -x), max(1, -y))
    }

    /// Returns the average after a request that took `nanoseconds` and ended at `now`.
    ///
    /// - Parameter outcome: What has come of the request.
    package func adding(nanoseconds: Int64, _ outcome: Outcome, at now: Instant) -> LatencyAverage {
        let sample = max(Self.least, Float(nanoseconds) / 1000)
        let elapsed = DecayClock.elapsed(since: ticks, at: now)
        if elapsed == 0, sample <= value { return self }
        let ticks = DecayClock.ticks(now)
        let isOld = DecayClock.isLong(elapsed)
        if outcome == .answer, sample > value * DecayClock.remainder(after: elapsed) || isOld {
            return LatencyAverage(sample, ticks)
        }
        let weight = DecayClock.weight(of: elapsed)
        switch outcome {
        case .answer: return LatencyAverage(value * weight + sample * (1 - weight), ticks)
        case .error where !isKnown: return isMeasured ? LatencyAverage(at: now) : self
        case .error where isOld && sample <= value * weight: return LatencyAverage(at: now)
        case .nothing where !isKnown: return LatencyAverage(min(value * weight, -sample), ticks)
        case .error, .nothing: return LatencyAverage(max(value * weight, sample), ticks)
        }
    }

    /// Whether nothing has changed the average for longer than the time constant.
    package func isStale(at now: Instant) -> Bool { DecayClock.isLong(DecayClock.elapsed(since: ticks, at: now)) }
}
