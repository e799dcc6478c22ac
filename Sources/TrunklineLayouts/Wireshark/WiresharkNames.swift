import TrunklineCore

/// The names of a layout's fields in a Wireshark dissector: one for each field, in both directions.
struct WiresharkNames {
    private struct Entry {
        let field: Field
        let key: String
        var width: Int
    }

    private var entries: [Entry] = []

    init(_ shapes: [LayoutShape]) {
        for field in shapes.flatMap(\.fields) {
            if let index = entries.firstIndex(where: { $0.field.content.isSame(as: field.content) }) {
                entries[index].width = max(entries[index].width, field.shownWidth)
                continue
            }
            // The user may have chosen the name of another field.
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

    func key(of field: Field) -> String {
        entries.first { $0.field.content.isSame(as: field.content) }?.key ?? "constant"
    }

    func declarations(protocol name: String) -> String {
        entries.map { entry in
            let (type, base) = entry.field.content.wiresharkType(width: entry.width)
            let texts = ["\(name).\(entry.key)", entry.field.content.name].map(luaString)
            let arguments = (texts + (base.map { [$0] } ?? [])).joined(separator: ", ")
            return "    [\(luaString(entry.key))] = ProtoField.\(type)(\(arguments)),"
        }
        .joined(separator: "\n")
    }
}

extension Field {
    fileprivate var shownWidth: Int {
        if case .length(_, isVarint: true) = content { 8 } else { width }
    }
}

extension Field.Content {
    fileprivate var name: String { if case .kind = self { "kind number" } else { title.name ?? title.what } }

    fileprivate func isSame(as other: Field.Content) -> Bool {
        if case .checksum(let a, _) = self, case .checksum(let b, _) = other { return a == b }
        return title == other.title
    }

    fileprivate func wiresharkType(width: Int) -> (type: String, base: String?) {
        let base: String
        switch self {
        case .constant, .bytes, .reserved, .body: return ("bytes", nil)
        case .checksum(let checksum, _):
            guard checksum.isNumber else { return ("bytes", nil) }
            base = "base.HEX"
        case .serial where width > 8: return ("bytes", nil)
        case .type: base = "base.HEX_DEC"
        case .serial, .status, .length, .integer, .kind: base = "base.DEC_HEX"
        }
        return (width <= 3 ? "uint\(8 * width)" : width == 4 ? "uint32" : "uint64", base)
    }
}

func wiresharkName(_ name: String) -> String {
    let kept = name.unicodeScalars.map { scalar -> Character in
        switch scalar {
        case "a"..."z", "A"..."Z", "0"..."9", "_": Character(scalar)
        default: "_"
        }
    }
    return kept.isEmpty ? "_" : String(kept)
}

/// Characters that are not printable become bytes: a name must not end the literal or disguise the script.
func luaString(_ text: String) -> String {
    let escaped = text.unicodeScalars.map { scalar -> String in
        switch scalar {
        case "\"", "\\": "\\\(scalar)"
        case _ where scalar.isPrinted: String(scalar)
        default: scalar.utf8.map { "\\x" + twoDigits($0) }.joined()
        }
    }
    return "\"" + escaped.joined() + "\""
}
