package import TrunklineCore

/// The share of the latest requests to a server that failed or were answered with an error, in one word, so that many
/// threads can change it without a lock.
///
/// A server that fails at once has no requests in flight, and would look idle. The load of a server is therefore
/// divided by the share of its requests that succeed: what counts is the load per success. The rule is ours; the P2C
/// balancers of Kratos and go-zero do the same.
///
/// Each request has a weight of a sixteenth. Whenever the share is read, it has decayed with a time constant of 10 s
/// since its latest change, so that a server that gets no requests because of it is tried again.
package struct ErrorShare: Sendable, Equatable {
    /// The share at the latest change, as a `Float`, in the upper half, and the time of the change in ticks in the
    /// lower one; 0 for no errors.
    package let bits: UInt64

    private static let weight: Float = 1 / 16
    /// Below this, the errors are forgotten.
    private static let least: Float = 1 / 256
    /// The largest share.
    private static let largest: Float = 1023 / 1024

    package static let none = ErrorShare(bits: 0)

    package init(bits: UInt64) { self.bits = bits }

    private init(_ share: Float, at now: Instant) {
        bits = UInt64(share.bitPattern) << 32 | UInt64(DecayClock.ticks(now))
    }

    /// The share: 0 or more, less than 1.
    package func share(at now: Instant) -> Float {
        let elapsed = DecayClock.elapsed(since: UInt32(truncatingIfNeeded: bits), at: now)
        return Float(bitPattern: UInt32(truncatingIfNeeded: bits >> 32)) * DecayClock.remainder(after: elapsed)
    }

    /// Returns the share after a request that ended at `now`.
    package func adding(isError: Bool, at now: Instant) -> ErrorShare {
        if !isError, self == .none { return self }
        let share = share(at: now) * (1 - Self.weight) + (isError ? Self.weight : 0)
        return share < Self.least ? .none : ErrorShare(min(share, Self.largest), at: now)
    }
}
