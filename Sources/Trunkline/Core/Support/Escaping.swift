// The one place that decides how text from elsewhere (a peer, a configuration, a caller) appears in messages and
// descriptions. Bodies do not appear at all, only their sizes.

extension String {
    /// The text as it may stand in a log: in one line, at most `limit` scalars long and " …" if it was longer, with
    /// escapes for everything that is not seen where it stands: control characters, line and paragraph separators, marks
    /// of direction and other format characters, private and unassigned scalars.
    ///
    /// A backslash stays as it is, so that escaping a message as a whole leaves alone what was escaped in it.
    package func escaped(upTo limit: Int = 256) -> String {
        // Nearly always there is nothing to do.
        if utf8.count <= limit, utf8.allSatisfy({ 0x20 <= $0 && $0 < 0x7F }) { return self }
        var (text, count) = ("", 0)
        for scalar in unicodeScalars {
            let piece = scalar.escaped
            count += piece.unicodeScalars.count
            guard count <= limit else { return text + " …" }
            text += piece
        }
        return text
    }

    /// The text as a whole message: escaped, and at most 2,048 scalars long.
    package var asMessage: String { escaped(upTo: 2048) }

    /// The text of an address without the user and the password before its last `@`.
    package var withoutCredentials: String {
        guard let at = unicodeScalars.lastIndex(of: "@") else { return self }
        // Behind the scheme; a "://" behind anything else is a part of the password.
        var start = startIndex
        if let end = unicodeScalars[..<at].firstIndex(where: { !$0.mayBeInScheme }), end > startIndex,
            unicodeScalars[end..<at].starts(with: "://".unicodeScalars)
        {
            start = unicodeScalars.index(end, offsetBy: 3)
        }
        return String(unicodeScalars[..<start]) + "(redacted)" + String(unicodeScalars[at...])
    }

    /// Whether the system, which ends names and paths at their first zero byte, would see another text.
    package var hasZeroByte: Bool { utf8.contains(0) }
}

extension Unicode.Scalar {
    /// RFC 3986, section 3.1.
    fileprivate var mayBeInScheme: Bool {
        switch self {
        case "a"..."z", "A"..."Z", "0"..."9", "+", "-", ".": true
        default: false
        }
    }

    /// The scalar as it is seen, or an escape for it.
    fileprivate var escaped: String {
        switch self {
        case "\n": "\\n"
        case "\r": "\\r"
        case "\t": "\\t"
        default: isPrinted ? String(self) : "\\u{\(String(value, radix: 16))}"
        }
    }

    /// Whether it is seen where it stands, and changes nothing around it, as marks of direction do.
    package var isPrinted: Bool {
        switch properties.generalCategory {
        case .control, .format, .surrogate, .privateUse, .unassigned, .lineSeparator, .paragraphSeparator: false
        default: true
        }
    }
}
