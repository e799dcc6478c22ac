import TrunklineCache
import TrunklineCluster
import TrunklineCore

/// The metrics of a client, a cluster or a cache at one time, for an exporter: a ``ClientSnapshot``, a
/// ``ClusterSnapshot`` or a ``CacheSnapshot``.
///
/// Exporters leave out values of other types.
public protocol MetricsSnapshot: Sendable {
    /// The name of the client, the cluster or the cache: the attribute `trunkline.client.name` of all its metrics.
    var name: String { get }
    /// Further attributes of all metrics, by their names.
    var attributes: [String: String] { get }
}

extension MetricsSnapshot {
    var sources: [MetricSource] {
        switch self {
        case let client as ClientSnapshot: [MetricSource(.client(client.metrics), attributes: common())]
        case let cluster as ClusterSnapshot:
            [MetricSource(.cluster(cluster.metrics), attributes: common())]
                + cluster.metrics.serversByAddress.map { address, servers in
                    let server = zip(Metric.server, address).compactMap { name, value in
                        value.map { Attribute(naming: name, $0) }
                    }
                    return MetricSource(.client(cluster.total(of: servers)), attributes: common(server))
                }
        case let cache as CacheSnapshot: [MetricSource(.cache(cache.metrics), attributes: common())]
        default: []
        }
    }

    private func common(_ server: [Attribute] = []) -> [Attribute] {
        [Attribute("trunkline.client.name", name)] + server
            + attributes.sorted { $0.key < $1.key }.map { Attribute($0.key, $0.value) }
    }
}

/// What values are read from: a client, a cluster, the clients of one of its servers, or a cache.
struct MetricSource {
    enum Content {
        case client(ClientMetrics)
        case cluster(Cluster.Metrics)
        case cache(CachingSender.Metrics)
    }

    let content: Content
    let attributes: [Attribute]

    init(_ content: Content, attributes: [Attribute]) { (self.content, self.attributes) = (content, attributes) }
}

/// A name and a value that tell the points of one metric apart.
package struct Attribute: Sendable, Hashable {
    package enum Value: Sendable, Hashable {
        case text(String)
        case integer(Int)
    }

    let name: String
    let value: Value

    init(_ name: String, _ value: String) { (self.name, self.value) = (name, .text(value)) }
    init(_ name: String, _ value: Int) { (self.name, self.value) = (name, .integer(value)) }

    /// The conventions make `server.port` a number.
    init(naming name: String, _ text: String) {
        if name == "server.port", let port = Int(strict: text) { self.init(name, port) } else { self.init(name, text) }
    }

    var text: String {
        switch value {
        case .text(let text): text
        case .integer(let integer): "\(integer)"
        }
    }
}
