import Synchronization

/// Sends many concurrent requests to one service over one long-lived connection.
///
/// ```swift
/// let client = Client(to: ["10.0.0.7:7000", "10.0.0.8:7000"], speaking: .standard)
/// let response = try await client.send(Request(type: 0x402, body: "hello"))
/// await client.close()
/// ```
///
/// The client connects when it is first used and replaces a link that is lost. Call ``close()`` when it is no longer
/// needed. If the client is deallocated without that call, its socket is closed at once, and its streams and handles
/// end.
///
/// All methods may be called from any task. All work of a client happens on one event loop, the executor of this actor.
/// Calls reach it through one queue, in the order in which they are made.
///
/// See <doc:Requests> for requests, deadlines, cancellation and errors, <doc:StreamsUploadsAndPushes> for replies in
/// parts and pushes, and <doc:StayingConnected> for how the client connects.
public actor Client {
    nonisolated let loop: any EventLoop
    nonisolated let commandQueue: CommandQueue
    package nonisolated let codec: ProtocolCodec
    /// Whether there are interceptors. Stored because it is read for every request.
    nonisolated let isIntercepted: Bool
    /// Whether the observers want the events of requests.
    nonisolated let tellsRequests: Bool
    nonisolated let requestIDs = Atomic<RequestID>(0)
    /// Cached responses and coalesced requests.
    nonisolated let responseCache: ResponseCache
    /// The capacity for messages that `enqueue` accepts.
    nonisolated let messageRoom: MessageRoom
    /// The connection that carries the frames. Only this client reads its frames.
    nonisolated let connection: Connection
    nonisolated var options: ClientOptions { connection.options }

    /// Every request from its call to its end, with its caller. Holds the frames of those that are on no link, and knows
    /// the link of the others. Exclusive access: see `LoopActor`.
    #if !DEBUG
        @exclusivity(unchecked)
    #endif
    @safe var requests: RequestTable<Waiter>
    /// The parts that callers add to requests in flight. Exclusive access: see `LoopActor`.
    #if !DEBUG
        @exclusivity(unchecked)
    #endif
    @safe var parts = RequestParts()
    /// The requests of this batch that may wait neither for a link nor for a serial.
    var impatient: [RequestID] = []
    /// Whether any request has ever had options that end it together with its link.
    var hasLinkbound = false
    /// Pays for retries; `nil` if they are not limited.
    var account: RetryAccount?
    /// Draws the back-offs of retries.
    var generator: SeededGenerator
    /// The metrics that are plain counts. The others are apart: for a property that is changed through code that the
    /// compiler does not see, such as that of a dictionary, the runtime checks every access.
    var counters = Counters()
    var failures: [Metrics.Failure: Int] = [:]
    var refusals: [ClientError.Code: Int] = [:]
    /// The durations of all calls. Exclusive access: see `LoopActor`.
    #if !DEBUG
        @exclusivity(unchecked)
    #endif
    @safe var callDurations = CallDurationCounter()
    /// How long tries were on their link. Exclusive access: see `LoopActor`.
    #if !DEBUG
        @exclusivity(unchecked)
    #endif
    @safe var tryDurations = DurationCounter()
    /// How long tries waited, without those that went to a link at once.
    var queueDurations = LatencyHistogram()
    /// Exclusive access: see `LoopActor`.
    #if !DEBUG
        @exclusivity(unchecked)
    #endif
    @safe var slowest = SlowestRequests()
    /// The requests that were accepted, and answered, since the latest event. Exclusive access: see `LoopActor`.
    #if !DEBUG
        @exclusivity(unchecked)
    #endif
    @safe var accepted: [ClientEvent.AcceptedRequest] = []
    #if !DEBUG
        @exclusivity(unchecked)
    #endif
    @safe var answered: [ClientEvent.AnsweredRequest] = []
    /// When the present batch of commands began.
    var batchTime = Instant.distantPast
    var channels = PushChannels()
    /// The reply streams whose full buffer suspends reading. May contain streams that no longer do.
    var fullReplies: [ReplyChannel] = []
    /// In a batch of events: the readers of reply streams to resume at its end, each with its element.
    var servedReaders: [(Continuation<ReplyChannel.Element>, ReplyChannel.Element)] = []
    /// In an event: the request whose reply was too large, if it has left its link already.
    var excessiveReply: (id: RequestID, message: String)?
    var connectWaiters: [UInt64: Continuation<ClientError?>] = [:]
    var closeWaiters: [Continuation<Void>] = []
    var lifecycle = Lifecycle.open
    /// The limit because of which requests wait, as told to the observers.
    var notedLimit: ClientEvent.Limit?
    var timer: LoopTimer?
    /// The instant that `timer` is armed for.
    var armed: Instant?
    /// The instant at which `close()` stops waiting for requests.
    var drainDeadline: Instant?
    /// The session whose pushes the streams deliver; `nil` before the first link.
    var pushSession: UInt64?
    /// The session of the link that takes requests, as reported by the events of the connection; 0 for none.
    var session: UInt64 = 0
    var linkGaps = LinkGaps()
    /// The next instant at which the connection must check its links.
    var linkLook: Instant?
    var isReady: Bool { session != 0 }
    /// While commands are performed: how many more requests may go to the link without waiting.
    var directRoom = 0

    /// The executor of this actor: its event loop.
    public nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }

    /// The event loop as a task executor, for callers that want to avoid thread hops.
    ///
    /// A task that runs on it (`withTaskExecutorPreference(client.executor)`) submits its requests without a lock and
    /// without a thread hop. It needs less CPU time for each request. Its throughput is higher with up to about 16
    /// requests in flight; with more it can be lower, because all callers share one thread.
    ///
    /// Code that is isolated to an actor, such as `@MainActor`, does not move: mark its closure `@concurrent`. A
    /// `Task { }` in such a task does not inherit the preference; `async let` and the children of a task group do.
    ///
    /// Code that runs on this executor must not block: it would stop every connection of the event loop.
    public nonisolated var executor: any TaskExecutor { loop.taskExecutor }

    // MARK: Initializers

    /// Creates a client of a service that is available at several endpoints.
    ///
    /// This does not connect. The client connects when it is first used, or when ``connect()`` is called.
    ///
    /// - Parameters:
    ///   - endpoints: The endpoints, in the order in which they are tried (see `options.failover.order`). With an empty
    ///     list, calls that need a link fail with `unavailable` until ``replaceEndpoints(_:)`` adds endpoints.
    ///   - codec: The wire format. Each link uses its own copy.
    ///   - options: The options of the client. They cannot be changed later.
    ///   - loops: The set of event loops from which the client takes one.
    public init(
        to endpoints: [Endpoint],
        speaking codec: some FrameCodec,
        options: ClientOptions = ClientOptions(),
        on loops: EventLoops = .shared
    ) {
        loop = loops.next()
        commandQueue = CommandQueue(loop: loop)
        let codec = ProtocolCodec(codec)
        self.codec = codec
        messageRoom = MessageRoom(options)
        isIntercepted = !options.interceptors.isEmpty
        connection = Connection(to: endpoints, speaking: codec, options: options, loop: loop)
        tellsRequests = connection.observation?.wantsRequests == true
        let log = connection.observation?.log
        requests = RequestTable(
            maximumWaiting: options.requests.maximumWaiting,
            maximumBytes: options.requests.maximumWaitingBytes
        )
        account = options.requests.retryBudget.map { RetryAccount($0) }
        generator = SeededGenerator(seed: loop.randomSeed())
        responseCache = ResponseCache(options.cache, speaking: codec, loop: loop)
        unsafe commandQueue.client = self
        log?.client = self
    }

    /// Creates a client of a service that is available at one endpoint.
    ///
    /// This does not connect. The client connects when it is first used, or when ``connect()`` is called.
    ///
    /// - Parameters:
    ///   - endpoint: The endpoint of the server.
    ///   - codec: The wire format. Each link uses its own copy.
    ///   - options: The options of the client. They cannot be changed later.
    ///   - loops: The set of event loops from which the client takes one.
    public init(
        to endpoint: Endpoint,
        speaking codec: some FrameCodec,
        options: ClientOptions = ClientOptions(),
        on loops: EventLoops = .shared
    ) {
        self.init(to: [endpoint], speaking: codec, options: options, on: loops)
    }

    deinit {
        // A caller of `send` keeps the client alive, so only handles, streams and accepted messages are left.
        for channel in channels.all { channel.finish() }
        let (ended, parts, connection) = (requests.forgetAll(), parts.removeAll(), connection)
        let timer = timer
        let end: @Sendable (isolated Connection) -> Void = { connection in
            let error = ClientError.clientWasDeallocated(.notSent)
            var waitingCount = 0
            for (id, place, waiter) in ended {
                guard case .onLink(let session, let linkPlace) = place else {
                    waitingCount += 1
                    waiter.resume(.failure(error))
                    continue
                }
                // Also true if its link has ended, or an event that says how it ended is not delivered any more.
                let hasStarted = connection.hasStarted(id, session, linkPlace)
                waiter.resume(.failure(hasStarted ? error.withFate(.unknown) : error))
            }
            for part in parts.held { part.fail(error, isSent: false) }
            for part in parts.queued { part.fail(error, isSent: !connection.remove(part)) }
            if let timer { connection.loop.arm(timer, at: nil) }
            connection.finishClosing()
            connection.observation?.log?.deallocate(pending: waitingCount)
        }
        loop.schedule(LoopClosure { connection.onLoop(end) })
    }

    // MARK: State

    /// The current state of the connection and every following state, until the client is closed.
    ///
    /// Each access creates a separate stream. A reader that is more than 64 states behind misses the oldest ones. When
    /// the client is closed, the stream yields `closed` and ends. See <doc:ConnectionStates>.
    public nonisolated var states: AsyncStream<ConnectionState> { connection.states }

    /// A report of every failed attempt to connect and of every link that ends, from now on until the client is closed.
    ///
    /// Each access creates a separate stream. A reader that is more than 64 reports behind misses the oldest ones.
    public nonisolated var disconnects: AsyncStream<DisconnectReport> { connection.disconnects }
}

extension Client: CustomReflectable {
    /// Empty: its state belongs to its event loop, and holds secrets such as the bodies of requests.
    public nonisolated var customMirror: Mirror { Mirror(self, children: []) }
}
