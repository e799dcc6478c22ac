/// A point in time on the clock of one event loop, in nanoseconds since an origin that only that loop knows.
///
/// The machines of this module never read a clock. Their callers pass the time.
package struct Instant: Hashable, Comparable, Sendable {
    package var nanoseconds: Int64

    package init(nanoseconds: Int64) { self.nanoseconds = nanoseconds }

    /// Later than every instant that a clock shows.
    package static let distantFuture = Instant(nanoseconds: .max)

    /// Earlier than every instant that a clock shows.
    package static let distantPast = Instant(nanoseconds: .min)

    package static func < (a: Instant, b: Instant) -> Bool { a.nanoseconds < b.nanoseconds }

    /// Returns the instant that is `duration` later, or `distantFuture` if the sum overflows.
    package func advanced(by duration: Duration) -> Instant {
        let (sum, overflow) = nanoseconds.addingReportingOverflow(duration.clampedNanoseconds)
        return overflow ? .distantFuture : Instant(nanoseconds: sum)
    }

    /// Returns the time from `earlier` to this instant; negative if this instant is earlier.
    package func since(_ earlier: Instant) -> Duration {
        let (difference, overflow) = nanoseconds.subtractingReportingOverflow(earlier.nanoseconds)
        return .nanoseconds(overflow ? (self < earlier ? Int64.min : Int64.max) : difference)
    }
}

extension Duration {
    /// The duration in whole nanoseconds, clamped to the range of `Int64` (about ±292 years).
    package var clampedNanoseconds: Int64 {
        // Up to nine seconds, no division of 128 bits is needed. Most timeouts are shorter.
        if let attoseconds = Int64(exactly: attoseconds) { return attoseconds / 1_000_000_000 }
        return Int64(clamping: attoseconds / 1_000_000_000)
    }
}
