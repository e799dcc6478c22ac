/// The number of one request, or one-way message, within its client, from the call until after its end. Never reused.
public struct RequestID: Sendable, Hashable {
    /// The number, counted from 1 in the order of the calls.
    public let number: UInt64

    /// Creates the ID with a number, for example one from a log.
    @inlinable
    public init(_ number: UInt64) { self.number = number }
}

extension RequestID: Strideable, CustomStringConvertible, ExpressibleByIntegerLiteral {
    @inlinable
    public static func < (a: RequestID, b: RequestID) -> Bool { a.number < b.number }
    @inlinable
    public func distance(to other: RequestID) -> Int { Int(truncatingIfNeeded: other.number &- number) }
    @inlinable
    public func advanced(by count: Int) -> RequestID { RequestID(number &+ UInt64(truncatingIfNeeded: count)) }
    public var description: String { "\(number)" }
    @inlinable
    public init(integerLiteral number: UInt64) { self.init(number) }
}
