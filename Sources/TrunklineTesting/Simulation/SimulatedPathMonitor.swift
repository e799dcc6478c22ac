import TrunklineCore

/// During a run its methods must be called on the simulation's thread; any other call ends the run with
/// `SimulationError.leftTheLoop`.
final class SimulatedPathMonitor: PathMonitor {
    private let loop: SimulatedEventLoop

    init(on loop: SimulatedEventLoop) { self.loop = loop }

    func add(_ observer: any PathObserver, on loop: any EventLoop) -> Bool {
        self.loop.preconditionIsCurrent()
        precondition(loop === self.loop, "an observer of a simulated network must run on that network's event loop")
        return self.loop.network.observe(observer)
    }

    func path(to address: SocketAddress, from source: SocketAddress?) -> NetworkPath {
        if address.isLoopback { return .local }
        return ask { interfaces in
            let source = source.map { HostAddress($0) }
            let host = HostAddress(address)
            guard let route = interfaces.route(to: host, from: source == host.wildcard ? nil : source) else {
                return .noRoute
            }
            return .route(
                NetworkRoute(
                    interface: route.interface.name,
                    source: route.source.socketAddress(port: 0),
                    isTunnel: route.interface.isTunnel
                )
            )
        } ?? .unknown
    }

    func isUsable(_ address: SocketAddress) -> Bool { ask { $0.isUsable(HostAddress(address)) } ?? true }

    var hasNetwork: Bool { ask { $0.hasNetwork } ?? true }

    private func ask<Answer>(_ question: (HostInterfaces) -> Answer) -> Answer? {
        loop.confined { loop.network.hidesPaths ? nil : question(loop.network.interfaces) }
    }
}

/// The observers of changes of a simulated network, and the changes about to be announced.
struct PathObservers {
    private struct Entry {
        weak var observer: (any PathObserver)?
    }
    private var entries: [Entry] = []
    private var pending: Set<NetworkChange> = []

    mutating func add(_ observer: any PathObserver) {
        entries.removeAll { $0.observer == nil }
        entries.append(Entry(observer: observer))
    }

    /// False if there is no observer, or if a change of this kind is pending.
    mutating func begin(_ change: NetworkChange) -> Bool {
        entries.removeAll { $0.observer == nil }
        return !entries.isEmpty && pending.insert(change).inserted
    }

    mutating func end(_ change: NetworkChange) -> [any PathObserver] {
        pending.remove(change)
        return entries.compactMap(\.observer)
    }
}
