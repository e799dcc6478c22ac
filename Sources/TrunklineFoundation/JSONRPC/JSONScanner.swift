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
        while let byte = text.byte(at: place), byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09 {
            place += 1
        }
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
        guard text.byte(at: place) == UInt8(ascii: "\"") else { throw invalid }
        place += 1
        while let byte = text.byte(at: place) {
            switch byte {
            case UInt8(ascii: "\""):
                place += 1
                return
            case UInt8(ascii: "\\"): try escape(in: text)
            case ..<0x20: throw invalid
            default: place += 1
            }
        }
        throw invalid
    }

    private mutating func escape(in text: Span<UInt8>) throws(FrameError) {
        switch text.byte(at: place + 1) {
        case UInt8(ascii: "u"):
            for index in place + 2..<place + 6 {
                guard text.byte(at: index).map({ Character(Unicode.Scalar($0)).isHexDigit }) == true else {
                    throw invalid
                }
            }
            place += 6
        case let byte? where "\"\\/bfnrt".utf8.contains(byte): place += 2
        default: throw invalid
        }
    }

    private mutating func word(_ word: String, in text: Span<UInt8>) throws(FrameError) {
        for character in word.utf8 {
            guard text.byte(at: place) == character else { throw invalid }
            place += 1
        }
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
        while let byte = text.byte(at: place), byte &- 0x30 < 10 { place += 1 }
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

extension Span<UInt8> {
    /// The byte at `offset`, or `nil` behind the end.
    fileprivate func byte(at offset: Int) -> UInt8? { offset < count ? self[offset] : nil }
}
