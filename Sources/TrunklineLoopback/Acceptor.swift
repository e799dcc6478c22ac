import TrunklineCore

/// The listening socket of a `LoopbackServer`. It is opened before the server exists.
actor Acceptor: ListenerHandler, TransportHandler {
    nonisolated let loop: any EventLoop
    private var listener: (any Listener)?
    /// With the assigned port. Kept while the socket is closed.
    private var address: SocketAddress?
    private var receivesDatagrams = false
    private var reservation: PortReservation?
    private weak var server: LoopbackServer?

    nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }

    init(on loop: any EventLoop) { self.loop = loop }

    @discardableResult
    func listen(on address: SocketAddress, datagrams: Bool) throws(TransportError) -> SocketAddress {
        let listener = try loop.listen(on: address, datagrams: datagrams, handler: self)
        receivesDatagrams = datagrams
        self.listener = listener
        self.address = listener.address
        return listener.address
    }

    /// Until then, connections wait in the backlog or are closed.
    func accept(for server: LoopbackServer) { self.server = server }

    func close() {
        listener?.close()
        (listener, reservation) = (nil, nil)
    }

    /// No other process can take the port until `listenAgain`.
    func pause() {
        guard let listener else { return }
        reservation = listener.closeKeepingPort()
        self.listener = nil
    }

    func listenAgain() throws(TransportError) {
        guard listener == nil, let address else { return }
        reservation = nil
        try listen(on: address, datagrams: receivesDatagrams)
    }

    nonisolated func accepted(_ transport: sending any Transport) -> any TransportHandler {
        let handover = Handover(transport)
        return assumeIsolated { acceptor -> any TransportHandler in
            guard let server = acceptor.server else { return acceptor }  // the transport is released, which closes it
            return server.assumeIsolated { unsafe $0.accept(handover.transport) }
        }
    }

    nonisolated func transport(_ id: UInt64, did event: TransportEvent) {}
}

/// Carries an accepted transport, which has no other owner, into the actor of its loop.
private struct Handover {
    /// Safe: created and used only on the event loop.
    nonisolated(unsafe) let transport: any Transport
    init(_ transport: any Transport) { unsafe self.transport = transport }
}

extension SocketAddress {
    var datagramEndpoint: Endpoint { endpoint.host.map { .udp($0, port: port ?? 0) } ?? endpoint }

    var endpoint: Endpoint {
        switch self {
        case .unix(let path): .unix(path: path)
        case .vsock(let cid, let port): .vsock(cid: cid, port: port)
        case .command(let command): Endpoint(target: .command(command))
        case .descriptors(let pair): Endpoint(target: .descriptors(pair))
        case .ipv4(let bytes, let port): .host(bytes.map(String.init).joined(separator: "."), port: port)
        case .ipv6(let bytes, let port, let scope):
            .host(
                stride(from: 0, to: bytes.count, by: 2)
                    .map { String(UInt16(bytes[$0]) << 8 | UInt16(bytes[$0 + 1]), radix: 16) }
                    .joined(separator: ":") + (scope == 0 ? "" : "%\(scope)"),
                port: port
            )
        }
    }
}
