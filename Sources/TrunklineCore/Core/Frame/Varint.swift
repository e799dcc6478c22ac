/// LEB128, as in protobuf and MQTT: seven bits in each byte, the lowest first, the top bit set in all but the last.
extension ReceiveBuffer {
    /// Returns the variable-length integer at `offset` and its size, without consuming it, or `nil` if it is
    /// incomplete.
    ///
    /// An encoding with more bytes than necessary (`80 00` for 0) is accepted. A codec whose protocol forbids it can
    /// compare `width` with the value.
    ///
    /// - Parameters:
    ///   - offset: The distance from the front in bytes.
    ///   - maximumWidth: The largest size in bytes, 1 to 10.
    /// - Returns: The value and its size in bytes.
    /// - Throws: `malformed` for an integer above 64 bits, and as soon as `maximumWidth` bytes have arrived without an
    ///   end.
    public func varint(
        at offset: Int = 0,
        maximumWidth: Int = 10
    ) throws(FrameError) -> (value: UInt64, width: Int)? {
        guard offset >= 0, offset <= count else { return nil }
        let bytes = unsafe storage.span.bytes.extracting(lower..<upper)
        switch bytes.varint(at: offset, .littleEndian, width: Swift.max(0, Swift.min(maximumWidth, 10)), upTo: .max) {
        case .whole(let value, let width): return (value, width)
        case .incomplete: return nil
        case .aboveMaximum: throw FrameError(.malformed, "a variable-length integer of more than 64 bits")
        case .endless: throw FrameError(.malformed, "a variable-length integer of more than \(maximumWidth) bytes")
        }
    }

    /// Consumes the variable-length integer at the front and returns it, or returns `nil` if it is incomplete.
    ///
    /// - Parameter maximumWidth: The largest size in bytes, 1 to 10.
    /// - Throws: `malformed`, as ``varint(at:maximumWidth:)`` does.
    public mutating func readVarint(maximumWidth: Int = 10) throws(FrameError) -> UInt64? {
        guard let (value, width) = try varint(maximumWidth: maximumWidth) else { return nil }
        skip(width)
        return value
    }
}

@frozen
@usableFromInline
package enum Varint {
    case whole(UInt64, width: Int)
    case incomplete
    case aboveMaximum
    /// The last byte that is allowed announces another one.
    case endless
}

extension RawSpan {
    /// The low (`littleEndian`) or high (`bigEndian`) seven bits come first.
    @inlinable
    @inline(__always)
    package func varint(at offset: Int, _ order: ByteOrder, width most: Int = 10, upTo maximum: UInt64) -> Varint {
        guard offset >= 0 else { return .incomplete }
        var value: UInt64 = 0
        for index in 0..<most {
            guard index < byteCount - offset else { return .incomplete }
            let byte = unsafe unsafeLoad(fromByteOffset: offset + index, as: UInt8.self)
            let bits = UInt64(byte & 0x7f)
            // Checked before the shift, which would otherwise discard high bits.
            let isLow = order == .littleEndian
            guard isLow ? bits <= maximum >> UInt64(7 * index) : value <= maximum >> 7 else { return .aboveMaximum }
            value = isLow ? value | bits << UInt64(7 * index) : value << 7 | bits
            if value > maximum { return .aboveMaximum }
            if byte < 0x80 { return .whole(value, width: index + 1) }
        }
        return .endless
    }
}

extension SendBuffer {
    /// Appends `value` as a variable-length integer in as few bytes as possible: 1 to 10.
    public mutating func append(varint value: UInt64) {
        var rest = value
        while rest >= 0x80 {
            append(UInt8(truncatingIfNeeded: rest) | 0x80)
            rest >>= 7
        }
        append(UInt8(rest))
    }
}
