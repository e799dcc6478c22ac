#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// A UDP socket for test servers. Each address from which it receives is a transport of its own.
///
/// Safe to share between threads: apart from `deinit`, it is used only on its loop.
final class DatagramListener: Listener, WatchedSocket, @unchecked Sendable {
    let id: UInt64
    let address: SocketAddress
    private let loop: SocketEventLoop
    private weak var handler: (any ListenerHandler)?
    private var descriptor: Int32
    private var peers: [SocketAddress: Peer] = [:]

    private struct Peer {
        weak var transport: DatagramPeer?
        var heardAt: Instant
    }

    /// A client that is silent for this long has gone: UDP has no end.
    private static let patience = Duration.seconds(60)
    private static let largest = 65_536

    init(
        id: UInt64,
        loop: SocketEventLoop,
        address: SocketAddress,
        handler: any ListenerHandler
    ) throws(TransportError) {
        let doing = "listening on udp://\(address)"
        let descriptor = openDatagramSocket(for: address)
        guard descriptor >= 0 else { throw addressError(errno, doing) }
        let code = unsafe withSockaddr(address) { pointer, length in
            unsafe bind(descriptor, pointer, length) == 0 ? 0 : errno
        }
        guard code == 0 else {
            closeDescriptor(descriptor)
            guard let code else { throw TransportError(.invalidAddress, "\(doing): \(unwritable)") }
            throw addressError(code, doing)
        }
        (self.id, self.loop, self.handler, self.descriptor) = (id, loop, handler, descriptor)
        self.address = localAddress(descriptor) ?? address
        loop.watch(descriptor, id: id, reading: true, writing: false)
    }

    deinit { release() }

    private func release() {
        guard descriptor >= 0 else { return }
        loop.release(descriptor, id: id)
        descriptor = -1
    }

    func close() {
        release()
        for peer in peers.values { peer.transport?.end() }
        peers = [:]
    }

    /// A socket that kept the port would receive what the server does not.
    func closeKeepingPort() -> PortReservation? {
        close()
        return nil
    }

    func isReady(_ readiness: Readiness) {
        if readiness.isWritable { for peer in peers.values { peer.transport?.becameWritable() } }
        guard readiness.isReadable else { return }
        unsafe withUnsafeTemporaryAllocation(byteCount: Self.largest, alignment: 8) { memory in
            // Bounded, so that a flood does not keep the loop from its other sockets.
            for _ in 0..<64 where descriptor >= 0 {
                switch unsafe receiveDatagram(descriptor, into: memory) {
                case .received(let count, from: let source?): unsafe take(Array(memory[..<count]), from: source)
                case .received, .unusable: continue
                // An earlier answer did not arrive, which concerns its client only.
                case .failed: continue
                case .none: return
                }
            }
        }
    }

    private func take(_ datagram: [UInt8], from source: SocketAddress) {
        let now = loop.turnTime
        if peers[source]?.transport == nil {
            forgetSilent(at: now)
            guard let owner = handler else { return }
            let peer = DatagramPeer(id: loop.newID(), source, of: self)
            peers[source] = Peer(transport: peer, heardAt: now)
            // Its owner holds it, on this loop.
            peer.handler = owner.accepted(peer)
        }
        peers[source]?.heardAt = now
        peers[source]?.transport?.receive(datagram)
    }

    private func forgetSilent(at now: Instant) {
        for (source, peer) in peers where peer.transport == nil || now.since(peer.heardAt) > Self.patience {
            peer.transport?.end()
            peers[source] = nil
        }
    }

    func watchFailed(_ code: Int32) { close() }

    func send(_ pieces: BytePieces, to address: SocketAddress) -> WriteOutcome {
        guard descriptor >= 0 else { return .failed(TransportError(.closedLocally, "the server has stopped")) }
        return unsafe sendDatagrams(pieces) { piece in
            unsafe withSockaddr(address) { pointer, length in
                unsafe sendto(descriptor, piece.baseAddress, piece.count, 0, pointer, length)
            } ?? -1
        } failing: {
            transportError($0, "writing")
        }
    }

    func updateInterest() {
        guard descriptor >= 0 else { return }
        let awaitsWritable = peers.values.contains { $0.transport?.awaitsWritable == true }
        loop.watch(descriptor, id: id, reading: true, writing: awaitsWritable)
    }

    func forget(_ peer: DatagramPeer) {
        if peers[peer.address]?.transport === peer { peers[peer.address] = nil }
        updateInterest()
    }

    func wake(_ peer: DatagramPeer) {
        loop.scheduleInNextTurn(LoopClosure { [weak peer] in peer?.tell() })
    }
}

/// Unchecked Sendable: it is used on the loop of its listener only.
final class DatagramPeer: Transport, @unchecked Sendable {
    let id: UInt64
    let address: SocketAddress
    private weak var listener: DatagramListener?
    weak var handler: (any TransportHandler)?
    private var received = Deque<[UInt8]>()
    private var isEnded = false

    private static let maximumReceived = 256

    init(id: UInt64, _ address: SocketAddress, of listener: DatagramListener) {
        (self.id, self.address, self.listener) = (id, address, listener)
    }

    var exchangesDatagrams: Bool { true }
    var localAddress: SocketAddress? { listener?.address }
    var remoteAddress: SocketAddress? { address }
    var hasFailed: Bool { isEnded }

    var isReading = false {
        didSet { if isReading, !oldValue, !received.isEmpty || isEnded { listener?.wake(self) } }
    }
    var awaitsWritable = false {
        didSet { if awaitsWritable != oldValue { listener?.updateInterest() } }
    }

    func receive(_ datagram: [UInt8]) {
        guard received.count < Self.maximumReceived else { return }  // lost, as with a full socket
        received.append(datagram)
        tell()
    }

    func tell() { if isReading { handler?.transport(id, did: .readable) } }

    func becameWritable() { if awaitsWritable { handler?.transport(id, did: .writable) } }

    func end() {
        isEnded = true
        tell()
    }

    func read(into buffer: UnsafeMutableRawBufferPointer) -> ReadOutcome {
        while let datagram = received.popFirst() {
            guard datagram.count <= buffer.count else { continue }
            unsafe buffer.copyBytes(from: datagram)
            return .bytes(datagram.count)
        }
        return isEnded ? .end : .wouldBlock
    }

    func write(_ pieces: BytePieces) -> WriteOutcome {
        unsafe listener?.send(pieces, to: address) ?? .failed(TransportError(.closedLocally, "the server has stopped"))
    }

    func finishWriting() {}

    func close() {
        handler = nil
        listener?.forget(self)
        listener = nil
    }

    func reset() { close() }
}
