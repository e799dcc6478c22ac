extension FrameLayout {
    /// The layout as a table in Markdown, one field per row, for documentation.
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
    /// Offsets and sizes are in bytes: n is the size of the body, v that of a length of varying width. Where requests and
    /// responses differ there are two tables, each with its title.
    public var byteTable: String {
        let (request, response) = (requestPlan.byteTable, responsePlan.byteTable)
        return request == response ? request : "Request:\n\n\(request)\nResponse:\n\n\(response)"
    }
}

extension LayoutPlan {
    fileprivate var byteTable: String {
        rows.reduce("| offset | size | field |\n|---|---|---|\n") { text, row in
            text + "| \(row.offset.text()) | \(row.size.text()) | \(title(of: row)) |\n"
        }
    }

    /// What is in the field, in words.
    private func title(of row: Row) -> String {
        let again = row.isRepetition ? " again" : ""
        let title =
            switch row.field.content {
            case .constant(let request, let response):
                "constant " + hexadecimalBytes(constant(request: request, response: response))
            case .type: "type" + again
            case .serial: "serial" + again
            case .status: "status"
            case .length(let count, isVarint: false): "length of \(count)"
            case .length(let count, isVarint: true): "length of \(count), seven bits in a byte"
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

    /// `name` so that it does not end the table's cell.
    private func cell(_ name: String) -> String {
        String(name.escaped().flatMap { $0 == "|" ? "\\|" : String($0) })
    }
}

extension Field {
    /// Whether its bytes come in another order than in most protocols.
    var isLittleEndianNumber: Bool {
        guard order == .littleEndian else { return false }
        return switch content {
        case .constant, .bytes, .reserved, .body: false
        case .length(_, isVarint: true): true
        case .checksum(let checksum, _): checksum.isNumber && width > 1
        case .type, .serial, .status, .length, .integer, .kind: width > 1
        }
    }
}

extension Checksum {
    /// Whether it has a byte order.
    var isNumber: Bool { if case .integer = algorithm { true } else { false } }
}

extension LengthCount: CustomStringConvertible {
    /// What is counted, in words: `the body plus 4`.
    public var description: String {
        let what =
            switch extent {
            case .body: "the body"
            case .wholeFrame: "the whole frame"
            case .rest: "everything after it"
            }
        return surplus == 0 ? what : what + (surplus < 0 ? " minus " : " plus ") + "\(surplus.magnitude)"
    }
}

/// Two digits for each of `bytes`, as in `ca fe`, of the first sixteen.
private func hexadecimalBytes(_ bytes: [UInt8]) -> String {
    let digits = bytes.prefix(16).map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }
    return digits.joined(separator: " ") + (bytes.count > 16 ? " …" : "")
}
