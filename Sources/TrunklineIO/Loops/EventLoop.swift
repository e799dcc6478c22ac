/// The thread (or a simulation of one) that runs actors, their sockets and their timers. Code above this protocol uses
/// the operating system in no other way. A turn runs posted work and jobs, ready sockets, work that the last turn left
/// for this one, timers, and then end-of-turn work, such as one write per connection.
///
/// **A deadline is judged only after everything that the sockets held when it passed has been read**, so that a stopped
/// process or a long turn does not make late what came in time:
/// - A turn in which a timer may fire serves all sockets that are ready after it has read the clock (`turnTime`). Then
///   only timers due at `turnTime` fire. A timer due later waits for the next turn, even if it is overdue by then.
/// - The target of a timer judges deadlines at `turnTime`, never at `now`.
/// - A connection whose links have used up their share of the turn may let its deadlines wait (`mustReadFirst`).
package protocol EventLoop: SerialExecutor, TaskExecutor {
    // MARK: From any thread

    var now: Instant { get }

    /// For recordings; `nil` in a simulation.
    var unixTime: Duration? { get }

    /// The isolation of the actors on the loop relies on it: see `LoopActor`.
    var isCurrent: Bool { get }

    func schedule(_ work: any LoopWork)

    /// For tasks that prefer this loop: the loop itself, unless it has to distinguish the two kinds of job.
    var taskExecutor: any TaskExecutor { get }

    /// For user closures that the loop starts; `nil` for the default pool of threads.
    var callbackExecutor: (any TaskExecutor)? { get }

    // MARK: On the loop only

    /// When this turn began to serve its sockets: the present for deadlines. Costs no system call.
    var turnTime: Instant { get }

    func scheduleAtEndOfTurn(_ work: any LoopWork)

    /// Runs `work` once in the next turn, after the sockets that are ready. `schedule` would run it before them.
    func scheduleInNextTurn(_ work: any LoopWork)

    func arm(_ timer: LoopTimer, at deadline: Instant?)

    /// Calls `completion` on the loop, never before this method returns or after a cancellation.
    func resolve(
        _ host: String,
        port: UInt16,
        family: AddressFamily,
        completion: @escaping NameLookup.Completion
    ) -> NameLookup

    /// `handler` receives no event before this method returns. Deallocating the transport closes it without an event.
    func connect(
        to address: SocketAddress,
        options: SocketOptions,
        handler: any TransportHandler
    ) -> any Transport

    /// Port 0 chooses a free port. With `datagrams` (UDP), each address that sends some becomes a transport.
    func listen(
        on address: SocketAddress,
        datagrams: Bool,
        handler: any ListenerHandler
    ) throws(TransportError) -> any Listener

    func withReceiveMemory(_ body: (inout ReceiveMemory) -> Void)

    func randomSeed() -> UInt64

    var turnDurations: LatencyHistogram { get }

    var delays: LoopDelays { get }

    func noteDecoding(_ decoding: LoopDelay.Decoding)

    /// Holds `receiver` weakly.
    func addDelayReceiver(_ receiver: any LoopDelayReceiver)

    var pathMonitor: any PathMonitor { get }
}

extension EventLoop {
    package func listen(
        on address: SocketAddress,
        handler: any ListenerHandler
    ) throws(TransportError) -> any Listener {
        try listen(on: address, datagrams: false, handler: handler)
    }

    package var nextTurn: Instant { turnTime.advanced(by: .nanoseconds(1)) }

    package var unixTime: Duration? { nil }

    package var turnTime: Instant { now }

    package var turnDurations: LatencyHistogram { LatencyHistogram() }

    package var pathMonitor: any PathMonitor { NoPathMonitor.shared }

    package var taskExecutor: any TaskExecutor { self }
    package var callbackExecutor: (any TaskExecutor)? { nil }
}

package protocol LoopWork: AnyObject, Sendable {
    func runOnLoop()
}

/// One connecting or connected socket. Confined to its loop.
package protocol Transport: AnyObject {
    var id: UInt64 { get }

    /// Held weakly.
    var handler: (any TransportHandler)? { get set }

    var localAddress: SocketAddress? { get }

    var remoteAddress: SocketAddress? { get }

    /// If true, `read` returns one datagram, `write` sends each piece as one, and no end is reported.
    var exchangesDatagrams: Bool { get }

    /// Whether `handler` receives `.readable`. Initially false: a paused transport exerts back-pressure on the peer.
    var isReading: Bool { get set }

    var awaitsWritable: Bool { get set }

    var tcpInformation: TCPInformation? { get }

    var appliedOptions: SocketOptions? { get }

    /// Whether the peer's kernel has acknowledged every byte that was written; `nil` if that is unknown.
    var isAcknowledged: Bool? { get }

    /// Whether a reset or keep-alive probes have broken the connection. For owners that do not read.
    var hasFailed: Bool { get }

    var exit: ProcessExit? { get }

    /// Calls `receiver` on the loop, never before this method returns, until the child process has ended: at the latest
    /// a while after `close`. Returns false if there is no process.
    func followProcess(_ receiver: @escaping @Sendable (ProcessEvent) -> Void) -> Bool

    func read(into buffer: UnsafeMutableRawBufferPointer) -> ReadOutcome

    func write(_ pieces: BytePieces) -> WriteOutcome

    func finishWriting()

    /// `handler` receives nothing more. Idempotent.
    func close()

    func reset()
}

extension Transport {
    package var exchangesDatagrams: Bool { false }
    package var localAddress: SocketAddress? { nil }
    package var remoteAddress: SocketAddress? { nil }

    /// Whether the socket is connected to itself, which TCP allows (RFC 9293 §3.5). This happens if no server listens
    /// at a port of this host and the system chooses that port for the client's end. The connection returns everything
    /// that the client sends, and keeps the server from its port.
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

package enum ProcessEvent: Sendable {
    case wrote([OutputLines.Line])
    /// It has ended, or cannot be ended. The last event.
    case over
}

package enum ReadOutcome: Equatable, Sendable {
    case bytes(Int)
    case wouldBlock
    case end
    case failed(TransportError)
}

extension Transport {
    package func write(_ piece: UnsafeRawBufferPointer) -> WriteOutcome {
        unsafe BytePieces.with(piece) { unsafe write($0) }
    }

    /// Reads once. `isFull`: the bytes fill all the room that the buffer had, so there may be more.
    package func read(into buffer: inout ReceiveBuffer) -> (count: Int, isFull: Bool, outcome: ReadOutcome) {
        var (isFull, outcome) = (false, ReadOutcome.wouldBlock)
        let count = unsafe buffer.fill { free in
            outcome = unsafe read(into: free)
            guard case .bytes(let count) = outcome else { return 0 }
            isFull = count == free.count
            return count
        }
        return (count, isFull, outcome)
    }
}

package enum WriteOutcome: Equatable, Sendable {
    case bytes(Int)
    case wouldBlock
    case failed(TransportError)
}

package enum TransportEvent: Sendable {
    /// Connected; what a proxy expects is exchanged first.
    case opening
    case securing
    case connected
    case connectFailed(TransportError)
    case readable
    case writable
}

package protocol TransportHandler: AnyObject, Sendable {
    func transport(_ id: UInt64, did event: TransportEvent)
}

/// A listening socket. Confined to its loop. Deallocating it closes it.
package protocol Listener: AnyObject {
    var address: SocketAddress { get }
    func close()
    func closeKeepingPort() -> PortReservation?
}

package protocol ListenerHandler: AnyObject, Sendable {
    /// Called on the loop. `transport` does not read yet. Returns the handler for its events.
    func accepted(_ transport: sending any Transport) -> any TransportHandler
}
