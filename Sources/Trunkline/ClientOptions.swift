/// How a client or a connection behaves. The defaults suit a server that talks to another in the same region.
public struct ClientOptions: Sendable {
    /// Requests and their responses.
    public struct Requests: Sendable {
        /// From the call until the response, for calls that do not say otherwise; `nil` for no limit. Default 8 s.
        public var timeout: Duration? = .seconds(8)
        /// How many requests may be out, or on their way, at once; the others wait their turn. Default 65,536, at
        /// least 1.
        ///
        /// It counts everything on which the server may still be working. A request that was given up after its first byte was
        /// written counts until the server answers it, its `quarantine` ends or its link ends: see
        /// `Client.Statistics.abandoned`. One of which nothing was written counts no more at once, and a one-way message
        /// counts until it is written.
        ///
        /// A limit of 1 is the one-at-a-time mode, for half-duplex servers: none ever sees a second request before the first
        /// was answered, its quarantine is over, or the link has ended. While a request that was given up holds the only
        /// place, the others wait within their own deadlines. Not held back are heartbeats, also those that are requests (set
        /// `liveness.probeAfter = nil` and an `interval` above the slowest request, or no heartbeat), and the handshake
        /// and restoration on a new link while a draining link still has a request under way.
        ///
        /// A limit below 1,024 is taken to protect the server: requests on links that drain count, too. When a limit of 1,024
        /// or more is reached and requests that were given up hold half of it, the link is replaced as if serial numbers had
        /// run out (`quarantine`).
        public var maximumInFlight = 65_536
        /// How many requests may wait their turn, or for a link; one more fails with `overloaded`, fate `notSent`.
        /// `Client.enqueue` accepts as many messages besides. Default 1,000,000.
        public var maximumWaiting = 1_000_000
        /// How many bytes of memory requests may take that wait: for a link, for their turn, or above
        /// `outbound.highWatermark`. A request beyond them fails with `overloaded`, fate `notSent`. Each counts as its body, its
        /// named bytes and 544 bytes: 32 for the rest of its frame, and 512 for its places in the client's tables and its deadline. The tasks of
        /// its callers come on top. One request may wait alone, whatever its size. Default 256 MiB, enough for some 490,000
        /// requests with small bodies. The memory is given back when they have left.
        public var maximumWaitingBytes = 256 * 1024 * 1024
        /// How many bytes of bodies `send` and `start` join when a reply comes in parts. A longer reply fails with
        /// `overloaded`, fate `unknown` (`answered` if it was the last part that was too much), and that request alone: it
        /// is cancelled and its rest is dropped. Replies that come whole are not concerned: they have the codec's
        /// `maximumFrameSize`. `stream` has a buffer of its own (`ReplyBuffering`). Default 16 MiB.
        public var maximumReplySize = 16 * 1024 * 1024
        /// How many bytes of bodies all replies together hold that `send` and `start` are reassembling. A part beyond
        /// them fails its request with `overloaded`, fate `unknown`, as `maximumReplySize` does; the others go on.
        /// Default 256 MiB.
        public var maximumReassemblyBytes = 256 * 1024 * 1024
        /// Whether requests that fail are sent again, for calls that do not say otherwise. Default `.ifUnsent`.
        public var retry = RetryPolicy.ifUnsent
        /// What all retries of a client draw on; `nil` for no limit. Default: a fifth of all requests, and 10 per second.
        public var retryBudget: RetryBudget? = RetryBudget()
        /// How long the server may be at work on a request that was given up, if it does not answer: so long its serial number
        /// is kept from use, and its place below `maximumInFlight`. A part of its reply begins it anew. Default 60 s.
        ///
        /// Serial numbers belong to a link. With 65,536 of them, a link bears 65,536 / 60 s = 1,092 requests per second that
        /// are given up and never answered. When a request has found none free for 250 ms, and at least half are held in this
        /// way, the link is replaced: the next one has all of them, and the old one drains. Further replacements come at the
        /// pace of `reconnecting.policy`, unless the server answers something. Calls with `waitsForReady: false` that find no serial
        /// fail with `overloaded`, fate `notSent`.
        ///
        /// Protocols matched in order have no serials, and a place is held until it is answered or the link ends: the link is
        /// replaced when a request that was given up has kept others from going out for longer than this.
        public var quarantine: Duration = .seconds(60)
        /// How long `close()` waits for requests that have no deadline, or a later one, and for a server that reads slowly what
        /// is left to be written; one that reads nothing has 2 s once the last request has ended. Default 30 s.
        public var drainTimeout: Duration = .seconds(30)
    }

    /// Bytes on their way out.
    public struct Outbound: Sendable {
        /// From so many bytes on, requests wait their turn. `Client.enqueue` accepts as many bytes of messages at once.
        /// Default 1 MiB.
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
        /// How much is read on a link while a stream of pushes, or of a reply, whose full buffer asks for it
        /// (`.suspendReading`) keeps frames from being handed over: the server's pings are answered and the link is judged as
        /// ever, and what else comes is held, in order. When so many bytes are held, a frame counting as its body, its named
        /// bytes and some 200 bytes, nothing more is read. With 0 reading stops at once. Default 1 MiB.
        public var maximumHeld = 1024 * 1024
    }

    /// Establishing links.
    public var connecting = Connecting()
    /// Securing the links to `tls://` endpoints.
    public var tls = TLS()
    /// Replacing links that failed or were lost.
    public var reconnecting = Reconnecting()
    /// What happens on every new link before anything else.
    public var handshake = Handshake()
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
