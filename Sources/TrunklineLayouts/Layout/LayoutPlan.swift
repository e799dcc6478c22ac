import TrunklineCore

/// A `FrameLayout` for one direction, with all offsets computed. A class, so that using it copies nothing.
final class LayoutPlan: Sendable {
    let shape: LayoutShape
    let limits: Limits
    let hasLateChecks: Bool
    /// Type, serial and length, four bytes each, big-endian, without a trailer: this common layout has a fast path.
    let isPlain: Bool

    init(_ shape: LayoutShape, maximumFrameSize: Int) {
        self.shape = shape
        limits = Limits(wholeFrame: maximumFrameSize, of: shape)
        hasLateChecks = !shape.trailer.isEmpty || !shape.checksums.isEmpty
        isPlain =
            shape.header.count == 12 && shape.varint == nil && !hasLateChecks && shape.type?.isPlain(at: 0) == true
            && shape.serial?.isPlain(at: 4) == true && shape.length.isPlain(at: 8)
    }

    struct Limits: Sendable {
        let frameSize: Int
        let bodySizes: ClosedRange<Int>
        /// `bodySizes` as the length field holds them.
        let lengths: ClosedRange<UInt64>
        private let most: String
        /// Whether `maximumFrameSize`, rather than the layout, limits the body.
        private let isLimited: Bool

        /// `size` is at least `smallestFrame`.
        init(wholeFrame size: Int, of shape: LayoutShape) {
            frameSize = min(size, largestSize)
            let countable = shape.varint == nil ? Int(min(shape.length.maximum, UInt64(largestSize))) : largestSize
            let empty = shape.lengthOfEmpty
            let sizes = Int(min(shape.bodySizes.upperBound, UInt64(largestSize)))
            let largest = min(frameSize - shape.overhead, countable - empty, sizes)
            isLimited = largest < countable - empty && largest < sizes
            most =
                switch largest {
                case sizes: "a body has at most \(sizes) bytes in this layout"
                case countable - empty: "the length field holds at most \(shape.length.maximum)"
                default: "a frame has at most \(frameSize) bytes (maximumFrameSize)"
                }
            bodySizes = max(0, -empty, Int(shape.bodySizes.lowerBound))...largest
            // A varint that counts itself counts up to nine bytes after its first.
            let longest = largest + empty + (shape.countsItself ? 9 : 0)
            lengths = UInt64(bodySizes.lowerBound + empty)...UInt64(longest)
        }

        @inline(never)
        func illegalLength(_ value: UInt64, _ empty: Int) -> FrameError {
            if bodySizes.lowerBound > 0, empty >= 0, value == UInt64(empty) { return illegalBody(0) }
            let (lowest, highest) = (lengths.lowerBound, lengths.upperBound)
            let reason = value < lowest ? least : most
            let message = "the length is \(value), not within \(lowest)–\(highest); \(reason)"
            guard value > highest, isLimited else { return FrameError(.illegalLength, message) }
            return FrameError(exceedingLimit: message, announcedSize: value)
        }

        @inline(never)
        func excessiveLength(_ value: UInt64?) -> FrameError {
            let message = "the length exceeds \(lengths.upperBound), the limit of the layout and maximumFrameSize"
            return isLimited
                ? FrameError(exceedingLimit: message, announcedSize: value) : FrameError(.illegalLength, message)
        }

        @inline(never)
        func illegalBody(_ size: Int) -> FrameError {
            let (lowest, highest) = (bodySizes.lowerBound, bodySizes.upperBound)
            let code: FrameError.Code = size == 0 && lowest > 0 ? .missingBody : .illegalLength
            let reason = size < lowest ? least : most
            let message = "the body has \(byteSize(size)), not within \(lowest)–\(highest); \(reason)"
            guard size > highest, isLimited else { return FrameError(code, message) }
            return FrameError(exceedingLimit: message, announcedSize: UInt64(size))
        }

        private var least: String {
            bodySizes.lowerBound > 0
                ? "a body has at least \(bodySizes.lowerBound) bytes in this layout"
                : "a length is at least \(lengths.lowerBound) in this layout"
        }
    }
}

/// The offsets in memory at which the parts of a frame start.
struct FrameParts {
    var header = 0
    /// The bytes of a varint beyond the first, by which the header after it moves.
    var extra = 0
    var body: Int
    var trailer: Int
}

/// The position of an integer in a frame.
struct Slot: Sendable {
    enum Region: Sendable {
        case header
        /// After a varint, whose bytes beyond the first move it.
        case afterVarint
        case trailer
    }

    /// From the start of the frame or trailer, as if a varint before it had one byte.
    var offset: Int
    /// In bytes; 1 to 8 for integers.
    var width: Int
    var order: ByteOrder
    var region: Region

    var end: Int { offset + width }
    var isInTrailer: Bool { region == .trailer }

    var maximum: UInt64 { UInt64.max >> UInt64(64 - 8 * width) }

    var halves: (high: Slot, low: Slot) {
        let (isBig, highWidth) = (order == .bigEndian, width - 8)
        var (high, low) = (self, self)
        (high.offset, high.width) = (isBig ? offset : offset + 8, highWidth)
        (low.offset, low.width) = (isBig ? offset + highWidth : offset, 8)
        return (high, low)
    }

    func isPlain(at offset: Int) -> Bool {
        self.offset == offset && width == 4 && order == .bigEndian && !isInTrailer
    }

    @inline(__always)
    func position(in parts: FrameParts) -> Int {
        switch region {
        case .header: parts.header &+ offset
        case .afterVarint: parts.header &+ parts.extra &+ offset
        case .trailer: parts.trailer &+ offset
        }
    }

    @inline(__always)
    func load(_ bytes: borrowing RawSpan, _ parts: FrameParts) -> UInt64 { load(bytes, at: position(in: parts)) }

    /// All bytes of the integer must be within `bytes`.
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

    /// `value` must fit.
    @inline(__always)
    func store(_ value: UInt64, into bytes: inout MutableRawSpan, _ parts: FrameParts) {
        func ordered<Value: FixedWidthInteger>(_ value: Value) -> Value {
            order == .bigEndian ? value.bigEndian : value.littleEndian
        }
        let position = position(in: parts)
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

    func loadBytes(_ bytes: borrowing RawSpan, _ parts: FrameParts) -> [UInt8] {
        let position = position(in: parts)
        return unsafe bytes.extracting(position..<position + width).withUnsafeBytes { unsafe Array($0) }
    }

    func storeBytes(_ run: some Sequence<UInt8>, into bytes: inout MutableRawSpan, _ parts: FrameParts) {
        let position = position(in: parts)
        for (index, byte) in run.enumerated() {
            bytes.storeBytes(of: byte, toByteOffset: position + index, as: UInt8.self)
        }
    }
}

/// Larger than any memory, and so small that no sum of a few sizes overflows.
let largestSize = 1 << 48
