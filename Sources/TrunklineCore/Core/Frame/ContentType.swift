/// The format of a body, in protocols whose frames carry it in the field `contentType`.
///
/// The numbers of `.extended` have names. Add those of your protocol in an extension.
public struct ContentType: RawRepresentable, Sendable, Hashable {
    /// The number on the wire.
    public var rawValue: UInt32

    /// Creates the content type with this number.
    public init(rawValue: UInt32) { self.rawValue = rawValue }

    /// Bytes whose format only the application knows: 0.
    public static let bytes = ContentType(rawValue: 0)
    /// A JSON text (RFC 8259): 1.
    public static let json = ContentType(rawValue: 1)
    /// A protobuf message: 2.
    public static let protobuf = ContentType(rawValue: 2)
    /// An HTTP message: 3.
    public static let http = ContentType(rawValue: 3)

    package static let fieldName = "contentType"
}

extension ContentType: CustomStringConvertible {
    private static let names: [ContentType: String] = [
        .bytes: "bytes", .json: "JSON", .protobuf: "protobuf", .http: "HTTP",
    ]

    /// The name of a known content type, or else its number.
    public var description: String { Self.names[self] ?? "content type \(rawValue)" }
}

extension Frame {
    /// The format of the body: the field `contentType` (``Field/contentType(_:default:order:)``). `nil` if it was
    /// neither set nor received.
    ///
    /// Unlike other fields, it may be set for a layout that does not declare it; the layout then omits it. A received
    /// number above 32 bits becomes the largest 32-bit number.
    public var contentType: ContentType? {
        get { self[ContentType.fieldName].map { ContentType(rawValue: UInt32(clamping: $0)) } }
        set { self[ContentType.fieldName] = newValue.map { UInt64($0.rawValue) } }
    }
}
