/// What the fields of a layout are called in a Wireshark dissector: one entry for each, in both directions.
struct WiresharkNames {
    private struct Entry {
        let field: Field
        let key: String
        /// The widest in any direction.
        var width: Int
    }

    private var entries: [Entry] = []

    init(_ plans: [LayoutPlan]) {
        for field in plans.flatMap(\.fields) {
            if let index = entries.firstIndex(where: { $0.field.content.isSame(as: field.content) }) {
                entries[index].width = max(entries[index].width, field.shownWidth)
                continue
            }
            // A name of the user's can be that of another field.
            let name = wiresharkName(field.content.name)
            let taken = entries.map(\.key) + ["kind", "bad_length"]
            var key = name
            var number = 2
            while taken.contains(key) {
                key = "\(name)_\(number)"
                number += 1
            }
            entries.append(Entry(field: field, key: key, width: field.shownWidth))
        }
    }

    /// What `field` is called.
    func key(of field: Field) -> String {
        entries.first { $0.field.content.isSame(as: field.content) }?.key ?? "constant"
    }

    /// Lines that declare every field under the protocol's name.
    func declarations(protocol name: String) -> String {
        entries.map { entry in
            let (type, base) = entry.field.content.wiresharkType(width: entry.width)
            let arguments =
                ["\(name).\(entry.key)", entry.field.content.name].map(luaString)
                + (base.map { [$0] } ?? [])
            return
                "    [\(luaString(entry.key))] = ProtoField.\(type)(\(arguments.joined(separator: ", "))),"
        }
        .joined(separator: "\n")
    }
}

extension Field {
    /// The most bytes that the value has.
    fileprivate var shownWidth: Int {
        if case .length(_, isVarint: true) = content { 8 } else { width }
    }
}

extension Field.Content {
    fileprivate var name: String {
        switch self {
        case .constant: "constant"
        case .type: "type"
        case .serial: "serial"
        case .status: "status"
        case .length: "length"
        case .integer(let name, _), .bytes(let name, _): name
        case .kind: "kind number"
        case .reserved: "reserved"
        case .body: "body"
        case .checksum(let checksum, _): checksum.name
        }
    }

    /// Whether both are shown under one name.
    fileprivate func isSame(as other: Field.Content) -> Bool {
        switch (self, other) {
        case (.constant, .constant), (.type, .type), (.serial, .serial), (.status, .status),
            (.length, .length),
            (.reserved, .reserved), (.body, .body), (.kind, .kind):
            true
        case (.integer(let a, _), .integer(let b, _)), (.bytes(let a, _), .bytes(let b, _)): a == b
        case (.checksum(let a, _), .checksum(let b, _)): a == b
        default: false
        }
    }

    /// The constructor of its ProtoField, and how the number is shown.
    fileprivate func wiresharkType(width: Int) -> (type: String, base: String?) {
        let base: String
        switch self {
        case .constant, .bytes, .reserved, .body: return ("bytes", nil)
        case .checksum(let checksum, _):
            guard checksum.isNumber else { return ("bytes", nil) }
            base = "base.HEX"
        case .type: base = "base.HEX_DEC"
        case .serial, .status, .length, .integer, .kind: base = "base.DEC_HEX"
        }
        return (width <= 3 ? "uint\(8 * width)" : width == 4 ? "uint32" : "uint64", base)
    }
}

/// `name` with an underscore for everything that Wireshark does not have in names.
func wiresharkName(_ name: String) -> String {
    let kept = name.unicodeScalars.map { scalar -> Character in
        switch scalar {
        case "a"..."z", "A"..."Z", "0"..."9", "_": Character(scalar)
        default: "_"
        }
    }
    return kept.isEmpty ? "_" : String(kept)
}

/// `text` as a string literal of Lua. What is not seen as itself is written in bytes: a name must neither end the literal nor
/// make the script look like another.
func luaString(_ text: String) -> String {
    let escaped = text.unicodeScalars.map { scalar -> String in
        switch scalar {
        case "\"", "\\": "\\\(scalar)"
        case _ where scalar.isPrinted: String(scalar)
        default: scalar.utf8.map { "\\x" + ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
        }
    }
    return "\"" + escaped.joined() + "\""
}
