#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

protocol WatchedSocket: AnyObject {
    func isReady(_ readiness: Readiness)
    func watchFailed(_ code: Int32)
}

/// The only owner of its descriptor.
final class SocketTransport: Transport, WatchedSocket {
    let id: UInt64
    private let loop: SocketEventLoop
    weak var handler: (any TransportHandler)?
    private var descriptor: Int32 = -1
    private var isConnecting = false
    private var isConnected = false

    var isReading = false {
        didSet { if isReading != oldValue { updateInterest() } }
    }
    var awaitsWritable = false {
        didSet { if awaitsWritable != oldValue { updateInterest() } }
    }

    init(id: UInt64, loop: SocketEventLoop, handler: any TransportHandler) {
        self.id = id
        self.loop = loop
        self.handler = handler
    }

    init(id: UInt64, loop: SocketEventLoop, accepted: Int32) {
        self.id = id
        self.loop = loop
        descriptor = accepted
        isConnected = true
    }

    deinit {
        if descriptor >= 0 { loop.release(descriptor, id: id) }
    }

    func connect(to address: SocketAddress, options: SocketOptions, unless obstacle: TransportError? = nil) {
        let doing = Self.doing(address)
        if var obstacle {
            obstacle.message = "\(doing): \(obstacle.message)"
            return report(.connectFailed(obstacle))
        }
        #if !os(Linux)
            if case .vsock = address {
                return report(.connectFailed(TransportError(.invalidAddress, "\(doing): vsock needs Linux")))
            }
        #endif
        descriptor = openSocket(for: address, multipath: options.multipath)
        guard descriptor >= 0 else { return report(.connectFailed(addressError(errno, doing))) }
        loop.register(self, id: id)
        apply(options, to: descriptor, for: address)
        if let source = options.sourceAddress, address.family != nil,
            let error = bindSource(descriptor, to: source, doing: doing)
        {
            return report(.connectFailed(error))
        }
        let code = unsafe withSockaddr(address) { pointer, length in
            unsafe connectDescriptor(descriptor, pointer, length) == 0 ? 0 : errno
        }
        switch code {
        case nil:
            report(.connectFailed(TransportError(.invalidAddress, "\(doing): \(unwritable)")))
        case 0?:
            isConnected = true
            report(.connected)
        case EINPROGRESS?:
            isConnecting = true
            connectingTo = address
            updateInterest()
        case EAGAIN?:  // a Unix domain socket whose listener has no room
            report(.connectFailed(TransportError(.refused, errno: EAGAIN, "\(doing): the listener's backlog is full")))
        case let code?:
            report(.connectFailed(connectError(code, address, doing)))
        }
    }

    private var connectingTo: SocketAddress?

    private static func doing(_ address: SocketAddress) -> String {
        // The system says only that the argument is invalid.
        let hint = address.lacksZone ? " (without a zone, such as %eth0)" : ""
        return "connecting to \(address)\(hint)"
    }

    var hasFailed: Bool {
        guard descriptor >= 0 else { return true }
        return isBroken(descriptor)
    }

    private lazy var knownAddress = systemLocalAddress(descriptor)

    var localAddress: SocketAddress? { isConnected && descriptor >= 0 ? knownAddress : nil }

    var remoteAddress: SocketAddress? { isConnected && descriptor >= 0 ? peerAddress(descriptor) : nil }

    /// Unix domain sockets have no option of this name, so the system rejects it.
    var tcpInformation: TCPInformation? { isConnected && descriptor >= 0 ? readTCPInformation(descriptor) : nil }

    var appliedOptions: SocketOptions? { descriptor >= 0 ? readSocketOptions(descriptor) : nil }

    /// Never before `connect` has returned the transport.
    private func report(_ event: TransportEvent) {
        let id = id
        loop.schedule(LoopClosure { [weak handler] in handler?.transport(id, did: event) })
    }

    private func finishConnecting() {
        isConnecting = false
        updateInterest()
        let code = pendingError(descriptor)
        isConnected = code == 0
        if code == 0 { return handler?.transport(id, did: .connected) ?? () }
        let error =
            connectingTo.map { connectError(code, $0, Self.doing($0), isAtOnce: false) }
            ?? transportError(code, "connecting")
        handler?.transport(id, did: .connectFailed(error))
    }

    private func updateInterest() {
        guard descriptor >= 0 else { return }
        loop.watch(descriptor, id: id, reading: isReading, writing: awaitsWritable || isConnecting)
    }

    func isReady(_ readiness: Readiness) {
        if isConnecting {
            if readiness.isWritable { finishConnecting() }
            return
        }
        if readiness.isReadable && isReading { handler?.transport(id, did: .readable) }
        if readiness.isWritable && awaitsWritable { handler?.transport(id, did: .writable) }
    }

    func watchFailed(_ code: Int32) {
        guard descriptor >= 0, failure == nil else { return }
        let error = transportError(code, "watching a socket")
        failure = error
        if isConnecting {
            isConnecting = false
            handler?.transport(id, did: .connectFailed(error))
        } else if isReading {
            handler?.transport(id, did: .readable)
        } else if awaitsWritable {
            handler?.transport(id, did: .writable)
        }
    }

    private var failure: TransportError?

    /// The system reports a reset once. If a write has received it, reading would end as after a clean close.
    private var resetSeenByWrite: TransportError?

    func read(into buffer: UnsafeMutableRawBufferPointer) -> ReadOutcome {
        guard descriptor >= 0 else { return .end }
        if let failure { return .failed(failure) }
        while true {
            let count = unsafe recv(descriptor, buffer.baseAddress, buffer.count, 0)
            if count > 0 { return .bytes(count) }
            if count == 0 { return resetSeenByWrite.map { .failed($0) } ?? .end }
            switch errno {
            case EINTR: continue
            case EAGAIN, EWOULDBLOCK: return .wouldBlock
            default: return .failed(transportError(errno, "reading"))
            }
        }
    }

    func write(_ pieces: BytePieces) -> WriteOutcome {
        guard descriptor >= 0 else { return .failed(TransportError(.closedByPeer, "the socket is closed")) }
        if let failure { return .failed(failure) }
        while true {
            let count = unsafe sendPieces(descriptor, pieces)
            if count >= 0 { return .bytes(count) }
            switch errno {
            case EINTR: continue
            case EAGAIN, EWOULDBLOCK: return .wouldBlock
            case let code:
                let error = transportError(code, "writing")
                if code == ECONNRESET { resetSeenByWrite = error }
                return .failed(error)
            }
        }
    }

    func finishWriting() {
        if descriptor >= 0 { shutdown(descriptor, Int32(SHUT_WR)) }
    }

    func close() {
        guard descriptor >= 0 else { return }
        handler = nil
        loop.release(descriptor, id: id)
        descriptor = -1
    }

    func reset() {
        if descriptor >= 0 { setLingerZero(descriptor) }
        close()
    }
}

private func systemLocalAddress(_ descriptor: Int32) -> SocketAddress? { localAddress(descriptor) }
