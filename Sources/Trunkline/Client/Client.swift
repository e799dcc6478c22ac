import Synchronization

/// A client of one service: many concurrent requests over one long-lived connection.
///
/// ```swift
/// let client = Client(to: ["10.0.0.7:7000", "10.0.0.8:7000"], speaking: .standard)
/// let reply = try await client.send(Request(type: 0x402, body: "hello"))
/// await client.close()
/// ```
///
/// It connects when it is first used, replaces a link that is lost, and stays until `close()`; a client that is let go
/// without it closes its socket and ends its streams. All methods may be called from any task. Inside, everything
/// happens on one event loop, which is this actor's executor: commands of callers travel there through one command
/// queue, in order.
public actor Client {
    nonisolated let loop: any EventLoop
    nonisolated let commandQueue: CommandQueue
    nonisolated let options: ClientOptions
    package nonisolated let codec: any FrameCodec
    /// Whether responses are compared with their requests. Asked once: hardly any codec does.
    nonisolated let checksResponses: Bool
    nonisolated let requestIDs = Atomic<RequestID>(0)
    /// Responses that were asked for with a `CachePolicy`, and those that are on their way.
    nonisolated let responseCache: ResponseCache
    /// The room for messages that `enqueue` accepts.
    nonisolated let messageRoom: MessageRoom
    /// The connection that carries the frames. Its `frames` belong to this client.
    nonisolated let connection: Connection
    /// The same, to be called on the loop without a closure.
    nonisolated var carrier: any RequestCarrier { connection }

    /// The requests, from the call to their end: those on no link, and on which link the others are.
    var queue: RequestQueue<Waiter>
    /// Parts of requests that callers add to requests under way.
    var parts = RequestParts()
    /// Requests of this batch that may not wait for a link, nor for a serial.
    var impatient: [RequestID] = []
    /// Whether there ever was a request that ends with the link that it was queued for.
    var hasLinkbound = false
    /// What pays for retries; `nil` when they cost nothing.
    var account: RetryAccount?
    /// Draws the back-offs.
    var generator: SeededGenerator
    var counters = Statistics()
    var channels = PushChannels()
    /// Streams of replies whose full buffer suspends reading, and perhaps some that did lately.
    var fullReplies: [ReplyChannel] = []
    var connectWaiters: [UInt64: Continuation<ClientError?>] = [:]
    var closeWaiters: [Continuation<Void>] = []
    var lifecycle = Lifecycle.open
    var timer: LoopTimer?
    /// The instant `timer` is armed for.
    var armed: Instant?
    /// The end of draining.
    var drainDeadline: Instant?
    /// The link whose pushes readers get; `nil` before the first.
    var pushSession: UInt64?
    /// The session of the link that takes requests, as the connection's events have told; 0 for none.
    var session: UInt64 = 0
    /// When the links have to be looked at again.
    var linkLook: Instant?
    var isReady: Bool { session != 0 }

    /// The event loop: everything in this actor runs there.
    public nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }

    /// The event loop as a task executor, for callers who want to pay no thread hop.
    ///
    /// A task that runs on it (`withTaskExecutorPreference(client.executor)`) registers its requests directly. It pays
    /// with few requests in flight; with many, callers on the ordinary executor use the other processors. Code that
    /// runs there must not block: it would hold up every connection of the loop.
    public nonisolated var executor: any TaskExecutor { loop.taskExecutor }

    // MARK: Making one

    /// A client of the service that answers at any of `endpoints`, tried in order. Nothing happens until it is used.
    public init(
        to endpoints: [Endpoint],
        speaking codec: some FrameCodec,
        options: ClientOptions = ClientOptions(),
        on loops: EventLoops = .shared
    ) {
        loop = loops.next()
        commandQueue = CommandQueue(loop: loop)
        self.options = options
        self.codec = codec
        messageRoom = MessageRoom(options)
        checksResponses = codec._checksResponses
        connection = Connection(to: endpoints, speaking: codec, options: options, loop: loop)
        queue = RequestQueue(
            maximumWaiting: options.requests.maximumWaiting,
            maximumBytes: options.requests.maximumWaitingBytes
        )
        account = options.requests.retryBudget.map { RetryAccount($0) }
        generator = SeededGenerator(seed: loop.randomSeed())
        responseCache = ResponseCache(options.cache, speaking: codec, loop: loop)
        unsafe commandQueue.client = self
    }

    /// A client of the service at `endpoint`. Nothing happens until it is used.
    public init(
        to endpoint: Endpoint,
        speaking codec: some FrameCodec,
        options: ClientOptions = ClientOptions(),
        on loops: EventLoops = .shared
    ) {
        self.init(to: [endpoint], speaking: codec, options: options, on: loops)
    }

    deinit {
        // Callers of `send` hold the client, so those left are handles and streams.
        for channel in channels.all { channel.finish() }
        let (waiting, parts, connection) = (queue.removeAll(), parts.removeAll(), connection)
        let end: @Sendable (isolated Connection) -> Void = { connection in
            let error = ClientError(.closed, .notSent, "the client was let go")
            for request in waiting { request.waiter.resume(.failure(error)) }
            for part in parts.held { part.fail(error, isSent: false) }
            for part in parts.queued { part.fail(error, isSent: !connection.removePart(part.id)) }
            connection.finishClosing()
        }
        loop.schedule(Completion { connection.onLoop(end) })
    }

    // MARK: What is going on

    /// The connection's present state and every one that follows, until the client is closed.
    public nonisolated var states: AsyncStream<ConnectionState> { connection.states }

    /// A report of every attempt to connect that fails and every link that ends from now on, until the client is closed.
    public nonisolated var disconnects: AsyncStream<DisconnectReport> { connection.disconnects }

    /// The path of packets to the server: of the link that is ready, or of the attempt under way; without either, to the first
    /// endpoint.
    ///
    /// `local` for a loopback address or a Unix domain socket. `unknown` before the first attempt, while a name is looked up,
    /// and when the network is not monitored (`options.network`).
    public var path: NetworkPath { connection.inCallOfOwner { $0.path } }

    /// The present `path` and every different one that follows, until the client is closed. Each access is a stream of its
    /// own; a reader that falls more than 64 paths behind misses the oldest.
    public nonisolated var paths: AsyncStream<NetworkPath> { connection.paths }

    /// What TLS agreed on for the link that is ready; `nil` when there is none, or it is in plaintext.
    public var tlsSession: TLSSession? { connection.inCallOfOwner { $0.tlsSession } }

    /// Counts since the client was made.
    public struct Statistics: Sendable, Hashable {
        /// Requests and one-way messages that were taken on; not those of the handshake, and not those refused because
        /// they would have to wait for a link.
        public var requests = 0
        /// Responses that reached their caller.
        public var responses = 0
        /// Parts of replies, without the response that is the last one, that reached their request.
        public var parts = 0
        /// Responses to requests that had been given up. Parts of such are not counted.
        public var lateResponses = 0
        /// Responses, and parts of them, that no request had asked for, or that came twice.
        public var unknownResponses = 0
        /// Messages that `enqueue` or `tryEnqueue` had accepted and that failed later, whatever their fate: they expired, their
        /// link was lost while they were written, the codec could not encode them, or they were left when the client closed or
        /// gave up. Calls that threw are not counted. To find out why the codec cannot encode a message, `post` it.
        public var failedMessages = 0
        /// Pushes received.
        public var pushes = 0
        /// Frames that a client has no use for (requests, cancellations).
        public var unexpectedFrames = 0
        /// Times that a request which had failed was to be sent again: see `RetryPolicy.idempotent(attempts:backoff:)`.
        public var retries = 0
        /// Times that it was not because the `RetryBudget` was spent.
        public var retriesRefused = 0
        /// What came of calls with a `CachePolicy`.
        public var cache = CacheStatistics()
        /// How often links came and went.
        public var connection = Connection.Statistics()
        /// Requests that have not ended yet.
        public var pending = 0
        /// Requests that were given up after they had started, and that the server may still work on: it has not answered,
        /// and neither their quarantine nor their link has ended. They count against `options.requests.maximumInFlight`.
        public var abandoned = 0
        /// Serial numbers that are held, on all links: by requests in flight, or by quarantine; not by those of the handshake.
        public var heldSerials = 0

        /// All counts at zero.
        public init() {}
    }

    /// How long pings take on the present link; `nil` before the first pong.
    public var roundTripTime: RoundTripTime? { connection.inCallOfOwner { $0.roundTripTime } }

    /// Counts since the client was made.
    public var statistics: Statistics {
        var counters = counters
        counters.connection = connection.inCallOfOwner { $0.statistics }
        (counters.abandoned, counters.heldSerials) = connection.inCallOfOwner { $0.held }
        counters.cache = responseCache.statistics
        counters.pending = queue.count
        counters.failedMessages = messageRoom.failures
        return counters
    }
}
