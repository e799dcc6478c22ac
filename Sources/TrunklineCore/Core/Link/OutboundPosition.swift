/// The position of a frame in the outbound order of one link. It is never reused.
package struct OutboundPosition: Sendable, Hashable, Strideable {
    private let number: UInt64

    static let first = OutboundPosition(number: 1)

    @inline(__always)
    package static func < (a: OutboundPosition, b: OutboundPosition) -> Bool { a.number < b.number }

    @inline(__always)
    package func distance(to other: OutboundPosition) -> Int { Int(truncatingIfNeeded: other.number &- number) }

    @inline(__always)
    package func advanced(by count: Int) -> OutboundPosition {
        OutboundPosition(number: number &+ UInt64(truncatingIfNeeded: count))
    }
}
