import TrunklineCore

extension JSONRPCCodec {
    /// How messages follow each other on a link.
    @nonexhaustive
    public enum Framing: Sendable, Hashable {
        /// Header fields with the length come before each message, as in the Language Server Protocol ("Base
        /// Protocol"):
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

struct JSONRPCFrames {
    /// The bytes of the header, the message and the line end at the front. All have arrived.
    struct Extent: Equatable {
        var before = 0
        var message = 0
        var after = 0
    }

    let framing: JSONRPCCodec.Framing
    /// Where the search for the end of the line continues.
    private var searched = 0
    private var header = Header()

    private struct Header {
        var start = 0
        var length: Int?
        var isComplete = false
    }

    static let maximumHeaderSize = 4096

    init(_ framing: JSONRPCCodec.Framing) { self.framing = framing }

    /// `nil` if the message is incomplete. Consumes nothing.
    mutating func next(in input: inout ReceiveBuffer, upTo maximum: Int) throws(FrameError) -> Extent? {
        switch framing {
        case .lines: try nextLine(in: input, upTo: maximum)
        case .contentLength: try nextWithHeader(in: &input, upTo: maximum)
        }
    }

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

    private mutating func nextWithHeader(
        in input: inout ReceiveBuffer,
        upTo maximum: Int
    ) throws(FrameError) -> Extent? {
        // The caller may have switched to another buffer.
        if searched > input.count || header.start > input.count { (searched, header) = (0, Header()) }
        if !header.isComplete {
            try input.withSpan { span throws(FrameError) in try readHeader(span, upTo: maximum) }
        }
        guard header.isComplete, let length = header.length else { return nil }
        let (size, overflows) = header.start.addingReportingOverflow(length)
        guard !overflows else { throw Self.illegalLength }
        input.await(size)
        guard input.count >= size else { return nil }
        defer { (searched, header) = (0, Header()) }
        return Extent(before: header.start, message: length)
    }

    private static let illegalLength = FrameError(.illegalLength, "the value of Content-Length is not a length")

    /// Each line is read once.
    private mutating func readHeader(_ text: Span<UInt8>, upTo maximum: Int) throws(FrameError) {
        let limit = min(text.count, Self.maximumHeaderSize)
        while !header.isComplete {
            let start = header.start
            // Text without a header, such as a message that is a line, is rejected at its first byte.
            if start < limit { try Self.checkStart(text[start]) }
            var end = max(start, searched)
            while end < limit, text[end] != 0x0A { end += 1 }
            searched = end
            guard end < limit else {
                guard text.count < Self.maximumHeaderSize else {
                    throw FrameError(.illegalLength, "a header of more than \(Self.maximumHeaderSize) bytes")
                }
                return
            }
            let line = start..<(end > start && text[end - 1] == 0x0D ? end - 1 : end)
            header.start = end + 1
            if line.isEmpty {
                guard header.length != nil else { throw FrameError(.malformed, "a header without Content-Length") }
                header.isComplete = true
            } else {
                try Self.read(text, line, upTo: maximum, &header.length)
            }
        }
    }

    private static func checkStart(_ byte: UInt8) throws(FrameError) {
        switch byte {
        case 0x0A, 0x0D, UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"): return
        default: throw FrameError(.malformed, "a line of a header begins with the byte 0x\(String(byte, radix: 16))")
        }
    }

    private static func read(
        _ text: Span<UInt8>,
        _ line: Range<Int>,
        upTo maximum: Int,
        _ length: inout Int?
    ) throws(FrameError) {
        guard let colon = line.first(where: { text[$0] == UInt8(ascii: ":") }) else {
            throw FrameError(.malformed, "a line of a header has no colon")
        }
        // Shorter than the names that matter.
        guard colon - line.lowerBound >= 12 else { return }
        let name = text.trimmed(line.lowerBound..<colon)
        if text.isEqual("content-length", in: name) {
            let size = try number(text, text.trimmed(colon + 1..<line.upperBound))
            guard length ?? size == size else { throw FrameError(.malformed, "two different values of Content-Length") }
            guard size <= maximum else {
                throw FrameError(exceedingLimit: "a message of \(size) bytes: at most \(maximum) (maximumMessageSize)")
            }
            length = size
        } else if text.isEqual("content-type", in: name) {
            guard isUTF8(text, colon + 1..<line.upperBound) else {
                throw FrameError(.malformed, "the character set is not UTF-8")
            }
        }
    }

    private static func number(_ text: Span<UInt8>, _ range: Range<Int>) throws(FrameError) -> Int {
        guard !range.isEmpty else { throw illegalLength }
        var number = 0
        for index in range {
            let digit = text[index] &- 0x30
            let (product, overflows) = number.multipliedReportingOverflow(by: 10)
            let (sum, sumOverflows) = product.addingReportingOverflow(Int(digit))
            guard digit < 10, !overflows, !sumOverflows else { throw illegalLength }
            number = sum
        }
        return number
    }

    /// `utf8` is what older servers send (LSP 3.17, "Header Part").
    private static func isUTF8(_ text: Span<UInt8>, _ value: Range<Int>) -> Bool {
        var start = text.first(0x3B, in: value) + 1
        while start < value.upperBound {
            let end = text.first(0x3B, in: start..<value.upperBound)
            let equals = text.first(0x3D, in: start..<end)
            if equals - start >= 7, text.isEqual("charset", in: text.trimmed(start..<equals)) {
                let charset = text.trimmed(min(equals + 1, end)..<end, and: UInt8(ascii: "\""))
                if !text.isEqual("utf-8", in: charset), !text.isEqual("utf8", in: charset) { return false }
            }
            start = end + 1
        }
        return true
    }
}

extension Span<UInt8> {
    fileprivate func first(_ byte: UInt8, in range: Range<Int>) -> Int {
        for index in range where self[index] == byte { return index }
        return range.upperBound
    }

    fileprivate func trimmed(_ range: Range<Int>, and other: UInt8 = 0x20) -> Range<Int> {
        var (low, high) = (range.lowerBound, range.upperBound)
        func isBlank(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 || byte == other }
        while low < high, isBlank(self[low]) { low += 1 }
        while low < high, isBlank(self[high - 1]) { high -= 1 }
        return low..<high
    }

    /// `text` must be in lower case.
    fileprivate func isEqual(_ text: StaticString, in range: Range<Int>) -> Bool {
        guard range.count == text.utf8CodeUnitCount else { return false }
        return text.withUTF8Buffer { expected in
            for offset in 0..<range.count {
                // Safe: there are as many bytes as in `range`.
                let byte = self[range.lowerBound + offset]
                let isUpper = byte &- UInt8(ascii: "A") < 26
                guard (isUpper ? byte | 0x20 : byte) == (unsafe expected[offset]) else { return false }
            }
            return true
        }
    }
}
