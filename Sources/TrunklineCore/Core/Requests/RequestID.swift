/// The number of one request, or one-way message, within its client, from the call until after its end.
///
/// A later call has a higher number. Numbers are never reused, and some are skipped.
public struct RequestID: Sendable, Hashable {
    /// The number; at least 1 for a request of a client.
    public let number: UInt64

    /// Creates the ID with a number, for example one from a log.
    @inlinable
    public init(_ number: UInt64) { self.number = number }
}

extension RequestID: Strideable, CustomStringConvertible, ExpressibleByIntegerLiteral {
    /// Whether `a` was made before `b`.
    @inlinable
    public static func < (a: RequestID, b: RequestID) -> Bool { a.number < b.number }

    /// How much higher the number of `other` is.
    @inlinable
    public func distance(to other: RequestID) -> Int { Int(truncatingIfNeeded: other.number &- number) }

    /// The ID whose number is higher by `count`. The requests of a batch have consecutive numbers.
    @inlinable
    public func advanced(by count: Int) -> RequestID { RequestID(number &+ UInt64(truncatingIfNeeded: count)) }

    /// The number.
    public var description: String { "\(number)" }

    /// Creates the ID with this number.
    @inlinable
    public init(integerLiteral number: UInt64) { self.init(number) }
}
