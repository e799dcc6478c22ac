import TrunklineCore

/// The fields of a head or a trailer section, in their original order and spelling. A name may occur several times.
public struct HTTP1Headers: Sendable, Hashable {
    struct Field: Sendable, Hashable {
        var name: String
        var value: String
    }

    private var fields: [Field] = []

    /// Creates an empty list of fields.
    public init() {}

    /// The values of all fields called `name`, ignoring case, joined by ", " (RFC 9110 §5.3); `nil` if there is no such
    /// field. The values of `Set-Cookie` must not be joined: read them with ``values(of:)``.
    ///
    /// Setting a value replaces all fields of that name with one at the end; setting `nil` removes them.
    public subscript(name: String) -> String? {
        get {
            let all = values(of: name)
            return all.count < 2 ? all.first : all.joined(separator: ", ")
        }
        set {
            fields.removeAll { Self.isEqual($0.name, name) }
            if let newValue { append(name, newValue) }
        }
    }

    /// Returns the value of each field called `name`, ignoring case.
    public func values(of name: String) -> [String] {
        fields.lazy.filter { Self.isEqual($0.name, name) }.map(\.value)
    }

    /// Adds a field at the end, even if there is already a field of that name. Invalid names and values are rejected
    /// when the message is encoded.
    public mutating func append(_ name: String, _ value: String) { fields.append(Field(name: name, value: value)) }

    private static func isEqual(_ a: String, _ b: String) -> Bool {
        a.utf8.count == b.utf8.count && zip(a.utf8, b.utf8).allSatisfy { $0.lowercasedASCII == $1.lowercasedASCII }
    }

    init(_ bytes: Span<UInt8>, _ range: Range<Int>) throws(FrameError) {
        var lines = HTTP1FieldLines(range)
        while let (name, value) = try lines.next(in: bytes) {
            append(HTTP1Grammar.text(bytes, name), HTTP1Grammar.text(bytes, value))
        }
    }

    /// Rejects names and values that would be read as something else (header injection).
    func encode(into output: inout [UInt8]) throws(FrameError) {
        for field in fields {
            if let error = HTTP1Grammar.tokenError(field.name, "the name of a field") { throw error }
            if let byte = field.value.utf8.first(where: { !HTTP1Grammar.isText($0) }) {
                throw HTTP1Grammar.complaint(about: byte, in: "the value of \(field.name.escaped())")
            }
            output += Array(field.name.utf8) + [HTTP1Grammar.colon, HTTP1Grammar.space] + Array(field.value.utf8)
            output += [HTTP1Grammar.carriageReturn, HTTP1Grammar.lineFeed]
        }
    }
}

extension HTTP1Headers: RandomAccessCollection {
    /// The position of the first field: 0.
    public var startIndex: Int { 0 }

    /// The number of fields.
    public var endIndex: Int { fields.count }

    /// The field at `position`, which must be a valid index.
    public subscript(position: Int) -> (name: String, value: String) {
        (fields[position].name, fields[position].value)
    }
}

extension HTTP1Headers: CustomStringConvertible {
    /// The fields for logs, one line each: `name: value`, escaped, at most 256 characters of each name and value. The
    /// values of `Authorization`, `Proxy-Authorization`, `Cookie` and `Set-Cookie` are replaced with `(redacted)`.
    public var description: String {
        fields.map { "\($0.name.escaped()): \(Self.shown($0))" }.joined(separator: "\n")
    }

    private static func shown(_ field: Field) -> String {
        isSecret(field.name) ? "(redacted)" : field.value.escaped()
    }

    private static func isSecret(_ name: String) -> Bool {
        ["authorization", "proxy-authorization", "cookie", "set-cookie"].contains { isEqual($0, name) }
    }
}

extension HTTP1Headers: ExpressibleByDictionaryLiteral {
    /// Creates fields from a dictionary literal. Keeps its order.
    public init(dictionaryLiteral fields: (String, String)...) {
        for (name, value) in fields { append(name, value) }
    }
}

extension HTTP1Headers: CustomReflectable {
    /// The fields as in ``description``, so that `dump` shows no more.
    public var customMirror: Mirror {
        let children = fields.map { field -> Mirror.Child in (field.name.escaped(), Self.shown(field)) }
        return Mirror(self, children: children, displayStyle: .struct)
    }
}
