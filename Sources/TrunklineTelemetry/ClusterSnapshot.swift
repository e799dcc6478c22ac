public import TrunklineCluster
import TrunklineCore

/// The metrics of one cluster at one time, for an exporter.
///
/// ```swift
/// let snapshot = ClusterSnapshot(of: await cluster.metrics, named: "orders")
/// ```
///
/// Every metric of a client has a value for each server, of all its links together, with the attributes
/// `server.address` and `server.port`. Metrics of the cluster itself begin with `trunkline.cluster.`. The number of
/// values depends on the number of servers, not on that of links.
public struct ClusterSnapshot: MetricsSnapshot, Hashable {
    /// The name of the cluster: the attribute `trunkline.client.name` of all its metrics. It must differ from the names
    /// of the other clients and clusters that are exported together.
    public var name: String
    /// The metrics of the cluster.
    public var metrics: Cluster.Metrics
    /// Further attributes of all metrics, by their names. They must stay the same for the life of the cluster. See
    /// ``ClientSnapshot/attributes``.
    public var attributes: [String: String]

    /// Creates a snapshot.
    ///
    /// - Parameters:
    ///   - metrics: The metrics of the cluster.
    ///   - name: The name of the cluster.
    ///   - attributes: Further attributes of all metrics.
    public init(of metrics: Cluster.Metrics, named name: String, attributes: [String: String] = [:]) {
        (self.metrics, self.name, self.attributes) = (metrics, name, attributes)
    }

    func total(of servers: [Cluster.ServerMetrics]) -> ClientMetrics {
        var total = ClientMetrics()
        for server in servers { total.merge(server.total) }
        // Calls that ended on no link belong to the server, too.
        let durations = total.durationsByEndpoint.values.reduce(into: ClientMetrics.CallDurations()) { $0.merge($1) }
        total.durationsByEndpoint = [servers.first?.endpoint: durations]
        return total
    }
}

extension Cluster.Metrics {
    /// A group has several servers only if their endpoints differ in TLS alone.
    var serversByAddress: [(address: [String?], servers: [Cluster.ServerMetrics])] {
        var places: [[String?]: Int] = [:]
        var groups: [(address: [String?], servers: [Cluster.ServerMetrics])] = []
        for server in servers {
            let address = Metric.attributes(of: server.endpoint)
            if let place = places[address] {
                groups[place].servers.append(server)
            } else {
                places[address] = groups.count
                groups.append((address, [server]))
            }
        }
        return groups
    }
}
