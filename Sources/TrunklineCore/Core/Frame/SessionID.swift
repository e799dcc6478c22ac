/// The number of one attempt to connect within its client or connection, and of the link that it establishes.
///
/// A later attempt has a higher number. Numbers are never reused, and no link has the number of an attempt that failed.
public struct SessionID: Sendable, Hashable {
    /// In a cluster: 1 bit set, 23 bits for the number of the client, 40 bits for that of the session.
    @usableFromInline let bits: UInt64

    /// The number; at least 1 for an attempt of a client.
    @inlinable
    public var number: UInt64 { bits >> 63 == 0 ? bits : bits & 0xFF_FFFF_FFFF }

    package var client: UInt64 { bits >> 63 == 0 ? 0 : bits >> 40 & 0x7F_FFFF }

    /// Creates the ID with a number, for example one from a log. Clients have no numbers from 2⁶³ on; of such a number,
    /// the highest bit is ignored.
    @inlinable
    public init(_ number: UInt64) { bits = number & (1 << 63 - 1) }

    init(_ number: UInt64, ofClient client: UInt64) {
        bits = client == 0 ? number : number & 0xFF_FFFF_FFFF | (client & 0x7F_FFFF) << 40 | 1 << 63
    }

    init(bits: UInt64) { self.bits = bits }
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
