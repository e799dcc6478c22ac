extension ClientOptions {
    /// The limits for bytes that were received and are not yet delivered.
    public struct Inbound: Sendable {
        /// The maximum number of received bytes that do not form a complete frame. Default 256 MiB.
        ///
        /// If a link exceeds the limit, the client closes it. Its requests fail with `overloaded`, fate `unknown`, and
        /// are not sent again; the cause is a ``FrameError`` that names the limit. In a protocol matched in order this
        /// is the oldest request, and the others fail with `connectionLost`.
        ///
        /// The limit protects the client from a codec that has none. It also applies to every received frame, so raise
        /// it if the codec's `maximumFrameSize` is larger. A length field above both limits is taken for arbitrary
        /// bytes: a `protocolViolation`.
        public var maximumUndecoded = 256 * 1024 * 1024
        /// How many bytes are read and held on a link while a full buffer with `.suspendReading`, of pushes or of a
        /// streamed reply, keeps frames from being delivered. Default 1 MiB.
        ///
        /// Until then the client answers the server's pings, checks the link as usual, and holds all other frames in
        /// order. When this many bytes are held, it stops reading. Each frame counts as its body, its named byte fields
        /// and about 200 bytes. With 0 it stops reading at once.
        ///
        /// The limit is shared by all links until the reader has caught up: what a lost or replaced link has handed
        /// over meanwhile counts, so the next link may hold only the rest.
        public var maximumHeld = 1024 * 1024

        /// Creates options with the default values.
        public init() {}
    }
}
