/// A message to a server: a request, which it answers, or a one-way message. The client fills in what it takes to match the
/// response.
public struct Request: Sendable, Hashable {
    /// The frame to send; its serial is given when it goes out.
    private(set) var frame: Frame

    /// A request of type `type` with `body`.
    public init(type: UInt32 = 0, body: Bytes = Bytes()) {
        frame = Frame(.request, type: type, body: body)
    }

    /// The protocol's number for this type of request.
    public var type: UInt32 {
        get { frame.type }
        set { frame.type = newValue }
    }

    /// The message itself.
    public var body: Bytes {
        get { frame.body }
        set { frame.body = newValue }
    }

    /// The named number in the header, which the protocol's layout declares with `Field.integer`; `nil` when it is not set. A
    /// request with a name that the layout does not declare fails with `invalidRequest`.
    public subscript(field: String) -> UInt64? {
        get { frame[field] }
        set { frame[field] = newValue }
    }

    /// What the body's bytes are, in protocols whose layout has the field "contentType".
    ///
    /// Unlike other fields it may be set for a layout that does not declare it, and is left out there.
    public var contentType: ContentType? {
        get { frame.contentType }
        set { frame.contentType = newValue }
    }

    /// The named bytes in the header, which the protocol's layout declares with `Field.bytes`; `nil` when they are not set. A
    /// request with a name that the layout does not declare, or with too few or too many bytes, fails with
    /// `invalidRequest`.
    public subscript(bytes field: String) -> Bytes? {
        get { frame[bytes: field] }
        set { frame[bytes: field] = newValue }
    }
}

extension Request {
    /// The text before the payload, in protocols of a `CountedPayloadCodec`, without what ends it: `"set key 0 0 5"`.
    public var head: Bytes {
        get { frame.head }
        set { frame.head = newValue }
    }

    /// A request with `head` before its payload, `body`, in protocols of a `CountedPayloadCodec`.
    public init(head: Bytes, body: Bytes = Bytes()) {
        self.init(body: body)
        self.head = head
    }
}
