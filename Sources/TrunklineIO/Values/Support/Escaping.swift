// The only place that decides how external text appears in messages and descriptions.

extension String {
    /// Safe to log: one line of at most `limit` scalars, each visible in its place. A backslash is not escaped, so
    /// escaping a whole message does not change the parts that were escaped before.
    package func escaped(upTo limit: Int = 256) -> String {
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

    package var asMessage: String { escaped(upTo: 2048) }

    /// Replaces the user name and password before the last `@` of an address.
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

    /// The system would cut a name or a path there.
    package var hasZeroByte: Bool { utf8.contains(0) }
}

extension Unicode.Scalar {
    /// RFC 3986 §3.1.
    fileprivate var mayBeInScheme: Bool {
        switch self {
        case "a"..."z", "A"..."Z", "0"..."9", "+", "-", ".": true
        default: false
        }
    }

    fileprivate var escaped: String {
        switch self {
        case "\n": "\\n"
        case "\r": "\\r"
        case "\t": "\\t"
        default: isPrinted ? String(self) : "\\u{\(String(value, radix: 16))}"
        }
    }

    /// Visible in its place, and without effect on the text around it, unlike a direction mark.
    package var isPrinted: Bool {
        switch properties.generalCategory {
        case .control, .format, .surrogate, .privateUse, .unassigned, .lineSeparator, .paragraphSeparator: false
        default: true
        }
    }
}
