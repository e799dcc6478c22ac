/// One field of a `FrameLayout`: what it holds, how many bytes wide it is and in which order they come.
///
/// Integers are unsigned, 1 to 8 bytes wide (say `width:` where no Swift type has the width) and big-endian unless the
/// field says otherwise; type and status have 4 bytes at most. What is wrong with a field comes out when the layout is made, as a `LayoutError`.
public struct Field: Sendable, Hashable {
    enum Content: Sendable, Hashable {
        case constant(request: [UInt8], response: [UInt8])
        case kind([Frame.Kind: UInt64])
        case type
        case serial
        case status
        case length(LengthCount, isVarint: Bool)
        case integer(name: String, default: UInt64)
        case bytes(name: String, default: [UInt8]?)
        case reserved
        case body(ClosedRange<UInt64>)
        case checksum(Checksum, over: Checksum.Scope)
    }

    let content: Content
    /// The number of bytes; 0 for the body, and for a varint the least that it takes.
    let width: Int
    let order: ByteOrder

    init(_ content: Content, width: Int, order: ByteOrder = .bigEndian) {
        self.content = content
        self.width = width
        self.order = order
    }

    // MARK: Bytes

    /// Bytes that are always the same; a received frame that has others is refused as `unexpectedBytes`.
    public static func constant(_ bytes: [UInt8]) -> Field { constant(request: bytes, response: bytes) }

    /// Bytes that tell the two directions apart: `request` on the way to the server, `response` on the way back.
    ///
    /// Both have the same number of bytes.
    public static func constant(request: [UInt8], response: [UInt8]) -> Field {
        Field(.constant(request: request, response: response), width: request.count)
    }

    /// `count` bytes (1 to 65535) that are sent as zeros and not looked at when received.
    public static func reserved(_ count: Int) -> Field { Field(.reserved, width: count) }

    /// Bytes of the protocol's own, `frame[bytes: name]`, `count` of them (1 to 65535); `default`, or zeros, are sent
    /// where the frame does not set them.
    public static func bytes(_ name: String, _ count: Int, default: [UInt8]? = nil) -> Field {
        Field(.bytes(name: name, default: `default`), width: count)
    }

    /// The body, `frame.body`. Exactly one.
    public static var body: Field { body(sizes: 0...) }

    /// The body, `frame.body`, of `sizes` bytes: `4...`, `0...1024`, `16...16`. The smallest size is 65535 at most.
    ///
    /// This holds for every frame of the layout, pings and cancellations included. A frame without a body where one is
    /// asked for is refused as `missingBody`, every other size as `illegalLength`, both ways.
    public static func body(sizes: some RangeExpression<Int>) -> Field {
        Field(.body(numbers(of: sizes)), width: 0)
    }

    /// A checksum, before or after the body; a frame that it does not fit is refused as `checksumMismatch`.
    public static func checksum(
        _ checksum: Checksum,
        over scope: Checksum.Scope,
        order: ByteOrder = .bigEndian
    ) -> Field { Field(.checksum(checksum, over: scope), width: checksum.width, order: order) }

    // MARK: Integers

    /// The type number, `frame.type`; at most 4 bytes. Repeated, it must hold the same number again.
    public static func type<Value: FixedWidthInteger & UnsignedInteger>(
        _ value: Value.Type,
        order: ByteOrder = .bigEndian
    ) -> Field {
        type(width: MemoryLayout<Value>.size, order: order)
    }

    /// The type number, `frame.type`, in `width` bytes, 1 to 4. Repeated, it must hold the same number again.
    public static func type(width: Int, order: ByteOrder = .bigEndian) -> Field {
        Field(.type, width: width, order: order)
    }

    /// The serial number, `frame.serial`. Repeated, it must hold the same number again.
    public static func serial<Value: FixedWidthInteger & UnsignedInteger>(
        _ value: Value.Type,
        order: ByteOrder = .bigEndian
    ) -> Field {
        serial(width: MemoryLayout<Value>.size, order: order)
    }

    /// The serial number, `frame.serial`, in `width` bytes, 1 to 8. Repeated, it must hold the same number again.
    public static func serial(width: Int, order: ByteOrder = .bigEndian) -> Field {
        Field(.serial, width: width, order: order)
    }

    /// The status code, `frame.status`; at most 4 bytes. Requests have the field too and hold 0 in it.
    ///
    /// A response whose status is not one of the role `success` is an error response.
    public static func status<Value: FixedWidthInteger & UnsignedInteger>(
        _ value: Value.Type,
        order: ByteOrder = .bigEndian
    ) -> Field {
        status(width: MemoryLayout<Value>.size, order: order)
    }

    /// The status code, `frame.status`, in `width` bytes, 1 to 4. Requests have the field too and hold 0 in it.
    public static func status(width: Int, order: ByteOrder = .bigEndian) -> Field {
        Field(.status, width: width, order: order)
    }

    /// The length that tells where the frame ends, in bytes. Exactly one, somewhere before the body.
    public static func length<Value: FixedWidthInteger & UnsignedInteger>(
        _ value: Value.Type,
        counting count: LengthCount,
        order: ByteOrder = .bigEndian
    ) -> Field { length(width: MemoryLayout<Value>.size, counting: count, order: order) }

    /// The length that tells where the frame ends, in bytes, itself `width` bytes wide, 1 to 8.
    public static func length(width: Int, counting count: LengthCount, order: ByteOrder = .bigEndian) -> Field {
        Field(.length(count, isVarint: false), width: width, order: order)
    }

    /// The length that tells where the frame ends, in bytes, itself as wide as it needs to be.
    ///
    /// `order` says which seven bits come first: the low ones as in protobuf and MQTT (LEB128), or the high ones
    /// (`.bigEndian`). It is sent in its shortest form and may come with needless zeros, in ten bytes at most; above the
    /// frame size limit it is refused as `illegalLength`.
    public static func varintLength(counting count: LengthCount, order: ByteOrder = .littleEndian) -> Field {
        Field(.length(count, isVarint: true), width: 1, order: order)
    }

    /// A number of the protocol's own, `frame[name]`; `default` is sent where the frame does not set it.
    public static func integer<Value: FixedWidthInteger & UnsignedInteger>(
        _ name: String,
        _ value: Value.Type,
        default: UInt64 = 0,
        order: ByteOrder = .bigEndian
    ) -> Field { integer(name, width: MemoryLayout<Value>.size, default: `default`, order: order) }

    /// A number of the protocol's own, `frame[name]`, in `width` bytes, 1 to 8.
    public static func integer(
        _ name: String,
        width: Int,
        default: UInt64 = 0,
        order: ByteOrder = .bigEndian
    ) -> Field { Field(.integer(name: name, default: `default`), width: width, order: order) }

    /// What the body holds, `frame["contentType"]`; `default` is sent where the frame does not set it. Every received frame
    /// has it then, so a peer that says nothing says 0 (`ContentType.bytes`).
    public static func contentType<Value: FixedWidthInteger & UnsignedInteger>(
        _ value: Value.Type,
        default: UInt64 = 0,
        order: ByteOrder = .bigEndian
    ) -> Field { integer("contentType", value, default: `default`, order: order) }

    /// The number that says what a frame is for: one for each kind that the protocol tells apart by it.
    ///
    /// ```swift
    /// Field.kind(UInt8.self, [.request: 0, .response: 1, .push: 2])
    /// ```
    ///
    /// Requests and responses must be listed. What is not goes out as what it is most like (a ping or a cancellation as a
    /// request; a pong, a part, a push or a goAway as a response) and is told from it by its role. A frame with a number
    /// that is not listed is refused as `unknownType`.
    public static func kind<Value: FixedWidthInteger & UnsignedInteger>(
        _ value: Value.Type,
        _ numbers: [Frame.Kind: UInt64],
        order: ByteOrder = .bigEndian
    ) -> Field { Field(.kind(numbers), width: MemoryLayout<Value>.size, order: order) }
}

/// What the length field of a `FrameLayout` counts, in bytes.
public struct LengthCount: Sendable, Hashable {
    enum Extent: Sendable, Hashable {
        case body, wholeFrame, rest
    }

    let extent: Extent
    /// What is added to the bytes counted.
    let surplus: Int

    /// The body alone.
    public static let body = LengthCount(extent: .body, surplus: 0)
    /// The whole frame, from its first byte to its last, the length field included.
    public static let wholeFrame = LengthCount(extent: .wholeFrame, surplus: 0)
    /// Everything after the length field.
    public static let rest = LengthCount(extent: .rest, surplus: 0)

    /// The same and `count` more, or fewer when it is negative: `.body.plus(4)` counts a 6-byte body as 10.
    public func plus(_ count: Int) -> LengthCount {
        LengthCount(extent: extent, surplus: surplus.addingReportingOverflow(count).partialValue)
    }
}

extension LengthCount {
    /// What is counted, in words: `the body plus 4`.
    var words: String {
        let what =
            switch extent {
            case .body: "the body"
            case .wholeFrame: "the whole frame"
            case .rest: "everything after it"
            }
        return surplus == 0 ? what : what + (surplus < 0 ? " minus " : " plus ") + "\(surplus.magnitude)"
    }
}

// MARK: - Names

extension Field.Content {
    /// What it is, and the name that tells it from others of its kind.
    var title: (what: String, name: String?) {
        switch self {
        case .constant: ("constant", nil)
        case .kind: ("kind", nil)
        case .type: ("type", nil)
        case .serial: ("serial", nil)
        case .status: ("status", nil)
        case .length: ("length", nil)
        case .integer(let name, _): ("integer", name)
        case .bytes(let name, _): ("bytes", name)
        case .reserved: ("reserved", nil)
        case .body: ("body", nil)
        case .checksum(let checksum, _): ("checksum", checksum.name)
        }
    }
}

extension Field {
    /// The field as an error names it.
    var words: String {
        let (what, name) = content.title
        return switch content {
        case .body: what
        case .length(_, isVarint: true): "length (varint)"
        case .checksum(let checksum, _): "checksum \(checksum.name) (\(byteSize(width)))"
        default: what + (name.map { " \"\($0)\"" } ?? "") + " (\(byteSize(width)))"
        }
    }
}

/// Collects the fields of `FrameLayout { … }` in the order in which they are written.
@resultBuilder
public enum LayoutBuilder {
    /// One field.
    public static func buildExpression(_ field: Field) -> [Field] { [field] }

    /// Several fields that were put together elsewhere.
    public static func buildExpression(_ fields: [Field]) -> [Field] { fields }

    /// One part after the other.
    public static func buildBlock(_ parts: [Field]...) -> [Field] { parts.flatMap { $0 } }

    /// An `if` without `else`.
    public static func buildOptional(_ part: [Field]?) -> [Field] { part ?? [] }

    /// The first branch of an `if` or `switch`.
    public static func buildEither(first part: [Field]) -> [Field] { part }

    /// A further branch of an `if` or `switch`.
    public static func buildEither(second part: [Field]) -> [Field] { part }

    /// A `for` loop.
    public static func buildArray(_ parts: [[Field]]) -> [Field] { parts.flatMap { $0 } }
}
