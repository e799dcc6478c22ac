public import TrunklineCore

/// The slowest requests of a cluster, and an audit.
///
/// ```swift
/// for timeline in await cluster.diagnostics.slowestRequests { print(timeline) }
/// ```
///
/// For counts and durations read ``Cluster/metrics-swift.property``; to follow a cluster, ``Cluster/changes``. See
/// <doc:ManyServers#Monitoring>.
///
/// This value keeps the cluster alive.
public struct ClusterDiagnostics: Sendable {
    private let cluster: Cluster

    fileprivate init(of cluster: Cluster) { self.cluster = cluster }

    /// The slowest requests and one-way messages of all clients that ended in the last minutes, slowest first, at most
    /// eight of each link. A request that was sent to several servers counts for each of them: see
    /// ``ClientDiagnostics/slowestRequests``.
    public var slowestRequests: [Timeline] {
        get async {
            var all: [Timeline] = []
            for (_, client) in await cluster.clientsByServer { all += await client.diagnostics.slowestRequests }
            return all.sorted { $0.duration > $1.duration }
        }
    }

    /// Checks the books of the cluster and of all its clients: that every request has ended once or is still pending,
    /// that no load of a server is counted that does not exist, and that no request has more second copies than it may
    /// have.
    ///
    /// It is cheap enough for production: its time depends on the number of links, not of requests.
    ///
    /// - Returns: A line for each contradiction, with both numbers; those of a client begin with its server. A
    ///   contradiction is a bug in this package.
    public func audit() async -> [String] {
        var contradictions = await cluster.contradictions
        for (endpoint, client) in await cluster.clientsByServer {
            contradictions += await client.contradictions().map { "\(endpoint): \($0)" }
        }
        return contradictions
    }

    package var clients: [(endpoint: Endpoint, client: Client)] { get async { await cluster.clientsByServer } }
}

extension Cluster {
    /// The slowest requests of this cluster, and an audit.
    public nonisolated var diagnostics: ClusterDiagnostics { ClusterDiagnostics(of: self) }

    fileprivate var clientsByServer: [(endpoint: Endpoint, client: Client)] {
        servers.links.map { ($0.member.endpoint, $0.client) }
    }

    fileprivate var contradictions: [String] {
        var contradictions: [String] = []
        for link in servers.links where link.inFlight < 0 {
            contradictions.append("\(link.member.endpoint): \(link.inFlight) requests are in flight")
        }
        if lifecycle == .closed {
            if !servers.links.isEmpty { contradictions.append("closed, with \(servers.links.count) links") }
            if waiting.waitingCount != 0 { contradictions.append("closed, and \(waiting.waitingCount) calls wait") }
        }
        let (hedged, copies) = hedging.withLock { ($0.requests, $0.copies) }
        if copies > hedged { contradictions.append("\(copies) second copies of \(hedged) hedged requests") }
        let table = picker.table
        if lifecycle == .open, !tableUpdate.isPending, table.count > servers.all.count {
            contradictions.append("\(table.count) servers take requests, but there are \(servers.all.count)")
        }
        return contradictions
    }
}
