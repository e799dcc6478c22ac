import TrunklineCore

/// Finds the ends of JSON values (RFC 8259) without decoding them, and rejects everything that is not JSON.
///
/// It does not call itself, so no text can exhaust the stack. It does not check whether strings are valid UTF-8: the
/// reader of a value does.
struct JSONScanner {
    private(set) var place: Int
    private var depth = 0
    /// The innermost 64 containers around `place`, the innermost one lowest: 1 for an object, 0 for an array.
    private var containers: UInt64 = 0
    /// The others, 64 in each element, outermost first.
    private var outer: [UInt64] = []

    /// As many as `JSONDecoder` accepts.
    static let maximumDepth = 512

    init(at place: Int = 0) { self.place = place }

    mutating func value(in text: Span<UInt8>) throws(FrameError) -> Range<Int> {
        let range = try value(in: text, from: text.endOfSpace(from: place))
        place = range.upperBound
        return range
    }

    private mutating func value(in text: Span<UInt8>, from start: Int) throws(FrameError) -> Range<Int> {
        let base = depth
        var place = start
        while true {
            // At the beginning of a value, behind white space.
            switch text.byte(at: place) {
            case UInt8(ascii: "{"):
                try enter(isObject: true)
                place = text.endOfSpace(from: place &+ 1)
                if text.byte(at: place) != UInt8(ascii: "}") {
                    place = try name(in: text, from: place).next
                    continue
                }
                leave()
                place &+= 1
            case UInt8(ascii: "["):
                try enter(isObject: false)
                place = text.endOfSpace(from: place &+ 1)
                if text.byte(at: place) != UInt8(ascii: "]") { continue }
                leave()
                place &+= 1
            case UInt8(ascii: "\""): place = try string(in: text, from: place)
            case UInt8(ascii: "t"): place = try word("true", in: text, from: place)
            case UInt8(ascii: "f"): place = try word("false", in: text, from: place)
            case UInt8(ascii: "n"): place = try word("null", in: text, from: place)
            case UInt8(ascii: "0")...UInt8(ascii: "9") where !text.byte(at: place &+ 1).continuesNumber: place &+= 1
            default: place = try number(in: text, from: place)
            }
            // At the end of a value, and of those that end with it.
            while true {
                if depth == base { return start..<place }
                place = text.endOfSpace(from: place)
                let byte = text.byte(at: place)
                if byte == UInt8(ascii: ",") {
                    place = text.endOfSpace(from: place &+ 1)
                    if isInObject { place = try name(in: text, from: place).next }
                    break
                }
                guard byte == (isInObject ? UInt8(ascii: "}") : UInt8(ascii: "]")) else { throw invalid(at: place) }
                leave()
                place &+= 1
            }
        }
    }

    static func onlyValue(in text: Span<UInt8>) throws(FrameError) -> Range<Int> {
        var scanner = JSONScanner()
        let range = try scanner.value(in: text)
        try scanner.expectEnd(of: text)
        return range
    }

    /// Passes names without quotation marks. Continues behind the object.
    mutating func members(
        in text: Span<UInt8>,
        _ body: (_ name: Range<Int>, _ value: Range<Int>) throws(FrameError) -> Void
    ) throws(FrameError) {
        guard try begin(UInt8(ascii: "{"), UInt8(ascii: "}"), in: text) else { return }
        repeat {
            let (name, start) = try name(in: text, from: place)
            let value = try value(in: text, from: start)
            try body(name, value)
            place = value.upperBound
        } while try goOn(UInt8(ascii: "}"), in: text)
    }

    mutating func elements(
        in text: Span<UInt8>,
        _ body: (Range<Int>) throws(FrameError) -> Void
    ) throws(FrameError) {
        guard try begin(UInt8(ascii: "["), UInt8(ascii: "]"), in: text) else { return }
        repeat {
            let value = try value(in: text, from: place)
            try body(value)
            place = value.upperBound
        } while try goOn(UInt8(ascii: "]"), in: text)
    }

    mutating func expectEnd(of text: Span<UInt8>) throws(FrameError) {
        skipSpace(in: text)
        if place < text.count { throw invalid(at: place) }
    }

    mutating func skipSpace(in text: Span<UInt8>) { place = text.endOfSpace(from: place) }

    @inline(never)
    private func invalid(at place: Int) -> FrameError {
        FrameError(.malformed, "invalid JSON at byte \(place) of the message")
    }

    /// Returns false, and consumes the closing bracket too, if the container is empty.
    private mutating func begin(
        _ opening: UInt8,
        _ closing: UInt8,
        in text: Span<UInt8>
    ) throws(FrameError) -> Bool {
        skipSpace(in: text)
        guard text.byte(at: place) == opening else { throw invalid(at: place) }
        place = text.endOfSpace(from: place &+ 1)
        guard text.byte(at: place) == closing else { return true }
        place &+= 1
        return false
    }

    /// Returns true for a comma, and false for the closing bracket.
    @inline(__always)
    private mutating func goOn(_ closing: UInt8, in text: Span<UInt8>) throws(FrameError) -> Bool {
        skipSpace(in: text)
        let byte = text.byte(at: place)
        guard byte == UInt8(ascii: ",") || byte == closing else { throw invalid(at: place) }
        place &+= 1
        guard byte == UInt8(ascii: ",") else { return false }
        skipSpace(in: text)
        return true
    }

    @inline(__always)
    private func name(in text: Span<UInt8>, from start: Int) throws(FrameError) -> (range: Range<Int>, next: Int) {
        guard text.byte(at: start) == UInt8(ascii: "\"") else { throw invalid(at: start) }
        let end = try string(in: text, from: start)
        let colon = text.endOfSpace(from: end)
        guard text.byte(at: colon) == UInt8(ascii: ":") else { throw invalid(at: colon) }
        return (start &+ 1..<end &- 1, text.endOfSpace(from: colon &+ 1))
    }

    // Each of the following returns the offset behind what it reads.

    private func string(in text: Span<UInt8>, from start: Int) throws(FrameError) -> Int {
        var place = start &+ 1
        while true {
            switch text.byte(at: place) {
            case UInt8(ascii: "\""): return place &+ 1
            case UInt8(ascii: "\\"):
                let size = text.sizeOfEscape(at: place)
                if size == 0 { throw invalid(at: place) }
                place &+= size
            case ..<0x20: throw invalid(at: place)
            default: place = text.endOfPlainString(from: place &+ 1)
            }
        }
    }

    private func word(_ word: StaticString, in text: Span<UInt8>, from start: Int) throws(FrameError) -> Int {
        let end = start &+ word.utf8CodeUnitCount
        guard end <= text.count, text.equals(word, in: start..<end) else { throw invalid(at: start) }
        return end
    }

    private func number(in text: Span<UInt8>, from start: Int) throws(FrameError) -> Int {
        let first = text.byte(at: start) == UInt8(ascii: "-") ? start &+ 1 : start
        var place = text.endOfDigits(from: first)
        let isZero = text.byte(at: first) == UInt8(ascii: "0")
        guard place == first &+ 1 || place > first && !isZero else { throw invalid(at: place) }
        if text.byte(at: place) == UInt8(ascii: ".") {
            let digits = place &+ 1
            place = text.endOfDigits(from: digits)
            guard place > digits else { throw invalid(at: place) }
        }
        guard text.byte(at: place) | 0x20 == UInt8(ascii: "e") else { return place }
        place &+= 1
        let sign = text.byte(at: place)
        let digits = sign == UInt8(ascii: "+") || sign == UInt8(ascii: "-") ? place &+ 1 : place
        place = text.endOfDigits(from: digits)
        guard place > digits else { throw invalid(at: place) }
        return place
    }

    private var isInObject: Bool { containers & 1 == 1 }

    @inline(__always)
    private mutating func enter(isObject: Bool) throws(FrameError) {
        guard depth < Self.maximumDepth else { throw tooDeep }
        if depth & 63 == 0, depth > 0 {
            outer.append(containers)
            containers = 0
        }
        containers = containers << 1 | (isObject ? 1 : 0)
        depth &+= 1
    }

    @inline(never)
    private var tooDeep: FrameError {
        FrameError(.malformed, "JSON that is nested more than \(Self.maximumDepth) levels deep")
    }

    @inline(__always)
    private mutating func leave() {
        depth &-= 1
        containers >>= 1
        if depth & 63 == 0, depth > 0, let last = outer.popLast() { containers = last }
    }
}

extension UInt8 {
    fileprivate var isJSONSpace: Bool {
        // Bit n for the byte n: tab, line feed, carriage return, space.
        self <= 0x20 && 1 << UInt64(self) & 0x1_0000_2600 != 0
    }

    fileprivate var continuesNumber: Bool {
        self &- 0x30 < 10 || self == UInt8(ascii: ".") || self | 0x20 == UInt8(ascii: "e")
    }
}

extension Span<UInt8> {
    /// The byte at `offset`, or 0 behind the end: no JSON text contains 0.
    @inline(__always)
    fileprivate func byte(at offset: Int) -> UInt8 {
        // Safe: the bounds are checked. One comparison is enough, because a negative offset becomes a large number.
        UInt(bitPattern: offset) < UInt(bitPattern: count) ? unsafe self[unchecked: offset] : 0
    }

    @inline(__always)
    fileprivate func endOfSpace(from start: Int) -> Int {
        var place = start
        while byte(at: place).isJSONSpace { place &+= 1 }
        return place
    }

    @inline(__always)
    fileprivate func endOfDigits(from start: Int) -> Int {
        var place = start
        while byte(at: place) &- 0x30 < 10 { place &+= 1 }
        return place
    }

    /// As `endOfPlainText`, but not always inlined, which saves a tenth of the instructions of an escape.
    fileprivate func endOfPlainString(from start: Int) -> Int {
        firstOffset(
            from: start,
            amongEight: { $0.controls | $0.equal(to: UInt8(ascii: "\"")) | $0.equal(to: UInt8(ascii: "\\")) },
            amongRest: { $0 < 0x20 || $0 == UInt8(ascii: "\"") || $0 == UInt8(ascii: "\\") }
        )
    }

    fileprivate func sizeOfEscape(at offset: Int) -> Int {
        switch byte(at: offset + 1) {
        case UInt8(ascii: "u"): return codeUnit(at: offset) == nil ? 0 : 6
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"), UInt8(ascii: "b"), UInt8(ascii: "f"),
            UInt8(ascii: "n"), UInt8(ascii: "r"), UInt8(ascii: "t"):
            return 2
        default: return 0
        }
    }

    /// `nil` unless `\u` and four hexadecimal digits are at `offset`.
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

    func isString(_ range: Range<Int>) -> Bool { self[range.lowerBound] == UInt8(ascii: "\"") }

    // In the following, `range` is a valid JSON string without its quotation marks. It may have escapes.

    func isJSONString(_ text: [UInt8], in range: Range<Int>) -> Bool {
        // An escape is not shorter than what it stands for.
        guard range.count >= text.count else { return false }
        var (place, count) = (range.lowerBound, 0)
        while place < range.upperBound {
            guard count < text.count else { return false }
            if self[place] == UInt8(ascii: "\\") {
                guard let scalar = scalar(at: &place, before: range.upperBound) else { return false }
                for byte in scalar.utf8 {
                    guard count < text.count, text[count] == byte else { return false }
                    count += 1
                }
            } else {
                guard text[count] == self[place] else { return false }
                (place, count) = (place + 1, count + 1)
            }
        }
        return count == text.count
    }

    /// The bytes as an integer, the first one lowest. `nil` for more than eight, or for an escape that is not ASCII.
    func shortJSONString(in range: Range<Int>) -> UInt64? {
        var (place, text, shift): (Int, UInt64, UInt64) = (range.lowerBound, 0, 0)
        while place < range.upperBound {
            var byte = self[place]
            if byte == UInt8(ascii: "\\") {
                guard let scalar = scalar(at: &place, before: range.upperBound), scalar.isASCII else { return nil }
                byte = UInt8(truncatingIfNeeded: scalar.value)
            } else {
                place += 1
            }
            // A zero byte would make no difference.
            guard shift < 64, byte != 0 else { return nil }
            text |= UInt64(byte) << shift
            shift += 8
        }
        return text
    }

    func hasEscapes(inJSONString range: Range<Int>) -> Bool {
        endOfPlainString(from: range.lowerBound) < range.upperBound
    }

    /// At least the first `limit` bytes. `nil` for half of a surrogate pair.
    func bytes(ofJSONString range: Range<Int>, upTo limit: Int = .max) -> [UInt8]? {
        var isValid = true
        // No escape is shorter than what it stands for, which has at most four bytes.
        let capacity = Swift.min(range.count, Swift.min(limit, .max - 4) + 4)
        // Safe: at most `capacity` bytes are written, and `count` of them are.
        let bytes = unsafe [UInt8](unsafeUninitializedCapacity: capacity) { memory, count in
            var place = range.lowerBound
            while place < range.upperBound, count < limit {
                let byte = self[place]
                guard byte == UInt8(ascii: "\\") else {
                    unsafe memory[count] = byte
                    (place, count) = (place + 1, count + 1)
                    continue
                }
                let escaped = self[place + 1]
                guard escaped == UInt8(ascii: "u") else {
                    unsafe memory[count] = Self.unescaped(escaped)
                    (place, count) = (place + 2, count + 1)
                    continue
                }
                guard let scalar = scalar(at: &place, before: range.upperBound) else {
                    isValid = false
                    return
                }
                if scalar.isASCII {
                    unsafe memory[count] = UInt8(truncatingIfNeeded: scalar.value)
                    count += 1
                    continue
                }
                for byte in scalar.utf8 {
                    unsafe memory[count] = byte
                    count += 1
                }
            }
        }
        return isValid ? bytes : nil
    }

    @inline(__always)
    private static func unescaped(_ byte: UInt8) -> UInt8 {
        switch byte {
        case UInt8(ascii: "b"): 0x08
        case UInt8(ascii: "f"): 0x0C
        case UInt8(ascii: "n"): 0x0A
        case UInt8(ascii: "r"): 0x0D
        case UInt8(ascii: "t"): 0x09
        default: byte
        }
    }

    /// Moves `place` behind the escape. `nil` for half of a surrogate pair.
    private func scalar(at place: inout Int, before end: Int) -> Unicode.Scalar? {
        let byte = self[place + 1]
        guard byte == UInt8(ascii: "u") else {
            place += 2
            return Unicode.Scalar(Self.unescaped(byte))
        }
        guard let unit = codeUnit(at: place) else { return nil }
        place += 6
        guard unit & 0xFC00 == 0xD800 else { return Unicode.Scalar(unit) }
        guard place < end, let low = codeUnit(at: place), low & 0xFC00 == 0xDC00 else { return nil }
        place += 6
        return Unicode.Scalar(0x10000 + (unit & 0x3FF) << 10 + low & 0x3FF)
    }

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
