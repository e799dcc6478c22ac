import TrunklineCore

/// The average latency of a server, in one word for many threads: Finagle's peak EWMA. A slow response raises it at
/// once; faster ones, and time, lower it, so that a slow server without requests is tried again. A failure lowers it no
/// faster than time does, or a server that fails fast would attract requests.
///
/// Until the first response, the time for which a request was not answered is a bound, so that a server that hangs does
/// not count as fast. An error makes an old average unknown: the server works, but nothing says how fast. Of the fast
/// responses within about 1 ms only the first counts: the time between them is too short to be measured, and a busy
/// server would never become faster.
package struct LatencyAverage: Sendable, Equatable {
    /// Upper half: microseconds as a `Float`; 0 for unknown, negative for a bound. Lower half: the ticks of the latest
    /// change.
    let bits: UInt64

    package enum Outcome {
        case answer
        case error
        /// No answer, or the caller gave up: an answer takes at least this long.
        case nothing
    }

    private static let least: Float = 0.001

    init(bits: UInt64) { self.bits = bits }

    init(at now: Instant) { self.init(0, DecayClock.ticks(now)) }

    private init(_ microseconds: Float, _ ticks: UInt32) {
        bits = UInt64(microseconds.bitPattern) << 32 | UInt64(ticks)
    }

    @inline(__always)
    private var value: Float { Float(bitPattern: UInt32(truncatingIfNeeded: bits >> 32)) }

    @inline(__always)
    var ticks: UInt32 { UInt32(truncatingIfNeeded: bits) }

    @inline(__always)
    var isKnown: Bool { Int64(bitPattern: bits) >= 1 << 32 }

    var isMeasured: Bool { bits >> 32 != 0 }

    @inline(__always)
    func freshMicroseconds(at now: Instant) -> Float? {
        isKnown && DecayClock.isFresh(ticks, at: now) ? value : nil
    }

    @inline(__always)
    func ignores(nanoseconds: Int64, at now: Instant) -> Bool {
        DecayClock.ticks(now) == ticks && Float(nanoseconds) * 0.001 <= value
    }

    @inline(__always)
    func microseconds(at now: Instant) -> Float { max(0, remainder(at: now)) }

    @inline(__always)
    private func remainder(at now: Instant) -> Float {
        value * DecayClock.remainder(after: DecayClock.elapsed(since: ticks, at: now))
    }

    /// For comparing two servers: one that has not answered counts as fast as the other, but no faster than its bound.
    static func compare(_ a: LatencyAverage, _ b: LatencyAverage, at now: Instant) -> (Float, Float) {
        let (x, y) = (a.remainder(at: now), b.remainder(at: now))
        if a.isKnown { return (x, b.isKnown ? y : max(x, -y)) }
        return b.isKnown ? (max(y, -x), y) : (max(1, -x), max(1, -y))
    }

    func adding(nanoseconds: Int64, _ outcome: Outcome, at now: Instant) -> LatencyAverage {
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

    func isStale(at now: Instant) -> Bool { DecayClock.isLong(DecayClock.elapsed(since: ticks, at: now)) }
}
