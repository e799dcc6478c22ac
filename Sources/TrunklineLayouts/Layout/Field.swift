public import TrunklineCore

/// One field of a ``FrameLayout``: what it holds, how many bytes wide it is, and the order of its bytes.
///
/// | Field | Holds | Number of them |
/// |---|---|---|
/// | ``constant(_:)`` | fixed bytes | any |
/// | ``type(_:order:)`` | ``Frame/type`` | any; later ones repeat the first |
/// | ``serial(_:order:)`` | ``Frame/serial`` | any; later ones repeat the first |
/// | ``status(_:order:)`` | ``Frame/status`` | at most one |
/// | ``kind(_:_:order:)`` | the kind of the frame | at most one |
/// | ``length(_:counting:order:)``, ``varintLength(counting:order:)`` | the length of the frame | exactly one, before the body |
/// | ``integer(_:_:default:order:)``, ``bytes(_:_:default:)`` | a named value, `frame["name"]` or `frame[bytes: "name"]` | any |
/// | ``contentType(_:default:order:)`` | ``Frame/contentType`` | at most one |
/// | ``reserved(_:)`` | zeros | any |
/// | ``body``, ``body(sizes:)`` | ``Frame/body`` | exactly one |
/// | ``checksum(_:over:order:)`` | a checksum | any |
///
/// Integers are unsigned, 1 to 8 bytes wide (1 to 4 for type and status, 1 to 16 for the serial), and big-endian by
/// default. If no Swift type has the width, pass `width:`. An invalid field stops the program when the layout is
/// created. To handle the error, use ``FrameLayout/init(validating:response:)``, which throws a ``LayoutError``.
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
    /// In bytes; 0 for the body, the smallest width for a varint.
    let width: Int
    let order: ByteOrder

    init(_ content: Content, width: Int, order: ByteOrder = .bigEndian) {
        self.content = content
        self.width = width
        self.order = order
    }

    /// Returns a field of fixed bytes (1 to 65,535). A received frame with other bytes fails with `unexpectedBytes`.
    public static func constant(_ bytes: [UInt8]) -> Field { constant(request: bytes, response: bytes) }

    /// Returns a field of fixed bytes (1 to 65,535) that differ by direction: `request` in frames to the server,
    /// `response` in frames from the server. Both must have the same number of bytes.
    public static func constant(request: [UInt8], response: [UInt8]) -> Field {
        Field(.constant(request: request, response: response), width: request.count)
    }

    /// Returns a field of `count` bytes (1 to 65,535) that are sent as zeros and ignored when received.
    public static func reserved(_ count: Int) -> Field { Field(.reserved, width: count) }

    /// Returns a field of custom bytes, `frame[bytes: name]`.
    ///
    /// - Parameters:
    ///   - name: The name of the field, not used by another field.
    ///   - count: The number of bytes, 1 to 65,535.
    ///   - default: The bytes that are sent if the frame does not set the field; zeros by default.
    public static func bytes(_ name: String, _ count: Int, default: [UInt8]? = nil) -> Field {
        Field(.bytes(name: name, default: `default`), width: count)
    }

    /// The body, ``Frame/body``, of any size. A layout has exactly one body.
    public static var body: Field { body(sizes: 0...) }

    /// Returns the field that holds the body, ``Frame/body``, limited to certain sizes. A layout has exactly one body.
    ///
    /// The sizes hold for every frame of the layout in both directions, including pings and cancellations. If the range
    /// excludes 0, an empty body fails with `missingBody`. Any other size out of range fails with `illegalLength`.
    ///
    /// - Parameter sizes: The sizes in bytes, such as `4...`, `0...1024` or `16...16`. The smallest size is at most
    ///   65,535.
    public static func body(sizes: some RangeExpression<Int>) -> Field {
        Field(.body(numbers(of: sizes)), width: 0)
    }

    /// Returns a field that holds a checksum, before or after the body. A received frame with another checksum fails
    /// with `checksumMismatch`.
    ///
    /// - Parameters:
    ///   - checksum: The algorithm, which also decides the width.
    ///   - scope: The bytes that it covers. A checksum over `.headerAndBody` must come after the body.
    ///   - order: The order of the bytes, for checksums that are integers.
    public static func checksum(
        _ checksum: Checksum,
        over scope: Checksum.Scope,
        order: ByteOrder = .bigEndian
    ) -> Field { Field(.checksum(checksum, over: scope), width: checksum.width, order: order) }

    /// Returns a field that holds the type number, ``Frame/type``, in at most 4 bytes. If a layout has several such
    /// fields, they all hold the same number. A received frame in which they differ fails with `repetitionMismatch`.
    public static func type<Value: FixedWidthInteger & UnsignedInteger>(
        _ value: Value.Type,
        order: ByteOrder = .bigEndian
    ) -> Field {
        type(width: MemoryLayout<Value>.size, order: order)
    }

    /// Returns a field that holds the type number, ``Frame/type``, in `width` bytes, 1 to 4. Otherwise it works like
    /// ``type(_:order:)``.
    public static func type(width: Int, order: ByteOrder = .bigEndian) -> Field {
        Field(.type, width: width, order: order)
    }

    /// Returns a field that holds the serial number, ``Frame/serial``. If a layout has several such fields, they all
    /// hold the same number. A received frame in which they differ fails with `repetitionMismatch`.
    ///
    /// Without this field, responses are matched in order.
    public static func serial<Value: FixedWidthInteger & UnsignedInteger>(
        _ value: Value.Type,
        order: ByteOrder = .bigEndian
    ) -> Field {
        serial(width: MemoryLayout<Value>.size, order: order)
    }

    /// Returns a field that holds the serial number, ``Frame/serial``, in `width` bytes, 1 to 16. Otherwise it works
    /// like ``serial(_:order:)``.
    ///
    /// A field of more than 8 bytes holds ``Frame/wideSerial``, such as the transaction ID of STUN,
    /// `serial(width: 12)`. A layout has only one such field.
    public static func serial(width: Int, order: ByteOrder = .bigEndian) -> Field {
        Field(.serial, width: width, order: order)
    }

    /// Returns a field that holds the status code, ``Frame/status``, in at most 4 bytes. In requests, the field holds
    /// 0.
    ///
    /// A response is an error response unless the role `success` includes its status. By default, only status 0 is a
    /// success.
    public static func status<Value: FixedWidthInteger & UnsignedInteger>(
        _ value: Value.Type,
        order: ByteOrder = .bigEndian
    ) -> Field {
        status(width: MemoryLayout<Value>.size, order: order)
    }

    /// Returns a field that holds the status code, ``Frame/status``, in `width` bytes, 1 to 4. Otherwise it works like
    /// ``status(_:order:)``.
    public static func status(width: Int, order: ByteOrder = .bigEndian) -> Field {
        Field(.status, width: width, order: order)
    }

    /// Returns the length field: the number of bytes, as `count` defines it, that says where the frame ends. A layout
    /// has exactly one length field, before the body.
    ///
    /// A received length out of bounds fails with `illegalLength` as soon as it has arrived.
    ///
    /// - Parameters:
    ///   - value: The type of the integer.
    ///   - count: The bytes that the length counts.
    ///   - order: The order of the bytes.
    public static func length<Value: FixedWidthInteger & UnsignedInteger>(
        _ value: Value.Type,
        counting count: LengthCount,
        order: ByteOrder = .bigEndian
    ) -> Field { length(width: MemoryLayout<Value>.size, counting: count, order: order) }

    /// Returns the length field, `width` bytes wide (1 to 8). Otherwise it works like ``length(_:counting:order:)``.
    public static func length(width: Int, counting count: LengthCount, order: ByteOrder = .bigEndian) -> Field {
        Field(.length(count, isVarint: false), width: width, order: order)
    }

    /// Returns the length field as a variable-length integer of at most ten bytes: the number of bytes, as `count`
    /// defines it, that says where the frame ends.
    ///
    /// It is sent in as few bytes as possible. A received length may have more bytes than necessary. A length above the
    /// limit fails with `illegalLength`. The position of the fields after it depends on its size.
    ///
    /// - Parameters:
    ///   - count: The bytes that the length counts.
    ///   - order: Which seven bits come first: the low ones (`.littleEndian`), as in protobuf and MQTT (LEB128), or the
    ///     high ones (`.bigEndian`).
    public static func varintLength(counting count: LengthCount, order: ByteOrder = .littleEndian) -> Field {
        Field(.length(count, isVarint: true), width: 1, order: order)
    }

    /// Returns a field that holds a custom integer, `frame[name]`.
    ///
    /// - Parameters:
    ///   - name: The name of the field, not used by another field.
    ///   - value: The type of the integer.
    ///   - default: The number that is sent if the frame does not set the field.
    ///   - order: The order of the bytes.
    public static func integer<Value: FixedWidthInteger & UnsignedInteger>(
        _ name: String,
        _ value: Value.Type,
        default: UInt64 = 0,
        order: ByteOrder = .bigEndian
    ) -> Field { integer(name, width: MemoryLayout<Value>.size, default: `default`, order: order) }

    /// Returns a field that holds a custom integer, `frame[name]`, in `width` bytes, 1 to 8. `default` is sent if the
    /// frame does not set the field.
    public static func integer(
        _ name: String,
        width: Int,
        default: UInt64 = 0,
        order: ByteOrder = .bigEndian
    ) -> Field { Field(.integer(name: name, default: `default`), width: width, order: order) }

    /// Returns a field that holds the content type of the body, ``Frame/contentType``: an integer field with the name
    /// `contentType`.
    ///
    /// The field is present in every received frame, so 0 (``ContentType/bytes``) may also mean that the peer does not
    /// specify a content type. `default` is sent if the frame does not set the field.
    public static func contentType<Value: FixedWidthInteger & UnsignedInteger>(
        _ value: Value.Type,
        default: UInt64 = 0,
        order: ByteOrder = .bigEndian
    ) -> Field { integer("contentType", value, default: `default`, order: order) }

    /// Returns a field that holds a number for the kind of the frame.
    ///
    /// ```swift
    /// Field.kind(UInt8.self, [.request: 0, .response: 1, .push: 2])
    /// ```
    ///
    /// A received number that is not listed fails with `unknownType`.
    ///
    /// - Parameters:
    ///   - value: The type of the integer.
    ///   - numbers: The numbers of the kinds, each different. A layout for requests must list `.request` and one for
    ///     responses `.response`. If `.cancel` is listed, the client sends cancellations; if `.ping` is listed, it
    ///     sends pings only with a role `ping` or `heartbeat`. A kind that is not listed is sent with the number of the
    ///     most similar kind (a ping or cancellation as a request; a pong, part, push or goAway as a response), so a
    ///     role must mark it.
    ///   - order: The order of the bytes.
    public static func kind<Value: FixedWidthInteger & UnsignedInteger>(
        _ value: Value.Type,
        _ numbers: [Frame.Kind: UInt64],
        order: ByteOrder = .bigEndian
    ) -> Field { Field(.kind(numbers), width: MemoryLayout<Value>.size, order: order) }
}

/// The bytes that the length field of a ``FrameLayout`` counts.
public struct LengthCount: Sendable, Hashable {
    enum Extent: Sendable, Hashable {
        case body, wholeFrame, rest
    }

    let extent: Extent
    let surplus: Int

    /// The body only.
    public static let body = LengthCount(extent: .body, surplus: 0)
    /// The whole frame from its first byte to its last, including the length field.
    public static let wholeFrame = LengthCount(extent: .wholeFrame, surplus: 0)
    /// Everything after the length field.
    public static let rest = LengthCount(extent: .rest, surplus: 0)

    /// Returns this count plus `count` bytes: `.body.plus(4)` counts a body of 6 bytes as 10. `count` may be -65,536 to
    /// 65,536.
    public func plus(_ count: Int) -> LengthCount {
        LengthCount(extent: extent, surplus: surplus.addingReportingOverflow(count).partialValue)
    }
}

extension LengthCount {
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

extension Field.Content {
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

/// Collects the fields of `FrameLayout { … }` in order.
@resultBuilder
public enum LayoutBuilder {
    /// Adds one field.
    public static func buildExpression(_ field: Field) -> [Field] { [field] }

    /// Adds several fields that were built elsewhere.
    public static func buildExpression(_ fields: [Field]) -> [Field] { fields }

    /// Joins the parts of a block.
    public static func buildBlock(_ parts: [Field]...) -> [Field] { parts.flatMap { $0 } }

    /// Adds the fields of an `if` without `else`.
    public static func buildOptional(_ part: [Field]?) -> [Field] { part ?? [] }

    /// Adds the fields of the first branch of an `if` or `switch`.
    public static func buildEither(first part: [Field]) -> [Field] { part }

    /// Adds the fields of another branch of an `if` or `switch`.
    public static func buildEither(second part: [Field]) -> [Field] { part }

    /// Adds the fields of a `for` loop.
    public static func buildArray(_ parts: [[Field]]) -> [Field] { parts.flatMap { $0 } }
}

extension Field: CustomReflectable {
    /// Empty: the default of a byte field may be a token.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
