public import TrunklineCore

/// The named field in which a `goAway` frame holds the retry delay. 0 means no delay.
public enum RetryAfterField: Sendable, Hashable {
    /// The field holds seconds.
    case seconds(in: String)
    /// The field holds milliseconds.
    case milliseconds(in: String)

    var name: String {
        switch self {
        case .seconds(let name), .milliseconds(let name): name
        }
    }

    func duration(of number: UInt64) -> Duration? {
        guard number > 0 else { return nil }
        switch self {
        case .seconds: return .seconds(Int64(clamping: number))
        case .milliseconds: return .milliseconds(Int64(clamping: number))
        }
    }
}

/// The place of the error code in an error response, in a layout without a status field: see
/// ``FrameLayout/Roles/failureCode``.
public struct FailureCode: Sendable, Hashable {
    let width: Int
    private let order: ByteOrder

    private init(width: Int, order: ByteOrder) { (self.width, self.order) = (width, order) }

    /// Returns the place at the beginning of the body. The code is an unsigned integer of 1, 2 or 4 bytes, such as
    /// `.body(UInt8.self)` in Modbus. Its bytes remain in the body.
    public static func body<Value: FixedWidthInteger & UnsignedInteger>(
        _ type: Value.Type,
        order: ByteOrder = .bigEndian
    ) -> FailureCode {
        FailureCode(width: MemoryLayout<Value>.size, order: order)
    }

    func code(in frame: borrowing Frame) -> UInt32? {
        frame.body.integer(at: 0, width: width, order: order).map { UInt32(truncatingIfNeeded: $0) }
    }

    func write(to frame: inout Frame) throws(FrameError) {
        guard frame.status != 0 else { return }
        if frame.body.isEmpty { frame.body.append(integer: UInt64(frame.status), width: width, order: order) }
        guard let code = code(in: frame), code == frame.status else {
            let found = code(in: frame).map { "holds \($0)" } ?? "is too short to hold it"
            throw FrameError(.malformed, "the error response has the status \(frame.status), but its body \(found)")
        }
    }
}

/// A value of a request that the response repeats: see ``FrameLayout/Roles/responsesRepeat``.
public enum RepeatedField: Sendable, Hashable {
    /// The type, without bits that mark a role.
    case type
    /// The number in this named field.
    case field(String)

    func check(_ request: LayoutShape, _ response: LayoutShape) throws(LayoutError) {
        switch self {
        case .type:
            guard request.type != nil, response.type != nil else {
                throw LayoutError(role: "responsesRepeat", "the layout has no type field")
            }
        case .field(let name):
            for shape in [request, response] { try shape.integer(name, of: "responsesRepeat") }
        }
    }
}
