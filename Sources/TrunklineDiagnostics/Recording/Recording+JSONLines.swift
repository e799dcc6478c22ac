import TrunklineCore

extension Recording {
    /// The recording as text: a JSON object in each line, the first of which describes the recording.
    ///
    /// ```
    /// {"recording":1,"start":"2026-11-24T22:40:00.123456789Z","complete":true,"endpoints":["10.0.0.7:7000"]}
    /// {"t":0.412000000,"at":"2026-11-24T22:40:00.535456Z","call":1,"type":1026,"bytes":5,"timeout":8.000000000}
    /// {"t":0.432000000,"at":"2026-11-24T22:40:00.555456Z","sent":"request","session":1,"id":1,"type":1026,"serial":50,…
    /// ```
    ///
    /// `t` is the time in seconds since the creation of the client, and `at` the same time in UTC (RFC 3339). Without
    /// ``start`` there is no `at`. Members that are zero, false or empty are left out. See <doc:FlightRecorder>.
    public var jsonLines: String {
        let start = start.map { $0.clampedNanoseconds }
        let startText = start.map { ",\"start\":\"\(CalendarTime(.nanoseconds($0)).text(decimals: 9))\"" } ?? ""
        let head = "{\"recording\":1\(startText),\"complete\":\(isComplete)\(beginning.members)}\n"
        return entries.reduce(into: head) { text, entry in text += "\(entry.json(start: start))\n" }
    }

    /// Reads a recording from the text of ``jsonLines``. Lines may end with CR and LF. Unknown members are ignored, and
    /// so are empty lines, a byte-order mark, and `at`. `start` may also be a number of seconds since 1970, as text:
    /// earlier versions wrote that.
    ///
    /// Text from anywhere can be read. Reading takes memory and time in proportion to the text.
    ///
    /// - Throws: A ``RecordingError`` if a line is not a JSON object, lacks what it needs, or has a member whose value
    ///   is not of its type or out of range.
    public init(jsonLines text: String) throws(RecordingError) {
        let bytes = [UInt8](copying: text.utf8)
        var lines = TextLines(bytes)
        let (index, first) = lines.next() ?? (0, 0..<0)
        guard let head = JSONValue(utf8: bytes, in: first), head["recording"] != nil else {
            throw RecordingError(line: index + 1, "it is not the first line of a recording")
        }
        guard head["recording"]?.integer(Int.self) == 1 else {
            throw RecordingError(line: index + 1, "the recording has an unknown version")
        }
        func read<Value>(_ index: Int, _ body: () throws(RecordingMistake) -> Value) throws(RecordingError) -> Value {
            do throws(RecordingMistake) { return try body() } catch {
                throw RecordingError(line: index + 1, error.message)
            }
        }
        var entries: [Entry] = []
        while let (index, line) = lines.next() {
            guard let object = JSONValue(utf8: bytes, in: line) else {
                throw RecordingError(line: index + 1, "it is not a JSON object")
            }
            guard let entry = try read(index, { () throws(RecordingMistake) in try Entry(object) }) else {
                throw RecordingError(line: index + 1, "it is neither a call, a frame nor an event with a time")
            }
            entries.append(entry)
        }
        let start = try read(index) { () throws(RecordingMistake) in
            try head.member("start", "a text with a time in UTC, or with a number of seconds") { start in
                start.text.flatMap {
                    CalendarTime($0)?.timeSince1970.clampedNanoseconds ?? JSONNumber($0.utf8)?.nanoseconds
                }
            }
        }
        let isComplete = try read(index) { () throws(RecordingMistake) in try head.flag("complete") }
        var beginning = try read(index) { () throws(RecordingMistake) in try Beginning(head) }
        // Earlier versions did not write it.
        if beginning == nil, !isComplete { beginning = Beginning(of: entries, endpoints: [], Beginning.End()) }
        self.init(
            start: start.map { .nanoseconds($0) },
            isComplete: isComplete,
            entries: entries,
            beginning ?? Beginning()
        )
    }
}

/// The lines of a text that are not blank. Not by characters: CR and LF are one `Character`.
private struct TextLines {
    private let bytes: [UInt8]
    private var (start, index): (Int, Int)

    init(_ bytes: [UInt8]) {
        self.bytes = bytes
        (start, index) = (bytes.starts(with: [0xEF, 0xBB, 0xBF]) ? 3 : 0, 0)
    }

    mutating func next() -> (index: Int, line: Range<Int>)? {
        let bytes = bytes
        let span = bytes.span
        while start < span.count {
            let begin = start
            var place = begin
            while place < span.count, span[place] == 0x20 || span[place] == 0x09 || span[place] == 0x0D { place += 1 }
            let end = span.firstOffset(from: place, amongEight: { $0.equal(to: 0x0A) }, amongRest: { $0 == 0x0A })
            defer { index += 1 }
            start = end + 1
            if place < end { return (index, begin..<end) }
        }
        return nil
    }
}

/// The error for text that is not a recording, and for a recording that declares too much to be replayed.
public struct RecordingError: Error, Sendable, Hashable, CustomStringConvertible {
    /// The number of the line, counted from 1. For a recording that cannot be replayed, this is a line of
    /// ``Recording/jsonLines``.
    public let line: Int
    /// What is wrong with it.
    public let message: String

    package init(line: Int, _ message: String) {
        self.line = line
        self.message = message
    }

    /// The number of the line and what is wrong with it.
    public var description: String { "line \(line): \(message)" }
}

struct RecordingMistake: Error {
    let message: String

    init(_ name: String, isNot expected: String, _ value: JSONValue) {
        let number = value.number.map { ": \($0.escaped(upTo: 40))" } ?? ""
        message = "\"\(name.escaped(upTo: 40))\" is not \(expected)\(number)"
    }
}

/// A member that is missing or `null` reads as `nil`, 0 or `false`.
extension JSONValue {
    func member<Value>(
        _ name: String,
        _ expected: @autoclosure () -> String,
        _ read: (JSONValue) -> Value?
    ) throws(RecordingMistake) -> Value? {
        guard let value = self[name], value != .null else { return nil }
        guard let result = read(value) else { throw RecordingMistake(name, isNot: expected(), value) }
        return result
    }

    func integer<Value: FixedWidthInteger>(_ name: String, from least: Value = .min) throws(RecordingMistake) -> Value {
        try member(name, "an integer from \(least) to \(Value.max)") { value in
            value.integer(Value.self).flatMap { $0 < least ? nil : $0 }
        } ?? 0
    }

    func nanoseconds(_ name: String) throws(RecordingMistake) -> Int64? {
        try member(name, "a number of seconds within 292 years") { value in
            value.number.flatMap { JSONNumber($0.utf8)?.nanoseconds }
        }
    }

    func list(_ name: String) throws(RecordingMistake) -> [JSONValue] {
        try member(name, "a list") { if case .list(let elements) = $0 { elements } else { nil } } ?? []
    }

    func flag(_ name: String) throws(RecordingMistake) -> Bool {
        try member(name, "true or false") { $0.flag } ?? false
    }
}

extension JSONNumber {
    fileprivate var nanoseconds: Int64? { integer(power: 9, cutsDecimals: true) }
}

extension JSONText {
    static func members(_ fields: [(name: String, value: ClientEvent.Value)]) -> String {
        fields.map { field in
            switch field.value {
            case .text(let text): "\(quoted(field.name)):\(quoted(text))"
            case .integer(let integer): "\(quoted(field.name)):\(integer)"
            case .seconds(let seconds): "\(quoted(field.name)):\(seconds.isFinite ? "\(seconds)" : "null")"
            case .flag(let flag): "\(quoted(field.name)):\(flag)"
            }
        }
        .joined(separator: ",")
    }
}

extension Recording.Entry {
    /// - Parameter start: In nanoseconds since 1970.
    fileprivate func json(start: Int64?) -> String {
        let time = time.clampedNanoseconds
        let at =
            start.map { ",\"at\":\"\(CalendarTime(.nanoseconds($0.addingClamped(time))).text(decimals: 6))\"" } ?? ""
        return "{\"t\":\(time.asSeconds)\(at),\(members)}"
    }

    private var members: String {
        func header(_ header: Recording.Header, _ direction: String) -> String {
            var text = "\"\(direction)\":\"\(header.kind)\",\"session\":\(header.session)"
            func add(_ name: String, _ value: some BinaryInteger) { if value != 0 { text += ",\"\(name)\":\(value)" } }
            add("id", header.id?.number ?? 0)
            add("type", header.type)
            if let name = header.name { text += ",\"name\":\(JSONText.quoted(name))" }
            add("serial", header.serial)
            add("status", header.status)
            add("bytes", header.bodyCount)
            if header.isErrorResponse { text += ",\"error\":true" }
            if header.isMalformed { text += ",\"malformed\":true" }
            if header.endsLink { text += ",\"ends_link\":true" }
            if header.isOneWay { text += ",\"one_way\":true" }
            if header.isCut { text += ",\"cut\":true" }
            if header.marks != Recording.Marks() { text += ",\(header.marks.members)" }
            if !header.fields.isEmpty {
                text += ",\"fields\":{\(header.fields.map(\.json).joined(separator: ","))}"
            }
            if let body = header.body { text += ",\"body\":\"\(HexText.text(of: body))\"" }
            return text
        }
        switch content {
        case .call(let call):
            let timeout = call.timeout.map { ",\"timeout\":\($0.clampedNanoseconds.asSeconds)" } ?? ""
            let name = call.name.map { ",\"name\":\(JSONText.quoted($0))" } ?? ""
            return "\"call\":\(call.id),\"type\":\(call.type)\(name),\"bytes\":\(call.bodyCount)\(timeout)"
                + (call.isOneWay ? ",\"one_way\":true" : "") + (call.isOpen ? ",\"open\":true" : "")
        case .sent(let frame): return header(frame, "sent")
        case .received(let frame): return header(frame, "received")
        case .event(let event):
            return JSONText.members([("event", .text(event.name))] + event.fields.map { ($0.name, $0.value) })
        }
    }

    fileprivate init?(_ object: JSONValue) throws(RecordingMistake) {
        guard let nanoseconds = try object.nanoseconds("t") else { return nil }
        time = .nanoseconds(nanoseconds)
        if let call = try Recording.Call(object) {
            content = .call(call)
        } else if let header = try Recording.Header("sent", object) {
            content = try Recording.Content.sent(header).with(object)
        } else if let header = try Recording.Header("received", object) {
            content = try Recording.Content.received(header).with(object)
        } else if let event = try Recording.Event(object.members) {
            content = .event(event)
        } else {
            return nil
        }
    }
}

extension Recording.Call {
    fileprivate init?(_ object: JSONValue) throws(RecordingMistake) {
        guard object["call"] != nil else { return nil }
        id = RequestID(try object.integer("call"))
        type = try object.integer("type")
        name = try object.member("name", "a text") { $0.text }
        bodyCount = try object.integer("bytes", from: 0)
        timeout = try object.nanoseconds("timeout").map { .nanoseconds($0) }
        isOneWay = try object.flag("one_way")
        isOpen = try object.flag("open")
    }
}

extension Recording.Header {
    private static let kinds = Dictionary(
        uniqueKeysWithValues: (0...15).compactMap { Frame.Kind(rawValue: $0) }.map { ("\($0)", $0) }
    )

    fileprivate init?(_ direction: String, _ object: JSONValue) throws(RecordingMistake) {
        let kind = try object.member(direction, "a kind of frame") { $0.text.flatMap { Self.kinds[$0] } }
        guard let kind else { return nil }
        session = SessionID(try object.integer("session"))
        let number: UInt64 = try object.integer("id")
        id = number == 0 ? nil : RequestID(number)
        self.kind = kind
        type = try object.integer("type")
        serial = try object.integer("serial")
        status = try object.integer("status")
        isErrorResponse = try object.flag("error")
        isMalformed = try object.flag("malformed")
        endsLink = try object.flag("ends_link")
        isOneWay = try object.flag("one_way")
        bodyCount = try object.integer("bytes", from: 0)
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
    var asSeconds: String {
        let (seconds, rest) = magnitude.quotientAndRemainder(dividingBy: 1_000_000_000)
        let digits = String(rest)
        return (self < 0 ? "-" : "") + "\(seconds)." + String(repeating: "0", count: 9 - digits.count) + digits
    }
}
