import TrunklineCore

/// The servers of a cluster, with what only its event loop knows about them.
struct ClusterServers {
    /// A server.
    struct Server {
        let member: ClusterMember
        var found: ClusterEndpoint
        /// Links are added and removed with `add` and `removeLink` of `ClusterServers`.
        var links: [Link] = []
        /// When its share began to grow; `nil` if it has its whole share.
        var slowStart: Instant?
        /// Why its latest attempt failed or its latest link ended.
        var lastReport: DisconnectReport?
        /// Whether no link has been ready since an attempt to connect failed.
        var hasFailedToConnect = false
        /// When it is removed at the latest, because it is no longer in the list; `nil` if it is. Until then it serves
        /// unless another server is ready.
        fileprivate(set) var leavesBy: Instant?
        /// Whether it has not been ready yet, and no attempt to connect has failed.
        var isNew = true
        /// The latest ejection; `nil` if the server serves.
        var ejection: (until: Instant, reason: OutlierRules.Reason)?
        /// When it was ejected; `nil` if it serves.
        var ejectedAt: Instant?
        /// How often it was ejected while it served.
        var ejections = 0

        /// Whether a link for ordinary requests is ready.
        var isReady: Bool { links.contains { $0.isReady && !$0.link.isLarge } }

        /// Whether its first attempt to connect is under way, and it is in the list.
        var isAwaited: Bool { isNew && leavesBy == nil }

        /// Whether it is in the list, and not on a network to which this host has no route.
        var mayBeReadySoon: Bool { leavesBy == nil && lastReport?.isWithoutRoute != true }

        /// The number of links of one kind, ready or not.
        func count(large: Bool) -> Int { links.count { $0.link.isLarge == large } }

        /// Whether a link is ready, or may be after the attempt to connect that is under way.
        var works: Bool { isReady || !hasFailedToConnect }
    }

    /// A link to a server.
    struct Link {
        let link: MemberLink
        var isReady = false
        /// Since when it has had no request; `nil` while it has some.
        var idleSince: Instant?
        /// What its client had counted at the end of the last interval.
        var counts = LinkCounts()
        /// What its client had counted at `idleSince`.
        var idleCounts = LinkCounts()
    }

    /// In the order in which they were found, which is that of their numbers.
    var all: [Server] = []
    /// The number of servers that are no longer in the list.
    private(set) var leavingCount = 0
    /// How many servers took requests when a list last left some of them out.
    var wantedCount = 0
    /// Links that take no requests any more and finish those that they have.
    var draining: [UInt64: MemberLink] = [:]
    /// The latest complete list.
    var found: [ClusterEndpoint] = []
    /// Why the discovery failed last; `nil` if it has succeeded since.
    var discoveryError: (any Error)?
    /// How often the discovery has failed.
    var discoveryFailures = 0
    /// Whether it was told that the list is larger than the subset, and that answers of the discovery rotate.
    var (hasToldSubset, hasToldRotation) = (false, false)
    /// Whether a server that only earlier answers of the discovery had has lost its link, and an attempt to connect to
    /// it has failed.
    var hasLostEarlierAnswer = false
    /// Since when the discovery has been failing; `nil` while it works.
    var discoveryFailingSince: Instant?
    /// What closed clients of the servers in use have counted, by the number of the server.
    var closed: [UInt64: Client.Metrics] = [:]
    /// What clients of removed servers have counted. After the end of the cluster, its last metrics.
    var past = Cluster.Metrics()
    /// The server of each link that is not draining, by their numbers.
    private var members: [UInt64: UInt64] = [:]
    private var lastNumber: UInt64 = 0

    mutating func nextNumber() -> UInt64 {
        lastNumber += 1
        return lastNumber
    }

    /// The servers of the latest list that are in use.
    var current: [ClusterEndpoint] { all.filter { $0.leavesBy == nil }.map(\.found) }

    func index(of member: UInt64) -> Int? {
        var (low, high) = (0, all.count)
        while low < high {
            let middle = (low + high) / 2
            if all[middle].member.id < member { low = middle + 1 } else { high = middle }
        }
        return low < all.count && all[low].member.id == member ? low : nil
    }

    /// Notes until when a server that is no longer in the list serves at most; `nil` if it is in the list.
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

    /// Counts what a client of `member` has counted, which is closed now.
    mutating func count(_ metrics: Client.Metrics, of member: UInt64) {
        guard index(of: member) != nil else { return past.add(metrics) }
        var counts = metrics
        counts.removeCurrentValues()
        closed[member, default: Client.Metrics()].merge(counts)
    }

    /// A link that is not draining.
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

    /// Every link whose client is not closed, oldest first.
    var links: [MemberLink] { (all.flatMap { $0.links.map(\.link) } + draining.values).sorted { $0.id < $1.id } }

    /// Every client that is not closed, oldest first.
    var clients: [Client] { links.map(\.client) }
}
