/// A connection's view of the host's network: the path to each server, the path of each link, and what has changed.
/// Confined to the event loop of its connection.
final class PathView {
    private let context: ConnectionContext
    /// `nil` before the first attempt to subscribe.
    private var isSubscribed: Bool?
    /// Links work although this host does not have their local address (`ip_nonlocal_bind`): addresses say nothing.
    private var hasForeignSource = false
    private(set) var addresses: [Endpoint: [SocketAddress]] = [:]
    private(set) var unresolved: Set<Endpoint> = []
    private var latest = Look()
    private var published = NetworkPath.unknown
    var readers = Broadcast<NetworkPath>()

    private struct Look: Equatable {
        var paths: [Endpoint: [NetworkPath]] = [:]
        var hasNetwork = true
    }

    init(_ context: ConnectionContext) { self.context = context }

    private var monitor: any PathMonitor { context.loop.pathMonitor }
    private var connecting: ClientOptions.Connecting { context.options.connecting }
    private var isMonitored: Bool { isSubscribed ?? false }

    func publish(_ path: NetworkPath) {
        guard path != published else { return }
        published = path
        readers.yield(path)
    }

    func follow(_ endpoints: [Endpoint], for observer: any PathObserver) {
        guard isSubscribed == nil, context.options.network.isMonitored,
            !endpoints.allSatisfy({ connecting.target(of: $0).isThisHost })
        else { return }
        // If the system had no file descriptor left, the next attempt asks again.
        isSubscribed = monitor.add(observer, on: context.loop) ? true : nil
    }

    func keep(only endpoints: Set<Endpoint>) {
        addresses = addresses.filter { endpoints.contains($0.key) }
        unresolved.formIntersection(endpoints)
    }

    func resolved(_ endpoint: Endpoint, to addresses: [SocketAddress]) {
        self.addresses[endpoint] = addresses
        unresolved.remove(endpoint)
    }

    /// A look-up without an answer says nothing about the name, nor about the network of this host.
    func couldNotResolve(_ endpoint: Endpoint, hasAnswer: Bool) {
        if hasAnswer { unresolved.insert(endpoint) } else { unresolved.remove(endpoint) }
    }
}

/// Paths to servers.
extension PathView {
    func path(to address: SocketAddress) -> NetworkPath {
        if address.isLoopback { return .local }
        guard isMonitored else { return .unknown }
        let source = hasForeignSource ? nil : connecting.source
        if let source, !monitor.isUsable(source) { return .noRoute }
        return monitor.path(to: address, from: source)
    }

    func paths(to endpoint: Endpoint) -> [NetworkPath] {
        switch connecting.target(of: endpoint) {
        case .unix, .vsock, .command, .descriptors: return [.local]
        case .host(let host, let port):
            if let literal = literalAddress(host, port: port) { return [path(to: literal)] }
            if let addresses = addresses[endpoint] { return addresses.map { path(to: $0) } }
            let isOffline = isMonitored && unresolved.contains(endpoint) && !monitor.hasNetwork
            return [isOffline ? .noRoute : .unknown]
        }
    }

    /// The path to the first address that a route leads to, or else to the first address.
    func path(to endpoint: Endpoint) -> NetworkPath {
        // The system is asked for no more paths than necessary.
        guard let addresses = addresses[endpoint] else { return paths(to: endpoint).first ?? .unknown }
        var first: NetworkPath?
        for address in addresses {
            let path = path(to: address)
            if path.isUsable { return path }
            first = first ?? path
        }
        return first ?? .unknown
    }

    func hasRoute(toOneOf endpoints: [Endpoint]) -> Bool {
        !isMonitored || endpoints.contains { path(to: $0).isUsable }
    }

    /// True if the network is not monitored.
    var hasNetwork: Bool { !isMonitored || monitor.hasNetwork }
    var hasNetworkNow: Bool { monitor.hasNetwork }

    /// Whether a name may have other addresses in another network.
    var mayLeadElsewhere: Bool { monitor.hasNetwork && !addresses.isEmpty }

    /// A name may have other addresses by then, a name that could not be resolved may be that of this host, and the
    /// system may find no route from a source address that does not belong to this host.
    var looksForRouteAgain: Bool { mayLeadElsewhere || !unresolved.isEmpty || connecting.source != nil }

    func look(at endpoints: [Endpoint]) { if isMonitored { _ = lookAgain(at: endpoints) } }

    /// Returns whether anything has changed since the last look.
    func lookAgain(at endpoints: [Endpoint]) -> Bool {
        var look = Look(hasNetwork: monitor.hasNetwork)
        for endpoint in endpoints { look.paths[endpoint] = paths(to: endpoint) }
        return exchange(&latest, with: look) != look
    }
}

/// Paths of links.
extension PathView {
    func path(of transport: any Transport, to remote: SocketAddress?) -> LinkPath {
        guard let remote else { return LinkPath(local: nil, remote: nil, .local, fresh: .local) }
        var local = isMonitored && !remote.isLoopback ? transport.localAddress : nil
        // Only a socket bound to it can have an address that does not belong to this host.
        if let address = local, connecting.source != nil, !monitor.isUsable(address) {
            hasForeignSource = true
            local = nil
        }
        let fresh = path(to: remote)
        return LinkPath(local: local, remote: remote, path(from: local, to: remote) ?? fresh, fresh: fresh)
    }

    private func path(from local: SocketAddress?, to remote: SocketAddress?) -> NetworkPath? {
        guard let local, let remote, !remote.isLoopback, monitor.isUsable(local) else { return nil }
        return monitor.path(to: remote, from: local)
    }

    func pathsAtEnd(of link: Link) -> (before: NetworkPath, after: NetworkPath) {
        var path = link.path
        path.heard(at: link.state.machine.liveness.rules.lastHeard)
        guard isMonitored, let remote = path.remote else { return (path.proven, path.latest) }
        return (path.proven, self.path(from: path.local, to: remote) ?? self.path(to: remote))
    }

    func isGone(_ local: SocketAddress?) -> Bool {
        guard let local, !local.isLoopback else { return false }
        return !monitor.isUsable(local)
    }

    /// What a change of the network means for a link.
    enum Finding {
        case lost(TransportError)
        case path(isAnother: Bool, isBetter: Bool)
    }

    func examine(_ link: Link) -> Finding? {
        guard let remote = link.path.remote, !remote.isLoopback else { return nil }
        link.path.heard(at: link.state.machine.liveness.rules.lastHeard)
        if isGone(link.path.local) {
            // Its attempt is restarted: see `ConnectionDriver.isAttemptConcerned`.
            guard !link.isInHandshake, !hasOtherPaths(link) else { return nil }
            let address = link.path.local?.host ?? ""
            return .lost(
                TransportError(.pathLost, "the local address \(address) was removed, or its interface is down")
            )
        }
        let before = link.path
        if let path = path(from: before.local, to: remote) { link.path.saw(path, at: context.loop.now) }
        link.path.fresh = path(to: remote)
        guard link.isReady, context.options.network.onRouteChange != .ignore else { return nil }
        let path = link.path
        let isAnother = path.latest != before.latest
        let isBetter = path.fresh.isUsable && path.fresh != before.fresh && path.fresh != path.latest
        return .path(isAnother: isAnother, isBetter: isAnother && path.latest.isUsable || isBetter)
    }

    /// Whether the link has several paths by Multipath TCP: the system then uses another one.
    private func hasOtherPaths(_ link: Link) -> Bool {
        connecting.multipath && link.transport.tcpInformation?.subflows ?? 1 > 1
    }
}

extension Endpoint.Target {
    fileprivate var isThisHost: Bool {
        switch self {
        case .unix, .vsock, .command, .descriptors: true
        case .host(let host, let port): literalAddress(host, port: port)?.isLoopback ?? false
        }
    }
}
