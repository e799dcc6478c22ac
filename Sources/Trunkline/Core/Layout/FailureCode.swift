/// Where an error response says why the server refused, in a layout without a status field: see the role `failureCode`.
public struct FailureCode: Sendable, Hashable {
    /// 1, 2 or 4.
    private let width: Int
    private let order: ByteOrder

    /// The first bytes of the body, an unsigned integer of 1, 2 or 4 bytes: `.body(UInt8.self)` in Modbus. They remain in
    /// the body.
    public static func body<Value: WireCode>(_ type: Value.Type, order: ByteOrder = .bigEndian) -> FailureCode {
        FailureCode(width: MemoryLayout<Value>.size, order: order)
    }

    /// The code of the received `frame`; `nil` where its body is too short.
    func code(in frame: borrowing Frame) -> UInt32? {
        frame.body.integer(at: 0, width: width, order: order).map { UInt32(truncatingIfNeeded: $0) }
    }

    /// Writes the status of an error response to be sent into its body, if that is empty.
    ///
    /// Throws `malformed` for a status that does not fit, and for one that is not what the body says.
    func write(to frame: inout Frame) throws(FrameError) {
        guard frame.status != 0 else { return }
        if frame.body.isEmpty { frame.body.append(integer: UInt64(frame.status), width: width, order: order) }
        guard let code = code(in: frame), code == frame.status else {
            let found = code(in: frame).map { "says \($0)" } ?? "is too short to say it"
            throw FrameError(.malformed, "the error response has the status \(frame.status), but its body \(found)")
        }
    }
}
