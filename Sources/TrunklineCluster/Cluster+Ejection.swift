import TrunklineCore

/// Servers that fail: when they are left out, probed and used again. The rules are those of `OutlierRules`.
extension Cluster {
    enum Use: Equatable {
        case serves
        case isProbed
        case rests
        case servesAndIsProbed
    }

    func use(of member: UInt64) -> Use {
        switch outliers.state(of: member) {
        case .serving, nil: .serves
        case .ejected: outliers.isPanicking ? .serves : .rests
        case .probing: outliers.isPanicking ? .servesAndIsProbed : .isProbed
        }
    }

    func failedInARow(_ member: UInt64, _ count: Int) {
        change { $0.noteFailuresInARow(member, count: count, at: $1, using: &$2) }
    }

    func probeEnded(_ member: UInt64, _ succeeded: Bool?) {
        change { outliers, now, generator in
            // Told only now: a fact of its own could arrive after that of the end, if another thread tells that.
            _ = outliers.probeBegan(member)
            guard let succeeded else { return outliers.probeCancelled(member) }
            return outliers.probeEnded(member, succeeded: succeeded, at: now, using: &generator)
        }
    }

    func memberAdded(_ member: UInt64, _ found: ClusterEndpoint) {
        change { outliers, _, _ in outliers.add(member, group: found.sibling, isLocal: isLocal(found)) }
    }

    /// The list has the server again, possibly with another name.
    func memberFound(_ member: UInt64, _ found: ClusterEndpoint) {
        change { outliers, _, _ in outliers.regroup(member, found.sibling, isLocal: isLocal(found)) }
    }

    private func isLocal(_ found: ClusterEndpoint) -> Bool { options.zone == nil || found.zone == options.zone }

    func carriesLoad(_ server: ClusterServers.Server) -> Bool {
        let id = server.member.id
        return server.isReady && (outliers.isPanicking || outliers.isGood(id) ?? true)
    }

    /// The failure may only mean that this host has no route to the server.
    func memberFailed(_ member: UInt64, _ report: DisconnectReport) {
        guard report.cause != .closedLocally else { return }
        change { outliers, _, _ in outliers.setRoute(member, exists: !report.isWithoutRoute) }
    }

    func memberRemoved(_ member: UInt64) { change { outliers, _, _ in outliers.remove(member) } }

    func memberChanged(_ member: UInt64, isReady: Bool) {
        change { outliers, _, _ in outliers.setReady(member, isReady) }
    }

    /// Ends the ejections whose time is over and, with `facts`, judges an interval. Returns when to call this again.
    func judge(_ facts: [OutlierRules.Facts]?) -> Instant {
        change { outliers, now, generator in
            outliers.time(at: now) + (facts.map { outliers.closeInterval($0, at: now, using: &generator) } ?? [])
        }
        return outliers.nextTime ?? .distantFuture
    }

    private func change(
        _ input: (inout OutlierRules, Instant, inout SeededGenerator) -> [OutlierRules.Action]
    ) {
        guard options.ejection != nil else { return }
        let before = outliers.badCount
        let actions = input(&outliers, loop.now, &generator)
        // A bad server that is not ejected counts for the share of its zone.
        guard !actions.isEmpty || options.zone != nil && outliers.badCount != before else { return }
        for action in actions { perform(action) }
        tableChanged()
        maintenance.ring()
    }

    private func perform(_ action: OutlierRules.Action) {
        switch action {
        case .ejected(let id, let until, let reason):
            guard let index = servers.index(of: id) else { return }
            servers.all[index].ejection = (until, reason)
            if servers.all[index].ejectedAt == nil {
                servers.all[index].ejectedAt = loop.now
                servers.all[index].ejections += 1
            }
            servers.all[index].member.setEjected(true, mustSucceed: reason.isAboutErrors, at: loop.now)
            servers.all[index].slowStart = nil
            let endpoint = servers.all[index].found.endpoint
            tell(.ejected(endpoint, for: until.since(loop.now), reason: reason.text))
        case .mayBeProbed(let id):
            guard let index = servers.index(of: id), let opening = outliers.opensToAllRequests(id) else { return }
            servers.all[index].member.allowProbe(from: opening)
        case .returned(let id):
            guard let index = servers.index(of: id) else { return }
            let outage = servers.all[index].ejectedAt.map { loop.now.since($0) } ?? .zero
            (servers.all[index].ejection, servers.all[index].ejectedAt) = (nil, nil)
            servers.all[index].member.setEjected(false, at: loop.now)
            servers.all[index].slowStart = loop.now
            tell(.returned(servers.all[index].found.endpoint, after: outage))
        case .panicBegan(let bad, let count): tell(.panicBegan(bad: bad, of: count))
        case .panicEnded: tell(.panicEnded)
        }
    }
}

extension OutlierRules.Settings {
    init(_ ejection: ClusterOptions.Ejection) {
        self.init()
        maximumShare = ejection.maximumShare
        consecutiveFailures = ejection.consecutiveFailures.map { max(1, $0) }
        baseTime = max(.seconds(1), ejection.baseTime)
        maximumTime = max(baseTime, ejection.maximumTime)
        if !ejection.bySuccessRate { (successRate, errorRate) = (nil, nil) }
        if !ejection.byLatency { latency = nil }
    }
}

extension OutlierRules.Reason {
    fileprivate var isAboutErrors: Bool? {
        switch self {
        case .errorRate, .successRate: true
        case .failuresInARow, .latency: false
        case .probeFailed: nil
        }
    }
}

extension DisconnectReport {
    /// If the network is not monitored, only the system's error says that.
    var isWithoutRoute: Bool {
        switch pathAfter {
        case .noRoute: true
        case .unknown: (error as? TransportError)?.saysNoRoute ?? false
        default: false
        }
    }
}
