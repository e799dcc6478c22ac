/// The average latency of a server, in one word, so that many threads can change it without a lock.
///
/// A slow response raises the average to its latency at once; faster ones lower it with a time constant of 10 s.
/// Whenever it is read, it has decayed with the same constant since its latest change, so that a server that was slow
/// and gets no requests is tried again. These are the rules and the constant of Finagle's peak EWMA. An error or a
/// failure lowers it no faster than time does: a server that fails fast must not attract requests.
///
/// It is unknown until the first response, whatever fails before. A response replaces an unknown average, and one that
/// nothing has changed for longer than the time constant. An error in place of that response makes it unknown: the
/// server works, but nothing says how fast.
///
/// Only the first fast response within about a millisecond counts. Otherwise the time between two responses would be
/// too short to be measured, and a busy server would never become faster.
package struct LatencyAverage: Sendable, Equatable {
    /// The average at the latest change in microseconds, as a `Float`, in the upper half, 0 if it is unknown; and the
    /// time of the change in ticks in the lower one.
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
    package var isKnown: Bool { bits >> 32 != 0 }

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
    package func microseconds(at now: Instant) -> Float {
        value * DecayClock.remainder(after: DecayClock.elapsed(since: ticks, at: now))
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
        case .error where isOld && sample <= value * weight: return LatencyAverage(at: now)
        case .error, .nothing: return isKnown ? LatencyAverage(max(value * weight, sample), ticks) : self
        }
    }

    /// Whether nothing has changed the average for longer than the time constant.
    package func isStale(at now: Instant) -> Bool { DecayClock.isLong(DecayClock.elapsed(since: ticks, at: now)) }
}
