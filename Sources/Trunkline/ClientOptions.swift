public import TrunklineCore

/// How a client or a connection behaves. The defaults suit a server that talks to another in the same region.
public struct ClientOptions: Sendable {
    /// Requests and their responses.
    public struct Requests: Sendable {
        /// From the call until the response, for calls that do not say otherwise; `nil` for no limit. Default 8 s.
        public var timeout: Duration? = .seconds(8)
        /// How many requests may be out, or on their way, at once; the others wait their turn. Default 65,536, at
        /// least 1.
        public var maximumInFlight = 65_536
        /// How many requests may wait their turn, or for a link; one more fails with `overloaded`, fate `notSent`.
        /// Default 1,000,000.
        public var maximumWaiting = 1_000_000
        /// How many bytes of requests may wait to be written while there is no link, or above
        /// `outbound.highWatermark`; a request beyond them fails with `overloaded`, fate `notSent`. A frame counts as its
        /// body and 32 bytes. One request may wait alone, whatever its size. Default 256 MiB.
        public var maximumWaitingBytes = 256 * 1024 * 1024
        /// How many bytes of bodies `send` and `start` join when a reply comes in parts. A longer reply fails with
        /// `overloaded`, fate `unknown` (`answered` if it was the last part that was too much), and that request alone: it
        /// is cancelled and its rest is dropped. Replies that come whole are not concerned: they have the codec's
        /// `maximumFrameSize`. `stream` has a buffer of its own (`ReplyBuffering`). Default 16 MiB.
        public var maximumReplySize = 16 * 1024 * 1024
        /// How many bytes of bodies all replies together hold that `send` and `start` are joining. A part beyond them fails
        /// its request with `overloaded`, fate `unknown`, as `maximumReplySize` does; the others go on. Default 256 MiB.
        public var maximumJoinedBytes = 256 * 1024 * 1024
        /// Whether requests that fail are sent again, for calls that do not say otherwise. Default `.ifUnsent`.
        public var retry = RetryPolicy.ifUnsent
        /// What all retries of a client draw on; `nil` for no limit. Default: a fifth of all requests, and 10 per second.
        public var retryBudget: RetryBudget? = RetryBudget()
        /// How long the serial number of a request that was given up is kept from use if the server does not answer
        /// it. Default 60 s.
        public var quarantine: Duration = .seconds(60)
        /// How long `close()` waits for requests that have no deadline, or a later one. Default 30 s.
        public var drainTimeout: Duration = .seconds(30)
    }

    /// Bytes on their way out.
    public struct Outbound: Sendable {
        /// From so many bytes on, requests wait their turn. Default 1 MiB.
        public var highWatermark = 1024 * 1024
        /// Below so many bytes they go on. Default 256 KiB; held at or below `highWatermark`.
        public var lowWatermark = 256 * 1024
    }

    /// Bytes on their way in.
    public struct Inbound: Sendable {
        /// A link with more bytes than this that are no complete frame is closed (`protocolViolation`, fate `unknown`, cause
        /// `illegalLength`): the last resort against a codec without a limit of its own, and so a limit on every frame that
        /// can be received. Raise it with a codec's `maximumFrameSize` above it. Default 256 MiB.
        public var maximumUndecoded = 256 * 1024 * 1024
        /// How much is read on a link while a subscriber or a streamed reply whose full buffer asks for it
        /// (`.suspendReading`) keeps frames from being handed over: the server's pings are answered and the link is judged as
        /// ever, and what else comes is held, in order. When so many bytes are held, a frame counting as its body and some 200
        /// bytes, nothing more is read. With 0 reading stops at once. Default 1 MiB.
        public var maximumHeld = 1024 * 1024
    }

    /// Establishing links.
    public var connecting = Connecting()
    /// Securing the links to `tls://` endpoints.
    public var tls = TLS()
    /// Replacing links that failed or were lost.
    public var reconnecting = Reconnecting()
    /// What happens on every new link before anything else.
    public var greeting = Greeting()
    /// Going from one endpoint to another.
    public var failover = Failover()
    /// Noticing that a link is dead although nobody said so.
    public var liveness = Liveness()
    /// Requests and their responses.
    public var requests = Requests()
    /// Responses that are kept for later callers.
    public var cache = Cache()
    /// Finding out why links end.
    public var diagnosis = Diagnosis()
    /// Bytes on their way out.
    public var outbound = Outbound()
    /// Bytes on their way in.
    public var inbound = Inbound()

    /// The defaults.
    public init() {}

    /// The defaults but for what `change` changes.
    public init(_ change: (inout ClientOptions) -> Void) { change(&self) }
}
