/// One thread (or the simulation of one) on which actors, their sockets and their timers live.
///
/// The loop is the executor of every `Connection`, `Client` and test server made on it, so readiness and timers arrive
/// *on* those actors and none of their state needs a lock. There are two implementations: `SocketEventLoop` for real
/// sockets and `SimulatedEventLoop` (in `TrunklineTesting`) in virtual time. Nothing above this protocol may reach
/// the operating system in another way.
///
/// A turn of the loop: posted work and jobs → readiness of sockets → what the last turn left for this one → timers →
/// end-of-turn work (one write per connection for everything that accumulated).
package protocol EventLoop: SerialExecutor, TaskExecutor {
    // MARK: From any thread

    /// What time it is on this loop.
    var now: Instant { get }

    /// Whether the caller runs on this loop.
    var isCurrent: Bool { get }

    /// Runs `work` once on the loop, soon. Keeps it alive until then.
    func schedule(_ work: any LoopWork)

    /// The loop as the executor of tasks that prefer it; the loop itself unless it has to tell the two apart.
    var taskExecutor: any TaskExecutor { get }

    /// Where closures of users run that the loop starts; `nil` for the ordinary pool of threads.
    var callbackExecutor: (any TaskExecutor)? { get }

    // MARK: On the loop only

    /// What time it was when this turn began to look at its sockets; costs no system call.
    var turnTime: Instant { get }

    /// Runs `work` once, after everything else of this turn.
    func scheduleAtEndOfTurn(_ work: any LoopWork)

    /// Runs `work` once in the next turn, after the sockets that are ready then. For work that has used up its share of this
    /// turn: `schedule` would run it before the sockets are asked.
    func scheduleInNextTurn(_ work: any LoopWork)

    /// Lets `timer` fire once at `deadline` instead of whenever it was to fire; `nil` disarms it.
    func arm(_ timer: LoopTimer, at deadline: Instant?)

    /// Finds the addresses of `host` in one family and calls `completion` with them on the loop, never before returning
    /// and never after the look-up was cancelled. No address is an answer like any other.
    func resolve(
        _ host: String,
        port: UInt16,
        family: AddressFamily,
        completion: @escaping NameLookup.Completion
    ) -> NameLookup

    /// Begins to connect to `address`; `handler` hears `.connected` or `.connectFailed`, never before this returns.
    ///
    /// The transport is the only owner of the socket: letting go of it closes the socket without a word to `handler`.
    func connect(
        to address: SocketAddress,
        options: SocketOptions,
        handler: any TransportHandler
    ) -> any Transport

    /// Listens on `address` (port 0: one that is free); `handler` is given every accepted transport.
    func listen(on address: SocketAddress, handler: any ListenerHandler) throws(TransportError) -> any Listener

    /// Says that the next thing to do will come up within microseconds: it may not be worth going to sleep.
    func expectNews()

    /// Lends memory for reading to `body`, which may exchange it for other: one run of it serves all sockets of the loop.
    func withReceiveMemory(_ body: (inout [UInt8]) -> Void)

    /// A seed for random choices (jitter, order of endpoints): the system's, or the simulation's next one.
    func randomSeed() -> UInt64

    /// What is known of the network that sockets of this loop live in.
    var pathMonitor: any PathMonitor { get }
}

extension EventLoop {
    package func expectNews() {}

    package var turnTime: Instant { now }

    package var pathMonitor: any PathMonitor { NoPathMonitor.shared }

    package var taskExecutor: any TaskExecutor { self }
    package var callbackExecutor: (any TaskExecutor)? { nil }
}

/// Something to be done on a loop.
package protocol LoopWork: AnyObject, Sendable {
    /// Called on the loop.
    func runOnLoop()
}

/// One connecting or connected socket. Confined to its loop.
package protocol Transport: AnyObject {
    /// Distinguishes the transports of one handler.
    var id: UInt64 { get }

    /// Who hears of it; held weakly.
    var handler: (any TransportHandler)? { get set }

    /// The address of this end, once it is connected; `nil` before, and where it is not known.
    var localAddress: SocketAddress? { get }

    /// Whether `handler` wants to hear `.readable`. Off until set; a paused transport exerts back-pressure on the peer.
    var isReading: Bool { get set }

    /// Whether `handler` wants to hear `.writable`. Off until set.
    var awaitsWritable: Bool { get set }

    /// How many bytes came from the network that are not what `read` returns, as those of TLS records are; 0 where there is
    /// no difference.
    var receivedCount: Int { get }

    /// Whether the connection is broken, as a reset or the kernel's probes break it. For owners that do not read; others
    /// receive an event.
    var hasFailed: Bool { get }

    /// Reads what is there, without waiting.
    func read(into buffer: UnsafeMutableRawBufferPointer) -> ReadOutcome

    /// Writes as much of `pieces` as the socket takes, without waiting, in one system call.
    func write(_ pieces: [UnsafeRawBufferPointer]) -> WriteOutcome

    /// Ends the outgoing direction after everything written; the peer reads end of file.
    func finishWriting()

    /// Whether bytes that it has taken have yet to go to the socket. `handler` hears `.writable` when they have gone, if it
    /// asks for it.
    var isHoldingBytes: Bool { get }

    /// How many bytes, of those that `isHoldingBytes` is about, wait for the socket.
    var heldByteCount: Int { get }

    /// How many bytes TLS has handed to the socket; 0 without TLS, where nothing waits for it.
    var sentMark: Int { get }

    /// What `sentMark` is when everything that was taken so far is with the socket. It is never reached when the socket
    /// fails before.
    var takenMark: Int { get }

    /// Closes the socket; `handler` hears nothing more. Idempotent.
    func close()

    /// Closes the socket with a reset instead of an orderly end.
    func reset()
}

extension Transport {
    package var localAddress: SocketAddress? { nil }
    package var receivedCount: Int { 0 }
    package var isHoldingBytes: Bool { false }
    package var heldByteCount: Int { 0 }
    package var sentMark: Int { 0 }
    package var takenMark: Int { 0 }
}

package enum ReadOutcome: Equatable, Sendable {
    /// So many bytes were read, at least one.
    case bytes(Int)
    /// Nothing is there now.
    case wouldBlock
    /// The peer has ended its direction.
    case end
    case failed(TransportError)
}

package enum WriteOutcome: Equatable, Sendable {
    /// So many bytes were taken, perhaps fewer than offered.
    case bytes(Int)
    /// The socket takes none now.
    case wouldBlock
    case failed(TransportError)
}

package enum TransportEvent: Sendable {
    /// The socket is connected, the TLS handshake begins.
    case securing
    /// It can be used.
    case connected
    case connectFailed(TransportError)
    /// There is something to read: bytes, the end or an error.
    case readable
    case writable
}

/// Hears of one or several transports. The loop holds it weakly.
package protocol TransportHandler: AnyObject, Sendable {
    /// Called on the loop.
    func transport(_ id: UInt64, did event: TransportEvent)
}

/// A listening socket. Confined to its loop; letting go of it closes it.
package protocol Listener: AnyObject {
    /// Where it listens, with the port it was given.
    var address: SocketAddress { get }
    func close()
    /// Closes, and holds on to the port where that is possible.
    func closeKeepingPort() -> PortReservation?
}

/// Hears of accepted connections. The loop holds it weakly.
package protocol ListenerHandler: AnyObject, Sendable {
    /// Called on the loop with a connected transport that is reading nothing yet. Returns who hears of it.
    func accepted(_ transport: sending any Transport) -> any TransportHandler
}
