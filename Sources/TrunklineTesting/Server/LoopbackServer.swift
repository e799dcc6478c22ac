public import Trunkline

/// A server for tests, scripted to behave well or badly.
///
/// ```swift
/// let server = try await LoopbackServer.start(speaking: .standard) { request in
///     request.type == 0x410 ? .after(.seconds(1), .echo) : .reply("hello")
/// }
/// let client = Client(to: server.endpoint, speaking: .standard)
/// …
/// try await server.waitForCancel()
/// await server.stop()
/// ```
///
/// It listens on a port of 127.0.0.1 that the system chooses. It speaks every codec that has a `serverSide()`; each
/// connection starts with a fresh copy. Bytes that are no frame end their connection and are counted. All servers share
/// one event loop of their own, unless told otherwise; on a simulation's loop they are part of the simulation. A server
/// that is let go closes its sockets, so keep it. Do a client's requests fail with `connectionLost`? Perhaps the two speak
/// differently: `journal` knows.
public actor LoopbackServer {
    /// What to do about a request. Called on the server's loop: it must not block.
    public typealias Handler = @Sendable (_ request: Frame) -> Reaction

    /// Where the server listens.
    public nonisolated let endpoint: Endpoint
    nonisolated let loop: any EventLoop
    nonisolated let options: Options
    let acceptor: Acceptor
    /// What connections are secured with, if they are.
    let tls: (any TLSContext)?
    /// Every connection starts with a copy.
    let codec: any FrameCodec
    let handler: Handler

    var isStopped = false
    /// Reading is paused on every connection.
    var isPaused = false
    /// Pings are answered, and how long after.
    var answersPings: Bool
    var pongDelay: Duration
    /// Nothing is written on any connection.
    var isSilent = false
    /// Open connections by the number of their transport.
    var links: [UInt64: ServerLink] = [:]
    /// Connections with a TLS handshake, which may be over, and when its time is: in that order, as all have as long.
    var handshakes = Deque<(link: UInt64, deadline: Instant)>()
    var record: Journal
    /// Reactions to the next requests, before the handler is asked.
    var scripted = Deque<Reaction>()

    /// Programs that wait for their time, and when the next of them comes.
    var delayed: [RequestID: Delayed] = [:]
    var deadlines = DeadlineQueue()
    /// Who waits for a fact.
    var waiters: [RequestID: FactWaiter] = [:]
    /// For `delayed` and `waiters`.
    var lastID: RequestID = 0
    /// Fires at the earliest deadline of `deadlines` and `waiters`.
    var timer: LoopTimer?

    /// Links that have something to write at the end of this turn.
    var dirty: [ServerLink] = []
    var isFlushScheduled = false
    /// Reused from batch to batch.
    var decoded: [Frame] = []

    /// The event loop: everything in this actor runs there.
    public nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }

    /// The loop of all test servers that do not say otherwise: apart from the clients' loops, as a server would be.
    private static let loops = EventLoops(count: 1)

    // MARK: Starting and stopping

    /// Starts a server that does what `handler` says about every request; without a handler it echoes.
    ///
    /// - Parameters:
    ///   - codec: The protocol, as a client sees it.
    ///   - loops: Where the server lives; `nil` for the loop that all test servers share.
    ///   - handler: What to do about a request; called on the server's loop, so it must not block.
    /// - Throws: When it cannot listen, for one because `options.port` or `options.unixPath` is taken.
    public static func start(
        speaking codec: some FrameCodec,
        options: Options = Options(),
        on loops: EventLoops? = nil,
        handler: @escaping Handler = { _ in .echo }
    ) async throws(TransportError) -> LoopbackServer {
        let address = options.unixPath.map { SocketAddress.unix(path: $0) } ?? .loopback(port: options.port)
        return try await start(at: address, speaking: codec, options: options, on: loops, handler: handler)
    }

    /// Starts a server that listens on `address`, whatever `options` say of it; clients know it as `endpoint` if that
    /// is not the address itself.
    package static func start(
        at address: SocketAddress,
        knownAs endpoint: Endpoint? = nil,
        speaking codec: some FrameCodec,
        options: Options = Options(),
        on loops: EventLoops? = nil,
        handler: @escaping Handler = { _ in .echo }
    ) async throws(TransportError) -> LoopbackServer {
        let loop = (loops ?? Self.loops).next()
        let tls = try await options.tls?.context()
        let acceptor = Acceptor(on: loop)
        let bound = try await acceptor.listen(on: address)
        let name = endpoint ?? bound.endpoint
        let server = LoopbackServer(
            acceptor,
            options.tls?.beginsAtOnce == true ? name.secured() : name,
            tls,
            codec,
            options,
            handler
        )
        await acceptor.accept(for: server)
        return server
    }

    private init(
        _ acceptor: Acceptor,
        _ endpoint: Endpoint,
        _ tls: (any TLSContext)?,
        _ codec: any FrameCodec,
        _ options: Options,
        _ handler: @escaping Handler
    ) {
        self.acceptor = acceptor
        self.endpoint = endpoint
        self.tls = tls
        self.codec = codec._serverSide()
        self.options = options
        self.handler = handler
        answersPings = options.answersPings
        pongDelay = options.pongDelay
        loop = acceptor.loop
        record = Journal(maximumFrames: options.recordedFrames, maximumBytes: options.recordedBytes)
    }

    /// Stops listening and closes every connection in good order; what clients have not read by then is given a second.
    /// Delayed replies are dropped, bodies of `Reaction.perform` are cancelled and not awaited, whoever waits for a fact is told `stopped`. For good; idempotent.
    public func stop() {
        guard !isStopped else { return }
        isStopped = true
        acceptor.assumeIsolated { $0.close() }
        disconnectAll()
        scripted.removeAll()
        settle()
    }
}

/// Starts a server, runs `body` with it and stops it on every way out. Parameters are those of `LoopbackServer.start`.
public nonisolated(nonsending) func withLoopbackServer<Result>(
    speaking codec: some FrameCodec,
    options: LoopbackServer.Options = LoopbackServer.Options(),
    on loops: EventLoops? = nil,
    handler: @escaping LoopbackServer.Handler = { _ in .echo },
    _ body: nonisolated(nonsending) (LoopbackServer) async throws -> Result
) async throws -> Result {
    let server = try await LoopbackServer.start(speaking: codec, options: options, on: loops, handler: handler)
    do {
        let result = try await body(server)
        await server.stop()
        return result
    } catch {
        await server.stop()
        throw error
    }
}
