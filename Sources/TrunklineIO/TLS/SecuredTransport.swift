/// A transport that adds TLS between its owner and the socket. It is connected once the TLS handshake is done.
///
/// Safe to share between threads: it is used on one loop only, like the socket.
package final class SecuredTransport: Transport, TimerTarget, @unchecked Sendable {
    enum Phase {
        case connecting, handshaking, open
        case failed(TransportError)
    }

    let engine: any TLSEngine
    private let loop: any EventLoop
    /// The socket; `nil` after the transport was closed.
    var socket: (any Transport)?
    package let id: UInt64
    package weak var handler: (any TransportHandler)?
    var phase = Phase.connecting
    /// Received bytes that the engine has not taken yet.
    var left: [UInt8] = []
    /// The outcome of the next read, if reading has ended.
    var ending: ReadOutcome?
    /// Why the socket accepts no more bytes.
    var writeFailure: TransportError?
    /// Whether the socket has accepted anything since the owner began to write.
    var hasSent = false
    /// Whether the engine has to read more before it can encrypt.
    var isHeldUp = false
    /// Whether reading waits until the engine's output has been sent.
    var isChoked = false
    /// Whether the outgoing direction ends once everything is written.
    var isFinishing = false
    private var isWakeScheduled = false
    /// The service that answers instead of TLS, by its first bytes.
    private var service: KnownService?
    private var hasReceived = false
    /// When the TLS handshake began.
    private var begun: Instant?
    /// Ends the wait for the verdict of a server that sends nothing.
    private lazy var patience = LoopTimer(target: self)
    private var isPatient = true
    /// Whether the TLS handshake has failed, and may have failed because it offered the session of an earlier connection. The
    /// session is forgotten, so another handshake may succeed.
    package private(set) var hasFailedWithSession = false

    /// The number of bytes read from the socket at once.
    static let inputSize = 64 * 1024
    /// The number of bytes encrypted before they are written. If as many wait for the socket, nothing more is accepted.
    static let outputSize = 64 * 1024
    /// The maximum number of reads from the socket per read of the owner.
    static let readings = 4
    /// The maximum number of handshake steps in one turn of the loop.
    private static let handshakeSteps = 8
    /// The maximum content of one record (RFC 8446 §5.1).
    static let recordSize = 16 * 1024
    /// How long a server that requested a certificate has to refuse it: twice the duration of the handshake, within
    /// these bounds.
    private static let patienceBounds = Duration.milliseconds(50)...Duration.seconds(1)

    /// Whether the latest `read` has left bytes for a later one although its buffer was not full.
    package internal(set) var hasMore = false
    /// The number of bytes received from the network, which differs from what `read` returns.
    package internal(set) var receivedCount = 0
    /// The number of bytes passed to the socket.
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

    /// Secures the socket that `connect` begins to connect. `connect` receives the handler for the socket's events.
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

    /// Secures a connected socket, as servers do, and clients that begin in plaintext. From now on `receiver` receives
    /// the socket's events.
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
        // Soon, but not before the caller has this transport: it may fail at once.
        loop.schedule(LoopClosure { [weak self] in self?.advance() })
    }

    /// The receiver of the socket's events, which must exist before this transport does.
    package var receiver: any TransportHandler { relay }
    private let relay: Relay

    /// Safe to share between threads: it is used on one loop only, like its transport.
    private final class Relay: TransportHandler, @unchecked Sendable {
        weak var transport: SecuredTransport?
        func transport(_ id: UInt64, did event: TransportEvent) { transport?.socketDid(event) }
    }

    /// The agreed parameters, with the certificates of the peer, which are read from the library for each call; `nil`
    /// until the handshake is done.
    package var session: TLSSession? {
        guard var session = engine.session else { return nil }
        session.certificates = engine.peerCertificates
        return session
    }

    /// The certificates of the peer, its own first, read from the library for each call.
    package var peerCertificates: [TLSCertificate] { engine.peerCertificates }

    /// See `TLSEngine.verificationFailure`.
    package var verificationFailure: TransportError? { engine.verificationFailure }

    // MARK: Events

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

    /// Owner writes wait for the handshake. Meanwhile a writable socket is not reported. It is after a failure, which the
    /// next write returns.
    func updateInterest() {
        socket?.awaitsWritable = hasUnsent || (awaitsWritable && !isConnecting && !isHeldUp)
    }

    private func readingChanged() {
        guard case .open = phase else { return }
        socket?.isReading = isReading && !isChoked
        if isReading, hasNews { wake() }
    }

    /// Whether something can be read of which the socket will not notify.
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

    /// The error with the service that answers, if it is that of another protocol.
    private func naming(_ error: TransportError) -> TransportError {
        guard let service else { return error }
        var error = error
        error.code = .tls(.notTLS)
        error.message = "\(error.message); the server answers with \(service.rawValue), not with TLS".asMessage
        return error
    }

    /// Waits for the verdict of a server that requested a certificate. A server that refuses it sends an alert about a
    /// round trip from now, and resets if it has received more by then. So nothing is sent until the server has spoken
    /// or the time is over.
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

    /// Reads more of the handshake from the socket. Returns false if there is nothing now.
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

    /// Passes the received bytes to `body`, and keeps what it does not take.
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
    private var isConnecting: Bool {
        switch phase {
        case .connecting, .handshaking: true
        case .open, .failed: false
        }
    }
    /// Whether the engine has completed the handshake, so that `close_notify` can be sent.
    private var isSecured: Bool { if case .failed = phase { false } else { engine.session != nil } }
    /// Whether there are bytes for the socket.
    private var hasUnsent: Bool { !engine.outgoing.isEmpty && writeFailure == nil }

    /// Whether so much output is queued that nothing more is read: a peer that makes requests and does not read the
    /// answers must not grow memory.
    ///
    /// Far more than an owner's bytes can come to, so two sides that both write first go on reading.
    var hasTooMuchToSend: Bool { engine.outgoing.count > 4 * Self.outputSize && writeFailure == nil }

    /// Whether bytes of the owner were accepted that are not passed to the socket yet. When all of them are, `handler`
    /// receives `.writable` if `awaitsWritable` is set. Bytes of the TLS handshake are not the owner's.
    package var isHoldingBytes: Bool { hasUnsent && isOpen }

    /// The number of bytes, of those that `isHoldingBytes` refers to, that wait for the socket.
    package var heldByteCount: Int { isHoldingBytes ? engine.outgoing.count : 0 }

    /// The value of `sentMark` once the socket has everything accepted so far. It is never reached if the socket fails
    /// first.
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
        if case .open = phase { engine.forgetSession() }  // if the server has sent nothing on the resumed link
        self.socket = nil
        socket.close()
    }

    /// Forgets a session that the server has not answered in time. A server, or a device before it, that is silent for a broken
    /// session would be so again.
    ///
    /// The owner calls this when its attempt has failed. A transport that is closed earlier forgets nothing: the server had not
    /// the time to answer one that has lost a race, or whose client is closed.
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
    /// Whether a TLS handshake that offered a session may have failed because of it. A certificate that does not pass
    /// verification would not pass in another handshake either.
    fileprivate var mayBeDueToSession: Bool {
        switch code {
        case .tls(.alert), .tls(.notTLS), .tls(.truncated), .tls(.protocolViolation), .tls(.protocolVersion): true
        case .reset, .closedByPeer: true
        default: false
        }
    }
}
