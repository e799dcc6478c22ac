extension String {
    /// The text as it may stand in a log: in one line, with everything escaped that is not printed as itself.
    package var escaped: String {
        var text = ""
        for scalar in unicodeScalars {
            switch scalar {
            case "\\": text += "\\\\"
            case "\n": text += "\\n"
            case "\r": text += "\\r"
            case "\t": text += "\\t"
            default: text += scalar.isPrinted ? String(scalar) : "\\u{\(String(scalar.value, radix: 16))}"
            }
        }
        return text
    }
}

extension Unicode.Scalar {
    /// Whether it is seen where it stands, and changes nothing around it, as marks of direction do.
    fileprivate var isPrinted: Bool {
        switch properties.generalCategory {
        case .control, .format, .surrogate, .privateUse, .unassigned, .lineSeparator, .paragraphSeparator: false
        default: true
        }
    }
}

extension Frame {
    /// How the body begins, for people: at most 64 bytes of it; `nil` if there are none. The head of an HTTP message is
    /// passed over.
    package var excerpt: String? {
        body.excerpt(from: Int(clamping: self[HTTP1Message.headLength] ?? 0), upTo: 64)
    }
}

extension Bytes {
    /// At most `limit` bytes: text in quotes, escaped; what is no text as numbers; `nil` if there are none from `start` on.
    package func excerpt(from start: Int = 0, upTo limit: Int) -> String? {
        guard start < count else { return nil }
        var end = Swift.min(count, start + limit)
        // Not within a character: its first byte is no continuation.
        if end < count { while end > start, end > start + limit - 4, self[end] & 0xC0 == 0x80 { end -= 1 } }
        let bytes = Bytes(self[start..<end])
        guard let text = String(validating: bytes, as: UTF8.self) else { return Bytes(self[start...]).description }
        return "“\(text.escaped)”" + (end < count ? " …" : "")
    }
}
