/// Holds exchanges, as with a proxy, before its owner gets it. Unchecked Sendable: used on one loop only.
final class OpeningTransport: Transport, @unchecked Sendable {
    private enum Phase {
        case connecting, exchanging, open
        case failed(TransportError)
    }

    private var exchanges: ArraySlice<any OpeningExchange>
    private let isProxied: Bool
    private let loop: any EventLoop
    private(set) var socket: (any Transport)?
    private let relay = Relay()
    let id: UInt64
    weak var handler: (any TransportHandler)?
    private var phase = Phase.connecting
    private var outgoing: ArraySlice<UInt8> = []
    /// Received and not taken by the exchange: the first bytes for the owner.
    private var left: ArraySlice<UInt8> = []

    var localAddress: SocketAddress? { socket?.localAddress }
    var remoteAddress: SocketAddress? { socket?.remoteAddress }
    var tcpInformation: TCPInformation? { socket?.tcpInformation }
    var appliedOptions: SocketOptions? { socket?.appliedOptions }
    /// Unknown with a proxy, because it is the proxy that acknowledges.
    var isAcknowledged: Bool? { isProxied ? nil : socket?.isAcknowledged }
    var hasFailed: Bool { socket?.hasFailed ?? true }

    var isReading = false {
        didSet { if isReading != oldValue { readingChanged() } }
    }
    var awaitsWritable = false {
        didSet { updateInterest() }
    }

    /// `connect` receives the handler for the events of the socket that it begins to connect.
    init(
        _ exchanges: [any OpeningExchange],
        on loop: any EventLoop,
        handler: any TransportHandler,
        connecting connect: (any TransportHandler) -> any Transport
    ) {
        (self.exchanges, self.loop, self.handler) = (exchanges[...], loop, handler)
        isProxied = exchanges.contains(where: \.isWithProxy)
        let socket = connect(relay)
        self.socket = socket
        id = socket.id
        relay.transport = self
    }

    /// Unchecked Sendable: it is used on one loop only, like its transport.
    private final class Relay: TransportHandler, @unchecked Sendable {
        weak var transport: OpeningTransport?
        func transport(_ id: UInt64, did event: TransportEvent) { transport?.socketDid(event) }
    }

    private var isOpen: Bool { if case .open = phase { true } else { false } }

    private func socketDid(_ event: TransportEvent) {
        switch (event, phase) {
        case (.connected, .connecting):
            phase = .exchanging
            handler?.transport(id, did: .opening)
            guard socket != nil else { return }  // the owner may have closed it
            socket?.isReading = true
            beginNext()
            advance()
        case (.readable, .exchanging), (.writable, .exchanging): advance()
        case (.readable, .failed), (.writable, .failed): break
        case (.readable, _): if isReading { handler?.transport(id, did: .readable) }
        case (.writable, _): if awaitsWritable { handler?.transport(id, did: .writable) }
        default: handler?.transport(id, did: event)
        }
    }

    private func updateInterest() {
        socket?.awaitsWritable = isOpen ? awaitsWritable : !outgoing.isEmpty
    }

    private func readingChanged() {
        guard isOpen else { return }
        socket?.isReading = isReading
        if isReading, !left.isEmpty { wake() }
    }

    /// The socket does not tell of bytes that were read from it, nor again of those behind them.
    private func wake() {
        loop.scheduleInNextTurn(
            LoopClosure { [weak self] in
                if let self, isReading { handler?.transport(id, did: .readable) }
            }
        )
    }

    private func beginNext() {
        let bytes = exchanges[exchanges.startIndex].begin(from: localAddress, to: remoteAddress)
        outgoing += bytes
    }

    /// A proxy that sends without end must not keep the loop from its timers.
    private static let stepsPerTurn = 8

    private func advance() {
        do throws(TransportError) {
            try flush()
            for _ in 0..<Self.stepsPerTurn {
                guard case .exchanging = phase else { return }
                guard !exchanges.isEmpty else { return outgoing.isEmpty ? opened() : () }
                switch try exchanges[exchanges.startIndex].receive(&left) {
                case .wait:
                    guard try receive() else { return }
                case .send(let bytes):
                    outgoing += bytes
                    try flush()
                case .done:
                    exchanges.removeFirst()
                    if !exchanges.isEmpty { beginNext() }
                    try flush()
                }
            }
            loop.scheduleInNextTurn(LoopClosure { [weak self] in self?.advance() })
        } catch {
            phase = .failed(error)
            socket?.isReading = false
            handler?.transport(id, did: .connectFailed(error))
        }
    }

    private func flush() throws(TransportError) {
        defer { updateInterest() }
        while !outgoing.isEmpty {
            let outcome = unsafe outgoing.withUnsafeBytes { unsafe socket?.write($0) ?? .wouldBlock }
            switch outcome {
            case .bytes(let count): outgoing = outgoing.dropFirst(count)
            case .wouldBlock: return
            case .failed(let error): throw ended(error)
            }
        }
    }

    private func receive() throws(TransportError) -> Bool {
        let outcome = unsafe withUnsafeTemporaryAllocation(byteCount: 2048, alignment: 8) { memory in
            let outcome = unsafe socket?.read(into: memory) ?? .end
            if case .bytes(let count) = outcome { unsafe left.append(contentsOf: memory[..<count]) }
            return outcome
        }
        switch outcome {
        case .bytes: return true
        case .wouldBlock: return false
        case .end: throw .proxy(.closed, "the proxy closed the connection before it was established")
        case .failed(let error): throw ended(error)
        }
    }

    private func ended(_ error: TransportError) -> TransportError {
        guard exchanges.first?.isWithProxy == true else { return error }
        return TransportError(.proxy(.closed), errno: error.errno, "the proxy ended the connection: \(error.message)")
    }

    private func opened() {
        phase = .open
        (exchanges, outgoing) = ([], [])  // they contain credentials
        socket?.isReading = isReading
        updateInterest()
        handler?.transport(id, did: .connected)
        if isReading { wake() }
    }

    func read(into buffer: UnsafeMutableRawBufferPointer) -> ReadOutcome {
        switch phase {
        case .connecting, .exchanging: return .wouldBlock
        case .failed(let error): return .failed(error)
        case .open: break
        }
        guard !left.isEmpty else { return unsafe socket?.read(into: buffer) ?? .end }
        let count = min(left.count, buffer.count)
        unsafe buffer.copyBytes(from: left.prefix(count))
        left = left.count == count ? [] : left.dropFirst(count)
        wake()
        return .bytes(count)
    }

    func write(_ pieces: BytePieces) -> WriteOutcome {
        switch phase {
        case .connecting, .exchanging: .wouldBlock
        case .failed(let error): .failed(error)
        case .open: unsafe socket?.write(pieces) ?? .wouldBlock
        }
    }

    func finishWriting() { socket?.finishWriting() }

    func close() {
        socket?.close()
        release()
    }

    func reset() {
        socket?.reset()
        release()
    }

    private func release() {
        (socket, handler) = (nil, nil)
        (exchanges, outgoing, left) = ([], [], [])
    }
}
