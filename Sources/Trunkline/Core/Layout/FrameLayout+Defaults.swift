extension FrameLayout {
    /// From now on, frames that are encoded hold the named fields that `frame` has, unless they set these themselves.
    ///
    /// Throws `malformed` for a field that the layout of these frames does not declare, and for a value that does not fit.
    public mutating func setDefaults(from frame: Frame) throws(FrameError) {
        try checkFields(of: frame, outbound)
        // Requests may say it of their bodies wherever they go; here it would have no effect.
        if let name = frame.fieldNames.first(where: { name in !outbound.named.contains { $0.name == name } }) {
            throw FrameError(.malformed, "the layout has no field \"\(name)\"")
        }
        let fields = outbound.fields.map { field in
            switch field.content {
            case .integer(let name, let initial):
                Field(.integer(name: name, default: frame[name] ?? initial), width: field.width, order: field.order)
            case .bytes(let name, let initial):
                Field(.bytes(name: name, default: frame[bytes: name].map(Array.init) ?? initial), width: field.width)
            default: field
            }
        }
        do throws(LayoutError) {
            // A plan of its own, with the values in its template: no frame takes longer for them.
            outbound = LayoutPlan(try LayoutDraft(fields, for: outbound.direction))
        } catch {
            throw FrameError(.malformed, error.description)
        }
    }
}
