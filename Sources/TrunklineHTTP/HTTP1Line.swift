import TrunklineCore

/// A cursor within one line of a head. The caller knows that the line has an end.
struct HTTP1Line {
    private(set) var offset: Int

    init(at offset: Int) { self.offset = offset }

    func byte(in bytes: Span<UInt8>) -> UInt8 { offset < bytes.count ? bytes[offset] : 0 }

    @inline(__always)
    mutating func take(in bytes: Span<UInt8>, while predicate: (UInt8) -> Bool) -> Range<Int> {
        let start = offset
        while offset < bytes.count, predicate(bytes[offset]) { offset += 1 }
        return start..<offset
    }

    mutating func takeText(in bytes: Span<UInt8>) -> Range<Int> {
        let start = offset
        offset = HTTP1Grammar.endOfText(bytes, from: start)
        return start..<offset
    }

    mutating func take(_ byte: UInt8, in bytes: Span<UInt8>, after place: String) throws(FrameError) {
        let found = self.byte(in: bytes)
        guard found == byte else { throw HTTP1Grammar.complaint(about: found, in: place) }
        offset += 1
    }

    mutating func skip(_ count: Int) { offset += count }

    mutating func takeEnd(in bytes: Span<UInt8>, of place: String) throws(FrameError) {
        let found = byte(in: bytes)
        guard found == HTTP1Grammar.carriageReturn, offset + 1 < bytes.count,
            bytes[offset + 1] == HTTP1Grammar.lineFeed
        else { throw HTTP1Grammar.complaint(about: found, in: place) }
        offset += 2
    }

    mutating func takeVersion(in bytes: Span<UInt8>) throws(FrameError) -> Int {
        // If bytes are missing, the digit is, too.
        guard HTTP1Grammar.isVersion(bytes, from: offset) else {
            throw FrameError(.malformed, "a version that is not HTTP/1.x")
        }
        offset += 7
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
    let minor: Int
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
    let status: Int
    let reason: Range<Int>
    let minor: Int
    let end: Int

    init(in bytes: Span<UInt8>, at start: Int = 0) throws(FrameError) {
        var line = HTTP1Line(at: start)
        minor = try line.takeVersion(in: bytes)
        try line.take(HTTP1Grammar.space, in: bytes, after: "a version")
        let digits = line.take(in: bytes) { (0x30...0x39).contains($0) }
        guard digits.count == 3, bytes[digits.lowerBound] != 0x30 else {
            throw FrameError(.malformed, "a status that is not a number of three digits")
        }
        var number = 0
        for index in digits { number = number * 10 + Int(bytes[index]) - 0x30 }
        status = number
        // Some servers omit the space when there is no reason phrase. That is unambiguous.
        if line.byte(in: bytes) != HTTP1Grammar.carriageReturn {
            try line.take(HTTP1Grammar.space, in: bytes, after: "a status")
        }
        reason = line.takeText(in: bytes)
        try line.takeEnd(in: bytes, of: "a status line")
        end = line.offset
    }
}

/// Iterates over the field lines of a head or a trailer section (RFC 9112 §5).
struct HTTP1FieldLines {
    private var offset: Int
    private let end: Int

    init(_ range: Range<Int>) { (offset, end) = (range.lowerBound, range.upperBound) }

    mutating func next(in bytes: Span<UInt8>) throws(FrameError) -> (name: Range<Int>, value: Range<Int>)? {
        guard offset < end else { return nil }
        var line = HTTP1Line(at: offset)
        let name = line.take(in: bytes) { HTTP1Grammar.isToken($0) }
        guard line.byte(in: bytes) == HTTP1Grammar.colon, !name.isEmpty else {
            throw Self.mistake(after: name, line.byte(in: bytes))
        }
        line.skip(1)
        let value = line.takeText(in: bytes)
        try line.takeEnd(in: bytes, of: "the value of a field")
        guard line.offset <= end else { throw FrameError(.illegalLength, "the head ends within a field") }
        offset = line.offset
        return (name, HTTP1Grammar.trimmed(bytes, value))
    }

    @inline(never)
    private static func mistake(after name: Range<Int>, _ found: UInt8) -> FrameError {
        if HTTP1Grammar.isBlank(found) {
            return FrameError(
                .malformed,
                name.isEmpty
                    ? "a folded line (obsolete, RFC 9112 §5.2)"
                    : "whitespace before the colon of a field (RFC 9112 §5.1)"
            )
        }
        if found == HTTP1Grammar.colon { return FrameError(.malformed, "a field without a name") }
        if found == HTTP1Grammar.carriageReturn { return FrameError(.malformed, "a field without a colon") }
        return HTTP1Grammar.complaint(about: found, in: "the name of a field")
    }
}

/// Finds the lines of a head or a trailer section, up to the empty line. Reads each byte once, however the input is
/// split.
struct HTTP1Section: Sendable {
    private var line: Int
    private var scanned: Int
    private var isEmpty = true
    /// A byte that no line may contain, in a line that was not returned yet. The parser of that line reports it.
    private var invalid: UInt8?

    init(at offset: Int = 0) { (line, scanned) = (offset, offset) }

    var hasNotBegun: Bool { scanned == line && isEmpty }

    /// Throws as soon as an incomplete line contains a control character, or a CR or LF without the other.
    mutating func nextLine(in bytes: Span<UInt8>) throws(FrameError) -> Range<Int>? {
        let line = try takeLine(in: bytes)
        if line != nil { invalid = nil }
        return line
    }

    private mutating func takeLine(in bytes: Span<UInt8>) throws(FrameError) -> Range<Int>? {
        var place = scanned
        while place < bytes.count {
            if place > line, bytes[place - 1] == HTTP1Grammar.carriageReturn, bytes[place] != HTTP1Grammar.lineFeed {
                invalid = invalid ?? HTTP1Grammar.carriageReturn
            }
            place = HTTP1Grammar.endOfText(bytes, from: place)
            guard place < bytes.count else { break }
            let byte = bytes[place]
            place += 1
            guard byte == HTTP1Grammar.lineFeed else {
                if byte != HTTP1Grammar.carriageReturn { invalid = invalid ?? byte }
                continue
            }
            guard place - 2 >= line, bytes[place - 2] == HTTP1Grammar.carriageReturn else {
                throw HTTP1Grammar.complaint(about: byte, in: "a head")
            }
            let start = line
            (line, scanned, isEmpty) = (place, place, false)
            return start..<place
        }
        scanned = place
        if let invalid { throw HTTP1Grammar.complaint(about: invalid, in: "a head") }
        return nil
    }

    mutating func end(in bytes: Span<UInt8>, mayBeEmpty: Bool = false) throws(FrameError) -> Int? {
        while true {
            let isFirst = isEmpty
            guard let line = try takeLine(in: bytes) else { return nil }
            guard line.count == 2 else { continue }
            guard !isFirst || mayBeEmpty else { throw FrameError(.malformed, "an empty line in place of a head") }
            (isEmpty, invalid) = (true, nil)
            return line.upperBound
        }
    }

    /// Call after the bytes before `offset` were removed from the input.
    mutating func advance(by offset: Int) {
        line -= offset
        scanned -= offset
    }
}
