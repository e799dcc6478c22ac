/// A message that the server sent on its own account.
public struct PushMessage: Sendable, Hashable {
    /// The frame that was received.
    package internal(set) var frame: Frame

    package init(_ frame: Frame) { self.frame = frame }

    /// A push of your own, for tests and fakes. It cannot be answered.
    public init(type: UInt32 = 0, body: Bytes = Bytes()) { frame = Frame(.push, type: type, body: body) }

    /// The protocol's number for this type of message; 0 where it has none.
    public var type: UInt32 { frame.type }

    /// The status code; 0 where the protocol has none.
    public var status: UInt32 { frame.status }

    /// The serial number that the server gave it; 0 where it gave none. `Client.post(_:answering:timeout:)` sends it back.
    public var serial: SerialNumber { frame.serial }

    /// The session number of the link on which it was received, as in `ConnectionState.ready`. It grows from link to link.
    ///
    /// During a planned change, pushes of the present link and of the next one may alternate, and a server that pushes to every
    /// link sends each of them twice: by this number they are told apart. See `options.failover.overlap`.
    public var session: UInt64 { frame.session }

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

    /// The text before the payload, in protocols of a `CountedPayloadCodec`, without what ends it.
    public var head: Bytes {
        get { frame.head }
        set { frame.head = newValue }
    }
}

extension PushMessage: CustomStringConvertible {
    /// The header's values and the size of the body, for logs. None of the body's bytes.
    public var description: String { frame.description }
}
