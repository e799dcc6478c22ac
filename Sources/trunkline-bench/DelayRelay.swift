import Trunkline

/// Forwards bytes between clients and a server with a delay, to simulate a long distance. The first bytes of a
/// connection are delayed by twice as much in addition: by the TCP handshake over that distance.
actor DelayRelay: ListenerHandler, TransportHandler, TimerTarget {
    private struct End {
        let transport: any Transport
        let other: UInt64
        let opened: Instant
        /// On the way to this end; `nil` is the end of the direction.
        var arriving: [(due: Instant, bytes: [UInt8]?)] = []
        var isConnected: Bool
    }

    private nonisolated let loop: any EventLoop
    private let target: SocketAddress
    private let delay: Duration
    private var listener: (any Listener)?
    private var ends: [UInt64: End] = [:]
    private var timer: LoopTimer?

    nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }

    init(to port: UInt16, delay: Duration, on loop: any EventLoop) {
        target = .loopback(port: port)
        self.delay = delay
        self.loop = loop
    }

    func start() throws -> UInt16 {
        let listener = try loop.listen(on: .loopback(port: 0), handler: self)
        self.listener = listener
        timer = LoopTimer(target: self)
        guard case .ipv4(_, let port) = listener.address else { throw BenchError("the relay has no port") }
        return port
    }

    nonisolated func accepted(_ transport: sending any Transport) -> any TransportHandler {
        // Safe: created and used only on the event loop.
        nonisolated(unsafe) let near = transport
        return assumeIsolated { unsafe $0.begin(near) }
    }

    private func begin(_ near: any Transport) -> any TransportHandler {
        let far = loop.connect(to: target, options: SocketOptions(), handler: self)
        ends[near.id] = End(
            transport: near,
            other: far.id,
            opened: loop.now.advanced(by: delay * 2),
            isConnected: true
        )
        ends[far.id] = End(transport: far, other: near.id, opened: loop.now, isConnected: false)
        near.isReading = true
        far.isReading = true
        return self
    }

    nonisolated func transport(_ id: UInt64, did event: TransportEvent) { assumeIsolated { $0.handle(event, of: id) } }
    nonisolated func timerFired() { assumeIsolated { $0.passOn() } }

    private func handle(_ event: TransportEvent, of id: UInt64) {
        switch event {
        case .connected:
            ends[id]?.isConnected = true
            passOn()
        case .readable: take(from: id)
        case .writable: passOn()
        case .connectFailed: close(id)
        case .securing, .opening: break
        }
    }

    private func take(from id: UInt64) {
        guard let end = ends[id] else { return }
        var buffer = [UInt8](repeating: 0, count: 65536)
        let due = max(loop.now, end.opened).advanced(by: delay)
        reading: while true {
            switch unsafe buffer.withUnsafeMutableBytes({ unsafe end.transport.read(into: $0) }) {
            case .bytes(let count): ends[end.other]?.arriving.append((due, Array(buffer[..<count])))
            case .wouldBlock: break reading
            case .end, .failed:
                end.transport.isReading = false
                ends[end.other]?.arriving.append((due, nil))
                break reading
            }
        }
        passOn()
    }

    private func passOn() {
        for id in Array(ends.keys) { deliver(to: id) }
        // Includes bytes that have become due meanwhile. An end whose socket is full receives an event.
        let waiting = ends.values.lazy.filter { $0.isConnected && !$0.transport.awaitsWritable }
        if let timer { loop.arm(timer, at: waiting.compactMap(\.arriving.first?.due).min()) }
    }

    private func deliver(to id: UInt64) {
        while let end = ends[id], end.isConnected, let first = end.arriving.first, first.due <= loop.now {
            guard let bytes = first.bytes else { return close(id) }
            switch unsafe bytes.withUnsafeBytes({ unsafe end.transport.write($0) }) {
            case .bytes(bytes.count): ends[id]?.arriving.removeFirst()
            case .bytes(let count): ends[id]?.arriving[0].bytes = Array(bytes[count...])
            case .wouldBlock: return end.transport.awaitsWritable = true
            case .failed: return close(id)
            }
            end.transport.awaitsWritable = false
        }
    }

    /// HTTP needs no half-open connections.
    private func close(_ id: UInt64) {
        guard let end = ends.removeValue(forKey: id) else { return }
        end.transport.close()
        ends.removeValue(forKey: end.other)?.transport.close()
    }
}
