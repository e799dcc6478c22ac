import Trunkline

/// The listening socket of a `LoopbackServer`, which is opened before there is a server, and again and again.
actor Acceptor: ListenerHandler, TransportHandler {
    nonisolated let loop: any EventLoop
    private var listener: (any Listener)?
    /// Where it listens, with the port it was given, also while it does not.
    private var address: SocketAddress?
    /// While it listens no more, but may again.
    private var reservation: PortReservation?
    private weak var server: LoopbackServer?

    nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }

    init(on loop: any EventLoop) { self.loop = loop }

    /// Listens, and returns the address with its port.
    @discardableResult
    func listen(on address: SocketAddress) throws(TransportError) -> SocketAddress {
        let listener = try loop.listen(on: address, handler: self)
        self.listener = listener
        self.address = listener.address
        return listener.address
    }

    /// Gives what is accepted from now on to `server`. Until then connections wait in the backlog, or are closed.
    func accept(for server: LoopbackServer) { self.server = server }

    func close() {
        listener?.close()
        (listener, reservation) = (nil, nil)
    }

    /// Refuses connections until `listenAgain`. Nobody else gets the port meanwhile.
    func pause() {
        guard let listener else { return }
        reservation = listener.closeKeepingPort()
        self.listener = nil
    }

    /// Listens where it did before it paused.
    func listenAgain() throws(TransportError) {
        guard listener == nil, let address else { return }
        reservation = nil
        try listen(on: address)
    }

    nonisolated func accepted(_ transport: sending any Transport) -> any TransportHandler {
        let handover = Handover(transport)
        return assumeIsolated { acceptor -> any TransportHandler in
            guard let server = acceptor.server else { return acceptor }  // nobody keeps the transport: it closes
            return server.assumeIsolated { unsafe $0.accept(handover.transport) }
        }
    }

    nonisolated func transport(_ id: UInt64, did event: TransportEvent) {}
}

/// Carries an accepted transport, which nobody else has, into the actor of the loop it lives on.
private struct Handover {
    /// Safe in truth: it is made and used on the loop only.
    nonisolated(unsafe) let transport: any Transport
    init(_ transport: any Transport) { unsafe self.transport = transport }
}

extension SocketAddress {
    /// The address as clients name it.
    var endpoint: Endpoint {
        switch self {
        case .unix(let path): .unix(path: path)
        case .ipv4(let bytes, let port): .host(bytes.map(String.init).joined(separator: "."), port: port)
        case .ipv6(let bytes, let port, _):
            .host(
                stride(from: 0, to: bytes.count, by: 2)
                    .map { String(UInt16(bytes[$0]) << 8 | UInt16(bytes[$0 + 1]), radix: 16) }
                    .joined(separator: ":"),
                port: port
            )
        }
    }
}
