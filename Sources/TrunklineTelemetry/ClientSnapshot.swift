public import TrunklineCore

/// The metrics of one client at one time, for an exporter.
///
/// ```swift
/// let snapshot = ClientSnapshot(of: await client.metrics, named: "users")
/// ```
public struct ClientSnapshot: MetricsSnapshot, Hashable {
    /// The name of the client: the attribute `trunkline.client.name` of all its metrics. It must differ from the names
    /// of the other clients and clusters that are exported together.
    public var name: String
    /// The metrics of the client.
    public var metrics: ClientMetrics
    /// Further attributes of all metrics, by their names, such as `["rpc.system.name": "acme"]`. They must stay the
    /// same for the life of the client.
    ///
    /// A metric leaves out those that it has itself, such as `error.type`. In the text of Prometheus, names that differ
    /// only in characters that become underscores are the same: of `a.b` and `a_b`, the first is kept. Names that would
    /// begin with two underscores, which Prometheus reserves, begin with one: `__name__` becomes `_name__`.
    public var attributes: [String: String]

    /// Creates a snapshot.
    ///
    /// - Parameters:
    ///   - metrics: The metrics of the client.
    ///   - name: The name of the client.
    ///   - attributes: Further attributes of all metrics.
    public init(of metrics: ClientMetrics, named name: String, attributes: [String: String] = [:]) {
        (self.metrics, self.name, self.attributes) = (metrics, name, attributes)
    }
}
