public import TrunklineCore

/// What happened in a client: its calls, the headers of its frames, and its events, in order.
///
/// `client.diagnostics.recording` reads it from a client with `options.recorder`. ``jsonLines`` writes it as
/// text, and ``init(jsonLines:)`` reads that text. ``pcapng(speaking:port:)`` makes a capture file for Wireshark. The
/// library `TrunklineTesting` replays it in a simulated network.
public struct Recording: Sendable, Hashable {
    /// Something that was recorded.
    public struct Entry: Sendable, Hashable {
        /// When it happened, counted from the creation of the client. Added to the recording's ``Recording/start``,
        /// this is the time since 1970.
        public let time: Duration
        /// What happened.
        public let content: Content

        package init(time: Duration, content: Content) { (self.time, self.content) = (time, content) }
    }

    /// What was recorded.
    @nonexhaustive
    public enum Content: Sendable, Hashable {
        /// The event loop received a call.
        case call(Call)
        /// A frame was sent: the kernel accepted its first byte; over TLS, it was encrypted.
        case sent(Header)
        /// A frame was received.
        case received(Header)
        /// An event of the client, as an observer receives it.
        case event(Event)
    }

    /// A request or one-way message that the event loop received.
    public struct Call: Sendable, Hashable {
        /// The number of the request among all requests of the client.
        public let id: RequestID
        /// The type number of the request.
        public let type: UInt32
        /// The name of the request (``/Trunkline/NamingCodec``), such as a JSON-RPC method; `nil` if it has none.
        public internal(set) var name: String?
        /// The number of bytes in the body of the request.
        public let bodyCount: Int
        /// The time that the call had left until its deadline; `nil` for no limit.
        public let timeout: Duration?
        /// Whether it is a one-way message.
        public let isOneWay: Bool
        /// Whether it was made by ``/Trunkline/Client/open(_:timeout:partTimeout:options:buffering:)``.
        public let isOpen: Bool

        package init(
            id: RequestID,
            type: UInt32,
            name: String? = nil,
            bodyCount: Int,
            timeout: Duration?,
            isOneWay: Bool,
            isOpen: Bool
        ) {
            (self.id, self.type, self.name, self.bodyCount) = (id, type, name, bodyCount)
            (self.timeout, self.isOneWay, self.isOpen) = (timeout, isOneWay, isOpen)
        }
    }

    /// A frame without its body.
    public struct Header: Sendable, Hashable {
        /// The session of the link.
        public let session: SessionID
        /// The request that was sent; `nil` for other frames, for requests of a handshake, and for received frames.
        public let id: RequestID?
        /// The kind of the frame.
        public let kind: Frame.Kind
        /// The type number of the frame.
        public let type: UInt32
        /// The name of a request that was sent (``/Trunkline/NamingCodec``); `nil` if it has none or its call was
        /// overwritten, and for other frames.
        public internal(set) var name: String?
        /// The serial number of the frame.
        public let serial: SerialNumber
        /// The status code of the frame.
        public let status: UInt32
        /// Whether the server reported an error with this response.
        public let isErrorResponse: Bool
        /// Whether the frame was malformed.
        public let isMalformed: Bool
        /// Whether the frame was the last one on its link.
        public let endsLink: Bool
        /// Only in a handshake: the ``Call`` tells of other one-way messages.
        var isOneWay = false
        /// The number of bytes in the body.
        public let bodyCount: Int
        /// The named fields of the frame.
        public internal(set) var fields: [Field] = []
        /// The first bytes of the body, if the options of the recorder allow it; otherwise `nil`.
        public internal(set) var body: Bytes?
        /// Whether ``fields`` and ``body`` are missing because they did not fit into a record.
        public internal(set) var isCut = false
        var marks = Marks()

        /// The requests that a response answers, or to which a part belongs.
        public var answers: Frame.Answers { marks.answers }
        /// The channel of the frame; 0 if responses are not matched by channel.
        public var channel: UInt64 { marks.channel }
    }

    /// A named field of a frame.
    public struct Field: Sendable, Hashable {
        /// The value of a named field.
        @nonexhaustive
        public enum Value: Sendable, Hashable {
            /// An integer field.
            case number(UInt64)
            /// The first bytes of a byte field that the options of the recorder allow.
            case bytes(Bytes)
            /// The size of any other byte field.
            case size(Int)
        }

        /// The name of the field.
        public let name: String
        /// The value of the field, as far as it was recorded.
        public let value: Value
    }

    /// An event of the client: see ``/Trunkline/ClientEvent``.
    public struct Event: Sendable, Hashable {
        /// The name of the event, such as `link.ended`.
        public let name: String
        /// The names and values of the event, in order.
        public let fields: [EventField]

        /// The value of the first field with this name.
        public subscript(name: String) -> ClientEvent.Value? { fields.first { $0.name == name }?.value }
    }

    /// A field of an event.
    public struct EventField: Sendable, Hashable {
        /// The name of the field.
        public let name: String
        /// The value of the field.
        public let value: ClientEvent.Value
    }

    /// The time from 1970 to the creation of the client; `nil` if it is not known, as in a simulation.
    ///
    /// It is derived from the clock of the system at the time of the recording. So the times since 1970 of the latest
    /// entries are right, even if the clock was set, or the host slept, in the life of the client.
    public let start: Duration?
    /// Whether the recording begins with the creation of the client. If not, older entries were overwritten.
    public let isComplete: Bool
    /// The entries, oldest first.
    public let entries: [Entry]
    package let beginning: Beginning

    package init(start: Duration?, isComplete: Bool, entries: [Entry], _ beginning: Beginning) {
        self.start = start
        self.isComplete = isComplete
        self.entries = entries
        self.beginning = beginning
    }
}

extension Recording {
    init(_ snapshot: FlightRecorder.Snapshot) {
        var entries: [Entry] = []
        var words = snapshot.words[...]
        var names = RecordedNames(snapshot.codec)
        while let head = words.first {
            let size = Int(head >> 8 & 0xFFFF)
            guard size >= 2, size <= words.count, let tag = RecordWords.Tag(rawValue: UInt8(truncatingIfNeeded: head))
            else {
                break
            }
            let record = Record(Array(words.prefix(size)))
            words = words.dropFirst(size)
            let time = Duration.nanoseconds(record.nanoseconds &- snapshot.start.nanoseconds)
            switch tag {
            case .name: names.ofRequests[record.namedRequest] = record.text
            case .call:
                var call = record.call
                call.name = names.name(of: call.id, type: call.type)
                entries.append(Entry(time: time, content: .call(call)))
            case .sent:
                var header = record.header
                if header.kind == .request { header.name = names.name(of: header.id, type: header.type) }
                entries.append(Entry(time: time, content: .sent(header)))
            case .received: entries.append(Entry(time: time, content: .received(record.header)))
            case .event:
                guard let object = JSONValue("{\(record.text)}"), let event = try? Event(object.members) else {
                    continue
                }
                entries.append(Entry(time: time, content: .event(event)))
            case .content:
                guard let object = JSONValue("{\(record.text)}"), let last = entries.popLast() else {
                    continue
                }
                entries.append(Entry(time: last.time, content: (try? last.content.with(object)) ?? last.content))
            }
        }
        let oldest = snapshot.start.advanced(by: entries.first?.time ?? .zero)
        var beginning = Beginning()
        beginning.endpoints = snapshot.endpoints(at: oldest).map(\.description)
        if snapshot.hasOverwritten {
            let links = snapshot.links.map { session, link in
                Beginning.Link(
                    session: session,
                    endpoint: link.endpoint.description,
                    age: max(.zero, oldest.since(link.readySince))
                )
            }
            let abandoned = snapshot.abandoned.mapValues { request in
                (session: request.session, time: request.since.since(snapshot.start))
            }
            let pending = snapshot.pendingRequests.map { request in
                RecordedRequest(
                    id: request.id,
                    type: request.type,
                    name: request.name ?? names.name(ofType: request.type),
                    session: request.session,
                    number: request.number
                )
            }
            let end = Beginning.End(links: links, requests: pending, abandoned: abandoned)
            beginning = Beginning(of: entries, endpoints: beginning.endpoints, end)
        }
        self.init(start: snapshot.unixStart, isComplete: !snapshot.hasOverwritten, entries: entries, beginning)
    }

    private struct Record {
        private let words: [UInt64]

        init(_ words: [UInt64]) { self.words = words }

        var nanoseconds: Int64 { Int64(bitPattern: words[1]) }
        /// In a name record, the time word is the number of the request.
        var namedRequest: RequestID { RequestID(word(1)) }
        private var flags: UInt8 { UInt8(truncatingIfNeeded: words[0] >> 24) }
        private var type: UInt32 { UInt32(truncatingIfNeeded: words[0] >> 32) }

        var call: Call {
            Call(
                id: RequestID(word(2)),
                type: type,
                bodyCount: Int(clamping: word(4)),
                timeout: word(3) == .max ? nil : .nanoseconds(Int64(clamping: word(3))),
                isOneWay: flags & 1 != 0,
                isOpen: flags & 2 != 0
            )
        }

        var header: Header {
            Header(
                session: SessionID(word(4) & RecordWords.sessionMask),
                id: word(4) >> 24 == 0 ? nil : RequestID(word(4) >> 24),
                kind: Frame.Kind(rawValue: flags & 15) ?? .pong,
                type: type,
                serial: word(2),
                status: UInt32(truncatingIfNeeded: word(3)),
                isErrorResponse: flags & 16 != 0,
                isMalformed: flags & 32 != 0,
                endsLink: flags & 64 != 0,
                isOneWay: flags & 128 != 0,
                bodyCount: Int(word(3) >> 32)
            )
        }

        var text: String {
            let bytes = words.dropFirst(2).flatMap { word in
                (0..<8).map { UInt8(truncatingIfNeeded: word.littleEndian >> (8 * UInt64($0))) }
            }
            return String(decoding: bytes.prefix(Int(type)), as: UTF8.self)
        }

        private func word(_ index: Int) -> UInt64 { index < words.count ? words[index] : 0 }
    }
}

private struct RecordedNames {
    var ofRequests: [RequestID: String] = [:]
    private let codec: ProtocolCodec
    private var ofTypes: [UInt32: String?] = [:]

    init(_ codec: ProtocolCodec) { self.codec = codec }

    mutating func name(of id: RequestID?, type: UInt32) -> String? {
        id.flatMap { ofRequests[$0] } ?? name(ofType: type)
    }

    mutating func name(ofType type: UInt32) -> String? {
        if codec.namesEachRequest { return nil }
        if let known = ofTypes[type] { return known }
        let name = codec.name(of: Frame(.request, type: type))
        ofTypes[type] = .some(name)
        return name
    }
}

extension Recording.Content {
    func with(_ object: JSONValue) throws(RecordingMistake) -> Recording.Content {
        func complete(_ header: Recording.Header) throws(RecordingMistake) -> Recording.Header {
            var header = header
            header.name = try object.member("name", "a text") { $0.text } ?? header.name
            header.marks = try Recording.Marks(object)
            let fields = try object.member("fields", "an object") { fields -> [(name: String, value: JSONValue)]? in
                if case .object(let members) = fields { members } else { nil }
            }
            header.fields = try (fields ?? []).map { field throws(RecordingMistake) in
                try Recording.Field(field.name, field.value)
            }
            header.isCut = try object.flag("cut")
            header.body = try object.member("body", "a text of hexadecimal digits") { body in
                body.text.flatMap { HexText.bytes(of: $0) }.map { Bytes($0) }
            }
            return header
        }
        switch self {
        case .sent(let header): return .sent(try complete(header))
        case .received(let header): return .received(try complete(header))
        case .call, .event: return self
        }
    }
}

extension Recording.Field {
    init(_ name: String, _ value: JSONValue) throws(RecordingMistake) {
        self.name = name
        if let number = value.integer(UInt64.self) {
            self.value = .number(number)
        } else if let bytes = value.text.flatMap({ HexText.bytes(of: $0) }) {
            self.value = .bytes(Bytes(bytes))
        } else if let size = value["bytes"]?.integer(Int.self), size >= 0 {
            self.value = .size(size)
        } else {
            let expected = "an integer from 0 to \(UInt64.max), a text of hexadecimal digits, or {\"bytes\":SIZE}"
            throw RecordingMistake(name, isNot: expected, value)
        }
    }
}

extension Recording.Event {
    init?(_ members: [(name: String, value: JSONValue)]) throws(RecordingMistake) {
        guard let name = members.first(where: { $0.name == "event" })?.value.text else { return nil }
        self.name = name
        var fields: [Recording.EventField] = []
        for (name, value) in members where name != "event" && name != "t" && name != "at" {
            guard let value = try ClientEvent.Value(name, value) else { continue }
            fields.append(Recording.EventField(name: name, value: value))
        }
        self.fields = fields
    }

    package func text(_ name: String) -> String? { if case .text(let text)? = self[name] { text } else { nil } }

    /// Another program may have written it with decimals or an exponent.
    package func integer(_ name: String) -> Int64? {
        switch self[name] {
        case .integer(let integer)?: integer
        case .seconds(let number)?: Int64(exactly: number)
        default: nil
        }
    }
}

extension ClientEvent.Value {
    fileprivate init?(_ name: String, _ value: JSONValue) throws(RecordingMistake) {
        switch value {
        case .text(let text): self = .text(text)
        case .flag(let flag): self = .flag(flag)
        case .number(let number):
            if let integer = Int64(number) {
                self = .integer(integer)
            } else if number.utf8.contains(where: { ".eE".utf8.contains($0) }) {
                guard let seconds = Double(number), seconds.isFinite else {
                    throw RecordingMistake(name, isNot: "a number in the range of Double", value)
                }
                self = .seconds(seconds)
            } else {
                throw RecordingMistake(name, isNot: "an integer from \(Int64.min) to \(Int64.max)", value)
            }
        case .null, .list, .object: return nil
        }
    }
}
