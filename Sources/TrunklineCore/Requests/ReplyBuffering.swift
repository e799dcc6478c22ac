/// The size of a reply stream's buffer, and what happens when a slow reader lets it fill up.
public struct ReplyBuffering: Sendable, Hashable {
    /// The effect of a full buffer.
    @nonexhaustive
    public enum Overflow: Sendable, Hashable {
        /// Suspends reading until the reader has caught up. *Everything else on the link waits too, including responses
        /// to other requests*, while their deadlines run.
        ///
        /// A reader that waits for another response of the same client before it reads on is therefore blocked until
        /// the deadline of that request. Use a second client for such requests, or `.fail` with a buffer for the
        /// longest reply.
        ///
        /// The client continues to read from the socket for heartbeats and holds the other frames, up to
        /// `options.inbound.maximumHeld` (1 MiB). When that is full, it reads nothing, TCP slows down the server, and
        /// the server's pings are not answered. The client does not treat a link as dead while it does not read it.
        /// When reading resumes, the held frames and what was read together with the part that filled the buffer (at
        /// most 1 MiB) are added to the buffer.
        case suspendReading
        /// Ends the stream with `overloaded` after the parts in the buffer, and cancels the request. The fate is
        /// `unknown`, or `answered` if the last part is the one that does not fit.
        case fail
    }

    /// The maximum number of parts in the buffer. Default: 256. At least 1.
    public var maximumCount: Int
    /// The maximum number of bytes in the buffer, counting bodies and named byte fields (`frame[bytes: name]`). One
    /// part of any size always fits. Default: 1 MiB.
    ///
    /// It is also the maximum size of an error response that comes in parts.
    public var maximumBytes: Int
    /// The effect of a full buffer. Default: `.suspendReading`.
    public var overflow: Overflow

    /// Creates buffering options.
    ///
    /// - Parameters:
    ///   - maximumCount: The maximum number of parts. Default: 256. At least 1.
    ///   - maximumBytes: The maximum number of bytes. Default: 1 MiB.
    ///   - overflow: What happens when the buffer is full. Default: `.suspendReading`.
    public init(
        maximumCount: Int = 256,
        maximumBytes: Int = 1024 * 1024,
        overflow: Overflow = .suspendReading
    ) {
        self.maximumCount = maximumCount
        self.maximumBytes = maximumBytes
        self.overflow = overflow
    }

    var buffer: PushBuffer {
        PushBuffer(
            maximumCount: maximumCount,
            maximumBytes: maximumBytes,
            policy: overflow == .fail ? .fail : .suspendReading
        )
    }
}
