import Trunkline

@testable import TrunklineCore

extension OutboundPosition: ExpressibleByIntegerLiteral {
    /// Behind every frame.
    static let max = OutboundPosition.first.advanced(by: .max)

    /// The position of the frame with this number, counted from 1.
    init(_ number: UInt64) { self = .first.advanced(by: Int(number) - 1) }

    /// The position of the frame with this number, counted from 1.
    public init(integerLiteral number: UInt64) { self.init(number) }

    static func + (position: OutboundPosition, count: Int) -> OutboundPosition { position.advanced(by: count) }
    static func += (position: inout OutboundPosition, count: Int) { position = position + count }
}
