/// A point in time on the clock of one event loop, since an origin that only that loop knows.
@usableFromInline
package struct Instant: Hashable, Comparable, Sendable {
    @usableFromInline package var nanoseconds: Int64

    @inlinable
    package init(nanoseconds: Int64) { self.nanoseconds = nanoseconds }

    @usableFromInline package static let distantFuture = Instant(nanoseconds: .max)

    @usableFromInline package static let distantPast = Instant(nanoseconds: .min)

    @inlinable
    package static func < (a: Instant, b: Instant) -> Bool { a.nanoseconds < b.nanoseconds }

    @inlinable
    package func advanced(by duration: Duration) -> Instant {
        let (sum, overflow) = nanoseconds.addingReportingOverflow(duration.clampedNanoseconds)
        return overflow ? .distantFuture : Instant(nanoseconds: sum)
    }

    @inlinable
    package func since(_ earlier: Instant) -> Duration {
        let (difference, overflow) = nanoseconds.subtractingReportingOverflow(earlier.nanoseconds)
        return .nanoseconds(overflow ? (self < earlier ? Int64.min : Int64.max) : difference)
    }
}

extension Duration {
    /// Longer than anything in a program. The system's clocks trap beyond about 290 years.
    @usableFromInline package static let century = Duration.seconds(100 * 365 * 86_400)

    @inlinable
    package init(clampingSeconds seconds: Double) {
        // Seconds beyond this are more than 2¹²⁷ attoseconds.
        let limit = 1.7e20
        self = seconds.isNaN ? .zero : .seconds(min(max(seconds, -limit), limit))
    }

    @inlinable
    package func addingClamped(_ other: Duration) -> Duration {
        let (sum, overflow) = attoseconds.addingReportingOverflow(other.attoseconds)
        return Duration(attoseconds: overflow ? (other < .zero ? .min : .max) : sum)
    }

    @inlinable
    package func subtractingClamped(_ other: Duration) -> Duration {
        let (difference, overflow) = attoseconds.subtractingReportingOverflow(other.attoseconds)
        return Duration(attoseconds: overflow ? (other < .zero ? .max : .min) : difference)
    }

    @inlinable
    package var clampedNanoseconds: Int64 {
        // Up to nine seconds, no division of 128 bits is needed. Most timeouts are shorter.
        if let attoseconds = Int64(exactly: attoseconds) { return attoseconds / 1_000_000_000 }
        return Int64(clamping: attoseconds / 1_000_000_000)
    }
}

extension FixedWidthInteger {
    @inlinable
    package func addingClamped(_ other: Self) -> Self {
        let (sum, overflow) = addingReportingOverflow(other)
        return overflow ? (other < 0 ? .min : .max) : sum
    }

    @inlinable
    package mutating func addClamped(_ other: Self) { self = addingClamped(other) }
}

extension Dictionary where Key == String {
    /// `others` if 64 other names have been counted, so that the memory is bounded.
    package func countedName(_ name: String) -> String { self[name] != nil || count < 64 ? name : "others" }

    package mutating func addNamed(_ other: Self, _ add: (inout Value?, Value) -> Void) {
        if isEmpty { return self = other }
        for (name, value) in other.sorted(by: { $0.key < $1.key }) { add(&self[countedName(name)], value) }
    }
}

extension Dictionary where Value == Int {
    package mutating func count(_ name: String) where Key == String { self[countedName(name), default: 0] += 1 }

    package mutating func addNamed(_ other: Self) where Key == String {
        addNamed(other) { $0 = ($0 ?? 0).addingClamped($1) }
    }

    package mutating func addClamped(_ other: Self) { merge(other) { $0.addingClamped($1) } }
}
