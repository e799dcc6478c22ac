import Synchronization

/// One persistent connection to one of several servers: it owns the socket, replaces it when it is lost, and carries
/// frames both ways.
///
/// `Client` adds requests and responses on top. Use a connection alone for protocols that have none:
///
/// ```swift
/// let connection = Connection(to: "feed.internal:9000", speaking: .standard)
/// try await connection.write(Frame(.request, type: 0x410, body: "hello"))
/// for await frame in try connection.frames { … }
/// await connection.close()
/// ```
///
/// It connects when it is first used, and from then on until it is closed. All of its work happens on its event loop.
public actor Connection {
    nonisolated let loop: any EventLoop
    nonisolated let options: ClientOptions
    /// Every link starts with a copy.
    nonisolated let codec: any FrameCodec
    /// What links have to know.
    nonisolated let rules: LinkRules

    // MARK: Links

    /// When there is to be a link, and to where.
    var machine: ReconnectMachine
    /// Every link that is not closed, in the order in which they began. The last one may be handshaking, the last before that
    /// ready; the others are draining.
    var links: [Link] = []
    /// The attempt under way that has no link yet.
    var attempt: Attempt?
    /// How many links were established, ready or not.
    var linksBegun = 0
    /// What the server is told again on every new link.
    var subscriptions: [UInt64: (request: Request, expectsResponse: Bool)] = [:]
    /// The endpoints without those that handshakes have added.
    var givenEndpoints: [Endpoint]
    /// What the handshake of the latest link that was ready has kept.
    var serverInfo: (any Sendable)?
    /// What links to `tls://` endpoints are secured with, once there was one.
    var security: Security?

    // MARK: How the server does

    /// Where the latest link that was ready led to: what follows is about that endpoint.
    var judgedEndpoint: Endpoint?
    /// What share of the endpoint's requests failed lately; `nil` when that is nothing to go by.
    var errors: ErrorRateWindow?
    /// Requests that timed out since the endpoint was last heard.
    var silence: EndpointSilence
    /// When a link is replaced although it works.
    var replacement: LinkReplacement
    /// How many responses have come, late ones included.
    var answers = 0
    /// The latest failed attempts since the last link, oldest first.
    var failures: [ClientError.Attempt] = []
    /// Why there is no link.
    var lastCause: (any Error)?
    /// Finding out whether the network is up.
    var networkProbe: NetworkProbe?
    /// What is known of the host's network.
    var pathView = PathView()
    /// How often links came and went.
    public internal(set) var statistics = Statistics()

    // MARK: Timers and turns

    /// Fires at the end of an attempt's time or of a back-off.
    var timer: LoopTimer?
    var livenessTimer: ConnectionTimer?
    /// The instant `livenessTimer` is armed for.
    var livenessArmed: Instant?
    var drainingTimer: ConnectionTimer?
    /// Looks whether the files that TLS was made of have changed.
    var rotationTimer: ConnectionTimer?
    /// Looks again at an attempt whose path has changed.
    var pathTimer: ConnectionTimer?
    /// Writing is scheduled for the end of this turn.
    var isFlushing = false
    /// Reading goes on in the next turn.
    var isReadScheduled = false
    /// Reused from batch to batch.
    var decoded: [Frame] = []

    // MARK: Who is told

    /// What has happened that the owner was not told of yet.
    var events: [ConnectionEvent?] = []
    /// Empty, with memory for others.
    var spareEvents: [ConnectionEvent?] = []
    /// The owner calls, and takes the events itself at the end of its batch.
    var isInCallOfOwner = false
    /// The client that this connection belongs to.
    weak var owner: (any ConnectionOwner)?
    /// Whether there was an owner ever.
    var isOwned = false
    /// Who needs a link, by the owner's latest word.
    var ownerDemand = ReconnectMachine.Demand.none
    /// The owner wants no frames but heartbeats.
    var isPaused = false
    /// What those who follow the states were told last.
    var publishedState = ConnectionState.idle
    var stateReaders = Broadcast<ConnectionState>()
    var disconnectReaders = Broadcast<DisconnectReport>()

    // MARK: Closing

    var lifecycle = Lifecycle.open
    /// While it is closing and has something to write yet.
    var closing: Closing?
    var closeWaiters: [Continuation<Void>] = []

    /// What a connection without an owner has to write and to read.
    var direct = DirectUse()
    /// Whether there is a consumer of `frames`.
    nonisolated let hasConsumer = Atomic<Bool>(false)
    /// The ID of the latest frame to be written, request of a handshake, or subscription.
    var lastID: RequestID = 0

    /// The event loop: everything in this actor runs there.
    public nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }

    /// A connection to the first of `endpoints` that answers. Nothing happens until it is used.
    public init(
        to endpoints: [Endpoint],
        speaking codec: some FrameCodec,
        options: ConnectionOptions = ConnectionOptions(),
        on loops: EventLoops = .shared
    ) {
        self.init(to: endpoints, speaking: codec, options: options.clientOptions, loop: loops.next())
    }

    /// A connection to `endpoint`. Nothing happens until it is used.
    public init(
        to endpoint: Endpoint,
        speaking codec: some FrameCodec,
        options: ConnectionOptions = ConnectionOptions(),
        on loops: EventLoops = .shared
    ) {
        self.init(to: [endpoint], speaking: codec, options: options.clientOptions, loop: loops.next())
    }

    init(to endpoints: [Endpoint], speaking codec: any FrameCodec, options: ClientOptions, loop: any EventLoop) {
        self.loop = loop
        self.options = options
        self.codec = codec
        rules = LinkRules(codec, options)
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
            policy: options.reconnecting.policy ?? NoRetries(),
            stableAfter: options.reconnecting.stableAfter,
            seed: loop.randomSeed()
        )
    }

    deinit {
        // Letting go of the link closes its socket. Streams end; whoever waits for a frame or a write holds the
        // actor by calling it, so nobody is left.
        stateReaders.finish()
        disconnectReaders.finish()
        pathView.readers.finish()
    }

    // MARK: State

    /// What the connection is doing now.
    public var state: ConnectionState {
        if lifecycle == .draining || lifecycle == .closing { return .draining }
        switch machine.state {
        case .idle: return .idle
        case .connecting(let attempt):
            if handshaking != nil { return .handshaking(attempt.endpoint, attempt: attempt.number) }
            return switch self.attempt?.phase {
            case .resolving: .resolving(attempt.endpoint, attempt: attempt.number)
            case .securing: .securing(attempt.endpoint, attempt: attempt.number)
            default: .connecting(attempt.endpoint, attempt: attempt.number)
            }
        case .ready(let session):
            guard let index = index(of: session) else { return .idle }
            return .ready(links[index].endpoint, session: session)
        case .waiting(let until, let attempt, let cause):
            return .waiting(delay: max(.zero, until.since(loop.now)), attempt: attempt, cause: cause)
        case .noNetwork(let cause): return .noNetwork(cause: cause)
        case .suspended: return .suspended
        case .closed: return .closed
        }
    }

    /// The present state and every one that follows, until the connection is closed. Each access is a stream of its
    /// own; a reader that falls more than 64 states behind misses the oldest.
    public nonisolated var states: AsyncStream<ConnectionState> {
        stream(startingWith: { $0.state }, { $1(&$0.stateReaders) })
    }

    func publishState() {
        publishPath()
        let state = state
        guard state != publishedState else { return }
        publishedState = state
        stateReaders.yield(state)
        guard state == .closed else { return }
        stateReaders.finish()
        if let reports = networkProbe?.stop() { publish(reports) }
        disconnectReaders.finish()
        pathView.readers.finish()
    }

    // MARK: Links

    /// The link that is not ready yet.
    var handshaking: Int? {
        let last = links.count - 1
        return last >= 0 && links[last].handshake != nil ? last : nil
    }

    /// The link that takes requests.
    var ready: Int? {
        var index = links.count - 1
        // Its successor stands behind it.
        if index > 0, links[index].machine.phase == .handshaking { index -= 1 }
        return index >= 0 && links[index].draining == nil && links[index].machine.phase == .ready ? index : nil
    }

    func index(of session: UInt64) -> Int? { links.firstIndex { $0.session == session } }

    // MARK: The timer

    func arm(at deadline: Instant?) {
        let timer = timer ?? LoopTimer(target: self)
        self.timer = timer
        loop.arm(timer, at: deadline)
    }

    private func mainTimerFired() {
        if lifecycle == .closing { return closingTimerFired() }
        if let attempt = machine.attempt {
            if handshaking != nil { handshakeTimedOut(attempt.id) } else { raceTimerFired(attempt) }
        } else {
            perform(machine.timerFired(at: loop.now))
        }
    }
}

extension Connection: @preconcurrency TimerTarget {
    package func timerFired() { entered { $0.mainTimerFired() } }
}
