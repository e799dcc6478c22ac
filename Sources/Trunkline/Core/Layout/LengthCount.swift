/// What the length field of a `FrameLayout` counts, in bytes.
public struct LengthCount: Sendable, Hashable {
    enum Extent: Sendable, Hashable {
        case body, wholeFrame, rest
    }

    let extent: Extent
    /// What is added to the bytes counted.
    let surplus: Int

    /// The body alone.
    public static let body = LengthCount(extent: .body, surplus: 0)
    /// The whole frame, from its first byte to its last, the length field included.
    public static let wholeFrame = LengthCount(extent: .wholeFrame, surplus: 0)
    /// Everything after the length field.
    public static let rest = LengthCount(extent: .rest, surplus: 0)

    /// The same and `count` more, or fewer when it is negative: `.body.plus(4)` counts a 6-byte body as 10.
    public func plus(_ count: Int) -> LengthCount {
        LengthCount(extent: extent, surplus: surplus.addingReportingOverflow(count).partialValue)
    }
}
