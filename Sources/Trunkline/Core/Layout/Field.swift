/// One field of a `FrameLayout`: what it holds, how many bytes wide it is and in which order they come.
///
/// Integers are unsigned, 1 to 8 bytes wide (say `width:` where no Swift type has the width) and big-endian unless the
/// field says otherwise. What is wrong with a field comes out when the layout is made, as a `LayoutError`.
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
}

// MARK: - Bytes

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

    /// Bytes of the protocol's own, `frame[bytes: name]`, `count` of them (1 to 65535); `default`, or zeros, are sent
    /// where the frame does not set them.
    public static func bytes(_ name: String, _ count: Int, default: [UInt8]? = nil) -> Field {
        Field(.bytes(name: name, default: `default`), width: count)
    }

    /// The body, `frame.body`. Exactly one.
    public static var body: Field { body(sizes: 0...) }

    /// The body, `frame.body`, of `sizes` bytes: `4...`, `0...1024`, `16`. The smallest size is 65535 at most.
    ///
    /// This holds for every frame of the layout, pings and cancellations included. A frame without a body where one is
    /// asked for is refused as `missingBody`, every other size as `illegalLength`, both ways.
    public static func body(sizes: some RoleNumbers) -> Field {
        Field(.body(sizes.numbersOfRole ?? 0...UInt64.max), width: 0)
    }

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
        case .kind: "kind (\(size))"
        case .type: "type (\(size))"
        case .serial: "serial (\(size))"
        case .status: "status (\(size))"
        case .length(_, let isVarint): isVarint ? "length (varint)" : "length (\(size))"
        case .integer(let name, _): "integer \"\(name)\" (\(size))"
        case .bytes(let name, _): "bytes \"\(name)\" (\(size))"
        case .reserved: "reserved (\(size))"
        case .body: "body"
        case .checksum(let checksum, _): "checksum \(checksum) (\(size))"
        }
    }
}
