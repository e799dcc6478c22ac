import TrunklineCore

/// The character classes of RFC 9110 and RFC 9112, and the errors for bytes outside them.
enum HTTP1Grammar {
    static let tab: UInt8 = 0x09
    static let lineFeed: UInt8 = 0x0A
    static let carriageReturn: UInt8 = 0x0D
    static let space: UInt8 = 0x20
    static let comma: UInt8 = 0x2C
    static let colon: UInt8 = 0x3A
    static let semicolon: UInt8 = 0x3B

    /// In a method, a field name, a connection option (RFC 9110 §5.6.2).
    static func isToken(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x30...0x39, 0x41...0x5A, 0x5E...0x7A: true  // digits, upper case, ^ _ ` and lower case
        case 0x21, 0x23...0x27, 0x2A, 0x2B, 0x2D, 0x2E, 0x7C, 0x7E: true  // ! # $ % & ' * + - . | ~
        default: false
        }
    }

    /// In a field value or a reason phrase (RFC 9110 §5.5): no control character except the tab.
    static func isText(_ byte: UInt8) -> Bool { byte >= 0x20 && byte != 0x7F || byte == tab }

    @inline(__always)
    static func endOfText(_ bytes: Span<UInt8>, from start: Int) -> Int {
        // Most texts are short.
        var place = start
        while place < bytes.count, isText(bytes[place]) {
            place &+= 1
            if place &- start == 12 { return endOfLongText(bytes, from: place) }
        }
        return place
    }

    @inline(never)
    private static func endOfLongText(_ bytes: Span<UInt8>, from start: Int) -> Int {
        bytes.firstOffset(
            from: start,
            amongEight: { $0.controls & ~$0.equal(to: tab) | $0.equal(to: 0x7F) },
            amongRest: { !isText($0) }
        )
    }

    /// Any visible ASCII character: the target cannot contain a separator or the end of the line.
    static func isTarget(_ byte: UInt8) -> Bool { byte > 0x20 && byte < 0x7F }

    /// Less strict than RFC 3986 §3.2.2, but rejects a URL and the parts of a URL other than host and port.
    static func isHost(_ text: String) -> Bool {
        !text.isEmpty && text.utf8.allSatisfy { isTarget($0) && !"/@?#\\".utf8.contains($0) }
    }

    static func isBlank(_ byte: UInt8) -> Bool { byte == space || byte == tab }

    /// Ignores case. `text` must be in lower case.
    static func isEqual(_ bytes: Span<UInt8>, _ range: Range<Int>, _ text: String) -> Bool {
        guard text.utf8.count == range.count else { return false }
        var index = range.lowerBound
        for letter in text.utf8 {
            guard bytes[index].lowercasedASCII == letter else { return false }
            index += 1
        }
        return true
    }

    /// Bytes that have not arrived count as equal.
    static func isVersion(_ bytes: Span<UInt8>, from start: Int) -> Bool {
        let expected: StaticString = "HTTP/1."
        return expected.withUTF8Buffer { expected in
            for index in 0..<max(0, min(expected.count, bytes.count - start)) {
                // Safe: within both.
                if bytes[start + index] != (unsafe expected[index]) { return false }
            }
            return true
        }
    }

    /// Elements are separated by commas, without blanks around them, in lower case (RFC 9110 §5.6.1). Omits empty ones.
    static func forEachElement(of list: String, _ body: ([UInt8]) -> Void) {
        var element: [UInt8] = []
        let bytes = Array(list.utf8)
        for index in 0...bytes.count {
            guard index == bytes.count || bytes[index] == comma else {
                let byte = bytes[index]
                if !element.isEmpty || !isBlank(byte) { element.append(byte.lowercasedASCII) }
                continue
            }
            while let last = element.last, isBlank(last) { element.removeLast() }
            if !element.isEmpty { body(element) }
            element.removeAll(keepingCapacity: true)
        }
    }

    static func trimmed(_ bytes: Span<UInt8>, _ range: Range<Int>) -> Range<Int> {
        var (lower, upper) = (range.lowerBound, range.upperBound)
        while lower < upper, isBlank(bytes[lower]) { lower += 1 }
        while upper > lower, isBlank(bytes[upper - 1]) { upper -= 1 }
        return lower..<upper
    }

    static func text(_ bytes: Span<UInt8>, _ range: Range<Int>) -> String {
        // Safe: the bytes are copied before the closure returns.
        unsafe bytes.extracting(range).withUnsafeBufferPointer { unsafe String(decoding: $0, as: UTF8.self) }
    }

    static func append(_ bytes: Span<UInt8>, _ range: Range<Int>, to array: inout [UInt8]) {
        unsafe bytes.extracting(range).withUnsafeBufferPointer { unsafe array.append(contentsOf: $0) }
    }

    /// The message quotes only the valid prefix.
    static func tokenError(_ text: String, _ place: String) -> FrameError? {
        guard let first = text.utf8.first(where: { !isToken($0) }) else {
            return text.isEmpty ? FrameError(.malformed, "\(place) is empty") : nil
        }
        let start = String(decoding: text.utf8.prefix { isToken($0) }, as: UTF8.self)
        return complaint(about: first, in: start.isEmpty ? place : "\(place), after “\(start.escaped(upTo: 64))”")
    }

    static func complaint(about byte: UInt8, in place: String) -> FrameError {
        let what =
            switch byte {
            case carriageReturn: "a carriage return without a line feed"
            case lineFeed: "a line feed without a carriage return"
            case 0: "a zero byte"
            default: "the byte 0x\(String(byte, radix: 16))"
            }
        return FrameError(.malformed, "\(what) in \(place)")
    }
}
