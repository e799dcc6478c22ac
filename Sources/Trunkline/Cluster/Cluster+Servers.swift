import Synchronization

/// The servers of a cluster: which it uses, and with how many links.
extension Cluster {
    // MARK: Lists

    /// Uses a complete list of servers. An empty one changes nothing.
    ///
    /// - Parameter isWhole: Whether the discovery has reported no error beside the list.
    func use(_ list: [ClusterEndpoint], isWhole: Bool) {
        guard lifecycle < .closing else { return }
        guard !list.isEmpty else { return discoveryFailed(EmptyDiscovery()) }
        if isWhole { discoveryWorks() }
        var seen: Set<Endpoint> = []
        servers.found = list.filter { seen.insert($0.endpoint).inserted }
        let wanted = subset(of: servers.found)
        var missing = Dictionary(uniqueKeysWithValues: wanted.map { ($0.endpoint, $0) })
        let before = servers.current
        var removed: [Endpoint] = []
        for index in servers.all.indices.reversed() {
            let server = servers.all[index]
            // The certificate is verified for the name of the server, so another name is another server.
            if let found = missing[server.found.endpoint], found.serverName == server.found.serverName {
                missing[found.endpoint] = nil
                servers.all[index].found = found
                memberFound(server.member.id, found)
                servers.all[index].leavesBy = nil
            } else if server.leavesBy == nil {
                removed.append(server.found.endpoint)
                servers.all[index].leavesBy = loop.now.advanced(by: Self.longestLeave)
            }
        }
        let added = wanted.filter { missing[$0.endpoint] != nil }
        for found in added { add(found) }
        removeLeavingServers()
        let current = servers.current
        if !added.isEmpty || !removed.isEmpty {
            tell(.servers(added: added.map(\.endpoint), removed: removed, count: current.count))
        }
        if current != before { streams.endpoints.yield(current) }
        tableChanged()
        maintenance.ring()
    }

    /// How long a server that is no longer in the list serves at most while no other server is ready.
    private static let longestLeave = Duration.seconds(30)

    /// Removes the servers that are no longer in the list, as soon as another one is ready: the next one must be there
    /// before the last one goes.
    func removeLeavingServers() {
        let hasSuccessor = servers.all.contains { $0.leavesBy == nil && $0.isReady }
        for index in servers.all.indices.reversed() {
            guard let latest = servers.all[index].leavesBy else { continue }
            if hasSuccessor || latest <= loop.now || !servers.all[index].isReady { remove(at: index) }
        }
    }

    /// The discovery failed. The last list stays in use.
    func discoveryFailed(_ error: any Error) {
        servers.discoveryError = error
        guard lifecycle == .open else { return }
        servers.discoveryFailures = servers.discoveryFailures.addingClamped(1)
        servers.discoveryFailingSince = servers.discoveryFailingSince ?? loop.now
        tell(.discoveryFailed(error))
    }

    /// The discovery works.
    private func discoveryWorks() {
        servers.discoveryError = nil
        guard let since = servers.discoveryFailingSince.take() else { return }
        tell(.discoveryRecovered(after: loop.now.since(since)))
    }

    /// The servers of a list that this cluster uses.
    private func subset(of list: [ClusterEndpoint]) -> [ClusterEndpoint] {
        guard let size = options.subset else { return list }
        return RendezvousSubset.choose(max(1, size), of: list.map(\.endpoint.stableHash), seed: subsetSeed).map {
            list[$0]
        }
    }

    private func add(_ found: ClusterEndpoint) {
        let id = servers.nextNumber()
        let member = ClusterMember(
            id,
            found.endpoint,
            failureLimit: options.ejection?.consecutiveFailures.map { max(1, $0) } ?? .max,
            adaptiveLimit: options.adaptiveLimit,
            facts,
            at: loop.now
        )
        servers.all.append(ClusterServers.Server(member: member, found: found))
        memberAdded(id, found)
        for _ in 0..<linkBounds.lowerBound { addLink(at: servers.all.count - 1, isLarge: false) }
    }

    private func remove(at index: Int) {
        let server = servers.all.remove(at: index)
        memberRemoved(server.member.id)
        if let closed = servers.closed.removeValue(forKey: server.member.id) { servers.past.add(closed) }
        for link in server.links {
            link.link.retire()
            subscriptions.loseLink(link.link.id)
        }
        drain(server.links.map(\.link))
    }

    /// Closes links after their requests have ended.
    func drain(_ links: [MemberLink]) {
        for link in links { servers.draining[link.id] = link }
        // Ends when the clients are closed, for which they have a limited time. It must outlive the step that removes the
        // links, and does not keep the cluster alive.
        Task(executorPreference: loop.taskExecutor) { [weak self] in
            await Self.close(links.map(\.client))
            for link in links { await self?.forget(link, link.client.metrics) }
        }
    }

    /// Closes clients, all at once.
    static func close(_ clients: [Client]) async {
        await withTaskGroup { group in
            for client in clients { group.addTask { await client.close() } }
        }
    }

    private func forget(_ link: MemberLink, _ metrics: Client.Metrics) {
        // After the end of the cluster, it is among the last metrics.
        if servers.draining.removeValue(forKey: link.id) != nil { servers.count(metrics, of: link.member.id) }
        listeners.remove(link.id)
        subscriptions.forget(link.id)
    }

    // MARK: Links

    var linkBounds: ClosedRange<Int> {
        let lower = min(max(1, options.linksPerEndpoint.lowerBound), 64)
        return lower...min(max(lower, options.linksPerEndpoint.upperBound), 64)
    }

    private var mostLargeLinks: Int { min(max(0, options.largeLinks), 64) }

    /// Adds a link to a server all of whose links of this kind are in use.
    func addLink(to member: UInt64, isLarge: Bool) {
        guard lifecycle == .open, let index = servers.index(of: member),
            servers.all[index].count(large: isLarge) < (isLarge ? mostLargeLinks : linkBounds.upperBound)
        else { return }
        addLink(at: index, isLarge: isLarge)
    }

    private func addLink(at index: Int, isLarge: Bool) {
        let (server, number) = (servers.all[index], servers.nextNumber())
        let watch = LinkWatch(facts, member: server.member.id, link: number)
        let source = ClusterSource(server.found.endpoint)
        let membership = ClusterMembership(client: number, source: source)
        let client = makeClient(server.found, clientOptions(of: server.found, membership, watchedBy: watch))
        let capacity = max(1, callOptions.requests.maximumInFlight)
        let link = MemberLink(
            number,
            of: server.member,
            client,
            watch.readiness,
            capacity: isLarge ? 1 : capacity,
            isLarge: isLarge
        )
        servers.all[index].links.append(ClusterServers.Link(link: link))
        listeners.add(client, number, of: source)
        connect(link, isFirst: servers.all[index].links.count == 1)
    }

    /// The options of the client of one link.
    private func clientOptions(
        of found: ClusterEndpoint,
        _ membership: ClusterMembership,
        watchedBy watch: LinkWatch
    ) -> ClientOptions {
        var options = callOptions
        options.membership = membership
        options.requests.retry = .ifUnsent
        options.requests.retryBudget = nil
        // Of a server that was removed. `close()` of the cluster watches its own limit.
        options.requests.drainTimeout = self.options.drainTimeout
        options.failover.errorRate = nil
        options.failover.returnsToPreferredAfter = nil
        // The requests go to other servers until the next link is ready.
        options.failover.sendsAfterGoAway = false
        options.reconnecting.maximumAttempts = nil
        options.reconnecting.keepsLinkWarm = true
        options.reconnecting.retriesPermanentCauses = true
        if let serverName = found.serverName { options.tls.serverName = serverName }
        options.observers = voice.clientObservers + [watch]
        options.logging = voice.logging(callOptions.logging, of: found.endpoint)
        return options
    }

    func linkChanged(_ member: UInt64, _ link: UInt64, isReady: Bool) {
        guard let index = servers.index(of: member),
            let place = servers.all[index].links.firstIndex(where: { $0.link.id == link })
        else { return }
        let wasReady = servers.all[index].isReady
        servers.all[index].links[place].isReady = isReady
        if isReady { servers.all[index].member.forgetFull() } else { subscriptions.loseLink(link) }
        if servers.all[index].isReady != wasReady {
            if !wasReady { beginServing(index) }
            // The servers of a cluster that closes are not bad.
            if lifecycle < .closing { memberChanged(member, isReady: !wasReady) }
            removeLeavingServers()
        }
        tableChanged()
    }

    /// A server is ready. Its share grows slowly, unless the cluster has just begun.
    private func beginServing(_ index: Int) {
        let now = loop.now
        readySince = readySince ?? now
        if let readySince, now.since(readySince) >= options.slowStart { servers.all[index].slowStart = now }
    }

    func linkEnded(_ member: UInt64, _ report: DisconnectReport) {
        guard let index = servers.index(of: member) else { return }
        servers.all[index].lastReport = report
        memberFailed(member, report)
        refresh.ring()
    }

    // MARK: The table

    /// Makes a new table for the callers.
    func tableChanged() {
        let now = loop.now
        let old = picker.table
        guard lifecycle < .closing else { return picker.use(PickTable()) }
        var (seats, probes): ([PickTable.Seat], [PickTable.Seat]) = ([], [])
        for server in servers.all {
            let ready = server.links.filter(\.isReady).map(\.link)
            let links = ready.filter { !$0.isLarge }
            guard let link = links.first else { continue }
            let seat = PickTable.Seat(
                server.member,
                link,
                others: Array(links.dropFirst()),
                large: ready.filter(\.isLarge),
                weight: server.found.weight,
                isLocal: server.found.zone == options.zone,
                slowStart: server.slowStart.flatMap { now.since($0) < options.slowStart ? $0 : nil }
            )
            let use = use(of: server.member.id)
            if use == .serves || use == .servesAndIsProbed { seats.append(seat) }
            if use == .isProbed || use == .servesAndIsProbed { probes.append(seat) }
        }
        let ring = old.ring.with(servers.all.map { ($0.member.hash, $0.found.weight) })
        let table = PickTable(seats, probes: probes, localShare: localShare, options, ring, turn: old.nextTurn)
        picker.use(table)
        waiting.tableChanged(isEmpty: table.isEmpty)
        moveSubscriptions()
        if lifecycle == .open { noteAvailability(seats.first ?? probes.first, at: now) }
    }

    /// Tells when the first server takes requests, and when none does any more.
    private func noteAvailability(_ seat: PickTable.Seat?, at now: Instant) {
        if let seat {
            guard !isAvailable else { return }
            tell(.available(seat.member.endpoint, after: unavailableSince.map { now.since($0) }))
            firstServerIsDue = nil
            (isAvailable, unavailableSince) = (true, nil)
        } else if isAvailable {
            (isAvailable, unavailableSince) = (false, now)
            tell(.unavailable)
        }
    }

    /// The share of the requests that stay in the zone of this process; `nil` if zones do not matter.
    private var localShare: Double? {
        guard let zone = options.zone else { return nil }
        let local = servers.all.filter { $0.found.zone == zone }
        guard !local.isEmpty else { return nil }
        let ready = local.count { $0.isReady && use(of: $0.member.id) == .serves }
        // Envoy's overprovisioning factor.
        return min(1, Double(ready) / Double(local.count) * 1.4)
    }
}

/// The place of a client in a cluster.
struct ClusterMembership: Sendable {
    /// The number of the client, at least 1.
    let client: UInt64
    let source: ClusterSource
}

/// A server from which pushes and events come. A class, so that they are little larger for it.
final class ClusterSource: Sendable {
    let endpoint: Endpoint
    init(_ endpoint: Endpoint) { self.endpoint = endpoint }
}

/// The discovery found no server.
struct EmptyDiscovery: Error, LoggableError {
    var description: String { "the discovery found no server" }
}

/// Tells a cluster what happens to one of its links.
final class LinkWatch: ClientObserver {
    let interests: ClientEvent.Kinds = .links
    let delivery = EventDelivery.onEventLoop
    private let facts: ClusterFacts
    private let member: UInt64
    private let number: UInt64
    let readiness = LinkReadiness()

    init(_ facts: ClusterFacts, member: UInt64, link: UInt64) {
        (self.facts, self.member, number) = (facts, member, link)
    }

    func observe(_ events: [ClientEvent]) {
        for event in events {
            switch event.content {
            case .stateChanged(let state): set(ready: state.isReady)
            case .linkEnded(let report): facts.tell(.linkEnded(member: member, report))
            default: break
            }
        }
    }

    private func set(ready: Bool) {
        guard readiness.set(ready) else { return }
        facts.tell(.linkChanged(member: member, link: number, isReady: ready))
    }
}
