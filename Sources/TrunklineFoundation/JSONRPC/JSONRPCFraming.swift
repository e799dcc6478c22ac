import Trunkline

extension JSONRPCCodec {
    /// How messages follow each other on a link.
    @nonexhaustive
    public enum Framing: Sendable, Hashable {
        /// Header fields with the length come before each message, as in the Language Server Protocol ("Base Protocol"):
        ///
        ///     Content-Length: 52 CR LF
        ///     CR LF
        ///     {"jsonrpc":"2.0","id":1,"method":"shutdown"}…
        ///
        /// The names of fields are not case-sensitive. Lines that end with LF alone are accepted. A `Content-Type` must
        /// name UTF-8, if it names a character set. Other fields are ignored. A header may have 4,096 bytes.
        case contentLength
        /// Each message is a line that ends with LF or CR LF, as in the stdio transport of the Model Context Protocol.
        /// Messages that are sent end with LF. Line breaks between the values of a body are sent as spaces, so bodies
        /// may be indented. Empty lines are ignored.
        case lines
    }
}

/// Finds the messages in the bytes of a link.
struct JSONRPCFrames {
    /// The parts of the message at the front, in bytes. All of them have arrived.
    struct Extent: Equatable {
        /// The header.
        var before = 0
        var message = 0
        /// The end of the line.
        var after = 0
    }

    let framing: JSONRPCCodec.Framing
    /// The offset at which the search for the end of the line continues.
    private var searched = 0

    static let maximumHeaderSize = 4096

    init(_ framing: JSONRPCCodec.Framing) { self.framing = framing }

    /// Returns the extent of the message at the front of `input`, or `nil` if it is incomplete. Consumes nothing.
    mutating func next(in input: inout ReceiveBuffer, upTo maximum: Int) throws(FrameError) -> Extent? {
        switch framing {
        case .lines: try nextLine(in: input, upTo: maximum)
        case .contentLength: try nextWithHeader(in: &input, upTo: maximum)
        }
    }

    // MARK: Lines

    private mutating func nextLine(in input: ReceiveBuffer, upTo maximum: Int) throws(FrameError) -> Extent? {
        // The caller may have switched to another buffer.
        if searched > input.count { searched = 0 }
        let end = input.firstOffset(of: 0x0A, from: searched)
        guard end ?? input.count <= maximum else {
            throw FrameError(exceedingLimit: "a line of more than \(maximum) bytes (maximumMessageSize)")
        }
        searched = end == nil ? input.count : 0
        return end.map { Extent(message: $0, after: 1) }
    }

    // MARK: Headers

    private func nextWithHeader(
        in input: inout ReceiveBuffer,
        upTo maximum: Int
    ) throws(FrameError) -> Extent? {
        let header = try input.withSpan { span throws(FrameError) in try Self.header(in: span, upTo: maximum) }
        guard let header else { return nil }
        let (size, overflows) = header.before.addingReportingOverflow(header.message)
        guard !overflows else { throw Self.illegalLength }
        input.await(size)
        return input.count < size ? nil : header
    }

    private static let illegalLength = FrameError(.illegalLength, "the value of Content-Length is not a length")

    /// Reads the header at the front of `text`. `nil` if it is incomplete.
    private static func header(in text: Span<UInt8>, upTo maximum: Int) throws(FrameError) -> Extent? {
        let limit = min(text.count, maximumHeaderSize)
        var length: Int?
        var start = 0
        while true {
            // Text without a header, such as a message that is a line, is rejected at its first byte.
            if start < limit { try checkStart(text[start]) }
            var end = start
            while end < limit, text[end] != 0x0A { end += 1 }
            guard end < limit else {
                guard text.count < maximumHeaderSize else {
                    throw FrameError(.illegalLength, "a header of more than \(maximumHeaderSize) bytes")
                }
                return nil
            }
            let line = start..<(end > start && text[end - 1] == 0x0D ? end - 1 : end)
            start = end + 1
            if line.isEmpty {
                guard let length else { throw FrameError(.malformed, "a header without Content-Length") }
                return Extent(before: start, message: length)
            }
            try read(text, line, upTo: maximum, &length)
        }
    }

    private static func checkStart(_ byte: UInt8) throws(FrameError) {
        switch byte {
        case 0x0A, 0x0D, UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"): return
        default: throw FrameError(.malformed, "a line of a header begins with the byte 0x\(String(byte, radix: 16))")
        }
    }

    /// Reads one field of a header.
    private static func read(
        _ text: Span<UInt8>,
        _ line: Range<Int>,
        upTo maximum: Int,
        _ length: inout Int?
    ) throws(FrameError) {
        guard let colon = line.first(where: { text[$0] == UInt8(ascii: ":") }) else {
            throw FrameError(.malformed, "a line of a header has no colon")
        }
        let value = String(trimming: text, colon + 1..<line.upperBound)
        switch String(trimming: text, line.lowerBound..<colon).lowercased() {
        case "content-length":
            let size = try number(value)
            guard length ?? size == size else { throw FrameError(.malformed, "two different values of Content-Length") }
            guard size <= maximum else {
                throw FrameError(exceedingLimit: "a message of \(size) bytes: at most \(maximum) (maximumMessageSize)")
            }
            length = size
        case "content-type":
            guard isUTF8(value.lowercased()) else { throw FrameError(.malformed, "the character set is not UTF-8") }
        default: return
        }
    }

    private static func number(_ text: String) throws(FrameError) -> Int {
        guard let number = Int(strict: text, allowingZeros: true) else { throw illegalLength }
        return number
    }

    /// Whether a `Content-Type` names UTF-8 or no character set. `utf8` is what older servers send (LSP 3.17, "Header
    /// Part").
    private static func isUTF8(_ type: String) -> Bool {
        type.split(separator: ";").dropFirst().allSatisfy { parameter in
            let parts = parameter.split(separator: "=", maxSplits: 1).map { part in
                part.filter { $0 != " " && $0 != "\t" && $0 != "\"" }
            }
            return parts.first != "charset" || ["utf-8", "utf8"].contains(parts.last)
        }
    }
}

extension String {
    /// The text in `range` of `text`, without spaces and tabs around it.
    fileprivate init(trimming text: Span<UInt8>, _ range: Range<Int>) {
        func isSpace(_ index: Int) -> Bool { text[index] == 0x20 || text[index] == 0x09 }
        var range = range
        while let first = range.first, isSpace(first) { range.removeFirst() }
        while let last = range.last, isSpace(last) { range.removeLast() }
        self.init(decoding: range.map { text[$0] }, as: UTF8.self)
    }
}
