/// What the bytes of a body are, in protocols whose frames say so: the number in the field "contentType".
///
/// The numbers of `FrameLayout.extended` have names; add those of your protocol in an extension.
public struct ContentType: RawRepresentable, Sendable, Hashable {
    /// The protocol's number for it.
    public var rawValue: UInt32

    /// The content type of this number.
    public init(rawValue: UInt32) { self.rawValue = rawValue }

    /// Bytes that only the application knows: 0.
    public static let bytes = ContentType(rawValue: 0)
    /// A JSON text (RFC 8259): 1.
    public static let json = ContentType(rawValue: 1)
    /// A protobuf message: 2.
    public static let protobuf = ContentType(rawValue: 2)
    /// An HTTP message: 3.
    public static let http = ContentType(rawValue: 3)

    /// The name of the field.
    package static let fieldName = "contentType"
}

extension ContentType: CustomStringConvertible {
    private static let names: [ContentType: String] = [
        .bytes: "bytes", .json: "JSON", .protobuf: "protobuf", .http: "HTTP",
    ]

    /// The name, or the number.
    public var description: String { Self.names[self] ?? "content type \(rawValue)" }
}

extension Frame {
    /// What the body's bytes are: the field "contentType" (`Field.contentType`); `nil` when it was neither set nor
    /// received. Unlike other fields it may be set for a layout that has not got it, and is left out there. A number
    /// beyond 32 bits, of a layout with a wider field, is held at the largest.
    public var contentType: ContentType? {
        get { self[ContentType.fieldName].map { ContentType(rawValue: UInt32(clamping: $0)) } }
        set { self[ContentType.fieldName] = newValue.map { UInt64($0.rawValue) } }
    }
}
