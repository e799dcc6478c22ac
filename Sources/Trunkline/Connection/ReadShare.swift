import TrunklineCore

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
    /// Whether what is not read now is never read.
    let isLast: Bool

    /// The share of one turn.
    init() { isLast = false }

    private init(isLast: Bool) { self.isLast = isLast }

    /// For a link that ends now: what it said before is read in this turn or never. Bytes limit it alone.
    static var lastWords: ReadShare { ReadShare(isLast: true) }

    /// Lets no more than so many bytes be read.
    mutating func limit(to bytes: Int) { bytesLeft = min(bytesLeft, bytes) }

    /// The most frames to decode in one step.
    var step: Int { isLast ? .max : min(framesLeft, Self.framesAtOnce) }

    /// Counts a step of a turn that began at `start`; returns whether another may follow.
    mutating func goesOn(after bytes: Int, _ frames: Int, since start: Instant, at now: @autoclosure () -> Instant)
        -> Bool
    {
        bytesLeft -= bytes
        framesLeft -= frames
        return bytesLeft > 0 && (isLast || framesLeft > 0 && now().since(start) < Self.time)
    }
}
