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
    package nonisolated let loop: any EventLoop
    package nonisolated let commandQueue: CommandQueue
    package nonisolated let codec: ProtocolCodec
    /// Stored because it is read for every request.
    nonisolated let isIntercepted: Bool
    /// Whether the retry policy of the options is `.ifUnsent`. Stored for the same reason.
    nonisolated let retriesIfUnsent: Bool
    nonisolated let requestIDs = Atomic<UInt64>(0)
    nonisolated let messageRoom: MessageRoom
    package nonisolated let connection: Connection
    /// That of `connection`, which this actor calls on the loop they share.
    nonisolated let driver: ConnectionDriver
    nonisolated var options: ClientOptions { driver.options }

    var dispatcher: Dispatcher
    let clock: ClientClock

    /// The executor of this actor: its event loop.
    public nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }

    /// The event loop as a task executor, for callers that want to avoid thread hops.
    ///
    /// A task that runs on it (`withTaskExecutorPreference(client.executor)`) submits its requests without a lock and
    /// without a thread hop. It needs less CPU time for each request and, with one request at a time, has its response
    /// in half the time. Its throughput is higher with up to about 16 requests in flight; with more it can be lower,
    /// because all callers share one thread.
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
        retriesIfUnsent = if case .ifUnsent = options.requests.retry.or(.ifUnsent) { true } else { false }
        connection = Connection(to: endpoints, speaking: codec, options: options, loop: loop)
        driver = connection.driver
        clock = ClientClock(on: loop)
        dispatcher = Dispatcher(driver, codec, messageRoom, on: loop)
        unsafe commandQueue.client = self
        driver.observation?.log?.client = self
        driver.context.recorder?.client = self
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
        for channel in dispatcher.streams.channels.all { channel.clientEnded() }
        let (ended, parts, driver) = (dispatcher.requests.forgetAll(), dispatcher.parts.removeAll(), driver)
        let end: @Sendable (ConnectionDriver) -> Void = { driver in
            let error = ClientError.clientWasDeallocated(.notSent)
            var waitingCount = 0
            for (id, place, waiter) in ended {
                guard case .onLink(let session, let linkPlace) = place else {
                    waitingCount += 1
                    waiter.resume(.failure(error))
                    continue
                }
                // Also true if its link has ended, or an event that says how it ended is not delivered any more.
                let hasStarted = driver.links.hasStarted(id, session, linkPlace)
                waiter.resume(.failure(hasStarted ? error.withFate(.unknown) : error))
            }
            for part in parts.held { part.fail(error, isSent: false) }
            for part in parts.queued { part.fail(error, isSent: !driver.links.remove(part)) }
            if driver.lifecycle == .closed { return }
            driver.finishClosing()
            driver.observation?.add(.links, .clientDeallocated(pending: waitingCount))
        }
        loop.schedule(LoopClosure { driver.entered(end) })
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

/// The ways into a client on its event loop.
extension Client: LoopActor, CommandQueueOwner, ConnectionOwner, TimerTarget {
    nonisolated func take(_ commands: inout [Command]) {
        onItsLoop(&commands) { client, commands in
            client.batch { $0.perform(&commands, for: client) }
        }
    }

    nonisolated func handle(_ events: inout [ConnectionEvent]) {
        onItsLoop(&events) { client, events in
            client.end(client.dispatcher.take(&events, for: client))
        }
    }

    package nonisolated func timerFired() {
        onItsLoop { client in
            client.clock.fired()
            client.batch { $0.takeTime(for: client) }
        }
    }

    /// For what the loop asks between batches.
    nonisolated func reading<Result>(_ body: @escaping @Sendable (borrowing Dispatcher) -> Result) -> Result {
        onItsLoop { body($0.dispatcher) }
    }

    /// Performs a batch. The dispatcher takes the events of the driver itself; the driver delivers none meanwhile.
    func batch(_ body: (inout Dispatcher) -> Dispatcher.BatchEnd) {
        driver.port.begin()
        let batchEnd = body(&dispatcher)
        driver.port.end()
        end(batchEnd)
    }

    /// Not part of the dispatcher, because an observer may read the metrics.
    private func end(_ batch: consuming Dispatcher.BatchEnd) {
        clock.arm(at: batch.nextTime, for: self)
        driver.observation?.deliver()
        if batch.closeWaiters.isEmpty { return }
        resume(batch.closeWaiters)
    }

    /// Resumes the callers of `close` when the child processes of links have ended and the events are delivered.
    private func resume(_ waiters: [Continuation<Void>]) {
        let (queues, loop) = (driver.observation?.queues ?? [], loop)
        driver.processes.whenAllHaveEnded { HeldWaiters.resume(waiters, after: queues, on: loop) }
    }

    func slowest() -> [Timeline] { dispatcher.ledger.slowestRequests() }

    package func contradictions() -> [String] { dispatcher.audit() }
}

extension Client: CustomReflectable {
    /// Empty: its state belongs to its event loop, and holds secrets such as the bodies of requests.
    public nonisolated var customMirror: Mirror { Mirror(self, children: []) }
}
