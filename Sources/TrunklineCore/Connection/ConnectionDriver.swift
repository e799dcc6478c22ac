/// Performs what the machines of a connection decide: dials, reads, writes, arms timers, and tells its owner what
/// became of requests and links.
///
/// The actor `Connection` owns it through a `DriverReference`. If the connection belongs to a client, the client calls
/// it, too: both actors have the event loop as their executor, so a call from one to the other would only be a check.
///
/// Unchecked Sendable: everything but constants and `reference`, which is set once, is accessed on `loop` only, by
/// these actors, and by what the loop calls (transports, timers, posted work).
final class ConnectionDriver: @unchecked Sendable {
    let context: ConnectionContext

    var machine: ReconnectMachine
    var attempt: Attempt?
    let paths: PathView
    var history = AttemptHistory()

    let links: Links
    let memory: LinkMemory
    private(set) lazy var io = LinkIO(context, links, port, reports, host: self)
    private(set) lazy var requests = LinkRequests(io, host: self)
    private(set) lazy var liveness = LivenessWatch(io, timers, paths, host: self)
    private(set) lazy var handshakes = Handshakes(io, memory, host: self)
    let timers: ConnectionTimers

    let port: OwnerPort
    /// `nil` if the connection belongs to a client.
    let frameUse: FrameUse?
    var readers = ConnectionReaders()
    let reports: LinkReports
    // Idle connections have neither, unless over TLS.
    private(set) lazy var certificates = CertificateView(context, dialMemory)
    private(set) lazy var processes = ChildProcesses(context)
    var ending = Ending()
    /// Set once, before the driver is shared; read on any thread. `nil` when the connection was deallocated: from then
    /// on no event, timer or posted work reaches the driver.
    weak var reference: DriverReference?

    init(
        to endpoints: [Endpoint],
        speaking codec: ProtocolCodec,
        options: ClientOptions,
        loop: any EventLoop,
        frameUse: FrameUse?
    ) {
        let context = ConnectionContext(
            of: endpoints,
            speaking: codec,
            options,
            on: loop,
            deliversAll: frameUse != nil
        )
        self.context = context
        paths = PathView(context)
        links = Links(maximumInFlight: options.requests.maximumInFlight)
        reports = LinkReports(context)
        self.frameUse = frameUse
        port = OwnerPort(of: frameUse)
        timers = ConnectionTimers(on: loop, livenessGrid: options.liveness.grid)
        memory = LinkMemory(endpoints, isMember: options.membership != nil)
        let policy = ReconnectMachine.Policy(options.reconnecting, options.failover)
        machine = ReconnectMachine(
            endpoints: endpoints,
            policy: policy,
            seed: loop.randomSeed(),
            client: options.membership?.client ?? 0
        )
        // Its rules draw a random number, in this order also in a simulation.
        _ = requests
    }

    deinit {
        // Releasing the links closes their sockets. Only the streams have to be finished: a caller that waits for a
        // frame or a write keeps the connection alive.
        readers.finish()
        reports.readers.finish()
        paths.readers.finish()
    }

    var loop: any EventLoop { context.loop }
    var options: ClientOptions { context.options }
    var rules: LinkRules { context.rules }
    var observation: Observation? { context.observation }

    var dialMemory: DialMemory { memory.dialMemory }

    var lifecycle: Lifecycle { ending.lifecycle }

    var state: ConnectionState {
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

    func publishState() {
        paths.publish(presentPath)
        let end: Instant? = if case .waiting(let until, _, _) = machine.state { until } else { nil }
        let state = state
        guard readers.update(to: state, waitEnd: end) else { return }
        if let end, let endpoint = machine.ring.upcoming(at: end) {
            observation?.add(.links, .attemptPlanned(endpoint))
        }
        observation?.add(.links, .stateChanged(state))
        readers.states.yield(state)
        guard state == .closed else { return }
        reports.finish()
        readers.finish()
        paths.readers.finish()
    }

    var handshaking: Link? { links.handshaking }

    var ready: Link? { links.ready }

    func arm(at deadline: Instant?) { arm(.main, at: deadline) }

    func arm(_ timer: ConnectionTimers.Name, at deadline: Instant?) { timers.arm(timer, at: deadline, for: reference) }

    func timerFired(_ name: ConnectionTimers.Name) {
        context.recorder?.timerFired(name.label(isClosing: lifecycle == .closing, isAttempting: machine.attempt != nil))
        switch name {
        case .main: mainTimerFired()
        case .liveness: liveness.timerFired()
        case .draining: drainingTimedOut()
        case .files: lookAtFiles()
        case .path: take(.paths)
        }
    }

    private func mainTimerFired() {
        if lifecycle == .closing { return closingTimerFired() }
        guard let attempt = machine.attempt else { return perform(machine.timerFired(at: loop.now)) }
        if io.mustReadFirst() { return arm(at: loop.nextTurn) }
        handshakes.timedOut(attempt.id)
    }
}

/// Where calls enter the driver. Events are delivered when the outermost of them has ended.
extension ConnectionDriver {
    @discardableResult
    func entered<Result>(_ body: (ConnectionDriver) -> Result) -> Result {
        assert(loop.isCurrent, "not on the event loop of the connection")
        let isOutermost = port.begin()
        let result = body(self)
        if isOutermost {
            port.end()
            deliverEvents()
        }
        return result
    }

    private func deliverEvents() {
        while !port.events.isEmpty {
            var batch = port.takeBatch()
            port.begin()
            port.owner?.handle(&batch)
            port.end()
            port.keepMemory(&batch)
        }
        observation?.deliver()
    }

    /// A stream that is filled on the loop.
    func stream<Element: Sendable>(
        startingWith first: @escaping @Sendable (ConnectionDriver) -> Element,
        _ access: @escaping @Sendable (ConnectionDriver, (inout Broadcast<Element>) -> Void) -> Void
    ) -> AsyncStream<Element> {
        let (stream, continuation) = AsyncStream.makeStream(of: Element.self, bufferingPolicy: .bufferingNewest(64))
        loop.schedule(
            LoopClosure { [weak reference] in
                guard let driver = reference?.driver else { return continuation.finish() }
                driver.entered { $0.add(continuation, startingWith: first($0), access) }
            }
        )
        return stream
    }

    private func add<Element: Sendable>(
        _ stream: AsyncStream<Element>.Continuation,
        startingWith first: Element,
        _ access: @escaping @Sendable (ConnectionDriver, (inout Broadcast<Element>) -> Void) -> Void
    ) {
        // The reader may have ended already; then no termination handler would run.
        if case .terminated = stream.yield(first) { return }
        guard lifecycle < .closed else { return stream.finish() }
        let id = memory.nextNumber()
        access(self) { $0.add(stream, id: id) }
        stream.onTermination = { [weak reference] _ in
            reference?.driver.schedule { driver in access(driver) { $0.remove(id) } }
        }
    }
}

extension ConnectionDriver: LoopWork {
    /// At the end of a turn in which something was queued.
    func runOnLoop() { entered { $0.io.flushAll() } }
}
