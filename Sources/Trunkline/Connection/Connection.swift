public import TrunklineCore
public import TrunklineIO

/// One persistent connection to one of several servers: it owns the socket, replaces it when it is lost, and carries
/// frames both ways.
///
/// `Client` adds requests and responses on top. Use a connection alone for protocols that have none:
///
/// ```swift
/// let connection = Connection(to: "feed.internal:9000", speaking: .standard)
/// try await connection.write(Frame(.request, type: 0x410, body: "hello"))
/// for await frame in connection.frames { … }
/// await connection.close()
/// ```
///
/// It connects when it is first used, and from then on until it is closed. All of its work happens on its event loop.
public actor Connection {
    nonisolated let loop: any EventLoop
    nonisolated let options: ClientOptions
    /// Every link starts with a copy.
    let codec: any FrameCodec

    var machine: ReconnectMachine
    /// The link that is ready, or greeting.
    var link: Link?
    /// Links that take no new requests and see those off that had started on them.
    var retired: [RetiredLink] = []
    var retiredTimeout: ConnectionTimer?
    /// The end of the time of the attempt under way.
    var attemptDeadline = Instant.distantFuture
    /// The attempt under way, while what TLS needs is read for it.
    var preparing: (attempt: ReconnectMachine.Attempt, task: Task<Void, Never>)?
    /// The sockets of the attempt under way.
    var race: Race?
    /// How far the attempt under way has come; `nil` when there is none.
    var connectingPhase: ConnectingPhase?
    /// What links to `tls://` endpoints are secured with, once there was one.
    var security: Security?
    /// Fires at the end of an attempt's time or of a back-off.
    var timer: LoopTimer?
    /// Outlives links: what has not started goes out on the next one.
    var outbound = OutboundQueue()
    /// The latest failed attempts since the last link, oldest first.
    var attempts: [ClientError.Attempt] = []
    /// What is going on on the link before it is ready.
    var greeting: Greeting?
    /// The endpoints without those that greetings have added.
    var givenEndpoints: [Endpoint]
    /// What the greeting of the latest link that was ready has kept.
    var serverInfo: (any Sendable)?
    /// How many links were established, ready or not.
    var linksBegun = 0
    /// What the server is told again on every new link.
    var subscriptions: [UInt64: Request] = [:]
    /// Those that the server does not answer.
    var postedSubscriptions: [UInt64: Request] = [:]
    /// Why there is no link.
    var lastCause: (any Error)?
    /// Whether the link is alive.
    var heartbeat = Heartbeat()
    var isFlushing = false
    /// Reading goes on in the next turn.
    var isReadScheduled = false
    /// Closing: the link ends as soon as everything is written.
    var isDraining: Bool { draining != nil }
    /// How the writing goes meanwhile.
    private var draining: Drain?
    /// The owner takes no new requests, and closes when the last one has ended.
    var isOwnerDraining = false
    /// The owner wants no frames but heartbeats.
    var isPaused = false
    /// What has come of the link meanwhile.
    var held = Held()
    /// Reused from batch to batch.
    var decoded: [Frame] = []

    /// The client that this connection belongs to.
    weak var owner: (any ConnectionOwner)?
    /// Whether there was an owner ever.
    var isOwned = false

    func adopt(_ owner: any ConnectionOwner) {
        self.owner = owner
        isOwned = true
    }

    /// What those who follow the states were told last.
    var publishedState = ConnectionState.idle
    var stateReaders = Broadcast<ConnectionState>()
    var disconnectReaders = Broadcast<DisconnectReport>()
    /// Finding out whether the network is up.
    var networkProbe: NetworkProbe?
    /// How often links came and went.
    public internal(set) var statistics = Statistics()
    /// When the link became ready.
    var readySince: Instant?

    // Without an owner only:

    /// Frames that were read and not yet asked for. At most one batch of reading.
    var inbox = Deque<Frame>()
    /// Who asks for the next frame.
    var readers: [UInt64: Suspension<Frame?>] = [:]
    /// Who waits for a frame to be written.
    var writers: [Ticket: (position: OutboundPosition, continuation: Writer)] = [:]
    typealias Writer = Suspension<ClientError?>

    var lastTicket: Ticket = 0
    var closeWaiters: [Suspension<Void>] = []

    /// The event loop: everything in this actor runs there.
    public nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }

    /// A connection to the first of `endpoints` that answers. Nothing happens until it is used.
    public init(
        to endpoints: [Endpoint],
        speaking codec: some FrameCodec,
        options: ClientOptions = ClientOptions(),
        on loops: EventLoops = .shared
    ) {
        self.init(to: endpoints, speaking: codec, options: options, loop: loops.next())
    }

    /// A connection to `endpoint`. Nothing happens until it is used.
    public init(
        to endpoint: Endpoint,
        speaking codec: some FrameCodec,
        options: ClientOptions = ClientOptions(),
        on loops: EventLoops = .shared
    ) {
        self.init(to: [endpoint], speaking: codec, options: options, loop: loops.next())
    }

    init(to endpoints: [Endpoint], speaking codec: any FrameCodec, options: ClientOptions, loop: any EventLoop) {
        self.loop = loop
        self.options = options
        self.codec = codec
        givenEndpoints = endpoints
        let policy = ReconnectMachine.Policy(options.reconnecting, options.failover)
        machine = ReconnectMachine(endpoints: endpoints, policy: policy, seed: loop.randomSeed())
    }

    deinit {
        // Letting go of the link closes its socket. Streams end; whoever waits for a frame or a write holds the
        // actor by calling it, so nobody is left.
        stateReaders.finish()
        disconnectReaders.finish()
    }

    // MARK: State

    /// What the connection is doing now.
    public var state: ConnectionState {
        if isDraining || isOwnerDraining, machine.state != .closed { return .draining }
        switch machine.state {
        case .idle: return .idle
        case .connecting(let attempt):
            if greeting != nil { return .greeting(attempt.endpoint, attempt: attempt.number) }
            return switch connectingPhase {
            case .resolving: .resolving(attempt.endpoint, attempt: attempt.number)
            case .securing: .securing(attempt.endpoint, attempt: attempt.number)
            case .connecting, nil: .connecting(attempt.endpoint, attempt: attempt.number)
            }
        case .ready(let session):
            guard let link else { return .idle }
            return .ready(link.endpoint, session: session)
        case .waiting(let until, let attempt, let cause):
            return .waiting(delay: max(.zero, until.since(loop.now)), attempt: attempt, cause: cause)
        case .suspended: return .suspended
        case .closed: return .closed
        }
    }

    /// The present state and every one that follows, until the connection is closed. Each access is a stream of its
    /// own; a reader that falls more than 64 states behind misses the oldest.
    public nonisolated var states: AsyncStream<ConnectionState> {
        stream(startingWith: { $0.state }, { $1(&$0.stateReaders) })
    }

    /// Whether requests may go out now: there is a link, and its greeting is over.
    var isReady: Bool {
        if case .ready = machine.state { link != nil } else { false }
    }

    func publishState() {
        let state = state
        guard state != publishedState else { return }
        publishedState = state
        stateReaders.yield(state)
        guard state == .closed else { return }
        stateReaders.finish()
        networkProbe?.stop()
        disconnectReaders.finish()
    }

    // MARK: Closing

    /// Writes out what is queued and the codec's `closingFrame`, if there is a link to write them to, and closes. Returns
    /// when the link has ended.
    ///
    /// What cannot be written fails with `closed`. A peer that reads slowly is waited for no longer than
    /// `options.requests.drainTimeout`. One that reads nothing for 2 s is not waited for any longer if no `write` waits: what
    /// is left then is the rest of a frame that was given up, or the closing frame. Calling it again waits for the same end;
    /// if the calling task is cancelled, it closes at once.
    ///
    /// The socket outlives the call: it is read from until the peer closes too, for up to 1 s, because to close it earlier
    /// could destroy what the peer has not read yet. Over TLS to a peer that hardly reads it is up to 30 s, for encrypted
    /// bytes that no kernel has yet.
    public func close() async {
        drain()
        await withTaskCancellationHandler {
            await waitUntilClosed()
        } onCancel: {
            loop.schedule(Completion { [weak self] in self?.assumeIsolated { $0.finishClosing() } })
        }
    }

    /// Closes at once; what is queued fails with `closed`.
    public func closeNow() {
        finishClosing()
    }

    func waitUntilClosed() async {
        await withSuspension { suspension in
            // Asked here and not before: the `await` may let the loop do other things first.
            if machine.state == .closed { suspension.resume() } else { closeWaiters.append(suspension) }
        }
    }

    /// Begins to close: the link ends when everything is written.
    func drain() {
        guard machine.state != .closed, !isDraining else { return }
        draining = Drain(deadline: loop.now.advanced(by: options.requests.drainTimeout))
        guard case .ready = machine.state else { return finishClosing() }
        if let farewell = link?.codec.closingFrame() { outbound.append(OutboundQueue.Item(farewell, ticket: 0)) }
        guard !outbound.isEmpty || link?.transport.isHoldingBytes == true else { return finishClosing() }
        draining?.left = bytesLeft
        armDrain()
        publishState()
        scheduleFlush()
    }

    /// Looks at once in a while how the writing goes, until the end of the time.
    private func armDrain() {
        guard let draining else { return }
        arm(at: min(draining.deadline, loop.now.advanced(by: Self.stallLimit)))
    }

    private func drainTimerFired() {
        let left = bytesLeft
        guard let end = draining, loop.now < end.deadline else { return finishClosing() }
        // With nothing left in the queue it is whole frames that TLS holds, of callers who were told that they are written.
        let isWanted = !writers.isEmpty || outbound.isEmpty
        guard isWanted || left.isLess(than: end.left) else { return finishClosing() }
        draining?.left = left
        armDrain()
    }

    /// A client has no requests left by the time its connection drains, so nobody waits for its bytes.
    private static let stallLimit = Duration.seconds(2)

    private var bytesLeft: Drain.Left {
        Drain.Left(
            position: outbound.firstUnwritten,
            unwritten: outbound.unwrittenCount,
            held: link?.transport.heldByteCount ?? 0
        )
    }

    /// The owner closes as soon as its requests have ended; the link, or the way to one, goes on meanwhile.
    func ownerDrains() {
        guard !isOwnerDraining, !isDraining else { return }
        isOwnerDraining = true
        publishState()
    }

    func finishClosing() {
        guard machine.state != .closed else { return }
        machine.close()
        arm(at: nil)
        stopLiveness()
        reportEndByUs()
        endGreeting(ClientError(.closed, .notSent, "the connection was closed"))
        endRace()
        if let link { Lingering.close(link.transport, on: loop) }
        link = nil
        held = Held()
        closeRetired()
        // Before the queue is emptied: it knows what has started.
        failWriters(ClientError(.closed, .unknown, "the connection was closed")) { self.outbound.hasStarted($0) }
        failWriters(ClientError(.closed, .notSent, "the connection was closed")) { _ in true }
        outbound.linkLost()
        outbound.removeAll()
        endReaders()
        publishState()
        owner?.connection(did: .closed)
        let waiters = closeWaiters
        closeWaiters.removeAll()
        for waiter in waiters { waiter.resume() }
    }

    // MARK: The timer

    func arm(at deadline: Instant?) {
        let timer = timer ?? LoopTimer(target: self)
        self.timer = timer
        loop.arm(timer, at: deadline)
    }
}

extension Connection: @preconcurrency TimerTarget {
    package func timerFired() {
        if isDraining { return drainTimerFired() }
        switch machine.state {
        case .connecting(let attempt):
            if greeting != nil { greetingTimedOut(attempt.id) } else { raceTimerFired(attempt) }
        case .waiting, .ready: perform(machine.timerFired(at: loop.now))
        case .idle, .suspended, .closed: break
        }
    }
}

/// The end of a connection that has something to write yet.
private struct Drain {
    /// What has not been written.
    struct Left {
        /// The first frame that is not written to its last byte, how many encoded bytes wait for the socket, and how many of
        /// those that it has taken TLS still holds.
        var position: OutboundPosition = 0
        var unwritten = 0
        var held = 0

        /// Whether the socket has taken bytes since it was `earlier`. What is encoded later adds to `unwritten` only when all
        /// that was encoded has gone.
        func isLess(than earlier: Left) -> Bool {
            position > earlier.position || position == earlier.position && unwritten < earlier.unwritten
                || held < earlier.held
        }
    }

    let deadline: Instant
    /// At the latest look.
    var left = Left()
}
