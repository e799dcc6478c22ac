import Synchronization
import TrunklineCore
import TrunklineLogging

extension Cluster {
    /// Uses a complete list of servers. `isWhole` is whether the discovery reported no error beside it.
    func use(_ list: [ClusterEndpoint], isWhole: Bool) {
        guard lifecycle < .closing else { return }
        guard !list.isEmpty else { return discoveryFailed(EmptyDiscovery()) }
        if let server = list.first(where: { !$0.hasUsableWeight }) { return discoveryFailed(UnusableWeight(server)) }
        if isWhole { discoveryWorks() }
        var seen: Set<Endpoint> = []
        servers.found = withoutLost(list).filter { seen.insert($0.endpoint).inserted }
        let wanted = subset(of: servers.found)
        var missing = Dictionary(uniqueKeysWithValues: wanted.map { ($0.endpoint, $0) })
        let before = servers.current
        let serving = servers.all.count { serves($0) }
        var removed: [Endpoint] = []
        for index in servers.all.indices.reversed() {
            let server = servers.all[index]
            // The certificate is verified for the name of the server, so another name is another server.
            if let found = missing[server.found.endpoint], found.serverName == server.found.serverName {
                missing[found.endpoint] = nil
                servers.all[index].found = found
                memberFound(server.member.id, found)
                servers.setLeaving(index, by: nil)
            } else if server.leavesBy == nil {
                removed.append(server.found.endpoint)
                servers.setLeaving(index, by: loop.now.advanced(by: Self.longestLeave))
            }
        }
        if !removed.isEmpty { servers.wantedCount = serving }
        let added = wanted.filter { missing[$0.endpoint] != nil }
        for found in added { add(found) }
        let current = servers.current
        if !added.isEmpty || !removed.isEmpty {
            tell(.servers(added: added.map(\.endpoint), removed: removed, count: current.count))
        }
        if wanted.count < servers.found.count, !exchange(&servers.hasToldSubset, with: true) {
            tell(.subsetUsed(wanted.count, of: servers.found.count))
        }
        if current != before { streams.endpoints.yield(current) }
        tableChanged()
        maintenance.ring()
    }

    /// How long a server that is no longer in the list serves at most while those that follow it are not ready.
    private static let longestLeave = Duration.seconds(30)

    /// The servers that are no longer in the list go as others take their place: each stands in for a new one whose
    /// first attempt to connect is under way, until as many are ready as served before. The next one must be there
    /// before the last one goes, and the first one must not get the requests of all.
    func removeLeavingServers() {
        guard servers.leavingCount > 0 else { return }
        let (now, stayers) = (loop.now, servers.all.filter { $0.leavesBy == nil })
        let (ready, awaited) = (stayers.count { serves($0) }, stayers.count(where: \.isAwaited))
        var kept = ready == 0 ? Int.max : min(awaited, max(0, servers.wantedCount - ready))
        for index in servers.all.indices.reversed() {
            guard let latest = servers.all[index].leavesBy else { continue }
            if kept == 0 || latest <= now || !servers.all[index].isReady { remove(at: index) } else { kept -= 1 }
        }
    }

    private func serves(_ server: ClusterServers.Server) -> Bool {
        guard server.isReady else { return false }
        let use = use(of: server.member.id)
        return use == .serves || use == .servesAndIsProbed
    }

    func discoveryFailed(_ error: any Error) {
        (servers.discoveryError, trouble) = (error, nil)
        guard lifecycle == .open else { return }
        servers.discoveryFailures = servers.discoveryFailures.addingClamped(1)
        servers.discoveryFailingSince = servers.discoveryFailingSince ?? loop.now
        tell(.discoveryFailed(error))
    }

    private func discoveryWorks() {
        (servers.discoveryError, trouble) = (nil, nil)
        guard let since = servers.discoveryFailingSince.take() else { return }
        tell(.discoveryRecovered(after: loop.now.since(since)))
    }

    private func subset(of list: [ClusterEndpoint]) -> [ClusterEndpoint] {
        guard let size = options.subset, list.count > max(1, size) else { return list }
        return RendezvousSubset.choose(max(1, size), of: list.map(\.endpoint.stableHash), seed: subsetSeed).map {
            list[$0]
        }
    }

    /// Without the servers of earlier answers that do not work: whether they still exist is unknown.
    private func withoutLost(_ list: [ClusterEndpoint]) -> [ClusterEndpoint] {
        guard list.contains(where: \.isFromEarlierAnswer) else { return list }
        let working = Set(servers.all.lazy.filter(\.works).map(\.found.endpoint))
        return list.filter { !$0.isFromEarlierAnswer || working.contains($0.endpoint) }
    }

    func answersRotate(_ count: Int, of known: Int) {
        guard lifecycle == .open, !exchange(&servers.hasToldRotation, with: true) else { return }
        tell(.answersRotate(count, of: known))
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
        let server = servers.remove(at: index)
        memberRemoved(server.member.id)
        if let closed = servers.closed.removeValue(forKey: server.member.id) { servers.past.add(closed) }
        for link in server.links {
            link.link.retire()
            subscriptions.loseLink(link.link.id)
        }
        drain(server.links.map(\.link))
    }

    func drain(_ links: [MemberLink]) {
        for link in links { servers.draining[link.id] = link }
        // Ends when the clients are closed, for which they have a limited time. It must outlive the step that removes
        // the links, and does not keep the cluster alive.
        Task(executorPreference: loop.taskExecutor) { [weak self] in
            await Self.close(links.map(\.client))
            for link in links { await self?.forget(link, link.client.metrics) }
        }
    }

    static func close(_ clients: [Client]) async {
        await withTaskGroup { group in
            for client in clients { group.addTask { await client.close() } }
        }
    }

    private func forget(_ link: MemberLink, _ metrics: ClientMetrics) {
        // After the end of the cluster, it is among the last metrics.
        if servers.draining.removeValue(forKey: link.id) != nil { servers.count(metrics, of: link.member.id) }
        listeners.remove(link.id)
        subscriptions.forget(link.id)
    }

    var linkBounds: ClosedRange<Int> {
        let lower = min(max(1, options.linksPerEndpoint.lowerBound), 64)
        return lower...min(max(lower, options.linksPerEndpoint.upperBound), 64)
    }

    private var mostLargeLinks: Int { min(max(0, options.largeLinks), 64) }

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
        servers.add(link, at: index)
        listeners.add(client, number, of: source)
        connect(link, isFirst: servers.all[index].links.count == 1)
    }

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
        if isReady { servers.all[index].isNew = false }
        if isReady { servers.all[index].member.forgetFull() } else { subscriptions.loseLink(link) }
        if servers.all[index].isReady != wasReady {
            if !wasReady { beginServing(index) }
            // The servers of a cluster that closes are not bad.
            if lifecycle < .closing { memberChanged(member, isReady: !wasReady) }
        }
        tableChanged()
    }

    private func beginServing(_ index: Int) {
        let now = loop.now
        // What was measured on an earlier link may have been another process.
        servers.all[index].member.forget(at: now)
        readySince = readySince ?? now
        if let readySince, now.since(readySince) >= options.slowStart { servers.all[index].slowStart = now }
        servers.all[index].hasFailedToConnect = false
    }

    func linkEnded(_ member: UInt64, _ report: DisconnectReport) {
        guard let index = servers.index(of: member) else { return }
        servers.all[index].lastReport = report
        if exchange(&servers.all[index].isNew, with: false), servers.leavingCount > 0 { tableChanged() }
        trouble = nil
        memberFailed(member, report)
        refresh.ring()
        if report.phase != .ready, report.phase != .draining { servers.all[index].hasFailedToConnect = true }
        let server = servers.all[index]
        if server.found.isFromEarlierAnswer, !server.works {
            servers.hasLostEarlierAnswer = true
            tableChanged()
        }
    }

    /// Once for all that changes in this turn of the event loop.
    func tableChanged() {
        trouble = nil
        guard lifecycle < .closing else { return picker.use(PickTable(options.balancing)) }
        // The first server is used at once.
        tableUpdate.request(isUrgent: picker.table.isEmpty)
    }

    func updateTable() {
        guard lifecycle < .closing else { return picker.use(PickTable(options.balancing)) }
        if exchange(&servers.hasLostEarlierAnswer, with: false) { use(servers.found, isWhole: false) }
        removeLeavingServers()
        let (now, old) = (loop.now, picker.table)
        var (seats, probes): ([Seat], [Seat]) = ([], [])
        var (readyWeight, awaitedWeight) = (0.0, 0.0)
        let isWeighted = servers.all.contains { $0.found.weight > 0 }
        for index in servers.all.indices {
            let use = use(of: servers.all[index].member.id)
            let weight = isWeighted ? servers.all[index].found.weight : 1
            guard let seat = seat(of: index, at: now) else {
                if use == .serves, servers.all[index].mayBeReadySoon { awaitedWeight += weight }
                continue
            }
            if use == .serves || use == .servesAndIsProbed {
                seats.append(seat)
                readyWeight += weight
            }
            if use == .isProbed || use == .servesAndIsProbed { probes.append(seat) }
        }
        let ring = old.ring.with(servers.all.map { ($0.member.hash, $0.found.weight) })
        let table = PickTable(seats, probes: probes, localShare: localShare, options, ring, old.policy, at: now)
        picker.use(table)
        offer = offer(of: table, readyWeight, awaitedWeight)
        waiting.serversChanged(offer)
        moveSubscriptions()
        if subscriptions.nextMove != nil { maintenance.ring() }
        if lifecycle == .open { noteAvailability(seats.first ?? probes.first, at: now) }
    }

    private func seat(of index: Int, at now: Instant) -> Seat? {
        var (first, others, large): (MemberLink?, [MemberLink], [MemberLink]) = (nil, [], [])
        for link in servers.all[index].links where link.isReady {
            if link.link.isLarge {
                large.append(link.link)
            } else if first == nil {
                first = link.link
            } else {
                others.append(link.link)
            }
        }
        guard let first else { return nil }
        return Seat(
            first.member,
            first,
            others: others,
            large: large,
            weight: servers.all[index].found.weight,
            isLocal: options.zone == nil || servers.all[index].found.zone == options.zone,
            metadata: servers.all[index].found.metadata,
            slowStart: servers.all[index].slowStart.flatMap { now.since($0) < options.slowStart ? $0 : nil }
        )
    }

    private func offer(of table: PickTable, _ readyWeight: Double, _ awaitedWeight: Double) -> WaitingCalls.Offer {
        if table.isEmpty { return .nothing }
        if let room = table.room { return .some(room) }
        if awaitedWeight == 0 { return .servers }
        return .someServers(table.count, share: readyWeight / (readyWeight + awaitedWeight))
    }

    private func noteAvailability(_ seat: Seat?, at now: Instant) {
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

    private var localShare: Double? {
        guard let zone = options.zone else { return nil }
        let isWeighted = servers.all.contains { $0.found.weight > 0 }
        let local = servers.all.filter { $0.found.zone == zone && ($0.found.weight > 0 || !isWeighted) }
        guard !local.isEmpty else { return nil }
        let ready = local.count { carriesLoad($0) }
        return min(1, Double(ready) / Double(local.count) * OutlierRules.overprovisioning)
    }
}

struct EmptyDiscovery: Error, LoggableError {
    var description: String { "the discovery found no server" }
}

struct UnusableWeight: Error, LoggableError {
    private let server: ClusterEndpoint

    init(_ server: ClusterEndpoint) { self.server = server }

    var description: String {
        "the weight of \(server.endpoint) is \(server.weight); it must be 0, or at least 0.000001 and at most 1000000"
    }
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
