import Trunkline

/// Finds the ends of JSON values (RFC 8259) without decoding them, and rejects everything that is not JSON.
///
/// It does not call itself, so no text can exhaust the stack. It does not check whether strings are valid UTF-8: the
/// reader of a value does.
struct JSONScanner {
    /// The offset of the next byte.
    private(set) var place: Int
    /// The number of objects and arrays around `place`.
    private var depth = 0
    /// The innermost 64 of them, the innermost one lowest: 1 for an object, 0 for an array.
    private var containers: UInt64 = 0
    /// The others, 64 in each element, outermost first.
    private var outer: [UInt64] = []

    /// The number of objects and arrays that may be nested: as many as `JSONDecoder` accepts.
    static let maximumDepth = 512

    init(at place: Int = 0) { self.place = place }

    // MARK: Values

    /// Returns the range of the value at `place`, after white space, and continues behind it.
    mutating func value(in text: Span<UInt8>) throws(FrameError) -> Range<Int> {
        skipSpace(in: text)
        let start = place
        let base = depth
        while true {
            // At the beginning of a value.
            skipSpace(in: text)
            switch text.byte(at: place) {
            case UInt8(ascii: "{"):
                try enter(isObject: true)
                if !take("}", in: text) {
                    try name(in: text)
                    continue
                }
                leave()
            case UInt8(ascii: "["):
                try enter(isObject: false)
                if !take("]", in: text) { continue }
                leave()
            case UInt8(ascii: "\""): try string(in: text)
            case UInt8(ascii: "t"): try word("true", in: text)
            case UInt8(ascii: "f"): try word("false", in: text)
            case UInt8(ascii: "n"): try word("null", in: text)
            default: try number(in: text)
            }
            // At the end of a value, and of those that end with it.
            while depth > base, take(isInObject ? "}" : "]", in: text) { leave() }
            if depth == base { return start..<place }
            guard take(",", in: text) else { throw invalid }
            if isInObject { try name(in: text) }
        }
    }

    /// Returns the range of the only value in `text`, with nothing but white space around it.
    static func onlyValue(in text: Span<UInt8>) throws(FrameError) -> Range<Int> {
        var scanner = JSONScanner()
        let range = try scanner.value(in: text)
        try scanner.expectEnd(of: text)
        return range
    }

    /// Calls `body` with the ranges of the name, without quotation marks, and of the value of each member of the object
    /// at `place`. Continues behind the object.
    mutating func members(
        in text: Span<UInt8>,
        _ body: (_ name: Range<Int>, _ value: Range<Int>) throws(FrameError) -> Void
    ) throws(FrameError) {
        guard take("{", in: text) else { throw invalid }
        if take("}", in: text) { return }
        repeat {
            let name = try name(in: text)
            try body(name, try value(in: text))
        } while take(",", in: text)
        guard take("}", in: text) else { throw invalid }
    }

    /// Calls `body` with the range of each element of the array at `place`. Continues behind the array.
    mutating func elements(
        in text: Span<UInt8>,
        _ body: (Range<Int>) throws(FrameError) -> Void
    ) throws(FrameError) {
        guard take("[", in: text) else { throw invalid }
        if take("]", in: text) { return }
        repeat { try body(try value(in: text)) } while take(",", in: text)
        guard take("]", in: text) else { throw invalid }
    }

    /// Throws unless only white space follows.
    mutating func expectEnd(of text: Span<UInt8>) throws(FrameError) {
        skipSpace(in: text)
        if place < text.count { throw invalid }
    }

    mutating func skipSpace(in text: Span<UInt8>) {
        var place = place
        while place < text.count, text[place].isJSONSpace { place += 1 }
        self.place = place
    }

    // MARK: Parts of values

    private var invalid: FrameError { FrameError(.malformed, "invalid JSON at byte \(place) of the message") }

    private mutating func take(_ character: Unicode.Scalar, in text: Span<UInt8>) -> Bool {
        skipSpace(in: text)
        guard text.byte(at: place) == UInt8(ascii: character) else { return false }
        place += 1
        return true
    }

    /// Consumes the name of a member and the colon. Returns the range of the name, without quotation marks.
    @discardableResult
    private mutating func name(in text: Span<UInt8>) throws(FrameError) -> Range<Int> {
        skipSpace(in: text)
        let start = place + 1
        try string(in: text)
        let end = place - 1
        guard take(":", in: text) else { throw invalid }
        return start..<end
    }

    private mutating func string(in text: Span<UInt8>) throws(FrameError) {
        var place = place
        guard text.byte(at: place) == UInt8(ascii: "\"") else { throw invalid }
        place += 1
        while place < text.count {
            let byte = text[place]
            if byte == UInt8(ascii: "\"") {
                self.place = place + 1
                return
            }
            if byte == UInt8(ascii: "\\") {
                let size = text.sizeOfEscape(at: place)
                if size == 0 { break }
                place += size
            } else {
                if byte < 0x20 { break }
                place += 1
            }
        }
        self.place = place
        throw invalid
    }

    private mutating func word(_ word: StaticString, in text: Span<UInt8>) throws(FrameError) {
        guard text.equals(word, in: place..<min(place + word.utf8CodeUnitCount, text.count)) else { throw invalid }
        place += word.utf8CodeUnitCount
    }

    private mutating func number(in text: Span<UInt8>) throws(FrameError) {
        if text.byte(at: place) == UInt8(ascii: "-") { place += 1 }
        let isZero = text.byte(at: place) == UInt8(ascii: "0")
        let digits = skipDigits(in: text)
        guard digits == 1 || digits > 1 && !isZero else { throw invalid }
        if text.byte(at: place) == UInt8(ascii: ".") {
            place += 1
            guard skipDigits(in: text) > 0 else { throw invalid }
        }
        guard let byte = text.byte(at: place), byte | 0x20 == UInt8(ascii: "e") else { return }
        place += 1
        if let sign = text.byte(at: place), sign == UInt8(ascii: "+") || sign == UInt8(ascii: "-") { place += 1 }
        guard skipDigits(in: text) > 0 else { throw invalid }
    }

    private mutating func skipDigits(in text: Span<UInt8>) -> Int {
        let start = place
        var place = start
        while place < text.count, text[place] &- 0x30 < 10 { place += 1 }
        self.place = place
        return place - start
    }

    // MARK: Nesting

    private var isInObject: Bool { containers & 1 == 1 }

    private mutating func enter(isObject: Bool) throws(FrameError) {
        guard depth < Self.maximumDepth else {
            throw FrameError(.malformed, "JSON that is nested more than \(Self.maximumDepth) levels deep")
        }
        place += 1
        if depth > 0, depth.isMultiple(of: 64) {
            outer.append(containers)
            containers = 0
        }
        containers = containers << 1 | (isObject ? 1 : 0)
        depth += 1
    }

    private mutating func leave() {
        depth -= 1
        containers >>= 1
        if depth > 0, depth.isMultiple(of: 64), let last = outer.popLast() { containers = last }
    }
}

extension UInt8 {
    fileprivate var isJSONSpace: Bool { self == 0x20 || self == 0x0A || self == 0x0D || self == 0x09 }
}

extension Span<UInt8> {
    /// The byte at `offset`, or `nil` behind the end.
    fileprivate func byte(at offset: Int) -> UInt8? { offset < count ? self[offset] : nil }

    /// The number of bytes of the escape at `offset`, where a backslash is; 0 if it is not a valid one.
    fileprivate func sizeOfEscape(at offset: Int) -> Int {
        switch byte(at: offset + 1) {
        case UInt8(ascii: "u"): return codeUnit(at: offset) == nil ? 0 : 6
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"), UInt8(ascii: "b"), UInt8(ascii: "f"),
            UInt8(ascii: "n"), UInt8(ascii: "r"), UInt8(ascii: "t"):
            return 2
        default: return 0
        }
    }

    /// The code unit of UTF-16 that `\u` and four hexadecimal digits at `offset` stand for. `nil` if they are not there.
    fileprivate func codeUnit(at offset: Int) -> UInt32? {
        guard offset + 6 <= count, self[offset] == UInt8(ascii: "\\"), self[offset + 1] == UInt8(ascii: "u") else {
            return nil
        }
        var unit: UInt32 = 0
        for index in offset + 2..<offset + 6 {
            let (digit, letter) = (self[index] &- 0x30, (self[index] | 0x20) &- 0x61)
            guard digit < 10 || letter < 6 else { return nil }
            unit = unit << 4 | UInt32(digit < 10 ? digit : letter + 10)
        }
        return unit
    }

    /// Whether the bytes in `range` are `text`.
    func equals(_ text: StaticString, in range: Range<Int>) -> Bool {
        guard range.count == text.utf8CodeUnitCount else { return false }
        return text.withUTF8Buffer { bytes in
            // Safe: there are as many bytes as in `range`.
            for offset in 0..<range.count where self[range.lowerBound + offset] != (unsafe bytes[offset]) {
                return false
            }
            return true
        }
    }

    /// Whether a JSON value is a string.
    func isString(_ range: Range<Int>) -> Bool { self[range.lowerBound] == UInt8(ascii: "\"") }

    // MARK: Strings

    /// Whether the text of the valid JSON string in `range`, without its quotation marks, is `text`. It may be written
    /// with escapes. Reads no more than it needs to tell.
    func isJSONString(_ text: some Collection<UInt8>, in range: Range<Int>) -> Bool {
        var (place, expected) = (range.lowerBound, text.makeIterator())
        while place < range.upperBound {
            guard self[place] == UInt8(ascii: "\\") else {
                guard expected.next() == self[place] else { return false }
                place += 1
                continue
            }
            guard let scalar = scalar(at: &place, before: range.upperBound) else { return false }
            for byte in scalar.utf8 where expected.next() != byte { return false }
        }
        return expected.next() == nil
    }

    /// The UTF-8 of the valid JSON string in `range`, without its quotation marks, or its beginning of at least `limit`
    /// bytes. `nil` if it has half of a surrogate pair.
    func bytes(ofJSONString range: Range<Int>, upTo limit: Int = .max) -> [UInt8]? {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(Swift.min(range.count, limit))
        var place = range.lowerBound
        while place < range.upperBound, bytes.count < limit {
            let byte = self[place]
            if byte == UInt8(ascii: "\\") {
                guard let scalar = scalar(at: &place, before: range.upperBound) else { return nil }
                bytes.append(contentsOf: scalar.utf8)
            } else {
                bytes.append(byte)
                place += 1
            }
        }
        return bytes
    }

    /// The scalar of the valid escape at `place`, which moves behind it. `nil` for half of a surrogate pair.
    private func scalar(at place: inout Int, before end: Int) -> Unicode.Scalar? {
        let byte = self[place + 1]
        guard byte == UInt8(ascii: "u") else {
            place += 2
            switch byte {
            case UInt8(ascii: "b"): return "\u{8}"
            case UInt8(ascii: "f"): return "\u{c}"
            case UInt8(ascii: "n"): return "\n"
            case UInt8(ascii: "r"): return "\r"
            case UInt8(ascii: "t"): return "\t"
            default: return Unicode.Scalar(byte)
            }
        }
        guard let unit = codeUnit(at: place) else { return nil }
        place += 6
        guard unit & 0xFC00 == 0xD800 else { return Unicode.Scalar(unit) }
        guard place < end, let low = codeUnit(at: place), low & 0xFC00 == 0xDC00 else { return nil }
        place += 6
        return Unicode.Scalar(0x10000 + (unit & 0x3FF) << 10 + low & 0x3FF)
    }

    /// The text of a valid JSON string in `range`, which does not include the quotation marks.
    func jsonString(in range: Range<Int>) throws(FrameError) -> String {
        guard let bytes = bytes(ofJSONString: range) else {
            throw FrameError(.malformed, "a string with half of a surrogate pair")
        }
        guard let text = String(validating: bytes, as: UTF8.self) else {
            throw FrameError(.malformed, "a string that is not valid UTF-8")
        }
        return text
    }
}
