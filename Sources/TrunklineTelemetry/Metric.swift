package import Trunkline

/// A metric of a client, for all exporters.
package struct Metric: Sendable {
    /// What the values mean.
    package enum Kind: String, Sendable {
        /// A count since the client was created.
        case counter
        /// A current value.
        case gauge
        /// Durations since the client was created.
        case histogram
    }

    package enum Value: Sendable, Hashable {
        case integer(Int)
        case number(Double)
        case durations(LatencyHistogram)
    }

    /// A value of a metric, with the attributes that tell it from the other values of this metric.
    package struct Point: Sendable, Hashable {
        package var attributes: [Attribute]
        package let value: Value
    }

    /// The name by the conventions of OpenTelemetry.
    package let name: String
    package let kind: Kind
    /// The unit, by the Unified Code for Units of Measure; in braces what is counted.
    package let unit: String
    /// A sentence without a full stop.
    package let help: String
    /// The names of the attributes, without those of all metrics of a client.
    package let attributes: [String]
    private let read: @Sendable (Client.Metrics) -> [(values: [String?], value: Value)]

    init(
        _ name: String,
        _ kind: Kind,
        _ unit: String,
        by attributes: [String] = [],
        _ help: String,
        _ read: @escaping @Sendable (Client.Metrics) -> [(values: [String?], value: Value)]
    ) {
        (self.name, self.kind, self.unit, self.attributes, self.help) = (name, kind, unit, attributes, help)
        self.read = read
    }

    /// Creates a metric that has one value.
    init(
        _ name: String,
        _ kind: Kind,
        _ unit: String,
        _ help: String,
        _ read: @escaping @Sendable (Client.Metrics) -> Int
    ) {
        self.init(name, kind, unit, help) { [([], .integer(read($0)))] }
    }

    /// The values of this metric in `snapshot`, in a fixed order.
    ///
    /// Attributes of the snapshot whose label is already taken are left out.
    ///
    /// - Parameters:
    ///   - label: Returns what the format makes of the name of an attribute.
    ///   - reserved: Further labels that the format itself uses.
    package func points(
        of snapshot: ClientSnapshot,
        labeledBy label: (String) -> String = { $0 },
        reserving reserved: Set<String> = []
    ) -> [Point] {
        var taken = reserved.union(attributes.map(label))
        let common = snapshot.common.filter { taken.insert(label($0.name)).inserted }
        return read(snapshot.metrics).map { values, value in
            let own = zip(attributes, values).compactMap { name, value -> Attribute? in
                // The conventions make this one a number.
                if name == "server.port", let port = value.flatMap({ Int($0) }) { return Attribute(name, port) }
                return value.map { Attribute(name, $0) }
            }
            return Point(attributes: common + own, value: value)
        }
    }

    /// The bounds of the buckets of all histograms: those that the conventions of OpenTelemetry recommend for
    /// `rpc.client.call.duration`, in seconds.
    package static let bounds = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10]

    /// The bounds as durations.
    private static let boundDurations = bounds.map { Duration.milliseconds(Int64($0 * 1000)) }

    /// The number of durations up to each of `bounds`.
    static func cumulativeCounts(of histogram: LatencyHistogram) -> [Int] { histogram.counts(upTo: boundDurations) }
}
