/// What one link may read in one turn of its loop, so that other links, timers and writing get their share of the time.
///
/// A link that has used it up goes on in the next turn. Frames count, and not bytes alone: a mebibyte may be ninety thousand
/// frames. Time counts, because what a frame costs is the codec's business.
struct ReadShare {
    /// A link's frames in one turn: a fraction of a millisecond, the receivers of pushes included.
    static let frames = 512
    /// Time is looked at every so many frames, and after every read of the socket.
    private static let framesAtOnce = 256
    private static let bytes = 1024 * 1024
    private static let time = Duration.microseconds(500)

    private var framesLeft = ReadShare.frames
    private var bytesLeft = ReadShare.bytes

    /// Lets no more than so many bytes be read.
    mutating func limit(to bytes: Int) { bytesLeft = min(bytesLeft, bytes) }

    /// The most frames to decode in one step.
    var step: Int { min(framesLeft, Self.framesAtOnce) }

    /// Counts a step of a turn that began at `start`; returns whether another may follow.
    mutating func goesOn(after bytes: Int, _ frames: Int, since start: Instant, at now: @autoclosure () -> Instant)
        -> Bool
    {
        bytesLeft -= bytes
        framesLeft -= frames
        return bytesLeft > 0 && framesLeft > 0 && now().since(start) < Self.time
    }
}
