extension LayoutPlan {
    /// Where an integer is.
    struct Slot: Sendable {
        /// From the frame's first byte, or from the trailer's.
        var offset: Int
        /// 1 to 8 bytes.
        var width: Int
        var order: ByteOrder
        var isInTrailer: Bool

        /// The largest number that fits.
        var maximum: UInt64 { UInt64.max >> UInt64(64 - 8 * width) }
    }

    /// The offsets at which a frame's header and trailer start in memory.
    struct Parts {
        var header = 0
        var trailer: Int
    }

    /// A number of the protocol's own.
    struct NamedSlot: Sendable {
        var name: String
        var initial: UInt64
        var slot: Slot
    }

    /// A place that must hold the same number as `original`.
    struct Repetition: Sendable {
        var what: String
        var slot: Slot
        var original: Slot
    }

}

extension LayoutPlan.Slot {
    /// The offset of the slot's first byte.
    @inline(__always)
    func position(in parts: LayoutPlan.Parts) -> Int { (isInTrailer ? parts.trailer : parts.header) &+ offset }

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
