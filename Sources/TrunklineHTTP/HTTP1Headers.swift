import Trunkline

/// The fields of a head, or of a trailer section: in their order, with their spelling, each as often as it is there.
public struct HTTP1Headers: Sendable, Hashable {
    struct Field: Sendable, Hashable {
        var name: String
        var value: String
    }

    private var fields: [Field] = []

    /// No fields.
    public init() {}

    /// The values of all fields called `name`, in letters of either size, joined by ", " as RFC 9110 §5.3 has it; `nil`
    /// when there is none. `Set-Cookie` is the one field whose values must not be joined: see `values(of:)`.
    ///
    /// Setting replaces all of them by one field, `nil` removes them.
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

    /// The value of each field called `name`, in letters of either size.
    public func values(of name: String) -> [String] {
        fields.lazy.filter { Self.isEqual($0.name, name) }.map(\.value)
    }

    /// Adds a field behind the others, whether there is one of that name or not. What no field may hold is refused when
    /// the message is encoded.
    public mutating func append(_ name: String, _ value: String) { fields.append(Field(name: name, value: value)) }

    /// Letters of the ASCII range alone have two sizes.
    private static func isEqual(_ a: String, _ b: String) -> Bool {
        a.utf8.count == b.utf8.count && zip(a.utf8, b.utf8).allSatisfy { lowered($0) == lowered($1) }
    }

    private static func lowered(_ byte: UInt8) -> UInt8 { (0x41...0x5A).contains(byte) ? byte | 0x20 : byte }

    /// Reads the field lines in `range`.
    init(_ bytes: Span<UInt8>, _ range: Range<Int>) throws(FrameError) {
        var lines = HTTP1FieldLines(range)
        while let (name, value) = try lines.next(in: bytes) {
            append(HTTP1Grammar.text(bytes, name), HTTP1Grammar.text(bytes, value))
        }
    }

    /// Appends the field lines to `output`, or refuses what would not be read as what it is (header injection).
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
    /// Always zero.
    public var startIndex: Int { 0 }

    /// The number of fields.
    public var endIndex: Int { fields.count }

    /// The field at `position`, which must be that of one.
    public subscript(position: Int) -> (name: String, value: String) {
        (fields[position].name, fields[position].value)
    }
}

extension HTTP1Headers: CustomStringConvertible {
    /// `name: value` in one line for each field, escaped and at most 256 characters of either, for logs. The values of
    /// `Authorization`, `Proxy-Authorization`, `Cookie` and `Set-Cookie` are left out.
    public var description: String {
        fields.map { "\($0.name.escaped()): \(Self.isSecret($0.name) ? "(redacted)" : $0.value.escaped())" }
            .joined(separator: "\n")
    }

    private static func isSecret(_ name: String) -> Bool {
        ["authorization", "proxy-authorization", "cookie", "set-cookie"].contains { isEqual($0, name) }
    }
}

extension HTTP1Headers: ExpressibleByDictionaryLiteral {
    /// The fields of a literal, in its order.
    public init(dictionaryLiteral fields: (String, String)...) {
        for (name, value) in fields { append(name, value) }
    }
}
