extension LayoutPlan.Limits {
    /// What is wrong with a length field that holds `value`, in a layout where that of a frame without body is `empty`.
    @inline(never)
    func illegalLength(_ value: UInt64, _ empty: Int) -> FrameError {
        if bodySizes.lowerBound > 0, empty >= 0, value == UInt64(empty) { return illegalBody(0) }
        let reason = value < lengths.lowerBound ? least : most
        return FrameError(
            .illegalLength,
            "the length is \(value), not within \(lengths.lowerBound)–\(lengths.upperBound); \(reason)"
        )
    }

    @inline(never)
    func illegalBody(_ size: Int) -> FrameError {
        let (lowest, highest) = (bodySizes.lowerBound, bodySizes.upperBound)
        let code: FrameError.Code = size == 0 && lowest > 0 ? .missingBody : .illegalLength
        let reason = size < lowest ? least : most
        return FrameError(code, "the body has \(size) bytes, not within \(lowest)–\(highest); \(reason)")
    }

    /// The limit that too short a frame breaks.
    private var least: String {
        bodySizes.lowerBound > 0
            ? "a body has at least \(bodySizes.lowerBound) bytes in this layout"
            : "the length counts at least \(lengths.lowerBound) bytes in this layout"
    }

    /// The limit that too long a frame breaks.
    private var most: String {
        switch bound {
        case .maximumFrameSize: "a frame may have \(frameSize) bytes (maximumFrameSize)"
        case .lengthField(let maximum): "the length field holds at most \(maximum)"
        case .bodySizes: "a body has at most \(bodySizes.upperBound) bytes in this layout"
        }
    }
}
