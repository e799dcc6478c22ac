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
    nonisolated let reference: DriverReference
    nonisolated let hasConsumer = Atomic<Bool>(false)

    nonisolated var driver: ConnectionDriver { reference.driver }
    nonisolated var loop: any EventLoop { driver.loop }
    package nonisolated var options: ClientOptions { driver.options }

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
        reference = DriverReference(
            ConnectionDriver(to: endpoints, speaking: codec, options: options, loop: loop, frameUse: frameUse)
        )
        frameUse?.reference = reference
    }

    /// For code on other executors.
    @discardableResult
    func entered<Result: Sendable>(_ body: @Sendable (ConnectionDriver) -> Result) -> Result { driver.entered(body) }

    /// The current state of the connection.
    public var state: ConnectionState { driver.state }

    /// The current state of the connection and every following state, until the connection is closed.
    ///
    /// Each access creates a separate stream. A reader that is more than 64 states behind misses the oldest ones.
    public nonisolated var states: AsyncStream<ConnectionState> {
        driver.stream(startingWith: { $0.state }, { $1(&$0.readers.states) })
    }
}

extension Connection: CustomReflectable {
    /// Empty: its state belongs to its event loop, and holds secrets such as the bodies of requests.
    public nonisolated var customMirror: Mirror { Mirror(self, children: []) }
}
