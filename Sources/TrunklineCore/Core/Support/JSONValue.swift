/// A JSON value (RFC 8259) as it was read. Numbers keep their text, so that none loses precision.
package enum JSONValue: Sendable, Equatable {
    case null
    case flag(Bool)
    case number(String)
    case text(String)
    case list([JSONValue])
    case object([(name: String, value: JSONValue)])

    /// `nil` also for a value that is nested more than 16 levels deep.
    package init?(_ text: some StringProtocol) {
        do throws(JSONSyntaxError) { try self.init(parsing: text) } catch { return nil }
    }

    package init(parsing text: some StringProtocol) throws(JSONSyntaxError) {
        let text = [UInt8](copying: text.utf8)
        var reader = JSONReader(text, in: 0..<text.count)
        guard let value = reader.value(depth: 0), reader.isAtEnd else { throw JSONSyntaxError(line: reader.line) }
        self = value
    }

    package init?(utf8 text: [UInt8], in range: Range<Int>) {
        var reader = JSONReader(text, in: range)
        guard let value = reader.value(depth: 0), reader.isAtEnd else { return nil }
        self = value
    }

    package subscript(name: String) -> JSONValue? {
        guard case .object(let members) = self else { return nil }
        return members.first { $0.name == name }?.value
    }

    package var members: [(name: String, value: JSONValue)] {
        if case .object(let members) = self { members } else { [] }
    }
    package var text: String? { if case .text(let text) = self { text } else { nil } }
    package var flag: Bool? { if case .flag(let flag) = self { flag } else { nil } }
    package var number: String? { if case .number(let number) = self { number } else { nil } }

    /// `1e3` and `1000.0` are integers too.
    package func integer<Value: FixedWidthInteger>(_ type: Value.Type = Value.self) -> Value? {
        number.flatMap { Value($0) ?? JSONNumber($0.utf8)?.integer() }
    }

    package static func == (a: JSONValue, b: JSONValue) -> Bool {
        switch (a, b) {
        case (.null, .null): true
        case (.flag(let a), .flag(let b)): a == b
        case (.number(let a), .number(let b)), (.text(let a), .text(let b)): a == b
        case (.list(let a), .list(let b)): a == b
        case (.object(let a), .object(let b)): a.elementsEqual(b) { $0.name == $1.name && $0.value == $1.value }
        default: false
        }
    }
}

package struct JSONSyntaxError: Error {
    package let line: Int
}

private struct JSONReader {
    private let bytes: [UInt8]
    private let range: Range<Int>
    private var place: Int

    init(_ bytes: [UInt8], in range: Range<Int>) { (self.bytes, self.range, place) = (bytes, range, range.lowerBound) }

    private var byte: UInt8? { place < range.upperBound ? bytes[place] : nil }

    var line: Int { bytes[range.lowerBound..<place].count { $0 == 0x0A } + 1 }

    var isAtEnd: Bool {
        mutating get {
            skipSpace()
            return place == range.upperBound
        }
    }

    private mutating func skipSpace() {
        while let byte, byte == 0x20 || byte == 0x09 || byte == 0x0A || byte == 0x0D { place += 1 }
    }

    private mutating func take(_ character: Unicode.Scalar) -> Bool {
        skipSpace()
        guard byte == UInt8(ascii: character) else { return false }
        place += 1
        return true
    }

    mutating func value(depth: Int) -> JSONValue? {
        skipSpace()
        guard depth <= 16, let byte else { return nil }
        switch byte {
        case UInt8(ascii: "{"): return object(depth)
        case UInt8(ascii: "["): return list(depth)
        case UInt8(ascii: "\""): return string().map { .text($0) }
        case UInt8(ascii: "t"): return word("true", .flag(true))
        case UInt8(ascii: "f"): return word("false", .flag(false))
        case UInt8(ascii: "n"): return word("null", .null)
        default: return number()
        }
    }

    private mutating func word(_ word: String, _ value: JSONValue) -> JSONValue? {
        guard bytes[place..<range.upperBound].starts(with: word.utf8) else { return nil }
        place += word.utf8.count
        return value
    }

    private mutating func number() -> JSONValue? {
        let start = place
        while let byte, byte.mayBeInNumber { place += 1 }
        guard JSONNumber(bytes[start..<place]) != nil else { return nil }
        return .number(String(decoding: bytes[start..<place], as: UTF8.self))
    }

    private mutating func object(_ depth: Int) -> JSONValue? {
        place += 1
        var members: [(name: String, value: JSONValue)] = []
        if take("}") { return .object(members) }
        repeat {
            skipSpace()
            guard byte == UInt8(ascii: "\""), let name = string(), take(":"), let value = value(depth: depth + 1) else {
                return nil
            }
            members.append((name, value))
        } while take(",")
        return take("}") ? .object(members) : nil
    }

    private mutating func list(_ depth: Int) -> JSONValue? {
        place += 1
        var elements: [JSONValue] = []
        if take("]") { return .list(elements) }
        repeat {
            guard let value = value(depth: depth + 1) else { return nil }
            elements.append(value)
        } while take(",")
        return take("]") ? .list(elements) : nil
    }

    private mutating func string() -> String? {
        place += 1
        var text: [UInt8] = []
        while true {
            let start = place
            place = bytes.span.extracting(0..<range.upperBound).endOfPlainText(from: place)
            if start < place { text += bytes[start..<place] }
            switch byte {
            case UInt8(ascii: "\"")?:
                place += 1
                return String(decoding: text, as: UTF8.self)
            case UInt8(ascii: "\\")?:
                // Escapes often follow each other.
                while byteIs("\\", at: place) {
                    place += 1
                    guard let scalar = escape() else { return nil }
                    text.append(utf8: scalar)
                }
            default: return nil
            }
        }
    }

    private mutating func escape() -> Unicode.Scalar? {
        guard let byte else { return nil }
        place += 1
        switch Unicode.Scalar(byte) {
        case "n": return "\n"
        case "r": return "\r"
        case "t": return "\t"
        case "b": return "\u{8}"
        case "f": return "\u{c}"
        case "\"", "\\", "/": return Unicode.Scalar(byte)
        case "u":
            guard let high = unit() else { return nil }
            guard (0xD800..<0xDC00).contains(high) else { return Unicode.Scalar(high) }
            // A pair of surrogates.
            guard byteIs("\\", at: place), byteIs("u", at: place + 1) else { return nil }
            place += 2
            guard let low = unit(), (0xDC00..<0xE000).contains(low) else { return nil }
            return Unicode.Scalar(0x10000 + (high - 0xD800) << 10 + (low - 0xDC00))
        default: return nil
        }
    }

    private func byteIs(_ character: Unicode.Scalar, at place: Int) -> Bool {
        place < range.upperBound && bytes[place] == UInt8(ascii: character)
    }

    private mutating func unit() -> UInt32? {
        guard place + 4 <= range.upperBound else { return nil }
        var unit: UInt32 = 0
        for index in place..<place + 4 {
            guard let digit = bytes[index].hexadecimalValue else { return nil }
            unit = unit << 4 | UInt32(digit)
        }
        place += 4
        return unit
    }
}

extension UInt8 {
    fileprivate var mayBeInNumber: Bool {
        switch self {
        case 0x30...0x39, UInt8(ascii: "+"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "e"), UInt8(ascii: "E"):
            true
        default: false
        }
    }
}

extension [UInt8] {
    fileprivate mutating func append(utf8 scalar: Unicode.Scalar) {
        guard !scalar.isASCII else { return append(UInt8(truncatingIfNeeded: scalar.value)) }
        for byte in scalar.utf8 { append(byte) }
    }
}
