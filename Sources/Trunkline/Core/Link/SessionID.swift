/// The number of one attempt to connect within its client or connection, and of the link that it establishes.
///
/// A later attempt has a higher number. Numbers are never reused, and no link has the number of an attempt that failed.
public struct SessionID: Sendable, Hashable {
    /// The number; at least 1 for an attempt of a client.
    public let number: UInt64

    /// Creates the ID with a number, for example one from a log.
    @inlinable
    public init(_ number: UInt64) { self.number = number }
}

extension SessionID: Comparable, CustomStringConvertible, ExpressibleByIntegerLiteral {
    /// Whether `a` began before `b`.
    @inlinable
    public static func < (a: SessionID, b: SessionID) -> Bool { a.number < b.number }

    /// The number.
    public var description: String { "\(number)" }

    /// Creates the ID with this number.
    @inlinable
    public init(integerLiteral number: UInt64) { self.init(number) }
}
