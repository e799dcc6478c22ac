extension Recording {
    /// The recording as text: a JSON object in each line, the first of which describes the recording.
    ///
    /// ```
    /// {"recording":1,"start":"1795560000.123456789","complete":true}
    /// {"t":0.412000000,"call":1,"type":1026,"bytes":5,"timeout":8.000000000}
    /// {"t":0.431000000,"event":"connection.ready","endpoint":"10.0.0.7:7000","session":1}
    /// {"t":0.431000000,"sent":"request","session":1,"id":1,"type":1026,"serial":50,"bytes":5}
    /// {"t":0.432000000,"received":"response","session":1,"type":1026,"serial":50,"bytes":2}
    /// ```
    ///
    /// `t` is the time in seconds since the creation of the client. Members that are zero, false or empty are left out.
    public var jsonLines: String {
        let start = start.map { ",\"start\":\"\($0.clampedNanoseconds.asSeconds)\"" } ?? ""
        let head = "{\"recording\":1\(start),\"complete\":\(isComplete)}\n"
        return entries.reduce(into: head) { text, entry in text += "\(entry.json)\n" }
    }

    /// Reads a recording from the text of ``jsonLines``. Unknown members are ignored, and so are empty lines.
    ///
    /// - Throws: A ``RecordingError`` if a line is not a JSON object, or lacks what it needs.
    public init(jsonLines text: String) throws(RecordingError) {
        var lines = text.split(separator: "\n", omittingEmptySubsequences: false).enumerated()
            .filter { !$0.element.allSatisfy(\.isWhitespace) }[...]
        guard let first = lines.popFirst(), let head = JSONValue(first.element), head["recording"] != nil else {
            throw RecordingError(line: 1, "it is not the first line of a recording")
        }
        guard head["recording"]?.integer(Int.self) == 1 else {
            throw RecordingError(line: 1, "the recording has an unknown version")
        }
        var entries: [Entry] = []
        for (index, line) in lines {
            guard let object = JSONValue(line) else {
                throw RecordingError(line: index + 1, "it is not a JSON object")
            }
            guard let entry = Entry(object) else {
                throw RecordingError(line: index + 1, "it is neither a call, a frame nor an event with a time")
            }
            entries.append(entry)
        }
        self.init(
            start: head["start"]?.text.flatMap { Int64(seconds: $0) }.map { .nanoseconds($0) },
            isComplete: head["complete"]?.flag ?? false,
            entries: entries
        )
    }
}

/// The error for text that is not a recording.
public struct RecordingError: Error, Sendable, Hashable, CustomStringConvertible {
    /// The number of the line, counted from 1.
    public let line: Int
    /// What is wrong with it.
    public let message: String

    init(line: Int, _ message: String) {
        self.line = line
        self.message = message
    }

    /// The number of the line and what is wrong with it.
    public var description: String { "line \(line): \(message)" }
}

extension JSONText {
    /// The members of an object, without the braces.
    static func members(_ fields: [(name: String, value: ClientEvent.Value)]) -> String {
        fields.map { field in
            switch field.value {
            case .text(let text): "\(quoted(field.name)):\(quoted(text))"
            case .integer(let integer): "\(quoted(field.name)):\(integer)"
            case .seconds(let seconds): "\(quoted(field.name)):\(seconds.isFinite ? seconds : 0)"
            case .flag(let flag): "\(quoted(field.name)):\(flag)"
            }
        }
        .joined(separator: ",")
    }
}

extension Recording.Entry {
    fileprivate var json: String { "{\"t\":\(time.clampedNanoseconds.asSeconds),\(members)}" }

    private var members: String {
        func header(_ header: Recording.Header, _ direction: String) -> String {
            var text = "\"\(direction)\":\"\(header.kind)\",\"session\":\(header.session)"
            func add(_ name: String, _ value: some BinaryInteger) { if value != 0 { text += ",\"\(name)\":\(value)" } }
            add("id", header.id)
            add("type", header.type)
            add("serial", header.serial)
            add("status", header.status)
            add("bytes", header.bodyCount)
            if header.isErrorResponse { text += ",\"error\":true" }
            if header.isMalformed { text += ",\"malformed\":true" }
            if header.endsLink { text += ",\"ends_link\":true" }
            if header.isOneWay { text += ",\"one_way\":true" }
            if header.isCut { text += ",\"cut\":true" }
            if !header.fields.isEmpty {
                text += ",\"fields\":{\(header.fields.map(\.json).joined(separator: ","))}"
            }
            if let body = header.body { text += ",\"body\":\"\(HexText.text(of: body))\"" }
            return text
        }
        switch content {
        case .call(let call):
            let timeout = call.timeout.map { ",\"timeout\":\($0.clampedNanoseconds.asSeconds)" } ?? ""
            return "\"call\":\(call.id),\"type\":\(call.type),\"bytes\":\(call.bodyCount)\(timeout)"
                + (call.isOneWay ? ",\"one_way\":true" : "") + (call.isOpen ? ",\"open\":true" : "")
        case .sent(let frame): return header(frame, "sent")
        case .received(let frame): return header(frame, "received")
        case .event(let event):
            return JSONText.members([("event", .text(event.name))] + event.fields.map { ($0.name, $0.value) })
        }
    }

    fileprivate init?(_ object: JSONValue) {
        guard let nanoseconds = object["t"]?.number.flatMap({ Int64(seconds: $0) }) else { return nil }
        time = .nanoseconds(nanoseconds)
        func integer<Value: FixedWidthInteger>(_ name: String) -> Value { object[name]?.integer() ?? 0 }
        func header(_ kind: JSONValue) -> Recording.Header? {
            let kinds = (0...15).compactMap { Frame.Kind(rawValue: $0) }
            guard let kind = kinds.first(where: { "\($0)" == kind.text }) else { return nil }
            return Recording.Header(
                session: integer("session"),
                id: integer("id"),
                kind: kind,
                type: integer("type"),
                serial: integer("serial"),
                status: integer("status"),
                isErrorResponse: object["error"]?.flag ?? false,
                isMalformed: object["malformed"]?.flag ?? false,
                endsLink: object["ends_link"]?.flag ?? false,
                isOneWay: object["one_way"]?.flag ?? false,
                bodyCount: max(0, integer("bytes"))
            )
        }
        if let id = object["call"]?.integer(UInt64.self) {
            let call = Recording.Call(
                id: id,
                type: integer("type"),
                bodyCount: max(0, integer("bytes")),
                timeout: object["timeout"]?.number.flatMap { Int64(seconds: $0) }.map { .nanoseconds($0) },
                isOneWay: object["one_way"]?.flag ?? false,
                isOpen: object["open"]?.flag ?? false
            )
            content = .call(call)
        } else if let kind = object["sent"], let header = header(kind) {
            content = Recording.Content.sent(header).with(object)
        } else if let kind = object["received"], let header = header(kind) {
            content = Recording.Content.received(header).with(object)
        } else if let event = Recording.Event(object.members) {
            content = .event(event)
        } else {
            return nil
        }
    }
}

extension Recording.Field {
    fileprivate var json: String {
        switch value {
        case .number(let number): "\(JSONText.quoted(name)):\(number)"
        case .bytes(let bytes): "\(JSONText.quoted(name)):\"\(HexText.text(of: bytes))\""
        case .size(let size): "\(JSONText.quoted(name)):{\"bytes\":\(size)}"
        }
    }
}

extension Int64 {
    /// This number of nanoseconds in seconds, with nine decimals.
    fileprivate var asSeconds: String {
        let (seconds, rest) = magnitude.quotientAndRemainder(dividingBy: 1_000_000_000)
        let digits = String(rest)
        return (self < 0 ? "-" : "") + "\(seconds)." + String(repeating: "0", count: 9 - digits.count) + digits
    }

    /// Reads a number of seconds as nanoseconds. `nil` if the text is not a number, or out of range.
    fileprivate init?(seconds text: String) {
        let parts = text.drop { $0 == "-" }.split(separator: ".", maxSplits: 1, omittingEmptySubsequences: false)
        guard text.count - text.drop(while: { $0 == "-" }).count <= 1, let whole = UInt64(parts[0]) else { return nil }
        let decimals = parts.count > 1 ? parts[1].prefix(9) : ""
        guard parts.count == 1 || parts[1].allSatisfy(\.isNumber), let rest = UInt64("0" + decimals) else { return nil }
        let scale = (0..<(9 - decimals.count)).reduce(UInt64(1)) { scale, _ in scale * 10 }
        let (product, overflows) = whole.multipliedReportingOverflow(by: 1_000_000_000)
        guard !overflows, product <= UInt64(Int64.max) - 1_000_000_000 else { return nil }
        let magnitude = Int64(product + rest * scale)
        self = text.hasPrefix("-") ? -magnitude : magnitude
    }
}
