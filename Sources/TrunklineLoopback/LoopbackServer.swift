public import TrunklineCore

/// A scripted server for tests, over real sockets or in a simulated network.
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
/// The handler returns a ``Reaction`` to each request; ``script(_:)`` sets the reactions to the next ones. By default
/// the server listens on a free port of 127.0.0.1. It uses the server side of the codec (`serverSide()`, or the codec
/// itself if it has none). Each connection starts with a fresh copy. Bytes that are not a valid frame end their
/// connection and are counted in the journal.
///
/// Servers share one event loop, separate from those of the clients, unless you pass other loops to
/// ``start(speaking:options:on:handler:)``. In a ``SimulatedNetwork``, use
/// ``SimulatedNetwork/startServer(at:speaking:options:handler:)``.
///
/// Keep a reference to the server: when it is deallocated, it closes its sockets. If requests fail with
/// `connectionLost`, the client and the server may use different protocols: see ``Journal-swift.struct/lastFailure``.
public actor LoopbackServer {
    /// Returns the reaction to a request. Called on the server's event loop: it must not block.
    ///
    /// It is also called for a cancel frame with a serial of its own (`Frame.cancelledSerial`), whose kind is
    /// ``/Trunkline/Frame/Kind-swift.enum/cancel``: return `.noReply` if the protocol has no answer to that.
    ///
    /// The handler does not learn which connection the request came on, and neither does a ``ServerExchange``. To test
    /// a protocol whose server keeps state for each connection, start a server for each client. If every new link
    /// begins with the same request, such as a login, the handler can begin a new state with it. Otherwise the test has
    /// to discard the state when it ends the connection, for example next to ``disconnectAll(reset:)``.
    public typealias Handler = @Sendable (_ request: Frame) -> Reaction

    /// The endpoint that clients connect to.
    public nonisolated let endpoint: Endpoint
    nonisolated let loop: any EventLoop
    nonisolated let options: Options
    let acceptor: Acceptor
    let tls: (any TLSContext)?
    let codec: ProtocolCodec
    let handler: Handler

    var isStopped = false
    var isPaused = false
    var answersPings: Bool
    var pongDelay: Duration
    var isSilent = false
    var links: [UInt64: ServerLink] = [:]
    /// Some handshakes may be over. Sorted by deadline, because all have the same timeout.
    var handshakes = Deque<(link: UInt64, deadline: Instant)>()
    var record: Journal
    var scripted = Deque<(reaction: Reaction, times: Int)>()

    var delayed: [RequestID: Delayed] = [:]
    var deadlines = DeadlineQueue()
    var waiters: [RequestID: FactWaiter] = [:]
    /// Of an entry of `delayed` or `waiters`, or of a waiting body.
    var lastID = RequestID(0)
    var timer: LoopTimer?

    var dirty: [ServerLink] = []
    var isFlushScheduled = false
    var decoded: [Frame] = []

    /// The executor of this actor: its event loop.
    public nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }

    /// Separate from the loops of clients, as a real server would be.
    private static let loops = EventLoops(count: 1)

    /// Starts a server that answers every request with the reaction of `handler`.
    ///
    /// - Parameters:
    ///   - codec: The codec that a client uses. The server uses its `serverSide()`, if it has one.
    ///   - options: The settings of the server.
    ///   - loops: The event loops to run on, or `nil`, the default, for the loop that test servers share.
    ///   - handler: Returns the reaction to a request. Called on the server's event loop: it must not block. Without a
    ///     handler the server echoes.
    /// - Throws: `TransportError` if the server cannot listen, for example because `options.port` or `options.unixPath`
    ///   is taken, or if `options.tls` cannot be loaded.
    public static func start(
        speaking codec: some FrameCodec,
        options: Options = Options(),
        on loops: EventLoops? = nil,
        handler: @escaping Handler = { _ in .echo }
    ) async throws(TransportError) -> LoopbackServer {
        let address = options.unixPath.map { SocketAddress.unix(path: $0) } ?? .loopback(port: options.port)
        return try await start(at: address, speaking: codec, options: options, on: loops, handler: handler)
    }

    package static func start(
        at address: SocketAddress,
        knownAs endpoint: Endpoint? = nil,
        speaking codec: some FrameCodec,
        options: Options = Options(),
        on loops: EventLoops? = nil,
        handler: @escaping Handler = { _ in .echo }
    ) async throws(TransportError) -> LoopbackServer {
        let loop = (loops ?? Self.loops).next()
        if options.receivesDatagrams, options.tls != nil || address.family == nil {
            let reason = "a server that receives datagrams has an IP address and no TLS"
            throw TransportError(.invalidAddress, reason)
        }
        let tls = try await options.tls?.context()
        let acceptor = Acceptor(on: loop)
        let bound = try await acceptor.listen(on: address, datagrams: options.receivesDatagrams)
        let name = endpoint ?? (options.receivesDatagrams ? bound.datagramEndpoint : bound.endpoint)
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
        self.codec = ProtocolCodec(ProtocolCodec(codec).serverSide())
        self.options = options
        self.handler = handler
        answersPings = options.answersPings
        pongDelay = options.pongDelay
        loop = acceptor.loop
        record = Journal(maximumFrames: options.recordedFrames, maximumBytes: options.recordedBytes)
    }

    /// Stops listening and closes every connection cleanly. Has no effect when called again.
    ///
    /// - Clients have one second to read what was written.
    /// - Delayed replies are dropped.
    /// - Bodies of ``Reaction/perform(_:)`` are cancelled; `stop` does not wait for them.
    /// - Waiting tasks throw ``WaitError`` with the reason `stopped`.
    ///
    /// A stopped server cannot be started again.
    public func stop() {
        guard !isStopped else { return }
        isStopped = true
        acceptor.assumeIsolated { $0.close() }
        disconnectAll()
        scripted.removeAll()
        settle()
    }
}

/// Starts a server, runs `body` with it, and stops it when `body` returns or throws.
///
/// The other parameters are those of ``LoopbackServer/start(speaking:options:on:handler:)``.
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

extension LoopbackServer: CustomReflectable {
    /// Empty: its state belongs to its event loop, and holds the bodies of requests.
    public nonisolated var customMirror: Mirror { Mirror(self, children: []) }
}
