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
        /// serial or, matched in order, to the oldest request.
        /// ``Client/stream(_:timeout:partTimeout:options:buffering:)-(Request,_,_,_,_)`` returns the parts, and `send` joins
        /// their bodies.
        ///
        /// If a client sends the frame, it is a piece of a request with more to come: see
        /// ``Client/open(_:timeout:partTimeout:options:buffering:)``.
        case part
        /// A message that the server sends without a request.
        case push
        /// A ping, which the peer may answer with a `pong`.
        case ping
        /// The answer to a `ping`. A codec also uses this kind for frames that the client should ignore.
        case pong
        /// A message that cancels the request with the same serial.
        case cancel
        /// An announcement that the server is about to close the link. The client establishes the next link and stops
        /// using this one; see ``ClientOptions/Failover-swift.struct/sendsAfterGoAway``.
        case goAway
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
    /// Whether this response is the last one on its link, as after HTTP's `Connection: close`. A codec sets it with
    /// ``markLinkEnding()``; it has an effect only on frames of the kinds `response` and `goAway`. On a `goAway` it says
    /// that the server sends no more responses on the link, not even to requests in flight.
    ///
    /// The client closes the link. If anything needs a link (a request, a subscription, a stream of pushes, or
    /// ``ClientOptions/Reconnecting-swift.struct/keepsLinkWarm``), it reconnects at once to the same server; otherwise
    /// the next request does. This does not count as a failure of the server. Requests after the answered one fail with
    /// `connectionLost`, fate `unknown`, if they were written at least in part; the others go out on the next link.
    /// During a handshake, the attempt fails, unless the handshake itself has failed.
    ///
    /// A ``Connection`` that is used alone delivers the frame and waits for the server to close.
    /// ``Connection/write(_:)`` rejects a frame with this mark.
    public package(set) var endsLink = false
    /// The reason why this received frame is malformed, or `nil` if it is not. A codec sets it with
    /// ``markMalformed(_:)`` on a frame that it cannot decode but whose end it knows. The body may be incomplete.
    ///
    /// The frame fails at most one request and does not end the link:
    /// - A response fails its request with `protocolViolation`, fate `answered`. It counts as the response in protocols
    ///   matched in order.
    /// - A part fails its request with `protocolViolation`, fate `unknown`, and the request is cancelled.
    /// - If the reason is `illegalLength`, the frame exceeds a limit of this side, and the code is `overloaded` instead.
    /// - A response or part without a request is counted (`unknownResponses`).
    /// - A push appears as a gap in the streams of pushes.
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
    /// Where the frame was received.
    @usableFromInline var origin = Origin()
    /// The named header fields, sorted by name, or `nil` for none. Most frames have none, and copying an empty array
    /// costs two operations of the runtime, but copying `nil` costs nothing.
    @usableFromInline var namedFields: [NamedField]?

    /// The session of the link on which the frame was received, as in ``ConnectionState/ready(_:session:)``. It is set
    /// for pushes of a client and for frames of a connection, and is `nil` for every other frame.
    ///
    /// The session is ignored when frames are compared. During a planned change, frames of two sessions may alternate.
    public package(set) var session: SessionID? {
        get { origin.session == 0 ? nil : SessionID(bits: origin.session) }
        set { origin.session = newValue?.bits ?? 0 }
    }

    /// Always equal, so that the origin of frames does not matter when they are compared.
    @usableFromInline
    struct Origin: Sendable, Hashable {
        /// 0 for none. Frames are copied often, and an optional would make them larger.
        @usableFromInline var session: UInt64 = 0
        @usableFromInline init() {}
        @usableFromInline static func == (a: Origin, b: Origin) -> Bool { true }
        @usableFromInline func hash(into hasher: inout Hasher) {}
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

    /// Marks a received response or goAway as the last frame on its link; see ``endsLink``. Only codecs call this method.
    public mutating func markLinkEnding() { endsLink = true }

    /// Marks a received frame as malformed; see ``malformedReason``. Only codecs call this method.
    public mutating func markMalformed(_ reason: FrameError.Code) { malformedReason = reason }

    /// The number in a named header field, or `nil` if it was neither set nor received.
    ///
    /// A ``FrameLayout`` declares the field with ``Field/integer(_:_:default:order:)``. Sending a frame with a field
    /// that the layout does not declare fails with `malformed`. A custom codec may use any names; see
    /// <doc:WritingACodec>. Setting `nil` removes the field.
    public subscript(field: String) -> UInt64? {
        get {
            guard case .number(let number) = fields.first(where: { $0.name == field })?.value else { return nil }
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
            guard case .bytes(let bytes) = fields.first(where: { $0.name == field })?.value else { return nil }
            return bytes
        }
        set { set(field, to: newValue.map { .bytes($0) }) }
    }

    /// The name of a mark that only received frames have, or `nil` for none.
    var receivedMark: String? {
        if let malformedReason { return "malformedReason (\(malformedReason))" }
        return endsLink ? "endsLink" : nil
    }

    /// The named header fields.
    package var fields: [NamedField] { namedFields ?? [] }

    /// Replaces all named header fields, in less than quadratic time. Of several with the same name, the last one counts.
    package mutating func setFields(_ fields: [NamedField]) {
        let values = Dictionary(fields.map { ($0.name, $0.value) }) { $1 }
        let sorted = values.map { NamedField(name: $0.key, value: $0.value) }.sorted { $0.name < $1.name }
        namedFields = sorted.isEmpty ? nil : sorted
    }

    private mutating func set(_ field: String, to value: NamedField.Value?) {
        var fields = exchange(&namedFields, with: nil) ?? []
        defer { namedFields = fields.isEmpty ? nil : fields }
        let index = fields.firstIndex { $0.name >= field } ?? fields.count
        if index < fields.count, fields[index].name == field {
            if let value { fields[index].value = value } else { fields.remove(at: index) }
        } else if let value {
            fields.insert(NamedField(name: field, value: value), at: index)
        }
    }

    package static let headLength = "headLength"
    package static let trailerLength = "trailerLength"

    /// The number of bytes in the body without head and trailers.
    var contentCount: Int {
        let head = Int(clamping: self[Self.headLength] ?? 0)
        let trailers = Int(clamping: self[Self.trailerLength] ?? 0)
        // The server may have sent fields with these names, so they may hold any number.
        return head <= body.count && trailers <= body.count - head ? body.count - head - trailers : body.count
    }

    /// The names of the header fields that are set.
    package var fieldNames: [String] { fields.map(\.name) }

    /// The number of bytes in the body and in the named byte fields (such as `head`), for limits.
    package var byteCount: Int {
        guard let namedFields else { return body.count }
        return namedFields.reduce(body.count) { sum, field in
            if case .bytes(let bytes) = field.value { sum + bytes.count } else { sum }
        }
    }

    /// The number of bytes in the body and in the fields, names included.
    package var contentSize: Int { fields.reduce(byteCount) { sum, field in sum + field.name.utf8.count } }

    /// A copy of this frame that does not keep memory alive much larger than `contentSize`, for frames that are kept
    /// for a long time.
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
