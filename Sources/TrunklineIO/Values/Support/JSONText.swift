/// RFC 8259, for values that are written in one place and never nested deeply.
package enum JSONText {
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

package enum HexText {
    package static func text(of bytes: Bytes) -> String {
        // Safe: `text` reads the bytes before it returns.
        unsafe bytes.withUnsafeBytes { unsafe text(of: $0) }
    }

    static func text(of bytes: [UInt8]) -> String {
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

    package static func bytes(of text: some StringProtocol) -> [UInt8]? { bytes(of: [UInt8](copying: text.utf8)) }

    /// Concrete, for the same reason.
    private static func bytes(of digits: [UInt8]) -> [UInt8]? {
        guard digits.count.isMultiple(of: 2) else { return nil }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(digits.count / 2)
        for index in stride(from: 0, to: digits.count, by: 2) {
            guard let high = digits[index].hexadecimalValue, let low = digits[index + 1].hexadecimalValue else {
                return nil
            }
            bytes.append(high << 4 | low)
        }
        return bytes
    }
}

extension UInt8 {
    @inlinable
    @inline(__always)
    package var hexadecimalValue: UInt8? {
        switch self {
        case 0x30...0x39: self - 0x30
        case 0x41...0x46: self - 0x37
        case 0x61...0x66: self - 0x57
        default: nil
        }
    }
}
