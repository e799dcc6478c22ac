import Trunkline

// MARK: - The protocol

/// A value of the Redis protocol, RESP2 or RESP3 (redis.io, "Redis serialization protocol specification").
enum RESPValue: Sendable, Hashable {
    /// A bulk string of any bytes, or a simple or verbatim string.
    case string(Bytes)
    /// An error within another value, for example in the result of `EXEC`. As a reply, it makes `send` throw
    /// `rejected`.
    case error(String)
    case integer(Int)
    case double(Double)
    case boolean(Bool)
    /// An integer of any size, in decimal digits.
    case bigNumber(String)
    case null
    case array([RESPValue])
    case set([RESPValue])
    /// Keys and values alternate.
    case map([RESPValue])
    case push([RESPValue])

    /// Parses a frame's body, which is one value. The nesting is limited to 64 levels, so that the peer does not
    /// control the depth of the recursion.
    init(_ body: Bytes) throws(FrameError) {
        var input = ReceiveBuffer(body)
        try self.init(&input, depth: 64)
    }

    private init(_ input: inout ReceiveBuffer, depth: Int) throws(FrameError) {
        var value: RESPValue?
        if depth > 0, let head = try RESPHead(&input, upTo: input.count),
            let bytes = input.readBytes(max(0, head.length - 2)), input.skip(min(2, head.length))
        {
            var elements: [RESPValue] = []
            for _ in 0..<head.count { elements.append(try RESPValue(&input, depth: depth - 1)) }
            switch head.type {
            case _ where head.isNull: value = .null
            case "+": value = .string(Bytes(head.text))
            case "$": value = .string(bytes)
            case "=": value = .string(Bytes(bytes.dropFirst(4)))  // after its format, "txt:"
            case "-": value = .error(head.text)
            case "!": value = .error(String(bytes))
            case ":": value = Int(head.text).map { .integer($0) }
            case ",": value = Double(head.text).map { .double($0) }
            case "#": value = ["t": .boolean(true), "f": .boolean(false)][head.text]
            case "(": value = .bigNumber(head.text)
            case "*": value = .array(elements)
            case "~": value = .set(elements)
            case "%": value = .map(elements)
            case ">": value = .push(elements)
            default: value = try RESPValue(&input, depth: depth - 1)  // those were attributes of the next value
            }
        }
        guard let value else { throw FrameError(.malformed, "truncated, nested too deeply, or not of its type") }
        self = value
    }

    /// The bytes of a string.
    var bytes: Bytes? { if case .string(let bytes) = self { bytes } else { nil } }

    /// The text of a string or an error.
    var text: String? { if case .error(let text) = self { text } else { bytes.map { String($0) } } }

    /// The elements of an array, a set, a push or a map.
    var elements: [RESPValue] {
        switch self {
        case .array(let elements), .set(let elements), .map(let elements), .push(let elements): elements
        default: []
        }
    }
}

/// A command and its arguments: `client.send(Command("SET", "key", "value"))` returns a `RESPValue`.
struct Command: TypedRequest {
    static let type: UInt32 = 0
    let parts: [Bytes]

    init(_ parts: Bytes...) { self.parts = parts }

    func encode() -> Bytes {
        parts.reduce(into: "*\(parts.count)\r\n") { $0 += "$\($1.count)\r\n" + $1 + "\r\n" }
    }

    static func decode(_ response: Response) throws -> RESPValue { try RESPValue(response.body) }
}

/// Converts bytes to frames and back.
///
/// A frame's body is one complete value, as on the wire. The codec only finds its end; callers parse the value in their
/// own tasks.
///
/// Replies are matched in the order of the commands, so every command must have exactly one reply. `CLIENT REPLY` and
/// `MONITOR` cannot be used. RESP3 begins with `HELLO 3` in `options.handshake`.
struct RESPCodec: FrameCodec, ServerSideCodec {
    /// The version of RESP: 3, or 2 for links without `HELLO 3`. RESP2 has no pushes, so it does not support
    /// `SUBSCRIBE`.
    var version = 3
    /// The largest value in either direction, in bytes.
    var maximumSize = 64 * 1024 * 1024
    /// The kind of the frames that this side receives.
    var received = Frame.Kind.response
    /// The progress of finding the value at the front of the input.
    var scan = RESPScan()
    var matching: ResponseMatching { .inOrder }

    mutating func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
        guard try scan.advance(over: &input, maximumSize), input.skip(scan.start) else { return nil }
        guard let body = input.readBytes(scan.end - scan.start) else { return nil }
        scan = RESPScan()
        var frame = Frame(received, body: body)
        guard received == .response, let type = body.first.map({ UnicodeScalar($0) }) else { return frame }
        frame.isErrorResponse = type == "-" || type == "!"
        if type == ">", !Self.isSubscription(try RESPValue(body).elements) { frame.kind = .push }
        return frame
    }

    func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
        var (scan, body) = (RESPScan(), ReceiveBuffer(frame.body))
        let isWhole = try scan.advance(over: &body, maximumSize) && scan.end == body.count
        guard isWhole else { throw FrameError(.malformed, "the body is not one complete value") }
        if frame.kind == .request {
            let parts = try RESPValue(frame.body).elements
            guard !parts.isEmpty else { throw FrameError(.malformed, "not a command") }
            if Self.isSubscription(parts), version < 3 || parts.count != 2 {
                throw FrameError(.malformed, "subscribing needs RESP3 and one command per channel")
            }
        }
        output.append(frame.body)
    }

    /// RESP3 confirms these commands with a push, one per channel, which is the reply to the command.
    private static func isSubscription(_ parts: [RESPValue]) -> Bool {
        guard let name = parts.first?.text?.lowercased(), name.hasSuffix("subscribe") else { return false }
        return ["", "p", "s", "un", "pun", "sun"].contains(name.dropLast(9))
    }

    /// The codec of test servers: it receives requests.
    func serverSide() -> any FrameCodec { RESPCodec(version: version, maximumSize: maximumSize, received: .request) }
}

/// Finds the end of a value by counting what is missing. It does not recurse, and it does not scan bytes again when
/// more arrive.
struct RESPScan: Sendable {
    /// Where the value begins, after its attributes, and how far the input has been scanned.
    var (start, end) = (0, 0)
    /// The number of values that have yet to begin, and the number of values within others.
    var (missing, elements) = (1, 0)

    /// Returns whether the value is complete, at `start..<end`.
    mutating func advance(over input: inout ReceiveBuffer, _ maximumSize: Int) throws(FrameError) -> Bool {
        var rest = input  // a cursor: it shares the memory
        rest.skip(end)
        while missing > 0 {
            guard let head = try RESPHead(&rest, upTo: maximumSize - end) else { return false }
            let next = input.count - rest.count + head.length
            // Attributes precede the value that they describe.
            let count = head.count + (head.type == "|" && end > start ? 1 : 0)
            guard next <= maximumSize, elements + count <= 1_048_576 else {
                throw FrameError(exceedingLimit: "more than \(maximumSize) bytes or 1,048,576 elements")
            }
            guard next <= input.count else {
                input.await(next)
                return false
            }
            if head.length > 0, rest.integer(at: head.length - 2, as: UInt16.self) != 0x0d0a {
                throw FrameError(.unexpectedBytes, "a string does not end at its length")
            }
            rest.skip(head.length)
            (end, elements, missing) = (next, elements + count, missing + count - 1)
            if missing == 0, input.byte(at: start) == UInt8(ascii: "|") { (start, missing) = (end, 1) }
        }
        return true
    }
}

/// The first line of a value: its type, and how much follows.
struct RESPHead {
    let type: UnicodeScalar
    /// The line after the type.
    let text: String
    /// The number of bytes that follow, including CR LF, and the number of values.
    var (length, count) = (0, 0)
    var isNull = false

    /// Reads a line of at most `limit` bytes from the front of `input`. Returns `nil` if the line is not complete yet.
    init?(_ input: inout ReceiveBuffer, upTo limit: Int) throws(FrameError) {
        let end = input.firstOffset(of: UInt8(ascii: "\n"))
        guard end ?? input.count <= min(limit, 65_536) else { throw FrameError(exceedingLimit: "the line is too long") }
        guard let end else { return nil }
        guard end >= 2, let line = input.readBytes(end - 1), input.readInteger(as: UInt16.self) == 0x0d0a else {
            throw FrameError(.unexpectedBytes, "an empty line, or no CR LF at its end")
        }
        (type, text) = (UnicodeScalar(line[0]), String(line.dropFirst()))
        isNull = text == "-1" && "$*".unicodeScalars.contains(type) || type == "_"
        if isNull || "+-:,#(".unicodeScalars.contains(type) { return }
        guard "$!=*~>%|".unicodeScalars.contains(type) else {
            throw FrameError(.unexpectedBytes, "unknown type byte \(line[0])")
        }
        // Streamed values have no length. Redis does not send them. UInt32 alone would also read a sign.
        guard text.utf8.allSatisfy({ 0x30...0x39 ~= $0 }), let number = UInt32(text) else {
            throw FrameError(.illegalLength, "invalid length \(text)")
        }
        switch type {
        case "$", "!", "=": length = Int(number) + 2
        case "%", "|": count = 2 * Int(number)
        default: count = Int(number)
        }
    }
}
