public import TrunklineCache

/// The metrics of one `CachingSender` at one time, for an exporter.
///
/// ```swift
/// let snapshots: [any MetricsSnapshot] = [
///     ClientSnapshot(of: await client.metrics, named: "users"), CacheSnapshot(of: cached.metrics, named: "users"),
/// ]
/// ```
public struct CacheSnapshot: MetricsSnapshot, Hashable {
    /// The name of the cache: the attribute `trunkline.client.name` of its metrics. It must differ from the names of
    /// the other caches that are exported together, and may be that of the client or the cluster which sends the
    /// requests.
    public var name: String
    /// The metrics of the caching sender.
    public var metrics: CachingSender.Metrics
    /// Further attributes of all metrics, by their names. They must stay the same for the life of the cache. See
    /// ``ClientSnapshot/attributes``.
    public var attributes: [String: String]

    /// Creates a snapshot.
    ///
    /// - Parameters:
    ///   - metrics: The metrics of the caching sender.
    ///   - name: The name of the cache.
    ///   - attributes: Further attributes of all metrics.
    public init(of metrics: CachingSender.Metrics, named name: String, attributes: [String: String] = [:]) {
        (self.metrics, self.name, self.attributes) = (metrics, name, attributes)
    }
}
