/// The server's answer to a request: a complete response, or one part of a reply that has several.
public struct Response: Sendable, Hashable {
    package var frame: Frame

    package init(_ frame: Frame) { self.frame = frame }

    /// Creates a response, for tests and fakes: `Response(body: "ok")`.
    ///
    /// - Parameters:
    ///   - type: The protocol's number for this type of message. Default: 0.
    ///   - status: The status code. Default: 0.
    ///   - body: The body. Default: empty.
    ///   - isPart: Whether it is a part of a reply, with more to follow. Default: false.
    public init(type: UInt32 = 0, status: UInt32 = 0, body: Bytes = Bytes(), isPart: Bool = false) {
        frame = Frame(isPart ? .part : .response, type: type, status: status, body: body)
    }

    /// The protocol's number for this type of message; 0 if the protocol has none.
    public var type: UInt32 { frame.type }

    /// The status code that the server set; 0 if the protocol has none.
    public var status: UInt32 { frame.status }

    /// The serial number of the request that it answers, for logs; 0 if the protocol has none.
    public var serial: SerialNumber { frame.serial }

    /// Whether this is a part of a reply, with more to follow. See <doc:StreamsUploadsAndPushes>.
    public var isPart: Bool { frame.kind == .part }

    /// The reason why the response is malformed; `nil` if it is not.
    ///
    /// Only the ``ClientError/response`` of an error can be malformed. Its body may be incomplete.
    public var malformedReason: FrameError.Code? { frame.malformedReason }

    /// The body of the message.
    public var body: Bytes { frame.body }

    /// A named integer field of the header, which the layout declares with `Field.integer`; `nil` if it was not
    /// received.
    public subscript(field: String) -> UInt64? {
        get { frame[field] }
        set { frame[field] = newValue }
    }

    /// A named byte field of the header, which the layout declares with `Field.bytes`; `nil` if it was not received.
    public subscript(bytes field: String) -> Bytes? {
        get { frame[bytes: field] }
        set { frame[bytes: field] = newValue }
    }

    /// The format of the body, in protocols whose layout has the field "contentType".
    public var contentType: ContentType? {
        get { frame.contentType }
        set { frame.contentType = newValue }
    }

    /// Stands for success where there is no response.
    static let none = Response(Frame(.response))
}

extension Response: CustomStringConvertible {
    /// The values of the header and the size of the body, for logs. Contains no bytes of the body.
    public var description: String { frame.description }
}
