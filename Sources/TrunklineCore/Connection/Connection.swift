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
    package nonisolated let loop: any EventLoop
    package nonisolated let options: ClientOptions
    nonisolated let rules: LinkRules
    nonisolated let observation: Observation?
    nonisolated let recorder: (any ClientRecorder)?

    var machine: ReconnectMachine
    var attempt: Attempt?
    var pathView = PathView()
    var history = AttemptHistory()

    let links = Links()
    var memory: LinkMemory
    var endpointJudge: EndpointJudge
    let turn = Turn()
    let timers: ConnectionTimers

    let port: OwnerPort
    /// `nil` if the connection belongs to a client.
    let frameUse: FrameUse?
    var readers = ConnectionReaders()
    var counts = Metrics()
    var ending = Ending()
    var cancellations: [CancellationRun] = []
    /// Whether the first waiting request is exclusive, and waits for others on the link.
    var awaitsAlone = false
    nonisolated let hasConsumer = Atomic<Bool>(false)
    nonisolated let reportReaders = ReportReaders()

    /// Its fields are only assigned as a whole: see `Link.state`.
    final class Turn {
        var isFlushing = false
        var isReadScheduled = false
        var deadlineWait: DeadlineWait?
        /// Empty. Its memory is used for the next frames that are decoded.
        private var memory: [Frame] = []

        func takeMemory() -> [Frame] {
            let memory = memory
            self.memory = []
            return memory
        }

        func giveBack(_ frames: inout [Frame]) {
            frames.removeAll(keepingCapacity: true)
            if frames.capacity <= 8192 { memory = exchange(&frames, with: []) }
        }
    }

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
        let quarantine = options.requests.quarantine
        recorder = options.recorderSettings?
            .makeRecorder(of: endpoints, quarantine: quarantine, codec: codec, on: loop)
        observation = Observation(options, of: endpoints, recorder, on: loop)
        rules = LinkRules(codec, options, observation, deliversAll: frameUse != nil)
        self.frameUse = frameUse
        port = OwnerPort(of: frameUse)
        timers = ConnectionTimers(on: loop, livenessGrid: options.liveness.grid)
        memory = LinkMemory(endpoints)
        let policy = ReconnectMachine.Policy(options.reconnecting, options.failover)
        machine = ReconnectMachine(
            endpoints: endpoints,
            policy: policy,
            seed: loop.randomSeed(),
            client: options.membership?.client ?? 0
        )
        let silence = EndpointSilence(
            maximumTimeouts: options.liveness.maximumStalls,
            patience: options.liveness.probeAfter ?? options.liveness.deadline
        )
        let errors = options.failover.errorRate.map {
            ErrorRateWindow(share: $0.share, minimumRequests: $0.minimumRequests, window: $0.window)
        }
        let stableAfter = options.reconnecting.stableAfter
        let replacement = LinkReplacement(stableAfter: stableAfter, seed: loop.randomSeed())
        endpointJudge = EndpointJudge(errors, silence, replacement)
    }

    deinit {
        // Releasing the links closes their sockets. Only the streams have to be finished: a caller that waits for a
        // frame or a write keeps the actor alive.
        readers.finish()
        reportReaders.finish()
        pathView.readers.finish()
    }

    nonisolated var codec: ProtocolCodec { rules.codec }

    var dialMemory: DialMemory { memory.dialMemory }

    var lifecycle: Lifecycle { ending.lifecycle }

    /// The current state of the connection.
    public var state: ConnectionState {
        if lifecycle == .draining || lifecycle == .closing { return .draining }
        switch machine.state {
        case .idle: return .idle
        case .connecting(let attempt):
            if handshaking != nil { return .handshaking(attempt.endpoint, attempt: attempt.number) }
            return switch self.attempt?.progress.phase {
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
        stream(startingWith: { $0.state }, { $1(&$0.readers.states) })
    }

    func publishState() {
        publishPath()
        let end: Instant? = if case .waiting(let until, _, _) = machine.state { until } else { nil }
        let state = state
        guard readers.update(to: state, waitEnd: end) else { return }
        if let end, let endpoint = machine.ring.upcoming(at: end) {
            observation?.add(.links, .attemptPlanned(endpoint))
        }
        observation?.add(.links, .stateChanged(state))
        readers.states.yield(state)
        guard state == .closed else { return }
        if let reports = readers.probe?.stop() { publish(reports) }
        readers.finish()
        reportReaders.finish()
        pathView.readers.finish()
    }

    var handshaking: Link? { links.handshaking }

    var ready: Link? { links.ready }

    func arm(at deadline: Instant?) { timers.arm(.main, at: deadline, for: self) }

    func timerFired(_ name: ConnectionTimers.Name) {
        recorder?.timerFired(label(of: name))
        switch name {
        case .main: mainTimerFired()
        case .liveness: livenessTimerFired()
        case .draining: drainingTimedOut()
        case .files: lookAtFiles()
        case .path: take(.paths)
        }
    }

    private func mainTimerFired() {
        if lifecycle == .closing { return closingTimerFired() }
        guard let attempt = machine.attempt else { return perform(machine.timerFired(at: loop.now)) }
        if mustReadFirst() { return arm(at: loop.nextTurn) }
        handshakeTimedOut(attempt.id)
    }

    private func label(of name: ConnectionTimers.Name) -> String {
        switch name {
        case .main: lifecycle == .closing ? "closing" : machine.attempt == nil ? "back-off" : "attempt"
        case .liveness: "liveness"
        case .draining: "draining"
        case .files: "rotation"
        case .path: "path"
        }
    }
}

extension Connection: CustomReflectable {
    /// Empty: its state belongs to its event loop, and holds secrets such as the bodies of requests.
    public nonisolated var customMirror: Mirror { Mirror(self, children: []) }
}
