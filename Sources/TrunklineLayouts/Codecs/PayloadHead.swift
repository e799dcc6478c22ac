public import TrunklineCore

extension Frame {
    /// The text before the payload, without its terminator, in protocols of a ``CountedPayloadCodec``; empty if there
    /// is none.
    ///
    /// This is the byte field with the name `head` (``subscript(bytes:)``). A custom codec can set that field to use
    /// this property.
    public var head: Bytes {
        get { self[bytes: "head"] ?? Bytes() }
        set { self[bytes: "head"] = newValue.isEmpty ? nil : newValue }
    }

    /// Creates a frame with a head and a payload.
    ///
    /// - Parameters:
    ///   - kind: The kind of the frame.
    ///   - serial: The serial number.
    ///   - isErrorResponse: Whether the server reports an error with this response.
    ///   - head: The text before the payload, without its terminator.
    ///   - body: The payload.
    public init(
        _ kind: Kind,
        serial: SerialNumber = 0,
        isErrorResponse: Bool = false,
        head: Bytes,
        body: Bytes = Bytes()
    ) {
        self.init(kind, serial: serial, isErrorResponse: isErrorResponse, body: body)
        self.head = head
    }
}

extension Request {
    /// The text before the payload, without its terminator, in protocols of a ``CountedPayloadCodec``:
    /// `"set key 0 0 5"`.
    public var head: Bytes {
        get { frame.head }
        set { frame.head = newValue }
    }

    /// Creates a request of a protocol that uses a ``CountedPayloadCodec``.
    ///
    /// - Parameters:
    ///   - head: The text before the payload, without its terminator.
    ///   - body: The payload. Default: empty.
    public init(head: Bytes, body: Bytes = Bytes()) {
        self.init(body: body)
        self.head = head
    }
}

extension Response {
    /// The text before the payload, without its terminator, in protocols of a ``CountedPayloadCodec``:
    /// `"VALUE key 0 5"`.
    public var head: Bytes {
        get { frame.head }
        set { frame.head = newValue }
    }
}

extension PushMessage {
    /// The text before the payload, without its terminator, in protocols of a ``CountedPayloadCodec``.
    public var head: Bytes {
        get { frame.head }
        set { frame.head = newValue }
    }
}
