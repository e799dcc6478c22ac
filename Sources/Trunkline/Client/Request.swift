/// What is asked of a server: a frame without the parts that the client fills in.
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

    /// A named header field that the protocol's layout declares; see `Frame`.
    public subscript(field: String) -> UInt64? {
        get { frame[field] }
        set { frame[field] = newValue }
    }

    /// What the body's bytes are, in protocols whose layout has the field "contentType"; see `Frame.contentType`.
    public var contentType: ContentType? {
        get { frame.contentType }
        set { frame.contentType = newValue }
    }

    /// Named bytes in the header that the protocol's layout declares; see `Frame`.
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
