/// One field of a `FrameLayout`: what it holds, how many bytes wide it is and in which order they come.
///
/// Integers are unsigned, 1 to 8 bytes wide (say `width:` where no Swift type has the width) and big-endian unless the
/// field says otherwise. What is wrong with a field comes out when the layout is made, as a `LayoutError`.
public struct Field: Sendable, Hashable {
    enum Content: Sendable, Hashable {
        case constant(request: [UInt8], response: [UInt8])
        case type
        case serial
        case status
        case length(LengthCount)
        case integer(name: String, default: UInt64)
        case reserved
        case body
        case checksum(Checksum, over: Checksum.Scope)
    }

    let content: Content
    /// The number of bytes; 0 for the body.
    let width: Int
    let order: ByteOrder

    init(_ content: Content, width: Int, order: ByteOrder = .bigEndian) {
        self.content = content
        self.width = width
        self.order = order
    }
}

// MARK: - Integers with a meaning

extension Field {
    /// The type number, `frame.type`; at most 4 bytes. Repeated, it must hold the same number again.
    public static func type<Value: FixedWidthInteger & UnsignedInteger>(
        _ value: Value.Type,
        order: ByteOrder = .bigEndian
    ) -> Field { type(width: MemoryLayout<Value>.size, order: order) }

    /// The type number, `frame.type`, in `width` bytes, 1 to 4. Repeated, it must hold the same number again.
    public static func type(width: Int, order: ByteOrder = .bigEndian) -> Field {
        Field(.type, width: width, order: order)
    }

    /// The serial number, `frame.serial`. Repeated, it must hold the same number again.
    public static func serial<Value: FixedWidthInteger & UnsignedInteger>(
        _ value: Value.Type,
        order: ByteOrder = .bigEndian
    ) -> Field { serial(width: MemoryLayout<Value>.size, order: order) }

    /// The serial number, `frame.serial`, in `width` bytes, 1 to 8. Repeated, it must hold the same number again.
    public static func serial(width: Int, order: ByteOrder = .bigEndian) -> Field {
        Field(.serial, width: width, order: order)
    }

    /// The status code, `frame.status`; at most 4 bytes. Requests have the field too and hold 0 in it.
    ///
    /// A response whose status is not one of the role `success` is a rejection.
    public static func status<Value: FixedWidthInteger & UnsignedInteger>(
        _ value: Value.Type,
        order: ByteOrder = .bigEndian
    ) -> Field { status(width: MemoryLayout<Value>.size, order: order) }

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
        Field(.length(count), width: width, order: order)
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
}

// MARK: - Everything else

extension Field {
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

    /// The body, `frame.body`. Exactly one.
    public static var body: Field { Field(.body, width: 0) }

    /// A checksum, before or after the body; a frame that it does not fit is refused as `checksumMismatch`.
    public static func checksum(
        _ checksum: Checksum,
        over scope: Checksum.Scope,
        order: ByteOrder = .bigEndian
    ) -> Field { Field(.checksum(checksum, over: scope), width: checksum.width, order: order) }
}

extension Field: CustomStringConvertible {
    /// The field as an error names it.
    public var description: String {
        let size = width == 1 ? "1 byte" : "\(width) bytes"
        return switch content {
        case .constant: "constant (\(size))"
        case .type: "type (\(size))"
        case .serial: "serial (\(size))"
        case .status: "status (\(size))"
        case .length: "length (\(size))"
        case .integer(let name, _): "integer \"\(name)\" (\(size))"
        case .reserved: "reserved (\(size))"
        case .body: "body"
        case .checksum(let checksum, _): "checksum \(checksum) (\(size))"
        }
    }
}
