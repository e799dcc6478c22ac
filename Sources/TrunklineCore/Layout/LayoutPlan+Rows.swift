extension LayoutPlan {
    /// A number of bytes that may depend on the frame: `12 + n`, with n bytes of body.
    struct Extent {
        var fixed = 0
        /// What each stands for is said where it is printed.
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

    /// Every field in the order of the bytes. The only symbol is n, the size of the body.
    var rows: [Row] {
        var rows: [Row] = []
        var offset = Extent()
        for field in fields {
            let size: Extent
            if case .body = field.content {
                size = Extent(symbols: ["n"])
            } else {
                size = Extent(fixed: field.width)
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

    /// The bytes of a constant field in this direction.
    func constant(request: [UInt8], response: [UInt8]) -> [UInt8] { direction == .request ? request : response }
}

extension FrameLayout {
    /// The plan of the frames that the client sends, and of those that the server sends.
    var requestPlan: LayoutPlan { isServerSide ? inbound : outbound }
    var responsePlan: LayoutPlan { isServerSide ? outbound : inbound }
    var requestLimits: LayoutPlan.Limits { isServerSide ? inboundLimits : outboundLimits }
    var responseLimits: LayoutPlan.Limits { isServerSide ? outboundLimits : inboundLimits }
}
