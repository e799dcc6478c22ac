extension LayoutPlan {
    /// Where an integer is.
    struct Slot: Sendable {
        /// From the frame's first byte, or from the trailer's; as if a varint before it had one byte.
        var offset: Int
        /// 1 to 8 bytes for integers.
        var width: Int
        var order: ByteOrder
        var region: Region

        var isInTrailer: Bool { region == .trailer }

        /// The largest number that fits.
        var maximum: UInt64 { UInt64.max >> UInt64(64 - 8 * width) }
    }

    /// What a slot's offset is counted from.
    enum Region: Sendable {
        case header
        /// The header behind a varint, which moves by the bytes that the varint has more than one.
        case afterVarint
        case trailer
    }

    /// The offsets at which the parts of a frame start in memory.
    struct Parts {
        var header: Int
        /// Where the header would start for what follows a varint in it; the same as `header` where there is none.
        var afterVarint: Int
        var body: Int
        var trailer: Int

        @inline(__always)
        init(header: Int, extra: Int = 0, body: Int, trailer: Int) {
            self.header = header
            afterVarint = header &+ extra
            self.body = body
            self.trailer = trailer
        }
    }

    /// A number, or a run of bytes, of the protocol's own.
    struct NamedSlot: Sendable {
        var name: String
        var initial: UInt64 = 0
        var isBytes = false
        var slot: Slot
    }

    /// Where the number is that says what a frame is for.
    struct KindSlot: Sendable {
        var slot: Slot
        var numbers: [Frame.Kind: UInt64]

        func lists(_ kind: Frame.Kind) -> Bool { numbers[kind] != nil }

        func kind(of number: UInt64) -> Frame.Kind? { numbers.first { $0.value == number }?.key }

        /// The number of a frame to send: its kind's, or that of the kind it is most like.
        func number(of kind: Frame.Kind) -> UInt64? {
            if let number = numbers[kind] { return number }
            return switch kind {
            case .request, .ping, .cancel: numbers[.request]
            case .response, .part, .push, .pong, .goAway: numbers[.response]
            }
        }
    }

    /// A place that must hold the same number as `original`.
    struct Repetition: Sendable {
        var what: String
        var slot: Slot
        var original: Slot
    }

}

extension LayoutPlan.Slot {
    func isPlain(at offset: Int) -> Bool {
        self.offset == offset && width == 4 && order == .bigEndian && !isInTrailer
    }

    /// The offset of the slot's first byte.
    @inline(__always)
    func position(in parts: LayoutPlan.Parts) -> Int {
        switch region {
        case .header: parts.header &+ offset
        case .afterVarint: parts.afterVarint &+ offset
        case .trailer: parts.trailer &+ offset
        }
    }

    /// The integer at `position`, whose bytes must all be within `bytes`.
    @inline(__always)
    func load(_ bytes: borrowing RawSpan, at position: Int) -> UInt64 {
        func value<Value: FixedWidthInteger & BitwiseCopyable>(_ type: Value.Type) -> Value {
            let value = unsafe bytes.unsafeLoadUnaligned(fromByteOffset: position, as: type)
            return order == .bigEndian ? Value(bigEndian: value) : Value(littleEndian: value)
        }
        switch width {
        case 4: return UInt64(value(UInt32.self))
        case 2: return UInt64(value(UInt16.self))
        case 1: return UInt64(value(UInt8.self))
        case 8: return value(UInt64.self)
        default:
            var result: UInt64 = 0
            for index in 0..<width {
                let next = order == .bigEndian ? position + index : position + width - 1 - index
                result = result << 8 | UInt64(unsafe bytes.unsafeLoad(fromByteOffset: next, as: UInt8.self))
            }
            return result
        }
    }

    /// Writes `value`, which must fit, at `position`.
    @inline(__always)
    func store(_ value: UInt64, into bytes: inout MutableRawSpan, at position: Int) {
        func ordered<Value: FixedWidthInteger>(_ value: Value) -> Value {
            order == .bigEndian ? value.bigEndian : value.littleEndian
        }
        switch width {
        case 4:
            let value = ordered(UInt32(truncatingIfNeeded: value))
            bytes.storeBytes(of: value, toByteOffset: position, as: UInt32.self)
        case 2:
            let value = ordered(UInt16(truncatingIfNeeded: value))
            bytes.storeBytes(of: value, toByteOffset: position, as: UInt16.self)
        case 8:
            bytes.storeBytes(of: ordered(value), toByteOffset: position, as: UInt64.self)
        default:
            for index in 0..<width {
                let shift = 8 * (order == .bigEndian ? width - 1 - index : index)
                let byte = UInt8(truncatingIfNeeded: value >> UInt64(shift))
                bytes.storeBytes(of: byte, toByteOffset: position + index, as: UInt8.self)
            }
        }
    }
}
