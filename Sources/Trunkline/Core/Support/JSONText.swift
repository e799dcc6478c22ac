/// JSON as text (RFC 8259), for values that are written in one place and never nested deeply.
package enum JSONText {
    /// The text in quotation marks, with everything escaped that JSON does not allow in a string.
    package static func quoted(_ text: some StringProtocol) -> String {
        var result = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"": result += "\\\""
            case "\\": result += "\\\\"
            case "\n": result += "\\n"
            case "\r": result += "\\r"
            case "\t": result += "\\t"
            case "\u{0}"..<" ":
                let digits = String(scalar.value, radix: 16)
                result += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
            default: result.unicodeScalars.append(scalar)
            }
        }
        return result + "\""
    }
}

/// Bytes as lower-case hexadecimal digits.
package enum HexText {
    package static func text(of bytes: Bytes) -> String {
        // Safe: `text` reads the bytes before it returns.
        unsafe bytes.withUnsafeBytes { unsafe text(of: $0) }
    }

    package static func text(of bytes: [UInt8]) -> String {
        // Safe: as above.
        unsafe bytes.withUnsafeBytes { unsafe text(of: $0) }
    }

    /// Concrete: for a generic collection, other modules would run code that allocates twice for each byte.
    private static func text(of bytes: UnsafeRawBufferPointer) -> String {
        // Safe: two digits are initialized for each byte.
        unsafe String(unsafeUninitializedCapacity: 2 * bytes.count) { text in
            var count = 0
            for index in 0..<bytes.count {
                let byte = unsafe bytes[index]
                unsafe (text[count], text[count + 1]) = (digit(byte >> 4), digit(byte & 15))
                count += 2
            }
            return count
        }
    }

    private static func digit(_ value: UInt8) -> UInt8 {
        value < 10 ? UInt8(ascii: "0") + value : UInt8(ascii: "a") + value - 10
    }

    /// `nil` if `text` is not an even number of hexadecimal digits.
    package static func bytes(of text: some StringProtocol) -> [UInt8]? {
        let values = text.utf8.map { Character(Unicode.Scalar($0)).hexDigitValue }
        guard values.count.isMultiple(of: 2) else { return nil }
        var bytes: [UInt8] = []
        for index in stride(from: 0, to: values.count, by: 2) {
            guard let high = values[index], let low = values[index + 1] else { return nil }
            bytes.append(UInt8(high << 4 | low))
        }
        return bytes
    }
}
