import Trunkline

/// What clients of a simulated network know of the interfaces and routes of their host.
///
/// During a run, its methods are called on the simulation's thread only; any other call ends the run with
/// `SimulationError.leftTheLoop`.
final class SimulatedPathMonitor: PathMonitor {
    private let loop: SimulatedEventLoop

    init(on loop: SimulatedEventLoop) { self.loop = loop }

    func add(_ observer: any PathObserver, on loop: any EventLoop) -> Bool {
        self.loop.preconditionIsCurrent()
        precondition(loop === self.loop, "an observer of a simulated network lives on that network's loop")
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

    /// What `question` makes of the interfaces; `nil` where paths are hidden.
    private func ask<Answer>(_ question: (HostInterfaces) -> Answer) -> Answer? {
        loop.confined { loop.network.hidesPaths ? nil : question(loop.network.interfaces) }
    }
}

/// Who hears of changes of a simulated network, and what is about to be told.
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

    /// Whether `change` is to be told: somebody listens, and nothing of its kind is on its way.
    mutating func begin(_ change: NetworkChange) -> Bool {
        entries.removeAll { $0.observer == nil }
        return !entries.isEmpty && pending.insert(change).inserted
    }

    /// Takes the observers that hear of `change` now, in the order they were added.
    mutating func end(_ change: NetworkChange) -> [any PathObserver] {
        pending.remove(change)
        return entries.compactMap(\.observer)
    }
}
