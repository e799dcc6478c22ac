import TrunklineCore

extension Cluster {
    static let interval = Duration.seconds(10)

    static let patience = Duration.seconds(5)

    func beginMaintenance() {
        // Ends with the cluster, which cancels it. It does not keep the cluster alive while it waits.
        maintenanceTask = Task(executorPreference: loop.taskExecutor) { [weak self, maintenance] in
            while !Task.isCancelled, let next = await self?.maintain() { await maintenance.wait(until: next) }
        }
    }

    private func maintain() async -> Instant? {
        var facts: [OutlierRules.Facts]?
        if loop.now >= intervalEnd {
            facts = await intervalFacts()
            intervalEnd = loop.now.advanced(by: Self.interval)
            closeIdleLinks()
        }
        guard lifecycle == .open else { return nil }
        let judged = judge(facts)
        // The shares of servers that start slowly grow by themselves; at the end of their start, the table changes.
        if servers.all.contains(where: { $0.slowStart != nil }) { endSlowStarts() }
        if let due = firstServerIsDue, due <= loop.now {
            (firstServerIsDue, unavailableSince) = (nil, due.advanced(by: .zero - Self.patience))
            tell(.unavailable)
        }
        if let due = subscriptions.nextMove, due <= loop.now { moveSubscriptions() }
        // If no server is ready now, the next table moves them.
        let nextMove = subscriptions.nextMove.flatMap { $0 > loop.now ? $0 : nil }
        let next = min(judged, firstServerIsDue ?? .distantFuture, nextMove ?? .distantFuture)
        guard let leave = servers.all.lazy.compactMap(\.leavesBy).min() else { return min(next, intervalEnd) }
        if leave <= loop.now {
            removeLeavingServers()
            tableChanged()
        }
        return min(next, intervalEnd, max(leave, loop.now))
    }

    private func endSlowStarts() {
        let now = loop.now
        for index in servers.all.indices {
            guard let since = servers.all[index].slowStart, now.since(since) >= options.slowStart else { continue }
            servers.all[index].slowStart = nil
        }
        tableChanged()
    }

    private func intervalFacts() async -> [OutlierRules.Facts] {
        var facts: [OutlierRules.Facts] = []
        for server in servers.all {
            var fact = OutlierRules.Facts(
                id: server.member.id,
                successes: 0,
                failures: 0,
                latencyNanoseconds: 0,
                answers: 0
            )
            for link in server.links {
                let counts = LinkCounts(await link.link.client.metrics)
                guard let index = servers.index(of: server.member.id),
                    let place = servers.all[index].links.firstIndex(where: { $0.link === link.link })
                else { continue }
                let before = servers.all[index].links[place].counts
                servers.all[index].links[place].counts = counts
                fact.successes += counts.responses - before.responses
                fact.failures += counts.failures - before.failures
            }
            let marked = server.member.takeMarkedFailures()
            fact.failures += marked
            // The server of a key has all the errors of that key.
            fact.successes = max(0, fact.successes - marked - server.member.takeKeyedRejections())
            fact.errors = fact.failures + server.member.takeRejections()
            // Not from the metrics of the clients, which measure streams and large requests, too.
            (fact.answers, fact.latencyNanoseconds) = server.member.takeLatencies()
            facts.append(fact)
        }
        return facts
    }

    /// Closes links above the lower bound, and links for large requests, without recent requests and subscriptions.
    private func closeIdleLinks() {
        let (now, idleTime) = (loop.now, max(.seconds(1), options.linkIdleTime))
        var closed: [ClusterServers.Link] = []
        for index in servers.all.indices {
            for place in servers.all[index].links.indices.reversed() {
                let link = servers.all[index].links[place]
                guard link.link.inFlight == 0, !subscriptions.isUsed(link.link.id) else {
                    servers.all[index].links[place].idleSince = nil
                    continue
                }
                guard let since = link.idleSince, link.counts == link.idleCounts else {
                    servers.all[index].links[place].idleSince = now
                    servers.all[index].links[place].idleCounts = link.counts
                    continue
                }
                let isLarge = link.link.isLarge
                guard now.since(since) >= idleTime,
                    isLarge || servers.all[index].count(large: false) > linkBounds.lowerBound
                else { continue }
                closed.append(servers.removeLink(place, at: index))
                servers.all[index].member.forgetFull()
            }
        }
        guard !closed.isEmpty else { return }
        for link in closed { link.link.retire() }
        tableChanged()
        drain(closed.map(\.link))
    }
}

/// What a client has counted since its creation, as far as it tells something about its server.
struct LinkCounts: Equatable {
    var responses = 0
    var failures = 0
    /// Written one-way messages tell nothing about the server.
    var written = 0
    var tries = 0

    init() {}

    init(_ metrics: ClientMetrics) {
        for (failure, count) in metrics.failures where failure.fate == .unknown {
            switch failure.code {
            case .timedOut, .connectionLost, .protocolViolation: failures += count
            default: break
            }
        }
        (responses, written) = (metrics.responses, metrics.written)
        tries = metrics.tryDurations.count
    }
}
