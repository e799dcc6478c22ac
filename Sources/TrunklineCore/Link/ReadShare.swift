/// One link's share of a turn, so that other links, timers and writing get theirs. Frames are counted, because 1 MiB
/// may hold ninety thousand. Time is measured, because the cost of a frame depends on the codec.
struct ReadShare {
    /// A fraction of a millisecond, including the delivery of pushes.
    static let frames = 512
    private static let framesAtOnce = 256
    static let bytes = 1024 * 1024
    private static let time = Duration.microseconds(500)

    private var framesLeft = ReadShare.frames
    private var bytesLeft = ReadShare.bytes

    mutating func limit(to bytes: Int) { bytesLeft = min(bytesLeft, bytes) }

    var step: Int { min(framesLeft, Self.framesAtOnce) }

    mutating func goesOn(after bytes: Int, _ frames: Int, since start: Instant, at now: @autoclosure () -> Instant)
        -> Bool
    {
        bytesLeft -= bytes
        framesLeft -= frames
        return bytesLeft > 0 && framesLeft > 0 && now().since(start) < Self.time
    }
}
