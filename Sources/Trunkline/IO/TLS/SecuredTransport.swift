/// A transport with TLS between its owner and the socket. It is connected when the handshake is over.
///
/// Sendable although it is not checked: it lives on one loop, like the socket beneath it.
package final class SecuredTransport: Transport, TimerTarget, @unchecked Sendable {
    enum Phase {
        case connecting, handshaking, open
        case failed(TransportError)
    }

    let engine: any TLSEngine
    private let loop: any EventLoop
    /// The socket. Set as long as there is something to do.
    var socket: (any Transport)?
    package let id: UInt64
    package weak var handler: (any TransportHandler)?
    var phase = Phase.connecting
    /// Received, and not yet taken by the engine.
    var left: [UInt8] = []
    /// What the next reading ends with.
    var ending: ReadOutcome?
    /// The socket takes no more bytes at all.
    var writeFailure: TransportError?
    /// Whether the socket has taken anything since the owner began to write.
    var hasSent = false
    /// The engine encrypts nothing before more was read.
    var isHeldUp = false
    /// Nothing is read before what the engine has to say has gone.
    var isChoked = false
    /// Our direction ends when everything is written.
    var isFinishing = false
    private var isWakeScheduled = false
    /// When the handshake began.
    private var begun: Instant?
    /// Ends the wait for the verdict of a server that says nothing.
    private lazy var patience = LoopTimer(target: self)
    private var isPatient = true

    /// So much is read from the socket at once.
    static let inputSize = 64 * 1024
    /// So much is encrypted before it is written. With as much waiting for the socket nothing more is taken.
    static let outputSize = 64 * 1024
    /// So often the socket is read, at most, when the owner reads once.
    static let readings = 4
    /// So often the engine goes on with a handshake in one turn of the loop.
    private static let handshakeSteps = 8
    /// The most that one record carries (RFC 8446 §5.1).
    static let recordSize = 16 * 1024
    /// A server that asked for a certificate has twice as long as the handshake took to refuse it, within these bounds.
    private static let patienceBounds = Duration.milliseconds(50)...Duration.seconds(1)

    package internal(set) var receivedCount = 0
    package internal(set) var sentMark = 0
    package var hasFailed: Bool { socket?.hasFailed ?? true }
    package var localAddress: SocketAddress? { socket?.localAddress }

    package var isReading = false {
        didSet { if isReading != oldValue { readingChanged() } }
    }
    package var awaitsWritable = false {
        didSet { updateInterest() }
    }

    /// Secures what `connect` begins to connect, which reports to the handler that it is given.
    package init(
        _ engine: any TLSEngine,
        on loop: any EventLoop,
        handler: any TransportHandler,
        connecting connect: (any TransportHandler) -> any Transport
    ) {
        self.engine = engine
        self.loop = loop
        self.handler = handler
        let relay = Relay()
        let socket = connect(relay)
        self.socket = socket
        id = socket.id
        self.relay = relay
        relay.transport = self
    }

    /// Secures a socket that is connected, as servers do, and clients that begin in plaintext.
    /// From now on `receiver` hears of the socket.
    package init(
        _ engine: any TLSEngine,
        on loop: any EventLoop,
        handler: any TransportHandler,
        over socket: any Transport
    ) {
        self.engine = engine
        self.loop = loop
        self.handler = handler
        self.socket = socket
        id = socket.id
        relay = Relay()
        relay.transport = self
        socket.handler = relay
        phase = .handshaking
        socket.isReading = true
        // Soon, and not before its maker has it: it may fail at once.
        loop.schedule(Completion { [weak self] in self?.advance() })
    }

    /// Hears of the socket, which needs somebody before there is a transport.
    package var receiver: any TransportHandler { relay }
    private let relay: Relay

    /// Sendable although it is not checked: like its transport it is used on one loop only.
    private final class Relay: TransportHandler, @unchecked Sendable {
        weak var transport: SecuredTransport?
        func transport(_ id: UInt64, did event: TransportEvent) { transport?.socketDid(event) }
    }

    /// What was agreed; `nil` until then.
    package var session: TLSSession? { engine.session }

    // MARK: Events

    private func socketDid(_ event: TransportEvent) {
        switch (event, phase) {
        case (.connected, _):
            handler?.transport(id, did: .securing)
            begin()
        case (.connectFailed, _), (.securing, _): handler?.transport(id, did: event)
        case (.readable, .handshaking): advance()
        case (.writable, .handshaking): flush()
        case (.readable, _): if isReading { handler?.transport(id, did: .readable) }
        case (.writable, _):
            flush()
            if awaitsWritable, !hasUnsent { handler?.transport(id, did: .writable) }
        }
    }

    /// What the owner wants to write has to wait for the handshake, during which a socket with room is no news.
    func updateInterest() {
        socket?.awaitsWritable = hasUnsent || (awaitsWritable && isOpen && !isHeldUp)
    }

    private func readingChanged() {
        guard case .open = phase else { return }
        socket?.isReading = isReading && !isChoked
        if isReading, hasNews { wake() }
    }

    /// Whether there is something to read that the socket will not tell of.
    var hasNews: Bool { !left.isEmpty || ending != nil || engine.hasMore }

    func wake() {
        guard !isWakeScheduled else { return }
        isWakeScheduled = true
        // Not in this turn, of which the owner may have had its share.
        loop.scheduleInNextTurn(
            Completion { [weak self] in
                guard let self else { return }
                isWakeScheduled = false
                if case .handshaking = phase, socket != nil {
                    advance()
                } else if isReading {
                    handler?.transport(id, did: .readable)
                }
            }
        )
    }

    // MARK: The handshake

    private func begin() {
        phase = .handshaking
        socket?.isReading = true
        advance()
    }

    private func advance() {
        if begun == nil { begun = loop.now }
        do throws(TransportError) {
            for _ in 0..<Self.handshakeSteps {
                guard case .handshaking = phase else { return }
                let isOver = try unsafe feed { input throws(TransportError) in try unsafe engine.handshake(&input) }
                flush()
                if isOver, !engine.awaitsVerdict || !isPatient { return opened() }
                // Unless the engine has yet to take what there is.
                if left.isEmpty {
                    guard try receive() else { return isOver ? awaitVerdict() : () }
                }
            }
            wake()
        } catch {
            flush()  // the alert that says what is wrong
            phase = .failed(error)
            socket?.isReading = false
            handler?.transport(id, did: .connectFailed(error))
        }
    }

    /// A server that does not want us says so about a round trip from now, and resets if it has received more by then:
    /// so we send nothing before it has spoken, or the time is over.
    private func awaitVerdict() {
        guard patience.deadline == nil, let begun else { return }
        let (now, bounds) = (loop.now, Self.patienceBounds)
        loop.arm(
            patience,
            at: now.advanced(by: min(max(now.since(begun) * 2, bounds.lowerBound), bounds.upperBound))
        )
    }

    package func timerFired() {
        isPatient = false
        advance()
    }

    /// Takes more of the handshake from the socket; false when there is none now.
    private func receive() throws(TransportError) -> Bool {
        let outcome = unsafe withUnsafeTemporaryAllocation(byteCount: Self.recordSize, alignment: 8) { memory in
            let outcome = unsafe socket?.read(into: memory) ?? .end
            if case .bytes(let count) = outcome { unsafe left.append(contentsOf: memory[..<count]) }
            return outcome
        }
        switch outcome {
        case .bytes: return true
        case .wouldBlock: return false
        case .end: throw TransportError(.closedByPeer, "the peer closed the connection during the TLS handshake")
        case .failed(let error): throw error
        }
    }

    private func opened() {
        loop.arm(patience, at: nil)
        phase = .open
        socket?.isReading = isReading
        updateInterest()
        let id = id
        handler?.transport(id, did: .connected)
        if isReading, hasNews { wake() }
    }

    /// Lets `body` take from what was received.
    func feed<Result>(
        _ body: (inout UnsafeRawBufferPointer) throws(TransportError) -> Result
    ) throws(TransportError) -> Result {
        let bytes = exchange(&left, with: [])
        var rest = 0
        defer { if rest > 0 { left = Array(bytes.suffix(rest)) } }
        return try unsafe bytes.span.bytes.withUnsafeBytes { memory throws(TransportError) in
            var input = unsafe memory
            defer { rest = input.count }
            return try unsafe body(&input)
        }
    }

    // MARK: What is so

    private var isOpen: Bool { if case .open = phase { true } else { false } }
    /// Whether the handshake is over for the engine, so that there is somebody to take leave of.
    private var isSecured: Bool { if case .failed = phase { false } else { engine.session != nil } }
    /// Whether there is something for the socket to take.
    private var hasUnsent: Bool { !engine.outgoing.isEmpty && writeFailure == nil }

    /// A peer that asks and asks and does not listen to the answers is not read any more. Far more than the owner's bytes can
    /// come to: two sides that both write first go on reading.
    var hasTooMuchToSend: Bool { engine.outgoing.count > 4 * Self.outputSize && writeFailure == nil }

    /// What a handshake has to say is none of the owner's.
    package var isHoldingBytes: Bool { hasUnsent && isOpen }
    package var heldByteCount: Int { isHoldingBytes ? engine.outgoing.count : 0 }

    package var takenMark: Int { sentMark + engine.outgoing.count }

    // MARK: Ends

    package func finishWriting() {
        guard !isFinishing else { return }
        isFinishing = true
        if isSecured { engine.finishWriting() }
        flush()
    }

    package func close() {
        guard let socket else { return }
        handler = nil
        loop.arm(patience, at: nil)
        if isSecured, !isFinishing {
            engine.finishWriting()
            flush()
        }
        self.socket = nil
        socket.close()
    }

    package func reset() {
        handler = nil
        loop.arm(patience, at: nil)
        socket?.reset()
        socket = nil
    }
}
