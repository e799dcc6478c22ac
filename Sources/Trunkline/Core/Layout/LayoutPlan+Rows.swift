extension LayoutPlan {
    /// A number of bytes that may depend on the frame: `12 + n`, with n bytes of body and v of a varint.
    struct Extent {
        var fixed = 0
        var symbols: [String] = []

        static func + (a: Extent, b: Extent) -> Extent {
            Extent(fixed: a.fixed + b.fixed, symbols: a.symbols + b.symbols)
        }

        /// The sum, such as `12+n`, with `sign` between its terms.
        func text(_ sign: String = "+") -> String {
            let number = fixed > 0 || symbols.isEmpty ? [String(fixed)] : []
            return (number + symbols).joined(separator: sign)
        }
    }

    /// A field and its place in a frame, to be printed.
    struct Row {
        let field: Field
        let offset: Extent
        let size: Extent
        /// Whether the same number was in a field before.
        let isRepetition: Bool
    }

    /// Every field in the order of the bytes.
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
            let isRepetition = rows.contains { row in
                switch (row.field.content, field.content) {
                case (.type, .type), (.serial, .serial): true
                default: false
                }
            }
            rows.append(Row(field: field, offset: offset, size: size, isRepetition: isRepetition))
            offset = offset + size
        }
        return rows
    }

    /// Where the first byte of `slot` is, as in `rows`.
    func offset(of slot: Slot) -> Extent {
        // A varint has one byte in `header`.
        let moved = varint == nil ? Extent() : Extent(fixed: -1, symbols: ["v"])
        return switch slot.region {
        case .header: Extent(fixed: slot.offset)
        case .afterVarint: Extent(fixed: slot.offset) + moved
        case .trailer: Extent(fixed: header.count + slot.offset) + moved + Extent(symbols: ["n"])
        }
    }

    /// The bytes of a constant field in this direction.
    func constant(request: [UInt8], response: [UInt8]) -> [UInt8] { direction == .request ? request : response }
}
