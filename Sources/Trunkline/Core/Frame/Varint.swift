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
        guard offset >= 0, offset <= count else { return nil }
        let bytes = unsafe storage.span.bytes.extracting(lower..<upper)
        switch bytes.varint(at: offset, .littleEndian, width: Swift.max(0, Swift.min(maximumWidth, 10)), upTo: .max) {
        case .whole(let value, let width): return (value, width)
        case .incomplete: return nil
        case .aboveMaximum: throw FrameError(.malformed, "a variable-length integer above 64 bits")
        case .endless: throw FrameError(.malformed, "a variable-length integer of more than \(maximumWidth) bytes")
        }
    }

    /// Takes the variable-length integer from the front; see `varint(at:maximumWidth:)`.
    public mutating func readVarint(maximumWidth: Int = 10) throws(FrameError) -> UInt64? {
        guard let (value, width) = try varint(maximumWidth: maximumWidth) else { return nil }
        skip(width)
        return value
    }
}

/// What there is of an integer of as many bytes as it needs.
enum Varint {
    case whole(UInt64, width: Int)
    case incomplete
    case aboveMaximum
    /// As many bytes as it may have, and the last says that there are more.
    case endless
}

extension RawSpan {
    /// The variable-length integer at `offset`, of `most` bytes and `maximum` at most, whose low (`littleEndian`) or high
    /// seven bits come first.
    @inline(__always)
    func varint(at offset: Int, _ order: ByteOrder, width most: Int = 10, upTo maximum: UInt64) -> Varint {
        var value: UInt64 = 0
        for index in 0..<most {
            guard index < byteCount - offset else { return .incomplete }
            let byte = unsafe unsafeLoad(fromByteOffset: offset + index, as: UInt8.self)
            let bits = UInt64(byte & 0x7f)
            // Refused before a bit is lost.
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
