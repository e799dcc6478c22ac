/// The number by which a response finds its request. Protocols with narrower serials use the low values.
public typealias SerialNumber = UInt64

/// One message of a protocol, after decoding and before encoding.
public struct Frame: Sendable, Hashable {
    /// What a frame is for.
    @nonexhaustive
    public enum Kind: UInt8, Sendable, Hashable {
        /// Asks the server for an answer.
        case request
        /// Answers a request, in full.
        case response
        /// A part of an answer with more to come: of the same request, by its serial or, in order, of the oldest one. The
        /// last part is the `response`. See `Client.stream`; `Client.send` joins the bodies. Or a piece of a request with more
        /// to come: see `Client.open`.
        case part
        /// Sent by the server on its own account.
        case push
        /// Asks for a sign of life.
        case ping
        /// A sign of life that was asked for.
        case pong
        /// Says that the request with this serial number is not wanted any more.
        case cancel
        /// The server is about to close this link: the client makes the next one, and leaves this one
        /// (`options.failover.sendsAfterGoAway`).
        case goAway
    }

    /// What the frame is for.
    public var kind: Kind
    /// The protocol's number for this type of message; 0 where it has none.
    public var type: UInt32
    /// Matches responses to requests; given by the client when it sends, 0 where the protocol has none.
    public var serial: SerialNumber
    /// The server's status code; 0 where the protocol has none.
    public var status: UInt32
    /// True for a response by which the server refuses or reports failure: `send` throws `rejected`. True for a part too
    /// if it is one of such a response, and not of what came before the server changed its mind.
    public var isErrorResponse: Bool
    /// True for a received response after which the server answers no further request on this link (HTTP's
    /// `Connection: close`). Set by codecs (`markLinkEnding()`).
    ///
    /// A client closes the link then and connects again at once to the same server, which has said nothing about itself
    /// but something about the link. Requests that had started behind the answered one are lost (`connectionLost`, fate
    /// `unknown`); those that had not go out on the next link. In a handshake it fails the attempt, unless the
    /// handshake has failed by itself. A `Connection` used alone hands the frame over and leaves the rest to the
    /// server, which closes. `Connection.write` refuses a frame with this mark.
    public package(set) var endsLink = false
    /// What is wrong with a received frame of which only that it was there, and where it ended, is certain; `nil` for
    /// nothing. Its body may be incomplete. Set by codecs (`markMalformed(_:)`).
    ///
    /// It keeps its place in the order of responses: a response with it fails its request alone, with
    /// `protocolViolation`, fate `answered`, or is counted (`unknownResponses`) if nobody asked for it; a part with it fails
    /// its request, fate `unknown`, which is cancelled; a push with it is a gap in the streams of pushes. A `Connection` used
    /// alone hands it over. Set by `DelimitedCodec` (`illegalLength`), by layouts (`unknownType`, `missingBody`) and by codecs
    /// of your own. `Connection.write` refuses a frame with this mark.
    public package(set) var malformedReason: FrameError.Code?
    /// The message itself. If there is a head before the content or trailers behind it, as with HTTP/1.1, the named fields
    /// `headLength` and `trailerLength` of a received frame hold their sizes in bytes: errors then count the content alone.
    public var body: Bytes
    /// Where it was received.
    @usableFromInline var origin = Origin()
    /// Further named header fields that the protocol has, in the order of their names.
    @usableFromInline var fields: [NamedField]

    /// The session number of the link on which it was received, as in `ConnectionState.ready`: of the pushes of a client and
    /// the frames of a connection. 0 for every other frame. Frames are equal whatever their sessions. Those of two links may
    /// alternate after a planned change.
    public package(set) var session: UInt64 {
        get { origin.session }
        set { origin.session = newValue }
    }

    /// No part of what a frame says: it makes no difference when frames are compared.
    @usableFromInline
    struct Origin: Sendable, Hashable {
        @usableFromInline var session: UInt64 = 0
        @usableFromInline init() {}
        @usableFromInline static func == (a: Origin, b: Origin) -> Bool { true }
        @usableFromInline func hash(into hasher: inout Hasher) {}
    }

    @usableFromInline
    struct NamedField: Sendable, Hashable {
        @usableFromInline var name: String
        @usableFromInline var value: Value

        @usableFromInline
        enum Value: Sendable, Hashable {
            case number(UInt64)
            case bytes(Bytes)
        }
    }

    /// Makes a frame; what is left out is zero or empty.
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
        fields = []
    }

    /// Marks a frame that a codec has received as the last response of its link: see `endsLink`.
    public mutating func markLinkEnding() { endsLink = true }

    /// Marks a frame that a codec has received as malformed: see `malformedReason`.
    public mutating func markMalformed(_ reason: FrameError.Code) { malformedReason = reason }

    /// The named number in the header, which the protocol's layout declares with `Field.integer`; `nil` when it was
    /// neither set nor received.
    ///
    /// A frame with a name that the layout does not declare is refused when it is sent.
    public subscript(field: String) -> UInt64? {
        get {
            guard case .number(let number) = fields.first(where: { $0.name == field })?.value else { return nil }
            return number
        }
        set { set(field, to: newValue.map { .number($0) }) }
    }

    /// The named bytes in the header, which the protocol's layout declares with `Field.bytes`; `nil` when they were
    /// neither set nor received.
    ///
    /// A frame with a name that the layout does not declare is refused when it is sent, and so are too few or too many
    /// bytes.
    public subscript(bytes field: String) -> Bytes? {
        get {
            guard case .bytes(let bytes) = fields.first(where: { $0.name == field })?.value else { return nil }
            return bytes
        }
        set { set(field, to: newValue.map { .bytes($0) }) }
    }

    /// The name of a mark that only received frames have; `nil` for none.
    var receivedMark: String? {
        if let malformedReason { return "malformedReason (\(malformedReason))" }
        return endsLink ? "endsLink" : nil
    }

    private mutating func set(_ field: String, to value: NamedField.Value?) {
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
        // The server may have sent fields with these names: they may hold anything.
        return head <= body.count && trailers <= body.count - head ? body.count - head - trailers : body.count
    }

    /// The names of the header fields that are set.
    package var fieldNames: [String] { fields.map(\.name) }

    /// How many bytes the body and the named bytes (`head`, for one) are, for limits.
    package var byteCount: Int {
        fields.reduce(body.count) { sum, field in
            if case .bytes(let bytes) = field.value { sum + bytes.count } else { sum }
        }
    }

    /// How many bytes the body and the fields are.
    package var contentSize: Int { fields.reduce(byteCount) { sum, field in sum + field.name.utf8.count } }

    /// The same frame, which keeps no memory alive that is much larger than `contentSize`, for those who keep frames for long.
    package var compacted: Frame {
        var frame = self
        frame.body = body.compacted
        for index in fields.indices {
            if case .bytes(let bytes) = fields[index].value { frame.fields[index].value = .bytes(bytes.compacted) }
        }
        return frame
    }
}

extension Frame: CustomStringConvertible {
    /// The header's values and the size of the body, for logs. None of the body's bytes.
    public var description: String {
        var text = "\(kind) type 0x\(String(type, radix: 16)) serial \(serial)"
        if status != 0 || isErrorResponse { text += " status \(status)" }
        return text + " (\(body))"
    }
}
