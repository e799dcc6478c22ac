/// A thread (or a simulation of one) that runs actors, their sockets and their timers.
///
/// The loop is the executor of every `Connection`, `Client` and test server created on it. Readiness and timers are
/// delivered on those actors, and their state needs no lock. There are two implementations: `SocketEventLoop` for real
/// sockets, and `SimulatedEventLoop` (in `TrunklineTesting`) in virtual time. Code above this protocol must not use the
/// operating system in any other way.
///
/// A turn of the loop runs, in this order:
///
/// 1. Posted work and jobs.
/// 2. Sockets that are ready.
/// 3. Work that the last turn left for this one.
/// 4. Timers.
/// 5. End-of-turn work: one write per connection for everything that has accumulated.
///
/// **A deadline is judged only after everything that the sockets held when it passed has been read.** A process that was
/// stopped, or a turn that took long, must not make late what came in time. Three rules give this guarantee:
///
/// - A turn in which a timer may fire looks at all sockets after it has read the clock (`turnTime`), and serves those
///   that are ready before it fires timers. Only timers due at `turnTime` fire. A timer that is due later waits for the
///   next turn, even if it is overdue by then.
/// - The target of a timer judges deadlines at `turnTime`, never at `now`.
/// - A connection whose links have used up their share of the turn lets its deadlines wait for a later turn, up to a
///   limit (`Connection.mustReadFirst`).
///
/// What a loop does not read cannot come in time: bytes on a link whose reading is suspended, and bytes that are still
/// in the network.
package protocol EventLoop: SerialExecutor, TaskExecutor {
    // MARK: From any thread

    /// The current time on this loop.
    var now: Instant { get }

    /// The time since 1970 on the system's clock, for recordings; `nil` if there is none, as in a simulation.
    var unixTime: Duration? { get }

    /// Whether the caller runs on this loop. The isolation of the actors on the loop relies on it: see `LoopActor`.
    var isCurrent: Bool { get }

    /// Runs `work` once on the loop, soon. The loop keeps it alive until then.
    func schedule(_ work: any LoopWork)

    /// The executor for tasks that prefer this loop: the loop itself, unless it has to distinguish the two kinds of
    /// job.
    var taskExecutor: any TaskExecutor { get }

    /// The executor for user closures that the loop starts, or `nil` for the default pool of threads.
    var callbackExecutor: (any TaskExecutor)? { get }

    // MARK: On the loop only

    /// The time at which this turn began to serve its sockets: the present for deadlines. Reading it costs no system
    /// call.
    var turnTime: Instant { get }

    /// Runs `work` once, after everything else in this turn.
    func scheduleAtEndOfTurn(_ work: any LoopWork)

    /// Runs `work` once in the next turn, after the sockets that are ready then.
    ///
    /// For work that has used up its share of this turn: `schedule` would run it before the sockets are served.
    func scheduleInNextTurn(_ work: any LoopWork)

    /// Arms `timer` to fire once at `deadline`, in place of any earlier deadline. `nil` disarms it.
    func arm(_ timer: LoopTimer, at deadline: Instant?)

    /// Looks up the addresses of `host` in one family and calls `completion` with them on the loop.
    ///
    /// `completion` is never called before this method returns, nor after the look-up was cancelled. An empty list of
    /// addresses is a success.
    func resolve(
        _ host: String,
        port: UInt16,
        family: AddressFamily,
        completion: @escaping NameLookup.Completion
    ) -> NameLookup

    /// Begins to connect to `address`, or starts its child process. `handler` receives `.connected` or `.connectFailed`, never before this method
    /// returns.
    ///
    /// The transport is the only owner of the socket: deallocating it closes the socket without an event for `handler`.
    func connect(
        to address: SocketAddress,
        options: SocketOptions,
        handler: any TransportHandler
    ) -> any Transport

    /// Listens on `address` (port 0 chooses a free port). `handler` receives every accepted transport.
    ///
    /// - Parameter datagrams: Whether to receive datagrams (UDP). Each address from which some come is a transport then.
    func listen(
        on address: SocketAddress,
        datagrams: Bool,
        handler: any ListenerHandler
    ) throws(TransportError) -> any Listener

    /// Calls `body` with the memory for reading that all sockets of the loop share.
    func withReceiveMemory(_ body: (inout ReceiveMemory) -> Void)

    /// Returns a seed for random choices (jitter, order of endpoints): from the system, or the next one of the
    /// simulation.
    func randomSeed() -> UInt64

    /// How long each turn took, without waiting, since the loop was started. Empty if turns take no time.
    var turnDurations: LatencyHistogram { get }

    /// The times in which the loop did not run what was due.
    var delays: LoopDelays { get }

    /// Notes a call of a codec that took long, in case this turn is late.
    func noteDecoding(_ decoding: LoopDelay.Decoding)

    /// Tells `receiver`, which is held weakly, of every delay from now on.
    func addDelayReceiver(_ receiver: any LoopDelayReceiver)

    /// The monitor of the network that the sockets of this loop use.
    var pathMonitor: any PathMonitor { get }
}

extension EventLoop {
    /// Listens for connections: see above.
    package func listen(
        on address: SocketAddress,
        handler: any ListenerHandler
    ) throws(TransportError) -> any Listener {
        try listen(on: address, datagrams: false, handler: handler)
    }

    /// The deadline with which a timer fires in the next turn.
    package var nextTurn: Instant { turnTime.advanced(by: .nanoseconds(1)) }

    package var unixTime: Duration? { nil }

    package var turnTime: Instant { now }

    package var turnDurations: LatencyHistogram { LatencyHistogram() }

    package var pathMonitor: any PathMonitor { NoPathMonitor.shared }

    package var taskExecutor: any TaskExecutor { self }
    package var callbackExecutor: (any TaskExecutor)? { nil }
}

/// Work to run on a loop.
package protocol LoopWork: AnyObject, Sendable {
    /// Called on the loop.
    func runOnLoop()
}

/// One connecting or connected socket. Confined to its loop.
package protocol Transport: AnyObject {
    /// Distinguishes the transports of one handler.
    var id: UInt64 { get }

    /// The receiver of events, held weakly.
    var handler: (any TransportHandler)? { get set }

    /// The local address once the socket is connected; `nil` before, and where it is unknown.
    var localAddress: SocketAddress? { get }

    /// The address of the peer once the socket is connected; `nil` before, and where it is unknown.
    var remoteAddress: SocketAddress? { get }

    /// Whether this exchanges datagrams instead of a stream of bytes. `read` returns one datagram then, and `write` sends
    /// each piece as one, or none of it. Nothing tells one side that the other has ended.
    var exchangesDatagrams: Bool { get }

    /// Whether `handler` receives `.readable`. Initially false. A paused transport exerts back-pressure on the peer.
    var isReading: Bool { get set }

    /// Whether `handler` receives `.writable`. Initially false.
    var awaitsWritable: Bool { get set }

    /// The state of the TCP connection; `nil` if this is none, or if the system does not report it.
    var tcpInformation: TCPInformation? { get }

    /// The options that are set on the socket; `nil` if it is not an open socket of the system.
    var appliedOptions: SocketOptions? { get }

    /// Whether the peer's kernel has acknowledged every byte that was written; `nil` if that is unknown.
    var isAcknowledged: Bool? { get }

    /// Whether the connection is broken, for example by a reset or by the kernel's keep-alive probes.
    ///
    /// For owners that do not read. Owners that read receive an event.
    var hasFailed: Bool { get }

    /// How the process that is the peer has ended; `nil` before, and if the peer is no child process.
    var exit: ProcessExit? { get }

    /// Calls `receiver` on the loop with the events of the child process that is the peer, until it has ended: at the latest
    /// a while after `close`. Nothing is received before this method returns. Returns false if there is no process.
    func followProcess(_ receiver: @escaping @Sendable (ProcessEvent) -> Void) -> Bool

    /// Reads the bytes that are available, without waiting.
    func read(into buffer: UnsafeMutableRawBufferPointer) -> ReadOutcome

    /// Writes as much of `pieces` as the socket accepts, without waiting, in one system call.
    func write(_ pieces: [UnsafeRawBufferPointer]) -> WriteOutcome

    /// Ends the outgoing direction after everything that was written. The peer then reads end of file.
    func finishWriting()

    /// Closes the socket. `handler` receives nothing more. Idempotent.
    func close()

    /// Closes the socket with a reset instead of an orderly end.
    func reset()
}

extension Transport {
    package var exchangesDatagrams: Bool { false }
    package var localAddress: SocketAddress? { nil }
    package var remoteAddress: SocketAddress? { nil }

    /// Whether the socket is connected to itself: its own address is that of its peer.
    ///
    /// TCP connects two sockets that connect to each other at the same time (RFC 9293 §3.5), and also one socket to
    /// itself. This happens if no server listens at a port of this host and the system chooses that same port for the
    /// client's end. Such a connection returns everything that the client sends, and keeps the server from its port.
    package var isSelfConnected: Bool {
        guard let local = localAddress, let remote = remoteAddress else { return false }
        return local == remote
    }

    package var tcpInformation: TCPInformation? { nil }
    package var appliedOptions: SocketOptions? { nil }
    package var isAcknowledged: Bool? {
        tcpInformation.map { $0.unacknowledgedSegments == 0 && ($0.unsentBytes ?? 0) == 0 }
    }
    package var exit: ProcessExit? { nil }
    package func followProcess(_ receiver: @escaping @Sendable (ProcessEvent) -> Void) -> Bool { false }
}

/// What happens to a child process.
package enum ProcessEvent: Sendable {
    /// It has written lines to standard error.
    case wrote([OutputLines.Line])
    /// It has ended, or cannot be ended. The last event.
    case over
}

package enum ReadOutcome: Equatable, Sendable {
    /// The number of bytes read, at least one.
    case bytes(Int)
    /// Nothing is available now.
    case wouldBlock
    /// The peer has ended its direction.
    case end
    case failed(TransportError)
}

package enum WriteOutcome: Equatable, Sendable {
    /// The number of bytes accepted; it may be less than what was offered.
    case bytes(Int)
    /// The socket accepts nothing now.
    case wouldBlock
    case failed(TransportError)
}

package enum TransportEvent: Sendable {
    /// The socket is connected, and what a proxy expects is exchanged first.
    case opening
    /// The socket is connected and the TLS handshake begins.
    case securing
    /// The transport is ready for use.
    case connected
    case connectFailed(TransportError)
    /// Something is available to read: bytes, the end or an error.
    case readable
    case writable
}

/// Receives the events of one or several transports. The loop holds it weakly.
package protocol TransportHandler: AnyObject, Sendable {
    /// Called on the loop.
    func transport(_ id: UInt64, did event: TransportEvent)
}

/// A listening socket. Confined to its loop. Deallocating it closes it.
package protocol Listener: AnyObject {
    /// The address it listens on, with the actual port.
    var address: SocketAddress { get }
    func close()
    /// Closes the listener and keeps its port reserved, where that is possible.
    func closeKeepingPort() -> PortReservation?
}

/// Receives accepted connections. The loop holds it weakly.
package protocol ListenerHandler: AnyObject, Sendable {
    /// Called on the loop with a connected transport that does not read yet. Returns the handler for its events.
    func accepted(_ transport: sending any Transport) -> any TransportHandler
}
