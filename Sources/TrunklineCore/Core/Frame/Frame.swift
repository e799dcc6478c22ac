/// The number that matches a response with its request. In protocols with narrower serials, only the low values are
/// used.
public typealias SerialNumber = UInt64

/// One message of a protocol, in decoded form.
///
/// A codec creates a frame for each message that arrives and turns frames into bytes. It fills in what its protocol
/// carries: ``type``, ``serial``, ``status``, ``body``, and further header fields by name (``subscript(_:)``,
/// ``subscript(bytes:)``).
public struct Frame: Sendable, Hashable {
    /// The kind of a frame: a request, a response, a push and so on.
    @nonexhaustive
    public enum Kind: UInt8, Sendable, Hashable {
        /// A request, which the server answers with a response, or a one-way message, which it does not answer.
        case request
        /// The complete response to a request, or its last part.
        case response
        /// A part of a reply with more to come; the last part is a `response`. It belongs to the request with its
        /// serial or, matched in order, to the oldest request; or to several (``Frame/answers``).
        /// ``Client/stream(_:timeout:partTimeout:options:buffering:)-(Request,_,_,_,_)`` returns the parts, and `send`
        /// joins their bodies.
        ///
        /// If a client sends the frame, it is a piece of a request with more to come: see
        /// ``Client/open(_:timeout:partTimeout:options:buffering:)``.
        case part
        /// A message that the server sends without a request.
        case push
        /// A ping, which the peer may answer with a `pong`.
        case ping
        /// The answer to a `ping`.
        case pong
        /// A message that cancels the request with the same serial.
        case cancel
        /// An announcement that the server is about to close the link. The client establishes the next link and stops
        /// using this one; see ``ClientOptions/Failover-swift.struct/sendsAfterGoAway``.
        case goAway
        /// A received frame that the client ignores, for example a piece of something that the codec joins. It shows
        /// that the server is alive, and answers nothing.
        case ignored
    }

    /// The kind of the frame.
    public var kind: Kind
    /// The protocol's number for this type of message; 0 if the protocol has none.
    public var type: UInt32
    /// The number that matches a response with its request. The client sets it when it sends a request; 0 if the
    /// protocol has no serials.
    public var serial: SerialNumber
    /// The server's status code; 0 if the protocol has none.
    public var status: UInt32
    /// Whether this is a response by which the server reports an error; `send` then throws `rejected`. In a reply of
    /// several parts, it is also `true` for the parts that belong to the error response.
    public var isErrorResponse: Bool
    /// How this received frame ends its link; `nil` if it does not. A codec sets it with ``markLinkEnding(_:)``, on a
    /// frame of any kind. Give the server's words in ``reason``.
    ///
    /// A `goAway` without this mark ends its link as with ``LinkEnding/whenAnswered``.
    ///
    /// - If the frame gives a ``reason``, or is neither a response nor a `goAway`, the client leaves the endpoint as
    ///   after a `goAway`: the next link goes to another server, if there is one.
    /// - Otherwise, as after HTTP's `Connection: close`, the end does not count as a failure of the server. If anything
    ///   needs a link (a request, a subscription, a stream of pushes, or
    ///   ``ClientOptions/Reconnecting-swift.struct/keepsLinkWarm``), the client reconnects at once to the same server;
    ///   otherwise the next request does.
    ///
    /// During a handshake, a frame that ends its link at once makes the attempt fail, unless the handshake itself has
    /// failed; other frames with this mark go to ``Handshaker/nextMessage()`` as usual.
    ///
    /// A ``Connection`` that is used alone delivers the frame and waits for the server to close.
    /// ``Connection/write(_:)`` rejects a frame with this mark.
    public package(set) var linkEnding: LinkEnding?
    /// The reason why this received frame is malformed, or `nil` if it is not. A codec sets it with
    /// ``markMalformed(because:)``, which also says what is wrong, on a frame that it cannot decode but whose end it
    /// knows. The body may be incomplete.
    ///
    /// The frame fails at most one request and does not end the link:
    /// - A response fails its request with `protocolViolation`, fate `answered`. It counts as the response in protocols
    ///   matched in order.
    /// - A part fails its request with `protocolViolation`, fate `unknown`, and the request is cancelled.
    /// - If the reason is `illegalLength`, the frame exceeds a limit of this side, and the code is `overloaded`
    ///   instead.
    /// - A response or part without a request is counted (`unknownResponses`).
    /// - A push appears as a gap in the streams of pushes.
    /// - A response or part in a datagram (`udp://`) fails no request: it is dropped, because anyone can have sent it.
    ///
    /// A ``Connection`` that is used alone delivers the frame. ``DelimitedCodec`` sets the reason `illegalLength`,
    /// layouts set `unknownType` and `missingBody`, and custom codecs may set any. ``Connection/write(_:)`` rejects a
    /// frame with this mark.
    public package(set) var malformedReason: FrameError.Code?
    /// The body of the message.
    ///
    /// In some protocols, such as HTTP/1.1, the body contains a head before the content and trailers after it. The
    /// named fields `headLength` and `trailerLength` of a received frame then hold their sizes in bytes. Errors then
    /// report the size of the content alone.
    public var body: Bytes
    @usableFromInline var origin = Origin()
    /// The marks, then fields sorted by name. `nil` for none: copying an empty array costs two runtime operations.
    @usableFromInline var namedFields: [NamedField]?

    /// The session of the link on which the frame was received, as in ``ConnectionState/ready(_:session:)``. It is set
    /// for pushes and for requests of the server, and for frames of a connection, and is `nil` for every other frame.
    ///
    /// The session is ignored when frames are compared. During a planned change, frames of two sessions may alternate.
    public package(set) var session: SessionID? {
        get { origin.session == 0 ? nil : SessionID(bits: origin.session) }
        set { origin.session = newValue?.bits ?? 0 }
    }

    /// Always equal: the origin of frames does not matter when they are compared.
    @usableFromInline
    struct Origin: Sendable, Hashable {
        /// 0 for none. Frames are copied often, and an optional would make them larger.
        @usableFromInline var session: UInt64 = 0
        @usableFromInline init() {}
        @usableFromInline static func == (a: Origin, b: Origin) -> Bool { true }
        @usableFromInline func hash(into hasher: inout Hasher) {}
    }

    /// How a received frame ends its link.
    @nonexhaustive
    public enum LinkEnding: Sendable, Hashable {
        /// The server sends no more responses on the link, not even to requests in flight. The client sends its closing
        /// frame (``ClosingCodec``) and closes the link. Requests that were written at least in part, and that the
        /// frame does not answer, fail with `connectionLost`, fate `unknown`; the others go out on the next link.
        ///
        /// In datagrams, which anyone can forge, it has the effect of ``whenAnswered``.
        case now
        /// The server still answers the requests in flight. The client establishes the next link and then uses this one
        /// no longer; see ``ClientOptions/Failover-swift.struct/sendsAfterGoAway``.
        case whenAnswered
    }

    @usableFromInline
    package struct NamedField: Sendable, Hashable {
        @usableFromInline package var name: String
        @usableFromInline package var value: Value

        package init(name: String, value: Value) { (self.name, self.value) = (name, value) }

        @usableFromInline
        package enum Value: Sendable, Hashable {
            case number(UInt64)
            case bytes(Bytes)
            /// Not a field, but kept among them, because few frames have either.
            case marks(FrameMarks)
        }
    }

    /// Creates a frame. Omitted values are zero, `false` or empty.
    ///
    /// - Parameters:
    ///   - kind: The kind of the frame.
    ///   - type: The protocol's number for this type of message.
    ///   - serial: The serial number.
    ///   - status: The status code.
    ///   - isErrorResponse: Whether the server reports an error with this response.
    ///   - body: The body of the message.
    @inlinable
    public init(
        _ kind: Kind,
        type: UInt32 = 0,
        serial: SerialNumber = 0,
        status: UInt32 = 0,
        isErrorResponse: Bool = false,
        body: Bytes = Bytes()
    ) {
        self.kind = kind
        self.type = type
        self.serial = serial
        self.status = status
        self.isErrorResponse = isErrorResponse
        self.body = body
    }

    /// Marks a received frame as one that ends its link; see ``linkEnding``. Only codecs call this method.
    public mutating func markLinkEnding(_ ending: LinkEnding = .now) { linkEnding = ending }

    /// Marks a received frame as malformed; see ``malformedReason``. Only codecs call this method.
    ///
    /// An error of the request names the reason only. With ``markMalformed(because:)`` it says what is wrong.
    public mutating func markMalformed(_ reason: FrameError.Code) { malformedReason = reason }

    /// The number in a named header field, or `nil` if it was neither set nor received.
    ///
    /// A ``FrameLayout`` declares the field with ``Field/integer(_:_:default:order:)``. Sending a frame with a field
    /// that the layout does not declare fails with `malformed`. A custom codec may use any names; see
    /// <doc:WritingACodec>. Setting `nil` removes the field.
    public subscript(field: String) -> UInt64? {
        get {
            guard case .number(let number) = value(of: field) else { return nil }
            return number
        }
        set { set(field, to: newValue.map { .number($0) }) }
    }

    /// The bytes in a named header field, or `nil` if they were neither set nor received.
    ///
    /// A ``FrameLayout`` declares the field with ``Field/bytes(_:_:default:)``. Sending a frame fails with `malformed`
    /// if the layout does not declare the field or the field has another size. A custom codec may use any names; see
    /// <doc:WritingACodec>. Setting `nil` removes the field.
    public subscript(bytes field: String) -> Bytes? {
        get {
            guard case .bytes(let bytes) = value(of: field) else { return nil }
            return bytes
        }
        set { set(field, to: newValue.map { .bytes($0) }) }
    }

    private func value(of field: String) -> NamedField.Value? {
        namedFields?.last { $0.name == field }?.value
    }

    package var isFarewell: Bool { linkEnding != nil || kind == .goAway }

    /// A mark that only received frames have.
    var receivedMark: String? {
        if let malformedReason { return "malformedReason (\(malformedReason))" }
        if linkEnding != nil { return "linkEnding" }
        if answers != .one { return "answers" }
        if isFateUnknown { return "isFateUnknown" }
        return reason == nil ? nil : "reason"
    }

    package var fields: [NamedField] {
        guard let namedFields else { return [] }
        return marks == nil ? namedFields : Array(namedFields.dropFirst())
    }

    @inline(__always)
    package var hasFields: Bool { namedFields != nil && !fields.isEmpty }

    package mutating func setSortedFields(_ fields: [NamedField]) { setNamed(fields, marks) }

    mutating func setNamed(_ fields: [NamedField], _ marks: FrameMarks?) {
        let all = (marks.map { [NamedField(name: "", value: .marks($0))] } ?? []) + fields
        namedFields = all.isEmpty ? nil : all
    }

    /// Takes less than quadratic time. Of several fields with the same name, the last one counts.
    package mutating func setFields(_ fields: [NamedField]) {
        let values = Dictionary(fields.map { ($0.name, $0.value) }) { $1 }
        setSortedFields(values.map { NamedField(name: $0.key, value: $0.value) }.sorted { $0.name < $1.name })
    }

    private mutating func set(_ field: String, to value: NamedField.Value?) {
        let first = marks == nil ? 0 : 1
        var fields = exchange(&namedFields, with: nil) ?? []
        defer { namedFields = fields.isEmpty ? nil : fields }
        let index = fields[first...].firstIndex { $0.name >= field } ?? fields.count
        if index < fields.count, fields[index].name == field {
            if let value { fields[index].value = value } else { fields.remove(at: index) }
        } else if let value {
            fields.insert(NamedField(name: field, value: value), at: index)
        }
    }

    package static let headLength = "headLength"
    package static let trailerLength = "trailerLength"

    var contentCount: Int {
        let head = Int(clamping: self[Self.headLength] ?? 0)
        let trailers = Int(clamping: self[Self.trailerLength] ?? 0)
        // The server may have sent fields with these names, so they may hold any number.
        return head <= body.count && trailers <= body.count - head ? body.count - head - trailers : body.count
    }

    package var fieldNames: [String] { fields.map(\.name) }

    /// Includes the byte fields, such as `head`, for limits.
    package var byteCount: Int {
        guard let namedFields else { return body.count }
        return namedFields.reduce(body.count) { sum, field in
            if case .bytes(let bytes) = field.value { sum + bytes.count } else { sum }
        }
    }

    /// What it counts as in a queue.
    var queueCost: Int { byteCount + 32 }

    package var contentSize: Int { fields.reduce(byteCount) { sum, field in sum + field.name.utf8.count } }

    /// For frames that are kept: does not keep memory alive much larger than `contentSize`.
    package var compacted: Frame {
        var frame = self
        frame.body = body.compacted
        frame.namedFields = namedFields?.map { field in
            guard case .bytes(let bytes) = field.value else { return field }
            return NamedField(name: field.name, value: .bytes(bytes.compacted))
        }
        return frame
    }
}

extension Frame: CustomStringConvertible {
    /// The values of the header and the size of the body, for logs. Contains no bytes of the body.
    public var description: String {
        var text = "\(kind) type 0x\(String(type, radix: 16)) serial \(serial)"
        if status != 0 || isErrorResponse { text += " status \(status)" }
        return text + " (\(body))"
    }
}
