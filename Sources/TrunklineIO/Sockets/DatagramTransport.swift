#if os(Linux)
    import CTrunkline
#endif

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// A UDP socket that is connected to one address. The only owner of its descriptor.
final class DatagramTransport: Transport, WatchedSocket {
    let id: UInt64
    private let loop: SocketEventLoop
    weak var handler: (any TransportHandler)?
    private var descriptor: Int32 = -1
    private(set) var localAddress: SocketAddress?
    private(set) var remoteAddress: SocketAddress?
    private var failure: TransportError?

    var exchangesDatagrams: Bool { true }

    var isReading = false {
        didSet { if isReading != oldValue { updateInterest() } }
    }
    var awaitsWritable = false {
        didSet { if awaitsWritable != oldValue { updateInterest() } }
    }

    init(id: UInt64, loop: SocketEventLoop, handler: any TransportHandler) {
        (self.id, self.loop, self.handler) = (id, loop, handler)
    }

    deinit {
        if descriptor >= 0 { loop.release(descriptor, id: id) }
    }

    func connect(to address: SocketAddress, from source: SocketAddress?, unless obstacle: TransportError?) {
        do throws(TransportError) {
            try open(address, from: source, unless: obstacle)
            (localAddress, remoteAddress) = (TrunklineIO.localAddress(descriptor), address)
            report(.connected)
        } catch {
            report(.connectFailed(error))
        }
    }

    private func open(
        _ address: SocketAddress,
        from source: SocketAddress?,
        unless obstacle: TransportError?
    ) throws(TransportError) {
        let doing = "connecting to udp://\(address)"
        if let obstacle { throw TransportError(obstacle.code, errno: obstacle.errno, "\(doing): \(obstacle.message)") }
        descriptor = openDatagramSocket(for: address)
        guard descriptor >= 0 else { throw addressError(errno, doing) }
        loop.register(self, id: id)
        if let source, let error = bindSource(descriptor, to: source, doing: doing) { throw error }
        let code = unsafe withSockaddr(address) { pointer, length in
            unsafe connectDescriptor(descriptor, pointer, length) == 0 ? 0 : errno
        }
        guard let code else { throw TransportError(.invalidAddress, "\(doing): \(unwritable)") }
        if code != 0 { throw connectError(code, address, doing) }
    }

    /// Never before `connect` has returned the transport.
    private func report(_ event: TransportEvent) {
        let id = id
        loop.schedule(LoopClosure { [weak handler] in handler?.transport(id, did: event) })
    }

    var hasFailed: Bool { descriptor < 0 || failure != nil }

    private func updateInterest() {
        guard descriptor >= 0 else { return }
        loop.watch(descriptor, id: id, reading: isReading, writing: awaitsWritable)
    }

    func isReady(_ readiness: Readiness) {
        if readiness.isReadable && isReading { handler?.transport(id, did: .readable) }
        if readiness.isWritable && awaitsWritable { handler?.transport(id, did: .writable) }
    }

    func watchFailed(_ code: Int32) {
        guard descriptor >= 0, failure == nil else { return }
        failure = transportError(code, "watching a socket")
        handler?.transport(id, did: isReading ? .readable : .writable)
    }

    func read(into buffer: UnsafeMutableRawBufferPointer) -> ReadOutcome {
        guard descriptor >= 0 else { return .end }
        if let failure { return .failed(failure) }
        // Bounded: a flood of empty datagrams must not keep the loop from its timers.
        for _ in 0..<64 {
            switch unsafe receiveDatagram(descriptor, into: buffer) {
            case .received(let count, from: _): return .bytes(count)
            case .unusable: continue
            case .none: return .wouldBlock
            case .failed(let code): return .failed(error(code, "reading"))
            }
        }
        return .wouldBlock
    }

    func write(_ pieces: BytePieces) -> WriteOutcome {
        guard descriptor >= 0 else { return .failed(TransportError(.closedByPeer, "the socket is closed")) }
        if let failure { return .failed(failure) }
        return unsafe sendDatagrams(pieces) {
            unsafe BytePieces.with($0) { unsafe sendPieces(descriptor, $0) }
        } failing: {
            error($0, "writing")
        }
    }

    /// ECONNREFUSED: the host has answered that nothing listens on the port (ICMP).
    private func error(_ code: Int32, _ doing: String) -> TransportError {
        guard code == ECONNREFUSED, let remoteAddress else { return transportError(code, doing) }
        return TransportError(.refused, errno: code, "no server receives datagrams at \(remoteAddress)")
    }

    func finishWriting() {}

    func close() {
        guard descriptor >= 0 else { return }
        handler = nil
        loop.release(descriptor, id: id)
        descriptor = -1
    }

    func reset() { close() }
}

#if canImport(Darwin)
    package let largestDatagram = 9_216  // net.inet.udp.maxdgram
#else
    package let largestDatagram = 65_507
#endif

enum ReceivedDatagram {
    case received(Int, from: SocketAddress?)
    /// Empty, or larger than the memory for it. It is lost.
    case unusable
    case none
    case failed(Int32)
}

func receiveDatagram(_ descriptor: Int32, into buffer: UnsafeMutableRawBufferPointer) -> ReceivedDatagram {
    var source = sockaddr_storage()
    var piece = unsafe iovec(iov_base: buffer.baseAddress, iov_len: buffer.count)
    while true {
        let (count, isCut, sender) = unsafe withUnsafeMutablePointer(to: &source) { source in
            unsafe withUnsafeMutablePointer(to: &piece) { piece in
                var message = unsafe msghdr()
                unsafe message.msg_name = UnsafeMutableRawPointer(source)
                unsafe message.msg_namelen = socklen_t(MemoryLayout<sockaddr_storage>.size)
                unsafe message.msg_iov = piece
                unsafe message.msg_iovlen = 1
                let count = unsafe recvmsg(descriptor, &message, 0)
                let isCut = unsafe message.msg_flags & Int32(MSG_TRUNC) != 0
                guard count > 0, unsafe message.msg_namelen > 0 else { return (count, isCut, SocketAddress?.none) }
                let sender = unsafe source.withMemoryRebound(to: sockaddr.self, capacity: 1) { unsafe readSockaddr($0) }
                return (count, isCut, sender)
            }
        }
        if count > 0, !isCut { return .received(count, from: sender) }
        if count >= 0 { return .unusable }
        switch errno {
        case EINTR: continue
        case EAGAIN, EWOULDBLOCK: return .none
        case let code: return .failed(code)
        }
    }
}

func sendDatagrams(
    _ pieces: BytePieces,
    _ send: (UnsafeRawBufferPointer) -> Int,
    failing: (Int32) -> TransportError
) -> WriteOutcome {
    var sent = 0
    for index in pieces.indices {
        let piece = unsafe pieces[index]
        while unsafe send(piece) < 0 {
            switch errno {
            case EINTR: continue
            case EAGAIN, EWOULDBLOCK: return sent > 0 ? .bytes(sent) : .wouldBlock
            case ENOBUFS: break  // the system has dropped it, as the network might
            case let code: return sent > 0 ? .bytes(sent) : .failed(failing(code))
            }
            break
        }
        sent += piece.count
    }
    return .bytes(sent)
}
