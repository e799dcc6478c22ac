import TrunklineCore

/// A listening socket. Deallocating it closes it.
final class SimulatedListener: Listener {
    private let port: ListeningPort
    private let loop: SimulatedEventLoop

    init(_ port: ListeningPort, on loop: SimulatedEventLoop) {
        self.port = port
        self.loop = loop
    }

    deinit {
        loop.perform { [port] in port.close() }
    }

    var address: SocketAddress { port.address }

    /// Needs no reservation: no other process takes the ports of a simulated host.
    func closeKeepingPort() -> PortReservation? {
        close()
        return nil
    }

    func close() {
        loop.preconditionIsCurrent()
        port.close()
    }
}

/// An address that accepts links. Unchecked `Sendable`: confined to its loop, see `LoopOwnership`.
final class ListeningPort: @unchecked Sendable {
    let address: SocketAddress
    /// Each client of a port of datagrams is a link.
    let receivesDatagrams: Bool
    private let network: VirtualNetwork
    private weak var handler: (any ListenerHandler)?
    private var backlog: [SimulatedLink] = []
    var isListed = false

    init(
        _ address: SocketAddress,
        receivesDatagrams: Bool,
        network: VirtualNetwork,
        handler: any ListenerHandler
    ) {
        (self.address, self.receivesDatagrams) = (address, receivesDatagrams)
        self.network = network
        self.handler = handler
    }

    func add(_ link: SimulatedLink) {
        backlog.append(link)
        network.attend(self)
    }

    func accept(on loop: SimulatedEventLoop) {
        while !backlog.isEmpty {
            let link = backlog.removeFirst()
            guard let handler else {
                link.reset(.server)
                continue
            }
            network.note(.accepted, link.id)
            let owner = handler.accepted(SimulatedTransport(link, .server, on: loop))
            guard link.end(.server).phase == .open else { continue }  // closed by the handler
            link.end(.server).handler = owner
            network.attend(link, .server)
        }
    }

    /// Links not handed over are reset; the others stay.
    func close() {
        guard network.remove(self) else { return }
        for link in backlog { link.reset(.server) }
        backlog = []
    }
}
