import Trunkline

/// A line that is read part after part: the first of a message, or one of its fields. It is known to have an end.
struct HTTP1Line {
    /// What comes next.
    private(set) var offset: Int

    init(at offset: Int) { self.offset = offset }

    func byte(in bytes: Span<UInt8>) -> UInt8 { offset < bytes.count ? bytes[offset] : 0 }

    /// Takes the bytes that satisfy `predicate`.
    @inline(__always)
    mutating func take(in bytes: Span<UInt8>, while predicate: (UInt8) -> Bool) -> Range<Int> {
        let start = offset
        while offset < bytes.count, predicate(bytes[offset]) { offset += 1 }
        return start..<offset
    }

    /// Takes `byte`, which must follow `place`.
    mutating func take(_ byte: UInt8, in bytes: Span<UInt8>, after place: String) throws(FrameError) {
        let found = self.byte(in: bytes)
        guard found == byte else { throw HTTP1Grammar.complaint(about: found, in: place) }
        offset += 1
    }

    /// Takes the end of the line: CR LF.
    mutating func takeEnd(in bytes: Span<UInt8>, of place: String) throws(FrameError) {
        let found = byte(in: bytes)
        guard found == HTTP1Grammar.carriageReturn, offset + 1 < bytes.count,
            bytes[offset + 1] == HTTP1Grammar.lineFeed
        else { throw HTTP1Grammar.complaint(about: found, in: place) }
        offset += 2
    }

    /// Takes `HTTP/1.x` and returns x.
    mutating func takeVersion(in bytes: Span<UInt8>) throws(FrameError) -> Int {
        for expected in "HTTP/1.".utf8 {
            guard byte(in: bytes) == expected else { throw FrameError(.malformed, "a version that is not HTTP/1.x") }
            offset += 1
        }
        let digit = byte(in: bytes)
        guard (0x30...0x39).contains(digit) else { throw FrameError(.malformed, "a version that is not HTTP/1.x") }
        offset += 1
        return Int(digit) - 0x30
    }
}

/// The first line of a request: `method SP target SP HTTP/1.x CRLF` (RFC 9112 §3).
struct HTTP1RequestLine {
    let method: Range<Int>
    let target: Range<Int>
    /// Of the version, 1.`minor`.
    let minor: Int
    /// Behind its line feed.
    let end: Int

    init(in bytes: Span<UInt8>, at start: Int = 0) throws(FrameError) {
        var line = HTTP1Line(at: start)
        method = line.take(in: bytes) { HTTP1Grammar.isToken($0) }
        guard !method.isEmpty else { throw HTTP1Grammar.complaint(about: line.byte(in: bytes), in: "a method") }
        try line.take(HTTP1Grammar.space, in: bytes, after: "a method")
        target = line.take(in: bytes) { HTTP1Grammar.isTarget($0) }
        guard !target.isEmpty else { throw HTTP1Grammar.complaint(about: line.byte(in: bytes), in: "a target") }
        try line.take(HTTP1Grammar.space, in: bytes, after: "a target")
        minor = try line.takeVersion(in: bytes)
        try line.takeEnd(in: bytes, of: "a request line")
        end = line.offset
    }
}

/// The first line of a response: `HTTP/1.x SP 3DIGIT SP reason CRLF` (RFC 9112 §4).
struct HTTP1StatusLine {
    /// From 100 to 999.
    let status: Int
    let reason: Range<Int>
    /// Of the version, 1.`minor`.
    let minor: Int
    /// Behind its line feed.
    let end: Int

    init(in bytes: Span<UInt8>, at start: Int = 0) throws(FrameError) {
        var line = HTTP1Line(at: start)
        minor = try line.takeVersion(in: bytes)
        try line.take(HTTP1Grammar.space, in: bytes, after: "a version")
        let digits = line.take(in: bytes) { (0x30...0x39).contains($0) }
        guard digits.count == 3, bytes[digits.lowerBound] != 0x30 else {
            throw FrameError(.malformed, "a status that is no number of three digits")
        }
        var number = 0
        for index in digits { number = number * 10 + Int(bytes[index]) - 0x30 }
        status = number
        // Servers leave the space out when there is no reason. Nobody can take that for anything else.
        if line.byte(in: bytes) != HTTP1Grammar.carriageReturn {
            try line.take(HTTP1Grammar.space, in: bytes, after: "a status")
        }
        reason = line.take(in: bytes) { HTTP1Grammar.isText($0) }
        try line.takeEnd(in: bytes, of: "a status line")
        end = line.offset
    }
}

/// The field lines of a head or a trailer section (RFC 9112 §5), one after the other.
struct HTTP1FieldLines {
    private var offset: Int
    /// Behind the last line; the empty line follows.
    private let end: Int

    init(_ range: Range<Int>) { (offset, end) = (range.lowerBound, range.upperBound) }

    /// The next field; `nil` after the last.
    mutating func next(in bytes: Span<UInt8>) throws(FrameError) -> (name: Range<Int>, value: Range<Int>)? {
        guard offset < end else { return nil }
        var line = HTTP1Line(at: offset)
        let name = line.take(in: bytes) { HTTP1Grammar.isToken($0) }
        let found = line.byte(in: bytes)
        guard found == HTTP1Grammar.colon, !name.isEmpty else {
            if HTTP1Grammar.isBlank(found) {
                throw FrameError(
                    .malformed,
                    name.isEmpty
                        ? "a folded line, which is obsolete (RFC 9112 §5.2)"
                        : "whitespace before the colon of a field (RFC 9112 §5.1)"
                )
            }
            if found == HTTP1Grammar.colon { throw FrameError(.malformed, "a field without a name") }
            if found == HTTP1Grammar.carriageReturn { throw FrameError(.malformed, "a field without a colon") }
            throw HTTP1Grammar.complaint(about: found, in: "the name of a field")
        }
        try line.take(HTTP1Grammar.colon, in: bytes, after: "the name of a field")
        let value = line.take(in: bytes) { HTTP1Grammar.isText($0) }
        try line.takeEnd(in: bytes, of: "the value of a field")
        guard line.offset <= end else { throw FrameError(.illegalLength, "a head that ends within a field") }
        offset = line.offset
        return (name, HTTP1Grammar.trimmed(bytes, value))
    }
}

/// Finds the empty line that ends a head or a trailer section, and looks at no byte twice, in however many pieces it
/// comes. Offsets count from the front of the input.
struct HTTP1Section: Sendable {
    /// Where the line at hand begins.
    private var line: Int
    private var scanned: Int
    private var isEmpty = true

    init(at offset: Int = 0) { (line, scanned) = (offset, offset) }

    /// Where the section ends, behind its empty line; `nil` when that has not come.
    mutating func end(in bytes: Span<UInt8>, mayBeEmpty: Bool = false) throws(FrameError) -> Int? {
        while scanned < bytes.count {
            let byte = bytes[scanned]
            scanned += 1
            guard byte == HTTP1Grammar.lineFeed else { continue }
            guard scanned - line >= 2, bytes[scanned - 2] == HTTP1Grammar.carriageReturn else {
                throw HTTP1Grammar.complaint(about: byte, in: "a head")
            }
            let isLast = scanned - line == 2
            line = scanned
            if isLast {
                guard !isEmpty || mayBeEmpty else { throw FrameError(.malformed, "an empty line in place of a head") }
                isEmpty = true
                return scanned
            }
            isEmpty = false
        }
        return nil
    }

    /// The bytes before `offset` are gone from the input.
    mutating func advance(by offset: Int) {
        line -= offset
        scanned -= offset
    }
}
