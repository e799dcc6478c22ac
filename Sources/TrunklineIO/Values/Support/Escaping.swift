// The only place that decides how external text (from a peer, a configuration or a caller) appears in messages and
// descriptions. Bodies never appear, only their sizes.

extension String {
    /// Returns the text in a form that is safe to log: one line of at most `limit` scalars, followed by " …" if it was
    /// longer. Every scalar that is not visible in its place is escaped: control characters, line and paragraph
    /// separators, direction marks and other format characters, private-use and unassigned scalars.
    ///
    /// A backslash is not escaped. So escaping a whole message does not change the parts that were escaped before.
    package func escaped(upTo limit: Int = 256) -> String {
        // Fast path: most texts need no escapes.
        if utf8.count <= limit, isVisibleASCII { return self }
        var (text, count) = ("", 0)
        for scalar in unicodeScalars {
            let piece = scalar.escaped
            count += piece.unicodeScalars.count
            guard count <= limit else { return text + " …" }
            text += piece
        }
        return text
    }

    private var isVisibleASCII: Bool {
        var text = self
        return text.withUTF8 { bytes in
            for index in 0..<bytes.count where unsafe bytes[index] &- 0x20 >= 0x5F { return false }
            return true
        }
    }

    /// The text as a complete message: escaped, and at most 2,048 scalars long.
    package var asMessage: String { escaped(upTo: 2048) }

    /// The text of an address, with the user name and password before its last `@` replaced by `(redacted)`.
    package var withoutCredentials: String {
        guard let at = unicodeScalars.lastIndex(of: "@") else { return self }
        // Credentials begin after the scheme. A "://" after anything else is part of the password.
        var start = startIndex
        if let end = unicodeScalars[..<at].firstIndex(where: { !$0.mayBeInScheme }), end > startIndex,
            unicodeScalars[end..<at].starts(with: "://".unicodeScalars)
        {
            start = unicodeScalars.index(end, offsetBy: 3)
        }
        return String(unicodeScalars[..<start]) + "(redacted)" + String(unicodeScalars[at...])
    }

    /// Whether the text contains a zero byte, at which the system would cut a name or a path.
    package var hasZeroByte: Bool { utf8.contains(0) }
}

extension Unicode.Scalar {
    /// Whether a URI scheme may contain the scalar (RFC 3986 §3.1).
    fileprivate var mayBeInScheme: Bool {
        switch self {
        case "a"..."z", "A"..."Z", "0"..."9", "+", "-", ".": true
        default: false
        }
    }

    /// The scalar itself if it is visible, otherwise an escape for it.
    fileprivate var escaped: String {
        switch self {
        case "\n": "\\n"
        case "\r": "\\r"
        case "\t": "\\t"
        default: isPrinted ? String(self) : "\\u{\(String(value, radix: 16))}"
        }
    }

    /// Whether the scalar is visible in its place and does not affect the text around it, as direction marks do.
    package var isPrinted: Bool {
        switch properties.generalCategory {
        case .control, .format, .surrogate, .privateUse, .unassigned, .lineSeparator, .paragraphSeparator: false
        default: true
        }
    }
}
