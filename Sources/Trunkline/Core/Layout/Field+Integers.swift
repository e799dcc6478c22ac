/// An integer that a field can hold: unsigned, of 1, 2, 4 or 8 bytes.
public protocol WireInteger: FixedWidthInteger, UnsignedInteger {}

extension UInt8: WireInteger {}
extension UInt16: WireInteger {}
extension UInt32: WireInteger {}
extension UInt64: WireInteger {}

/// An integer that a type or status field can hold: unsigned, of 1, 2 or 4 bytes.
public protocol WireCode: WireInteger {}

extension UInt8: WireCode {}
extension UInt16: WireCode {}
extension UInt32: WireCode {}

/// An integer that is as wide as its value needs.
public enum VariableWidth: Sendable, Hashable {
    /// Seven bits in each byte; the top bit says that another byte follows.
    case varint
}

extension Field {
    /// The type number, `frame.type`; at most 4 bytes. Repeated, it must hold the same number again.
    public static func type<Value: WireCode>(
        _ value: Value.Type,
        order: ByteOrder = .bigEndian
    ) -> Field { type(width: MemoryLayout<Value>.size, order: order) }

    /// The type number, `frame.type`, in `width` bytes, 1 to 4. Repeated, it must hold the same number again.
    public static func type(width: Int, order: ByteOrder = .bigEndian) -> Field {
        Field(.type, width: width, order: order)
    }

    /// The serial number, `frame.serial`. Repeated, it must hold the same number again.
    public static func serial<Value: WireInteger>(
        _ value: Value.Type,
        order: ByteOrder = .bigEndian
    ) -> Field { serial(width: MemoryLayout<Value>.size, order: order) }

    /// The serial number, `frame.serial`, in `width` bytes, 1 to 8. Repeated, it must hold the same number again.
    public static func serial(width: Int, order: ByteOrder = .bigEndian) -> Field {
        Field(.serial, width: width, order: order)
    }

    /// The status code, `frame.status`; at most 4 bytes. Requests have the field too and hold 0 in it.
    ///
    /// A response whose status is not one of the role `success` is an error response.
    public static func status<Value: WireCode>(
        _ value: Value.Type,
        order: ByteOrder = .bigEndian
    ) -> Field { status(width: MemoryLayout<Value>.size, order: order) }

    /// The status code, `frame.status`, in `width` bytes, 1 to 4. Requests have the field too and hold 0 in it.
    public static func status(width: Int, order: ByteOrder = .bigEndian) -> Field {
        Field(.status, width: width, order: order)
    }

    /// The length that tells where the frame ends, in bytes. Exactly one, somewhere before the body.
    public static func length<Value: WireInteger>(
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
    public static func length(
        _ width: VariableWidth,
        counting count: LengthCount,
        order: ByteOrder = .littleEndian
    ) -> Field { Field(.length(count, isVarint: true), width: 1, order: order) }

    /// A number of the protocol's own, `frame[name]`; `default` is sent where the frame does not set it.
    public static func integer<Value: WireInteger>(
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
    public static func contentType<Value: WireInteger>(
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
    public static func kind<Value: WireInteger>(
        _ value: Value.Type,
        _ numbers: [Frame.Kind: UInt64],
        order: ByteOrder = .bigEndian
    ) -> Field { Field(.kind(numbers), width: MemoryLayout<Value>.size, order: order) }
}
