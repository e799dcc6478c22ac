import TrunklineCore

/// The share of the latest requests to a server that failed or were answered with an error, in one word for many
/// threads. A server that fails at once has no requests in flight and would look idle, so its load is divided by the
/// share of requests that succeed, as in the P2C balancers of Kratos and go-zero.
struct ErrorShare: Sendable, Equatable {
    /// Upper half: the share as a `Float`. Lower half: the ticks of the latest change. 0 for no errors.
    let bits: UInt64

    private static let weight: Float = 1 / 16
    private static let least: Float = 1 / 256
    private static let largest: Float = 1023 / 1024

    static let none = ErrorShare(bits: 0)

    init(bits: UInt64) { self.bits = bits }

    private init(_ share: Float, at now: Instant) {
        bits = UInt64(share.bitPattern) << 32 | UInt64(DecayClock.ticks(now))
    }

    func share(at now: Instant) -> Float {
        let elapsed = DecayClock.elapsed(since: UInt32(truncatingIfNeeded: bits), at: now)
        return Float(bitPattern: UInt32(truncatingIfNeeded: bits >> 32)) * DecayClock.remainder(after: elapsed)
    }

    func adding(isError: Bool, at now: Instant) -> ErrorShare {
        if !isError, self == .none { return self }
        let share = share(at: now) * (1 - Self.weight) + (isError ? Self.weight : 0)
        return share < Self.least ? .none : ErrorShare(min(share, Self.largest), at: now)
    }
}
