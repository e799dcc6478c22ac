import Synchronization

/// A persistent connection to one of several servers: it owns the socket, replaces a lost link, and carries frames in
/// both directions.
///
/// ``Client`` adds requests and responses on top. Use a connection alone for protocols without requests and responses:
///
/// ```swift
/// let connection = Connection(to: "feed.internal:9000", speaking: .standard)
/// try await connection.write(Frame(.request, type: 0x410, body: "hello"))
/// try await connection.withFrames { frames in
///     for await frame in frames { … }
/// }
/// await connection.close()
/// ```
///
/// A connection connects when it is first used. From then on it replaces lost links until it is closed. All of its work
/// happens on its event loop.
public actor Connection {
    nonisolated let loop: any EventLoop
    nonisolated let options: ClientOptions
    /// Copied for every link.
    nonisolated let codec: ProtocolCodec
    /// The properties of the protocol and the options that every link needs.
    nonisolated let rules: LinkRules
    /// The observers of the client; `nil` if there are none.
    nonisolated let observation: Observation?
    /// The flight recorder; `nil` if it is off.
    nonisolated let recorder: FlightRecorder?

    // MARK: Links

    /// Decides when to connect, and to which endpoint.
    var machine: ReconnectMachine
    /// Every link that is not closed.
    let links = Links()
    /// Turns the endpoint of an attempt into a connected channel.
    nonisolated let dialer: any Dialer
    /// The attempt under way, while it has no link yet.
    var attempt: Attempt?
    /// The number of links established so far, ready or not.
    var linksBegun = 0
    /// The requests that are sent again on every new link.
    var subscriptions: [UInt64: (request: Request, expectsResponse: Bool)] = [:]
    /// The endpoints without those that handshakes have added.
    var givenEndpoints: [Endpoint]
    /// The value that the handshake of the latest ready link has stored.
    var serverInfo: (any Sendable)?

    // MARK: Judging the endpoint

    /// The endpoint of the latest ready link. The properties below describe this endpoint.
    var judgedEndpoint: Endpoint?
    /// The share of the endpoint's requests that failed lately; `nil` when `options.failover.errorRate` is `nil`.
    var errors: ErrorRateWindow?
    /// The requests that timed out since the latest frame from the endpoint.
    var silence: EndpointSilence
    /// Decides when to replace a link that still works.
    var replacement: LinkReplacement
    /// The number of responses and parts received for known requests, late ones included.
    var answers = 0
    /// The latest failed attempts since the last ready link, oldest first; at most 8.
    var failures: [ClientError.Attempt] = []
    /// Why there is no link.
    var lastCause: (any Error)?
    /// The running probe of `options.diagnosis`, with the reports that wait for it.
    var networkProbe: NetworkProbe?
    /// The connection's view of the host's network.
    var pathView = PathView()
    /// The metrics, without those that are read when they are asked for.
    var counts = Metrics()

    // MARK: Timers and turns

    /// Fires at the end of a handshake's time or of a back-off.
    var timer: LoopTimer?
    var livenessTimer: ConnectionTimer?
    /// The instant for which `livenessTimer` is armed.
    var livenessArmed: Instant?
    var drainingTimer: ConnectionTimer?
    /// Checks whether the TLS files have changed.
    var rotationTimer: ConnectionTimer?
    /// Checks an attempt again whose path has changed.
    var pathTimer: ConnectionTimer?
    /// Whether writing is scheduled for the end of this turn.
    var isFlushing = false
    /// Whether reading continues in the next turn.
    var isReadScheduled = false
    /// Whether deadlines wait for reading; `nil` before the first that may have to.
    var deadlineWait: DeadlineWait?
    /// Decoded frames. Reused from batch to batch, to keep the memory. Exclusive access: see `LoopActor`.
    #if !DEBUG
        @exclusivity(unchecked)
    #endif
    @safe var decoded: [Frame] = []

    // MARK: Events and observers

    /// Events that the owner has not received yet. Exclusive access: see `LoopActor`.
    #if !DEBUG
        @exclusivity(unchecked)
    #endif
    @safe var events: [ConnectionEvent] = []
    /// An empty array whose memory is reused for the next events.
    var spareEvents: [ConnectionEvent] = []
    /// Whether the owner is calling: it takes the events itself at the end of its batch.
    var isInCallOfOwner = false
    /// The client that this connection belongs to, or `frameUse`.
    weak var owner: (any ConnectionOwner)?
    /// Whether `owner` was set: it is known from its first call.
    var hasOwner = false
    /// The owner's latest demand for a link.
    var ownerDemand = ReconnectMachine.Demand.none
    /// Whether the owner holds requests or parts that could not go out.
    var isOwnerWaiting = false
    /// Whether the owner takes only heartbeats at present.
    var isPaused: Bool
    /// How much memory the pushes take, counted as in `Link.Held`, that links have handed over because they ended or
    /// drained, since the owner paused.
    var surplusBytes = 0
    /// The latest state sent to the readers of `states`.
    var publishedState = ConnectionState.idle
    /// The end of the wait that `publishedState` describes; `nil` if it is no wait.
    private var publishedWaitEnd: Instant?
    var stateReaders = Broadcast<ConnectionState>()
    var disconnectReaders = Broadcast<DisconnectReport>()

    // MARK: Closing

    var lifecycle = Lifecycle.open
    /// Set while the connection is closing and still has bytes to write.
    var closing: Closing?
    var closeWaiters: [Continuation<Void>] = []

    /// The use of the connection alone; `nil` if it belongs to a client.
    let frameUse: FrameUse?
    /// Whether a call of `withFrames` is in progress.
    nonisolated let hasConsumer = Atomic<Bool>(false)
    /// The latest ID given to a frame to be written, a request of a handshake, or a subscription.
    var lastID: RequestID = 0

    /// The executor of this actor: its event loop.
    public nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }

    /// Creates a connection to the first of `endpoints` that can be reached. It connects on first use.
    ///
    /// - Parameters:
    ///   - endpoints: The endpoints, in order of preference.
    ///   - codec: The wire format. Each link uses its own copy.
    ///   - options: The options of the connection.
    ///   - loops: The set of event loops from which the connection takes one.
    public init(
        to endpoints: [Endpoint],
        speaking codec: some FrameCodec,
        options: ConnectionOptions = ConnectionOptions(),
        on loops: EventLoops = .shared
    ) {
        let (codec, options) = (ProtocolCodec(codec), options.clientOptions)
        self.init(to: endpoints, speaking: codec, options: options, loop: loops.next(), frameUse: FrameUse())
    }

    /// Creates a connection to `endpoint`. It connects on first use.
    ///
    /// - Parameters:
    ///   - endpoint: The endpoint of the server.
    ///   - codec: The wire format. Each link uses its own copy.
    ///   - options: The options of the connection.
    ///   - loops: The set of event loops from which the connection takes one.
    public init(
        to endpoint: Endpoint,
        speaking codec: some FrameCodec,
        options: ConnectionOptions = ConnectionOptions(),
        on loops: EventLoops = .shared
    ) {
        self.init(to: [endpoint], speaking: codec, options: options, on: loops)
    }

    init(
        to endpoints: [Endpoint],
        speaking codec: ProtocolCodec,
        options: ClientOptions,
        loop: any EventLoop,
        frameUse: FrameUse? = nil
    ) {
        self.loop = loop
        self.options = options
        self.codec = codec
        recorder = options.recorder.map { FlightRecorder($0, on: loop) }
        observation = Observation(options, of: endpoints, recorder, on: loop)
        rules = LinkRules(codec, options, observation, deliversAll: frameUse != nil)
        self.frameUse = frameUse
        isPaused = frameUse != nil
        dialer = SocketDialer(options, on: loop, recorder)
        givenEndpoints = endpoints
        let policy = ReconnectMachine.Policy(options.reconnecting, options.failover)
        machine = ReconnectMachine(endpoints: endpoints, policy: policy, seed: loop.randomSeed())
        errors = options.failover.errorRate.map {
            ErrorRateWindow(share: $0.share, minimumRequests: $0.minimumRequests, window: $0.window)
        }
        silence = EndpointSilence(
            maximumTimeouts: options.liveness.maximumStalls,
            patience: options.liveness.probeAfter ?? options.liveness.deadline
        )
        replacement = LinkReplacement(
            stableAfter: options.reconnecting.stableAfter,
            seed: loop.randomSeed()
        )
    }

    deinit {
        // Releasing the links closes their sockets. Only the streams have to be finished, and the timers to be disarmed:
        // a caller that waits for a frame or a write keeps the actor alive.
        stateReaders.finish()
        disconnectReaders.finish()
        pathView.readers.finish()
        guard lifecycle < .closed else { return }
        let timers = [livenessTimer, drainingTimer, rotationTimer, pathTimer].compactMap { $0 }
        let (timer, loop) = (timer, loop)
        guard timer != nil || !timers.isEmpty else { return }
        loop.schedule(
            LoopClosure {
                if let timer { loop.arm(timer, at: nil) }
                for timer in timers { loop.arm(timer.timer, at: nil) }
            }
        )
    }

    // MARK: State

    /// The current state of the connection.
    public var state: ConnectionState {
        if lifecycle == .draining || lifecycle == .closing { return .draining }
        switch machine.state {
        case .idle: return .idle
        case .connecting(let attempt):
            if handshaking != nil { return .handshaking(attempt.endpoint, attempt: attempt.number) }
            return switch dialer.progress.phase {
            case .resolving: .resolving(attempt.endpoint, attempt: attempt.number)
            case .securing: .securing(attempt.endpoint, attempt: attempt.number)
            default: .connecting(attempt.endpoint, attempt: attempt.number)
            }
        case .ready(let session):
            guard let link = links[session] else { return .idle }
            return .ready(link.endpoint, session: session)
        case .waiting(let until, let attempt, let cause):
            return .waiting(delay: max(.zero, until.since(loop.now)), attempt: attempt, cause: cause)
        case .noNetwork(let cause): return .noNetwork(cause: cause)
        case .suspended: return .suspended
        case .closed: return .closed
        }
    }

    /// The current state of the connection and every following state, until the connection is closed.
    ///
    /// Each access creates a separate stream. A reader that is more than 64 states behind misses the oldest ones.
    public nonisolated var states: AsyncStream<ConnectionState> {
        stream(startingWith: { $0.state }, { $1(&$0.stateReaders) })
    }

    func publishState() {
        publishPath()
        // The rest of a wait shrinks all the time: its end tells whether it is the same wait.
        let end: Instant? = if case .waiting(let until, _, _) = machine.state { until } else { nil }
        let state = state
        guard state != publishedState, end == nil || end != publishedWaitEnd else { return }
        (publishedState, publishedWaitEnd) = (state, end)
        if let log = observation?.log, case .waiting(let until, _, _) = machine.state {
            log.willTry(machine.ring.upcoming(at: until))
        }
        observation?.add(.links, .stateChanged(state))
        stateReaders.yield(state)
        guard state == .closed else { return }
        stateReaders.finish()
        if let reports = networkProbe?.stop() { publish(reports) }
        disconnectReaders.finish()
        pathView.readers.finish()
    }

    // MARK: Links

    /// The link that is not ready yet.
    var handshaking: Link? { links.handshaking }

    /// The link that takes requests.
    var ready: Link? { links.ready }

    // MARK: The timer

    func arm(at deadline: Instant?) {
        let timer = timer ?? LoopTimer(target: self)
        self.timer = timer
        loop.arm(timer, at: deadline)
    }

    private func mainTimerFired() {
        recorder?.timerFired(lifecycle == .closing ? "closing" : machine.attempt == nil ? "back-off" : "attempt")
        if lifecycle == .closing { return closingTimerFired() }
        if let attempt = machine.attempt {
            prolongHandshake()
            if mustReadFirst() { return arm(at: loop.nextTurn) }
            handshakeTimedOut(attempt.id)
        } else {
            perform(machine.timerFired(at: loop.now))
        }
    }
}

extension Connection: TimerTarget {
    package nonisolated func timerFired() {
        onItsLoop {
            $0.mainTimerFired()
            $0.deliverEvents()
        }
    }
}

extension Connection: CustomReflectable {
    /// Empty: its state belongs to its event loop, and holds secrets such as the bodies of requests.
    public nonisolated var customMirror: Mirror { Mirror(self, children: []) }
}
