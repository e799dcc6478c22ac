/// Following the host's network: the path of each link, and what changes mean for links and attempts.
extension ConnectionDriver {
    var presentPath: NetworkPath {
        if let ready { return ready.path.latest }
        if let handshaking { return handshaking.path.latest }
        if let attempt { return attempt.path }
        return machine.endpoints.first.map { path(to: $0) } ?? .unknown
    }

    var pathChanges: AsyncStream<NetworkPath> {
        stream(startingWith: { $0.presentPath }, { $1(&$0.pathView.readers) })
    }

    func publishPath() {
        let path = presentPath
        guard path != pathView.published else { return }
        pathView.published = path
        pathView.readers.yield(path)
    }

    func forgetPathsOfOthers() {
        let endpoints = Set(machine.endpoints)
        pathView.addresses = pathView.addresses.filter { endpoints.contains($0.key) }
        pathView.unresolved.formIntersection(endpoints)
        dialMemory.lateLookups.keep(only: endpoints)
    }

    func followNetwork() {
        guard pathView.isMonitored == nil, options.network.isMonitored,
            !machine.endpoints.allSatisfy({ options.connecting.target(of: $0).isThisHost })
        else { return }
        // If the system had no file descriptor left, the next attempt asks again.
        pathView.isMonitored = loop.pathMonitor.add(self, on: loop) ? true : nil
    }

    private var isMonitored: Bool { pathView.isMonitored ?? false }

    func path(to address: SocketAddress) -> NetworkPath {
        if address.isLoopback { return .local }
        guard isMonitored else { return .unknown }
        let source = pathView.hasForeignSource ? nil : options.connecting.source
        if let source, !loop.pathMonitor.isUsable(source) { return .noRoute }
        return loop.pathMonitor.path(to: address, from: source)
    }

    private func paths(to endpoint: Endpoint) -> [NetworkPath] {
        switch options.connecting.target(of: endpoint) {
        case .unix, .vsock, .command, .descriptors: return [.local]
        case .host(let host, let port):
            if let literal = literalAddress(host, port: port) { return [path(to: literal)] }
            if let addresses = pathView.addresses[endpoint] { return addresses.map { path(to: $0) } }
            let isOffline = isMonitored && pathView.unresolved.contains(endpoint) && !loop.pathMonitor.hasNetwork
            return [isOffline ? .noRoute : .unknown]
        }
    }

    /// The path to the first address that a route leads to, or else to the first address.
    func path(to endpoint: Endpoint) -> NetworkPath {
        // The system is asked for no more paths than necessary.
        guard let addresses = pathView.addresses[endpoint] else { return paths(to: endpoint).first ?? .unknown }
        var first: NetworkPath?
        for address in addresses {
            let path = path(to: address)
            if path.isUsable { return path }
            first = first ?? path
        }
        return first ?? .unknown
    }

    var hasRoute: Bool {
        !isMonitored || machine.endpoints.contains { path(to: $0).isUsable }
    }

    func lookAtPaths() {
        guard isMonitored else { return }
        pathView.latest = currentLook
    }

    private var currentLook: PathView.Look {
        var look = PathView.Look(hasNetwork: loop.pathMonitor.hasNetwork)
        for endpoint in machine.endpoints { look.paths[endpoint] = paths(to: endpoint) }
        return look
    }

    func path(of transport: any Transport, to remote: SocketAddress?) -> LinkPath {
        guard let remote else { return LinkPath(local: nil, remote: nil, .local, fresh: .local) }
        var local = isMonitored && !remote.isLoopback ? transport.localAddress : nil
        // Only a socket bound to it can have an address that does not belong to this host.
        if let address = local, options.connecting.source != nil, !loop.pathMonitor.isUsable(address) {
            pathView.hasForeignSource = true
            local = nil
        }
        let fresh = path(to: remote)
        return LinkPath(local: local, remote: remote, path(from: local, to: remote) ?? fresh, fresh: fresh)
    }

    private func path(from local: SocketAddress?, to remote: SocketAddress?) -> NetworkPath? {
        guard let local, let remote, !remote.isLoopback, loop.pathMonitor.isUsable(local) else { return nil }
        return loop.pathMonitor.path(to: remote, from: local)
    }

    func pathsAtEnd(of link: Link) -> (before: NetworkPath, after: NetworkPath) {
        var path = link.path
        path.heard(at: link.state.machine.liveness.rules.lastHeard)
        guard isMonitored, let remote = path.remote else { return (path.proven, path.latest) }
        return (path.proven, self.path(from: path.local, to: remote) ?? self.path(to: remote))
    }

    func take(_ change: NetworkChange) {
        guard lifecycle < .closing else { return }
        dialMemory.lateLookups.drop()
        let attempt = machine.attempt
        for session in links.all.map(\.session) { examine(session, change) }
        let look = currentLook
        let hasChanged = look != pathView.latest || change == .wake
        // Links that were just lost may have led to a new attempt, which already knows the present paths.
        let isConcerned = machine.attempt == attempt && isAttemptConcerned(by: change, hasNetwork: look.hasNetwork)
        pathView.latest = look
        if !hasRoute, !(hasChanged && mayLeadElsewhere) {
            if hasChanged { perform(machine.networkLost(at: loop.now)) }
        } else if hasChanged || isConcerned || machine.state.isWithoutNetwork {
            perform(machine.networkChanged(isAttemptConcerned: isConcerned, at: loop.now))
        }
        // An attempt that was restarted less than a second ago is not restarted now, but checked again later.
        if isConcerned, machine.attempt == attempt, attempt != nil { lookAgain() }
        publishPath()
    }

    private func lookAgain() {
        timers.arm(.path, at: loop.now.advanced(by: ReconnectMachine.networkPace), for: self)
    }

    /// Whether a name may have other addresses in another network.
    private var mayLeadElsewhere: Bool { loop.pathMonitor.hasNetwork && !pathView.addresses.isEmpty }

    /// Whether the attempt under way began on a path that no longer exists.
    private func isAttemptConcerned(by change: NetworkChange, hasNetwork: Bool) -> Bool {
        if let handshaking {
            let path = handshaking.path
            return change == .wake || isGone(path.local) || path.changed != nil
        }
        // An attempt that reads files, or waits for links to drain, has not begun to connect.
        guard let attempt, !attempt.isHeld, attempt.progress.phase != nil else { return false }
        return change == .wake || paths(to: attempt.decision.endpoint) != attempt.paths
            || attempt.paths == [.unknown] && hasNetwork && !attempt.hadNetwork
    }

    func notePathsOfAttempt() {
        guard let endpoint = attempt?.decision.endpoint else { return }
        attempt?.paths = paths(to: endpoint)
        attempt?.hadNetwork = !isMonitored || loop.pathMonitor.hasNetwork
    }

    /// A name may have other addresses by then, a name that could not be resolved may be that of this host, and the
    /// system may find no route from a source address that does not belong to this host.
    var looksForRouteAgain: Bool {
        mayLeadElsewhere || !pathView.unresolved.isEmpty || options.connecting.source != nil
    }

    func takeBetterPath(_ link: Link) {
        let path = link.path
        guard options.network.onRouteChange == .move, path.fresh.isUsable, path.fresh != path.latest else { return }
        moveToBetterPath()
    }

    private func moveToBetterPath() {
        perform(machine.takeBetterPath(at: loop.now))
    }

    private func isGone(_ local: SocketAddress?) -> Bool {
        guard let local, !local.isLoopback else { return false }
        return !loop.pathMonitor.isUsable(local)
    }

    /// Whether the link has several paths by Multipath TCP: the system then uses another one.
    private func hasOtherPaths(_ link: Link) -> Bool {
        options.connecting.multipath && link.transport.tcpInformation?.subflows ?? 1 > 1
    }

    private func examine(_ session: SessionID, _ change: NetworkChange) {
        guard let link = links[session], let remote = link.path.remote, !remote.isLoopback else { return }
        link.path.heard(at: link.state.machine.liveness.rules.lastHeard)
        if isGone(link.path.local) {
            // Its attempt is restarted: see `isAttemptConcerned`.
            guard !link.isInHandshake, !hasOtherPaths(link) else { return }
            let address = link.path.local?.host ?? ""
            return lose(
                session,
                TransportError(.pathLost, "the local address \(address) was removed, or its interface is down")
            )
        }
        let before = link.path
        if let path = path(from: before.local, to: remote) { link.path.saw(path, at: loop.now) }
        link.path.fresh = path(to: remote)
        guard link.isReady, options.network.onRouteChange != .ignore else { return }
        let path = link.path
        let isAnother = path.latest != before.latest
        if isAnother || change == .wake { probe(session) }
        guard options.network.onRouteChange == .move, let link = links[session] else { return }
        let isBetter = path.fresh.isUsable && path.fresh != before.fresh && path.fresh != path.latest
        if isAnother && path.latest.isUsable || isBetter, !link.isDraining {
            moveToBetterPath()
        }
    }
}

extension ConnectionDriver: PathObserver {
    package func networkChanged(_ change: NetworkChange) {
        entered { $0.take(change) }
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
