/// The number of one attempt to connect within its client, and of the link that it establishes. Never reused.
public struct SessionID: Sendable, Hashable {
    /// The number, counted from 1 in the order of the attempts.
    public let number: UInt64

    /// Creates the ID with a number, for example one from a log.
    @inlinable
    public init(_ number: UInt64) { self.number = number }
}

extension SessionID: Comparable, CustomStringConvertible, ExpressibleByIntegerLiteral {
    @inlinable
    public static func < (a: SessionID, b: SessionID) -> Bool { a.number < b.number }
    public var description: String { "\(number)" }
    @inlinable
    public init(integerLiteral number: UInt64) { self.init(number) }
}
