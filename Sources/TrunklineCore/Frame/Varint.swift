/// Integers of as many bytes as they need (LEB128, as in protobuf and MQTT): seven bits in each, the lowest first, the
/// top bit set in all but the last.
extension ReceiveBuffer {
    /// The variable-length integer at `offset` from the front, and how many bytes it has; `nil` when it is not all there
    /// yet.
    ///
    /// Takes needless zeros at its end (`80 00` for 0), as most readers do. Throws `malformed` as soon as there are
    /// `maximumWidth` bytes (1 to 10) without an end, and for a number above 64 bits.
    public func varint(
        at offset: Int = 0,
        maximumWidth: Int = 10
    ) throws(FrameError) -> (value: UInt64, width: Int)? {
        var value: UInt64 = 0
        for index in 0..<Swift.max(0, Swift.min(maximumWidth, 10)) {
            guard let byte = byte(at: offset + index) else { return nil }
            if index == 9, byte > 1 { throw FrameError(.malformed, "a variable-length integer above 64 bits") }
            value |= UInt64(byte & 0x7f) << UInt64(7 * index)
            if byte < 0x80 { return (value, index + 1) }
        }
        throw FrameError(.malformed, "a variable-length integer of more than \(maximumWidth) bytes")
    }

    /// Takes the variable-length integer from the front; see `varint(at:maximumWidth:)`.
    public mutating func readVarint(maximumWidth: Int = 10) throws(FrameError) -> UInt64? {
        guard let (value, width) = try varint(maximumWidth: maximumWidth) else { return nil }
        skip(width)
        return value
    }
}

extension SendBuffer {
    /// Appends `value` as a variable-length integer, in as few bytes as it needs: 1 to 10.
    public mutating func append(varint value: UInt64) {
        var rest = value
        while rest >= 0x80 {
            append(UInt8(truncatingIfNeeded: rest) | 0x80)
            rest >>= 7
        }
        append(UInt8(rest))
    }
}
