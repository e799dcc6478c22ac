/// Adds TLS between its owner and the socket. Connected once the TLS handshake is done.
///
/// Safe to share between threads: it is used on one loop only, like the socket.
package final class SecuredTransport: Transport, TimerTarget, @unchecked Sendable {
    enum Phase {
        case connecting, handshaking, open
        case failed(TransportError)
    }

    let engine: any TLSEngine
    private let loop: any EventLoop
    var socket: (any Transport)?
    package let id: UInt64
    package weak var handler: (any TransportHandler)?
    var phase = Phase.connecting
    var left: [UInt8] = []
    var ending: ReadOutcome?
    var writeFailure: TransportError?
    var hasSent = false
    /// The engine has to read more before it can encrypt.
    var isHeldUp = false
    /// Reading waits until the engine's output has been sent.
    var isChoked = false
    var isFinishing = false
    private var isWakeScheduled = false
    private var service: KnownService?
    private var hasReceived = false
    private var begun: Instant?
    private lazy var patience = LoopTimer(target: self)
    private var isPatient = true
    /// The session that may be why is forgotten, so another handshake may succeed.
    package private(set) var hasFailedWithSession = false

    static let inputSize = 64 * 1024
    /// If as many bytes wait for the socket, nothing more is accepted.
    static let outputSize = 64 * 1024
    static let readings = 4
    private static let handshakeSteps = 8
    /// RFC 8446 §5.1.
    static let recordSize = 16 * 1024
    /// For a server to refuse a certificate: twice the duration of the handshake, within these bounds.
    private static let patienceBounds = Duration.milliseconds(50)...Duration.seconds(1)

    /// The latest `read` has left bytes for a later one although its buffer was not full.
    package internal(set) var hasMore = false
    /// From the network, unlike what `read` returns.
    package internal(set) var receivedCount = 0
    package internal(set) var sentMark = 0
    package var hasFailed: Bool { socket?.hasFailed ?? true }
    package var localAddress: SocketAddress? { socket?.localAddress }
    package var remoteAddress: SocketAddress? { socket?.remoteAddress }
    package var tcpInformation: TCPInformation? { socket?.tcpInformation }
    package var appliedOptions: SocketOptions? { socket?.appliedOptions }
    package var isAcknowledged: Bool? { socket.flatMap(\.isAcknowledged) }

    package var isReading = false {
        didSet { if isReading != oldValue { readingChanged() } }
    }
    package var awaitsWritable = false {
        didSet { updateInterest() }
    }

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

    /// For servers, and clients that begin in plaintext. From now on `receiver` receives the socket's events.
    package init(
        _ engine: any TLSEngine,
        on loop: any EventLoop,
        handler: (any TransportHandler)?,
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
        // Not before the caller has this transport: it may fail at once.
        loop.schedule(LoopClosure { [weak self] in self?.advance() })
    }

    package var receiver: any TransportHandler { relay }
    private let relay: Relay

    /// Safe to share between threads: it is used on one loop only, like its transport.
    private final class Relay: TransportHandler, @unchecked Sendable {
        weak var transport: SecuredTransport?
        func transport(_ id: UInt64, did event: TransportEvent) { transport?.socketDid(event) }
    }

    package var session: TLSSession? {
        guard var session = engine.session else { return nil }
        session.certificates = engine.peerCertificates
        return session
    }

    package var peerCertificates: [TLSCertificate] { engine.peerCertificates }

    package var verificationFailure: TransportError? { engine.verificationFailure }

    private func socketDid(_ event: TransportEvent) {
        switch (event, phase) {
        case (.connected, _):
            handler?.transport(id, did: .securing)
            if socket != nil { begin() }  // the owner may have closed it
        case (.connectFailed, _), (.securing, _), (.opening, _): handler?.transport(id, did: event)
        case (.readable, .handshaking): advance()
        case (.writable, .handshaking): flush()
        case (.readable, _): if isReading { handler?.transport(id, did: .readable) }
        case (.writable, _):
            flush()
            if awaitsWritable, !hasUnsent { handler?.transport(id, did: .writable) }
        }
    }

    /// Owner writes wait for the handshake, but not after a failure, which the next write returns.
    func updateInterest() {
        socket?.awaitsWritable = hasUnsent || (awaitsWritable && !isConnecting && !isHeldUp)
    }

    private func readingChanged() {
        guard case .open = phase else { return }
        socket?.isReading = isReading && !isChoked
        if isReading, hasNews { wake() }
    }

    /// Something can be read of which the socket will not notify.
    var hasNews: Bool { !left.isEmpty || ending != nil || engine.hasMore }

    func wake() {
        guard !isWakeScheduled else { return }
        isWakeScheduled = true
        // Not in this turn: the owner may have used up its share of it.
        loop.scheduleInNextTurn(
            LoopClosure { [weak self] in
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
        hasMore = false
        do throws(TransportError) {
            for _ in 0..<Self.handshakeSteps {
                guard case .handshaking = phase else { return }
                let isOver = try unsafe feed { input throws(TransportError) in try unsafe engine.handshake(&input) }
                flush()
                if isOver, !engine.awaitsVerdict || !isPatient { return opened() }
                // Unless the engine has yet to take the available input.
                if left.isEmpty {
                    guard try receive() else { return isOver ? awaitVerdict() : () }
                }
            }
            hasMore = true
            wake()
        } catch {
            flush()  // sends the alert with the reason
            hasFailedWithSession = engine.offersSession && error.mayBeDueToSession
            engine.forgetSession()
            let named = naming(error)
            phase = .failed(named)
            socket?.isReading = false
            handler?.transport(id, did: .connectFailed(named))
        }
    }

    private func naming(_ error: TransportError) -> TransportError {
        guard let service else { return error }
        var error = error
        error.code = .tls(.notTLS)
        error.message = "\(error.message); the server answers with \(service.rawValue), not with TLS".asMessage
        return error
    }

    /// A server that refuses the certificate sends an alert about a round trip from now, and resets if it has received
    /// more by then. So nothing is sent until the server has spoken or the time is over.
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

    private func receive() throws(TransportError) -> Bool {
        let outcome = unsafe withUnsafeTemporaryAllocation(byteCount: Self.recordSize, alignment: 8) { memory in
            let outcome = unsafe socket?.read(into: memory) ?? .end
            if case .bytes(let count) = outcome {
                unsafe left.append(contentsOf: memory[..<count])
                // Every record of a handshake begins with 22, and that of an alert with 21.
                if !hasReceived, let first = left.first, first != 22, first != 21 { service = KnownService(left) }
                hasReceived = true
            }
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

    private var isOpen: Bool { if case .open = phase { true } else { false } }
    private var isConnecting: Bool {
        switch phase {
        case .connecting, .handshaking: true
        case .open, .failed: false
        }
    }
    private var isSecured: Bool { if case .failed = phase { false } else { engine.session != nil } }
    private var hasUnsent: Bool { !engine.outgoing.isEmpty && writeFailure == nil }

    /// A peer that makes requests and does not read the answers must not grow memory. Far more than an owner's bytes
    /// can come to, so two sides that both write first go on reading.
    var hasTooMuchToSend: Bool { engine.outgoing.count > 4 * Self.outputSize && writeFailure == nil }

    /// Bytes of the owner, not of the handshake. Once the socket has them, `handler` receives `.writable` if awaited.
    package var isHoldingBytes: Bool { hasUnsent && isOpen }

    package var heldByteCount: Int { isHoldingBytes ? engine.outgoing.count : 0 }

    /// The `sentMark` of everything accepted so far. Never reached if the socket fails first.
    package var takenMark: Int { sentMark + engine.outgoing.count }
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
        if case .open = phase { engine.forgetSession() }  // if the server has sent nothing on the resumed link
        self.socket = nil
        socket.close()
    }

    /// A server that is silent for a broken session would be so again. Called when an attempt has failed: a transport
    /// that is closed earlier forgets nothing, because the server had no time to answer.
    package func forgetUnansweredSession() {
        if case .connecting = phase { return }  // nothing was offered yet
        engine.forgetSession()
    }

    package func reset() {
        handler = nil
        loop.arm(patience, at: nil)
        if case .open = phase { engine.forgetSession() }
        socket?.reset()
        socket = nil
    }
}

extension TransportError {
    /// A certificate that does not pass verification would not pass in another handshake either.
    fileprivate var mayBeDueToSession: Bool {
        switch code {
        case .tls(.alert), .tls(.notTLS), .tls(.truncated), .tls(.protocolViolation), .tls(.protocolVersion): true
        case .reset, .closedByPeer: true
        default: false
        }
    }
}
