import TrunklineCache
import TrunklineCluster
package import TrunklineCore

/// A metric of a client, a cluster or a cache, for all exporters.
package struct Metric: Sendable {
    package enum Kind: String, Sendable {
        case counter
        case gauge
        case histogram
    }

    package enum Value: Sendable, Hashable {
        case integer(Int)
        case number(Double)
        case durations(LatencyHistogram)
    }

    struct Point: Sendable, Hashable {
        var attributes: [Attribute]
        let value: Value
    }

    let name: String
    let kind: Kind
    /// By the Unified Code for Units of Measure; in braces what is counted.
    let unit: String
    let help: String
    /// Without those that all metrics have.
    let attributes: [String]
    private let reader: Reader

    typealias Reading = (values: [String?], value: Value)

    private enum Reader {
        case client(@Sendable (ClientMetrics) -> [Reading])
        case cluster(@Sendable (Cluster.Metrics) -> [Reading])
        case cache(@Sendable (CachingSender.Metrics) -> [Reading])
    }

    init(
        _ name: String,
        _ kind: Kind,
        _ unit: String,
        by attributes: [String] = [],
        _ help: String,
        _ read: @escaping @Sendable (ClientMetrics) -> [Reading]
    ) {
        (self.name, self.kind, self.unit, self.attributes, self.help) = (name, kind, unit, attributes, help)
        reader = .client(read)
    }

    init(
        cluster name: String,
        _ kind: Kind,
        _ unit: String,
        by attributes: [String] = [],
        _ help: String,
        _ read: @escaping @Sendable (Cluster.Metrics) -> [Reading]
    ) {
        (self.name, self.kind, self.unit, self.attributes, self.help) = (name, kind, unit, attributes, help)
        reader = .cluster(read)
    }

    init(
        cache name: String,
        _ kind: Kind,
        _ unit: String,
        by attributes: [String] = [],
        _ help: String,
        _ read: @escaping @Sendable (CachingSender.Metrics) -> [Reading]
    ) {
        (self.name, self.kind, self.unit, self.attributes, self.help) = (name, kind, unit, attributes, help)
        reader = .cache(read)
    }

    init(
        _ name: String,
        _ kind: Kind,
        _ unit: String,
        _ help: String,
        _ read: @escaping @Sendable (ClientMetrics) -> Int
    ) {
        self.init(name, kind, unit, help) { [([], .integer(read($0)))] }
    }

    func points(of snapshot: any MetricsSnapshot) -> [Point] { snapshot.sources.flatMap { points(of: $0) } }

    /// In a fixed order. Attributes of the source are left out if their label, which `label` makes for the format, is
    /// taken or `reserved`.
    func points(
        of source: MetricSource,
        labeledBy label: (String) -> String = { $0 },
        reserving reserved: Set<String> = []
    ) -> [Point] {
        let readings: [Reading]
        switch (reader, source.content) {
        case (.client(let read), .client(let metrics)): readings = read(metrics)
        case (.cluster(let read), .cluster(let metrics)): readings = read(metrics)
        case (.cache(let read), .cache(let metrics)): readings = read(metrics)
        case (.client, _), (.cluster, _), (.cache, _): return []
        }
        var taken = reserved.union(attributes.map(label))
        let common = source.attributes.filter { taken.insert(label($0.name)).inserted }
        return readings.map { values, value in
            let own = zip(attributes, values).compactMap { name, value in value.map { Attribute(naming: name, $0) } }
            return Point(attributes: common + own, value: value)
        }
    }

    /// In seconds, as the conventions of OpenTelemetry recommend for `rpc.client.call.duration`.
    static let bounds = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10]

    private static let boundDurations = bounds.map { Duration.milliseconds(Int64($0 * 1000)) }

    static func cumulativeCounts(of histogram: LatencyHistogram) -> [Int] { histogram.counts(upTo: boundDurations) }
}
