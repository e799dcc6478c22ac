import TrunklineCore

extension FrameLayout {
    /// A table of the layout in Markdown, one field per row, for documentation.
    ///
    /// ```
    /// | offset | size | field |
    /// |---|---|---|
    /// | 0 | 4 | type |
    /// | 4 | 4 | serial |
    /// | 8 | 4 | length of the body |
    /// | 12 | n | body |
    /// | 12+n | 4 | adler32 of the body |
    /// ```
    ///
    /// Offsets and sizes are in bytes: n is the size of the body, and v is the size of a variable-length length field.
    /// If requests and responses differ, there are two tables, each with a title.
    public var byteTable: String {
        let (request, response) = (self.request.shape.byteTable, self.response.shape.byteTable)
        return request == response ? request : "Request:\n\n\(request)\nResponse:\n\n\(response)"
    }
}

extension LayoutShape {
    fileprivate var byteTable: String {
        rows.reduce("| offset | size | field |\n|---|---|---|\n") { text, row in
            text + "| \(row.offset.text()) | \(row.size.text()) | \(title(of: row)) |\n"
        }
    }

    private func title(of row: Row) -> String {
        let again = row.isRepetition ? " again" : ""
        let title =
            switch row.field.content {
            case .constant(let request, let response):
                "constant " + hexadecimalBytes(direction == .request ? request : response)
            case .type: "type" + again
            case .serial: "serial" + again
            case .status: "status"
            case .length(let count, isVarint: false): "length of \(count.words)"
            case .length(let count, isVarint: true): "length of \(count.words), 7 bits per byte"
            case .kind(let numbers): "kind: " + list(numbers)
            case .integer(let name, let initial): cell(name) + (initial == 0 ? "" : ", \(initial) unless set")
            case .bytes(let name, nil): cell(name)
            case .bytes(let name, let initial?): cell(name) + ", \(hexadecimalBytes(initial)) unless set"
            case .reserved: "reserved, zeros"
            case .body(let sizes): "body" + bounds(sizes)
            case .checksum(let checksum, over: .body): "\(cell(checksum.name)) of the body"
            case .checksum(let checksum, over: .headerAndBody): "\(cell(checksum.name)) of header and body"
            }
        return title + (row.field.isLittleEndianNumber ? ", little-endian" : "")
    }

    private func list(_ numbers: [Frame.Kind: UInt64]) -> String {
        numbers.sorted { $0.value < $1.value }.map { "\($0.value) \($0.key)" }.joined(separator: ", ")
    }

    private func bounds(_ sizes: ClosedRange<UInt64>) -> String {
        if sizes == 0...UInt64.max { return "" }
        if sizes.lowerBound == sizes.upperBound { return " of \(sizes.lowerBound) bytes" }
        if sizes.upperBound == .max { return " of \(sizes.lowerBound) bytes or more" }
        return " of \(sizes.lowerBound) to \(sizes.upperBound) bytes"
    }

    /// Escaped, so that the name does not end the cell of the table.
    private func cell(_ name: String) -> String {
        String(name.escaped().flatMap { $0 == "|" ? "\\|" : String($0) })
    }

    /// A number of bytes that may depend on the frame: `12 + n`, with n bytes of body and v bytes of a varint.
    struct Extent {
        var fixed = 0
        var symbols: [String] = []

        static func + (a: Extent, b: Extent) -> Extent {
            Extent(fixed: a.fixed + b.fixed, symbols: a.symbols + b.symbols)
        }

        func text(_ sign: String = "+") -> String {
            let number = fixed > 0 || symbols.isEmpty ? [String(fixed)] : []
            return (number + symbols).joined(separator: sign)
        }
    }

    struct Row {
        let field: Field
        let offset: Extent
        let size: Extent
        let isRepetition: Bool
    }

    var rows: [Row] {
        var rows: [Row] = []
        var offset = Extent()
        for field in fields {
            let size =
                switch field.content {
                case .body: Extent(symbols: ["n"])
                case .length(_, isVarint: true): Extent(symbols: ["v"])
                default: Extent(fixed: field.width)
                }
            let mayRepeat = field.content == .type || field.content == .serial
            let isRepetition = mayRepeat && rows.contains { $0.field.content == field.content }
            rows.append(Row(field: field, offset: offset, size: size, isRepetition: isRepetition))
            offset = offset + size
        }
        return rows
    }

    func offset(of slot: Slot) -> Extent {
        // In `header`, a varint has one byte.
        let moved = varint == nil ? Extent() : Extent(fixed: -1, symbols: ["v"])
        return switch slot.region {
        case .header: Extent(fixed: slot.offset)
        case .afterVarint: Extent(fixed: slot.offset) + moved
        case .trailer: Extent(fixed: header.count + slot.offset) + moved + Extent(symbols: ["n"])
        }
    }
}

extension Field {
    var isLittleEndianNumber: Bool {
        guard order == .littleEndian else { return false }
        return switch content {
        case .length(_, isVarint: true): true
        case .checksum(let checksum, _): checksum.isNumber && width > 1
        default: width > 1
        }
    }
}

private func hexadecimalBytes(_ bytes: [UInt8]) -> String {
    let digits = bytes.prefix(16).map(twoDigits)
    return digits.joined(separator: " ") + (bytes.count > 16 ? " …" : "")
}
