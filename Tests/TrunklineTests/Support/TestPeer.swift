@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLoopback
@testable import TrunklineTesting

/// One end of a simulated link for tests: an actor on the event loop. It keeps the bytes that it reads, and writes the
/// bytes that a test gives it.
actor TestPeer: TransportHandler {
    nonisolated let loop: SimulatedEventLoop
    nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }

    private var transport: (any Transport)?
    private var outgoing: [UInt8] = []
    private var finishes = false
    private let echoes: Bool
    /// For the side that connects. Accepted transports are secured already.
    private let tls: (any TLSContext)?

    /// Every event in order.
    private(set) var events: [String] = []
    private(set) var received: [UInt8] = []
    private(set) var hasEnded = false
    private(set) var failure: TransportError?
    private(set) var writtenCount = 0
    private var waiters: [CheckedContinuation<Void, Never>] = []

    init(on loop: SimulatedEventLoop, echoes: Bool = false, tls: (any TLSContext)? = nil) {
        self.loop = loop
        self.echoes = echoes
        self.tls = tls
    }

    // MARK: Commands

    func connect(to address: SocketAddress, from source: String? = nil, reading: Bool = true) async throws {
        var options = SocketOptions()
        options.sourceAddress = source.flatMap { literalAddress($0, port: 0) }
        if let tls {
            transport = SecuredTransport(try tls.makeEngine(for: "db"), on: loop, handler: self) { [loop] in
                loop.connect(to: address, options: options, handler: $0)
            }
        } else {
            transport = loop.connect(to: address, options: options, handler: self)
        }
        transport?.isReading = reading
        await wait { $0.events.contains { $0 != "securing" } }
        if let failure { throw failure }
    }

    func adopt(_ transport: any Transport) {
        self.transport = transport
        transport.isReading = true
    }

    func write(_ bytes: [UInt8]) {
        outgoing += bytes
        flush()
    }

    /// Writes each byte separately: over TLS, in its own record.
    func writeSingly(_ bytes: [UInt8]) {
        for byte in bytes { write([byte]) }
    }

    /// Ends the outgoing direction after everything that was written.
    func finish() {
        finishes = true
        flush()
    }

    /// Ends the outgoing direction without close_notify, as servers do that crash or ignore this rule of TLS.
    func cutShort() { (transport as? SecuredTransport)?.socket?.finishWriting() }

    /// Requests new keys `times` times, with a byte each.
    func requestKeys(_ times: Int) {
        let engine = (transport as? SecuredTransport)?.engine as? OpenSSLEngine
        for _ in 0..<times {
            engine?.updateKeys()
            write([0])
        }
    }

    var localAddress: SocketAddress? { transport?.localAddress }

    var unsentCiphertext: Int { (transport as? SecuredTransport)?.engine.outgoing.count ?? 0 }

    func setReading(_ isReading: Bool) { transport?.isReading = isReading }
    func close() { transport?.close() }
    /// Closes as clients and servers do: written bytes have time to arrive.
    func closeLingering() {
        if let transport { Lingering.close(transport, on: loop) }
        transport = nil
    }
    func reset() { transport?.reset() }
    func forgetUnansweredSession() { (transport as? SecuredTransport)?.forgetUnansweredSession() }
    /// Stops waiting for an outcome that will not come.
    func stopWaiting() {
        events.append("stopped waiting")
        wakeAll()
    }
    func releaseTransport() { transport = nil }

    func received(atLeast count: Int) async -> [UInt8] {
        await wait { $0.received.count >= count || $0.hasEnded || $0.failure != nil }
        return received
    }

    func ended() async { await wait { $0.hasEnded || $0.failure != nil } }

    func wait(until isMet: @escaping @Sendable (isolated TestPeer) -> Bool) async {
        while !isMet(self) {
            await withCheckedContinuation { waiters.append($0) }
        }
    }

    // MARK: Events

    nonisolated func transport(_ id: UInt64, did event: TransportEvent) {
        assumeIsolated { $0.handle(event) }
    }

    private func handle(_ event: TransportEvent) {
        switch event {
        case .securing: events.append("securing")
        case .opening: events.append("opening")
        case .connected: events.append("connected")
        case .connectFailed(let error):
            events.append("connectFailed")
            failure = error
        case .readable: readAll()
        case .writable:
            events.append("writable")
            flush()
        }
        wakeAll()
    }

    private func wakeAll() {
        let woken = waiters
        waiters = []
        for waiter in woken { waiter.resume() }
    }

    private func readAll() {
        var buffer = [UInt8](repeating: 0, count: 4096)
        while let transport, transport.isReading {
            switch unsafe buffer.withUnsafeMutableBytes({ unsafe transport.read(into: $0) }) {
            case .bytes(let count):
                received += buffer[..<count]
                if echoes {
                    outgoing += buffer[..<count]
                    flush()
                }
            case .wouldBlock: return
            case .end:
                events.append("end")
                hasEnded = true
                transport.isReading = false
                if echoes { finish() }
            case .failed(let error):
                events.append("failed")
                failure = error
                transport.isReading = false
            }
        }
    }

    private func flush() {
        guard let transport else { return }
        while !outgoing.isEmpty {
            // In two buffers, as a real writer does with a header and a body.
            let middle = outgoing.count / 2
            let outcome = unsafe outgoing.withUnsafeBytes {
                let halves = unsafe [
                    UnsafeRawBufferPointer(rebasing: $0[..<middle]), UnsafeRawBufferPointer(rebasing: $0[middle...]),
                ]
                return unsafe halves.withUnsafeBufferPointer { unsafe transport.write($0) }
            }
            switch outcome {
            case .bytes(let count):
                writtenCount += count
                outgoing.removeFirst(count)
            case .wouldBlock:
                transport.awaitsWritable = true
                return
            case .failed(let error):
                failure = error
                outgoing = []
            }
        }
        transport.awaitsWritable = false
        if finishes {
            finishes = false
            transport.finishWriting()
        }
    }
}

/// A server for tests. It gives every link that it accepts to a `TestPeer`.
actor TestServer: ListenerHandler {
    nonisolated let loop: SimulatedEventLoop
    nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }
    private let echoes: Bool
    /// Written at once on each new link.
    private let banner: [UInt8]
    private let tls: (any TLSContext)?
    private var listener: (any Listener)?
    private(set) var peers: [TestPeer] = []

    init(on loop: SimulatedEventLoop, echoes: Bool = true, banner: [UInt8] = [], tls: (any TLSContext)? = nil) {
        self.loop = loop
        self.echoes = echoes
        self.banner = banner
        self.tls = tls
    }

    @discardableResult
    func listen(on address: SocketAddress) throws -> SocketAddress {
        let listener = try loop.listen(on: address, handler: self)
        self.listener = listener
        return listener.address
    }

    func stop() { listener = nil }

    nonisolated func accepted(_ transport: sending any Transport) -> any TransportHandler {
        let peer = TestPeer(on: loop, echoes: echoes)
        nonisolated(unsafe) var transport = transport  // owned by the peer from here on
        var receiver: any TransportHandler = peer
        if let engine = try? tls?.makeEngine(for: "") {
            let secured = unsafe SecuredTransport(engine, on: loop, handler: peer, over: transport)
            unsafe transport = secured
            receiver = secured.receiver
        }
        peer.assumeIsolated {
            unsafe $0.adopt(transport)
            if !banner.isEmpty { $0.write(banner) }
        }
        assumeIsolated { $0.peers.append(peer) }
        return receiver
    }
}

extension SimulatedNetwork {
    /// The address of `host`, which is created if it does not exist.
    func address(_ host: String, port: UInt16 = 7000) -> SocketAddress {
        guard let address = HostAddress(self.host(host)) else { preconditionFailure("a host without an address") }
        return address.socketAddress(port: port)
    }
}

/// `count` bytes whose values depend on their positions.
func pattern(_ count: Int) -> [UInt8] { (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 8) } }
