import TrunklineCore

/// The decay, with a time constant of 10 s, of what a cluster remembers of a server. Instants are ticks of 2²⁰ ns
/// (about 1 ms) in 32 bits, so that a value and its time are one word. The ticks wrap after 52 days: a value unchanged
/// for so long may look younger than it is, until its next change.
enum DecayClock {
    private static let tick: Int64 = 20
    private static let timeConstant = Float(10e9 / Double(1 << tick))
    /// Below this number of ticks a value has lost less than a hundredth.
    private static let noticeable: UInt32 = 95
    /// In time constants. A value does not decay any further, so that old ones can still be compared.
    private static let longest: Float = 10

    @inline(__always)
    static func ticks(_ instant: Instant) -> UInt32 { UInt32(truncatingIfNeeded: instant.nanoseconds >> tick) }

    /// 0 if `past` is not past: another thread may have read the clock later.
    @inline(__always)
    static func elapsed(since past: UInt32, at now: Instant) -> UInt32 {
        let elapsed = ticks(now) &- past
        return elapsed < 1 << 31 ? elapsed : 0
    }

    @inline(__always)
    static func isFresh(_ past: UInt32, at now: Instant) -> Bool { ticks(now) &- past < noticeable }

    static func isLong(_ elapsed: UInt32) -> Bool { Float(elapsed) > timeConstant }

    @inline(__always)
    static func remainder(after elapsed: UInt32) -> Float { elapsed < noticeable ? 1 : weight(of: elapsed) }

    /// Close to e⁻ˣ, without a mathematics library: 0.2 % more at x = 1, 23 % more at x = 5.
    static func weight(of elapsed: UInt32) -> Float {
        let x = min(Float(elapsed) / timeConstant, longest)
        let part = 1 + x / 8 + x * x / 128
        let square = part * part
        let fourth = square * square
        return 1 / (fourth * fourth)
    }
}
