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
    /// Offsets and sizes are in bytes. Where requests and responses differ there are two tables, each with its title.
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
            case .length(let count): "length of \(count)"
            case .integer(let name, let initial): cell(name) + (initial == 0 ? "" : ", \(initial) unless set")
            case .reserved: "reserved, zeros"
            case .body: "body"
            case .checksum(let checksum, over: .body): "\(cell(checksum.name)) of the body"
            case .checksum(let checksum, over: .headerAndBody): "\(cell(checksum.name)) of header and body"
            }
        return title + (row.field.isLittleEndianNumber ? ", little-endian" : "")
    }

    /// `name` so that it does not end the table's cell.
    private func cell(_ name: String) -> String {
        String(name.flatMap { $0 == "|" ? "\\|" : $0.isNewline ? " " : String($0) })
    }
}

extension Field {
    /// Whether its bytes come in another order than in most protocols.
    var isLittleEndianNumber: Bool {
        guard order == .littleEndian, width > 1 else { return false }
        return switch content {
        case .constant, .reserved, .body: false
        case .checksum(let checksum, _): checksum.isNumber
        case .type, .serial, .status, .length, .integer: true
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
