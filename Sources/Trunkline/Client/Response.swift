/// What the server answered to a request: its response, or a part of one with more to come.
public struct Response: Sendable, Hashable {
    /// The frame that was received.
    package internal(set) var frame: Frame

    package init(_ frame: Frame) { self.frame = frame }

    /// A response of your own, for tests and fakes: `Response(body: "ok")`. With `isPart` a part of one.
    public init(type: UInt32 = 0, status: UInt32 = 0, body: Bytes = Bytes(), isPart: Bool = false) {
        frame = Frame(isPart ? .part : .response, type: type, status: status, body: body)
    }

    /// The protocol's number for this type of message; 0 where it has none.
    public var type: UInt32 { frame.type }

    /// The server's status code; 0 where the protocol has none.
    public var status: UInt32 { frame.status }

    /// The serial number of the request that it answers; 0 where the protocol has none. For logs.
    public var serial: SerialNumber { frame.serial }

    /// True for a part of a reply with more to come: see `Client.stream`.
    public var isPart: Bool { frame.kind == .part }

    /// Why the response is malformed, of the `response` of an error; `nil` for nothing. The body of a malformed response may
    /// be incomplete.
    public var malformedReason: FrameError.Code? { frame.malformedReason }

    /// The message itself.
    public var body: Bytes { frame.body }

    /// The named number in the header, which the protocol's layout declares with `Field.integer`; `nil` when it was not
    /// received.
    public subscript(field: String) -> UInt64? {
        get { frame[field] }
        set { frame[field] = newValue }
    }

    /// The named bytes in the header, which the protocol's layout declares with `Field.bytes`; `nil` when they were not
    /// received.
    public subscript(bytes field: String) -> Bytes? {
        get { frame[bytes: field] }
        set { frame[bytes: field] = newValue }
    }

    /// What the body's bytes are, in protocols whose layout has the field "contentType".
    public var contentType: ContentType? {
        get { frame.contentType }
        set { frame.contentType = newValue }
    }

    /// The text before the payload, in protocols of a `CountedPayloadCodec`, without what ends it: `"VALUE key 0 5"`.
    public var head: Bytes {
        get { frame.head }
        set { frame.head = newValue }
    }

    /// In place of a response where there is nothing to be said but success.
    static let none = Response(Frame(.response))
}

extension Response: CustomStringConvertible {
    /// The header's values and the size of the body, for logs. None of the body's bytes.
    public var description: String { frame.description }
}
