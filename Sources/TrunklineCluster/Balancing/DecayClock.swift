package import TrunklineCore

/// The time since a value was changed, by which what a cluster remembers of a server decays: with a time constant of 10
/// s.
///
/// Instants are kept in ticks of 2²⁰ ns, about a millisecond, in 32 bits, so that a value and its time are one word.
/// The clock of ticks begins again after 52 days: a value that was not changed for so long may look younger than it is,
/// which the next change corrects.
package enum DecayClock {
    private static let tick: Int64 = 20
    /// The time constant, in ticks.
    private static let timeConstant = Float(10e9 / Double(1 << tick))
    /// Below this number of ticks a value has lost less than a hundredth, which does not matter for a choice.
    private static let noticeable: UInt32 = 95
    /// After this many time constants a value does not decay any further, so that old ones can still be compared.
    private static let longest: Float = 10

    @inline(__always)
    package static func ticks(_ instant: Instant) -> UInt32 { UInt32(truncatingIfNeeded: instant.nanoseconds >> tick) }

    /// The ticks since `past`; 0 if it is not past: another thread may have read the clock later.
    @inline(__always)
    package static func elapsed(since past: UInt32, at now: Instant) -> UInt32 {
        let elapsed = ticks(now) &- past
        return elapsed < 1 << 31 ? elapsed : 0
    }

    /// Whether a value that was changed at `past` has not noticeably decayed.
    @inline(__always)
    package static func isFresh(_ past: UInt32, at now: Instant) -> Bool { ticks(now) &- past < noticeable }

    /// Whether this is longer than the time constant.
    package static func isLong(_ elapsed: UInt32) -> Bool { Float(elapsed) > timeConstant }

    /// What remains of a value when it is read after `elapsed` ticks: from 1 down to 1/7,128.
    @inline(__always)
    package static func remainder(after elapsed: UInt32) -> Float { elapsed < noticeable ? 1 : weight(of: elapsed) }

    /// What remains of a value after `elapsed` ticks: a decreasing function that is close to e⁻ˣ, without a library of
    /// mathematics. It is 0.2 % more at x = 1, and 23 % more at x = 5.
    package static func weight(of elapsed: UInt32) -> Float {
        let x = min(Float(elapsed) / timeConstant, longest)
        let part = 1 + x / 8 + x * x / 128
        let square = part * part
        let fourth = square * square
        return 1 / (fourth * fourth)
    }
}
