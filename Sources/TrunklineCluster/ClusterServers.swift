import TrunklineCore

/// The servers of a cluster, with what only its event loop knows about them.
struct ClusterServers {
    struct Server {
        let member: ClusterMember
        var found: ClusterEndpoint
        var links: [Link] = []
        var slowStart: Instant?
        var lastReport: DisconnectReport?
        /// Whether no link has been ready since an attempt to connect failed.
        var hasFailedToConnect = false
        /// When it is removed at the latest; `nil` if it is in the list. Until then it serves unless another server is
        /// ready.
        fileprivate(set) var leavesBy: Instant?
        /// Whether it has not been ready yet, and no attempt to connect has failed.
        var isNew = true
        var ejection: (until: Instant, reason: OutlierRules.Reason)?
        /// When the first of several ejections in a row began; `nil` if it serves.
        var ejectedAt: Instant?
        var ejections = 0

        var isReady: Bool { links.contains { $0.isReady && !$0.link.isLarge } }

        var isAwaited: Bool { isNew && leavesBy == nil }

        var mayBeReadySoon: Bool { leavesBy == nil && lastReport?.isWithoutRoute != true }

        func count(large: Bool) -> Int { links.count { $0.link.isLarge == large } }

        var works: Bool { isReady || !hasFailedToConnect }
    }

    struct Link {
        let link: MemberLink
        var isReady = false
        var idleSince: Instant?
        var counts = LinkCounts()
        var idleCounts = LinkCounts()
    }

    var all: [Server] = []
    private(set) var leavingCount = 0
    /// How many servers took requests when a list last left some of them out.
    var wantedCount = 0
    var draining: [UInt64: MemberLink] = [:]
    var found: [ClusterEndpoint] = []
    var discoveryError: (any Error)?
    var discoveryFailures = 0
    var (hasToldSubset, hasToldRotation) = (false, false)
    /// Whether a server that only earlier answers of the discovery had has failed to connect again.
    var hasLostEarlierAnswer = false
    var discoveryFailingSince: Instant?
    /// What closed clients of the servers in use have counted, by the number of the server.
    var closed: [UInt64: ClientMetrics] = [:]
    /// What clients of removed servers have counted. After the end of the cluster, its last metrics.
    var past = Cluster.Metrics()
    private var members: [UInt64: UInt64] = [:]
    private var lastNumber: UInt64 = 0

    mutating func nextNumber() -> UInt64 {
        lastNumber += 1
        return lastNumber
    }

    var current: [ClusterEndpoint] { all.filter { $0.leavesBy == nil }.map(\.found) }

    func index(of member: UInt64) -> Int? {
        var (low, high) = (0, all.count)
        while low < high {
            let middle = (low + high) / 2
            if all[middle].member.id < member { low = middle + 1 } else { high = middle }
        }
        return low < all.count && all[low].member.id == member ? low : nil
    }

    mutating func setLeaving(_ index: Int, by latest: Instant?) {
        leavingCount += (latest == nil ? 0 : 1) - (all[index].leavesBy == nil ? 0 : 1)
        all[index].leavesBy = latest
    }

    mutating func remove(at index: Int) -> Server {
        let server = all.remove(at: index)
        if server.leavesBy != nil { leavingCount -= 1 }
        for link in server.links { members[link.link.id] = nil }
        return server
    }

    mutating func removeAll() {
        (all, draining, closed, members) = ([], [:], [:], [:])
        leavingCount = 0
    }

    mutating func count(_ metrics: ClientMetrics, of member: UInt64) {
        guard index(of: member) != nil else { return past.add(metrics) }
        var counts = metrics
        counts.removeCurrentValues()
        closed[member, default: ClientMetrics()].merge(counts)
    }

    func link(_ id: UInt64) -> Link? {
        guard let member = members[id], let index = index(of: member) else { return nil }
        return all[index].links.first { $0.link.id == id }
    }

    mutating func add(_ link: MemberLink, at index: Int) {
        all[index].links.append(Link(link: link))
        members[link.id] = link.member.id
    }

    mutating func removeLink(_ place: Int, at index: Int) -> Link {
        let link = all[index].links.remove(at: place)
        members[link.link.id] = nil
        return link
    }

    var links: [MemberLink] { (all.flatMap { $0.links.map(\.link) } + draining.values).sorted { $0.id < $1.id } }

    var clients: [Client] { links.map(\.client) }
}
