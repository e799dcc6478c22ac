/// A point in time on the clock of one event loop: nanoseconds since an origin that only that loop knows.
///
/// The machines of this module never read a clock; whoever drives them says what time it is.
package struct Instant: Hashable, Comparable, Sendable {
    package var nanoseconds: Int64

    package init(nanoseconds: Int64) { self.nanoseconds = nanoseconds }

    /// Later than every instant a clock will show.
    package static let distantFuture = Instant(nanoseconds: .max)

    /// Earlier than every instant a clock will show.
    package static let distantPast = Instant(nanoseconds: .min)

    package static func < (a: Instant, b: Instant) -> Bool { a.nanoseconds < b.nanoseconds }

    /// The instant `duration` later, held at `distantFuture` instead of overflowing.
    package func advanced(by duration: Duration) -> Instant {
        let (sum, overflow) = nanoseconds.addingReportingOverflow(duration.clampedNanoseconds)
        return overflow ? .distantFuture : Instant(nanoseconds: sum)
    }

    /// How long after `earlier` this instant is; negative when it is before.
    package func since(_ earlier: Instant) -> Duration {
        let (difference, overflow) = nanoseconds.subtractingReportingOverflow(earlier.nanoseconds)
        return .nanoseconds(overflow ? (self < earlier ? Int64.min : Int64.max) : difference)
    }
}

extension Duration {
    /// The duration in whole nanoseconds, held at the ends of `Int64` (about ±292 years).
    package var clampedNanoseconds: Int64 {
        let (seconds, attoseconds) = components
        let (whole, overflow) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
        let (sum, carried) = whole.addingReportingOverflow(attoseconds / 1_000_000_000)
        return overflow || carried ? (seconds < 0 ? .min : .max) : sum
    }
}
