/// A message that the server sent without a request.
public struct PushMessage: Sendable, Hashable {
    package var frame: Frame

    /// Not compared, like the session.
    private let source: Uncompared<ClusterSource?>

    init(_ frame: Frame) { (self.frame, source) = (frame, Uncompared(nil)) }

    init(_ frame: Frame, from source: ClusterSource?) { (self.frame, self.source) = (frame, Uncompared(source)) }

    /// Creates a push, for tests and fakes. It cannot be answered.
    ///
    /// - Parameters:
    ///   - type: The protocol's number for this type of message. Default: 0.
    ///   - body: The body. Default: empty.
    public init(type: UInt32 = 0, body: Bytes = Bytes()) { self.init(Frame(.push, type: type, body: body)) }

    /// The protocol's number for this type of message; 0 if the protocol has none.
    public var type: UInt32 { frame.type }

    /// The status code; 0 if the protocol has none.
    public var status: UInt32 { frame.status }

    /// The serial number of the push; 0 if the server sent none. ``Client/post(_:answering:timeout:)`` sends it back.
    public var serial: SerialNumber { frame.serial }

    /// The session of the link on which the push was received, as in ``ConnectionState/ready(_:session:)``. It
    /// increases from link to link. `nil` for a push that you have created yourself.
    ///
    /// During a planned change, pushes of the present link and of the next link may alternate. A server that pushes to
    /// every link sends each push twice. The session distinguishes them. See `options.failover.overlap`.
    public var session: SessionID? { frame.session }

    /// The server that sent the push, if it was received by a ``Cluster``; otherwise `nil`.
    public var endpoint: Endpoint? { source.value?.endpoint }

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
}

extension PushMessage: CustomStringConvertible {
    /// The values of the header and the size of the body, for logs. Contains no bytes of the body.
    public var description: String { frame.description }
}
