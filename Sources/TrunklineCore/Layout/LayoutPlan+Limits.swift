extension LayoutPlan.Limits {
    /// What is wrong with a length field that holds `value`, in a layout where that of a frame without body is `empty`.
    @inline(never)
    func illegalLength(_ value: UInt64, _ empty: Int) -> FrameError {
        if bodySizes.lowerBound > 0, empty >= 0, value == UInt64(empty) { return illegalBody(0) }
        return FrameError(
            .illegalLength,
            "the length is \(value), not within \(lengths.lowerBound)–\(lengths.upperBound); \(limit)"
        )
    }

    @inline(never)
    func illegalBody(_ size: Int) -> FrameError {
        let (least, most) = (bodySizes.lowerBound, bodySizes.upperBound)
        let code: FrameError.Code = size == 0 && least > 0 ? .missingBody : .illegalLength
        return FrameError(code, "the body has \(size) bytes, not within \(least)–\(most); \(limit)")
    }

    private var limit: String { "a frame may have \(frameSize) bytes (maximumFrameSize)" }
}
