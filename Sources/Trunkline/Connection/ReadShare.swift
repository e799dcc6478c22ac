/// How much one link may read in one turn of its loop, so that other links, timers and writing get their share.
///
/// A link that has used up its share continues in the next turn. Frames are counted, not only bytes, because 1 MiB may
/// hold ninety thousand frames. Time is measured because the cost of a frame depends on the codec.
struct ReadShare {
    /// The frames of a link in one turn: a fraction of a millisecond, including the delivery of pushes.
    static let frames = 512
    /// The time is checked after this many frames, and after every read of the socket.
    private static let framesAtOnce = 256
    static let bytes = 1024 * 1024
    private static let time = Duration.microseconds(500)

    private var framesLeft = ReadShare.frames
    private var bytesLeft = ReadShare.bytes

    /// Limits the share to `bytes`.
    mutating func limit(to bytes: Int) { bytesLeft = min(bytesLeft, bytes) }

    /// The maximum number of frames to decode in one step.
    var step: Int { min(framesLeft, Self.framesAtOnce) }

    /// Counts a step of a turn that began at `start`. Returns whether another one may follow.
    mutating func goesOn(after bytes: Int, _ frames: Int, since start: Instant, at now: @autoclosure () -> Instant)
        -> Bool
    {
        bytesLeft -= bytes
        framesLeft -= frames
        return bytesLeft > 0 && framesLeft > 0 && now().since(start) < Self.time
    }
}
