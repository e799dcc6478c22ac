/// The number of one attempt to connect within its client or connection, and of the link that it establishes.
///
/// A later attempt has a higher number. Numbers are never reused, and no link has the number of an attempt that failed.
public struct SessionID: Sendable, Hashable {
    /// The number of the client within its cluster in the upper 24 bits, 0 without a cluster; the number of the attempt
    /// in the others.
    @usableFromInline let bits: UInt64

    /// The number; at least 1 for an attempt of a client.
    @inlinable
    public var number: UInt64 { bits & 0xFF_FFFF_FFFF }

    /// The number of the client within its cluster.
    package var client: UInt64 { bits >> 40 }

    /// Creates the ID with a number, for example one from a log. Numbers from 2⁴⁰ on, which no client reaches, count as
    /// 2⁴⁰ - 1.
    @inlinable
    public init(_ number: UInt64) { bits = min(number, 0xFF_FFFF_FFFF) }

    /// Creates the ID with the bits of another one.
    init(bits: UInt64) { self.bits = bits }

    package init(_ number: UInt64, ofClient client: UInt64) { bits = number & 0xFF_FFFF_FFFF | client << 40 }
}

extension SessionID: Comparable, CustomStringConvertible, ExpressibleByIntegerLiteral {
    /// Whether `a` began before `b`.
    @inlinable
    public static func < (a: SessionID, b: SessionID) -> Bool { a.bits < b.bits }

    /// The number.
    public var description: String { "\(number)" }

    /// Creates the ID with this number.
    @inlinable
    public init(integerLiteral number: UInt64) { self.init(number) }
}
