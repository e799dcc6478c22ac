public import Trunkline

/// The metrics of one client at one time, for an exporter.
///
/// ```swift
/// let snapshot = ClientSnapshot(of: await client.metrics, named: "users")
/// ```
public struct ClientSnapshot: Sendable, Hashable {
    /// The name of the client: the attribute `trunkline.client.name` of all its metrics. It must differ from the names
    /// of the other clients that are exported together.
    public var name: String
    /// The metrics of the client.
    public var metrics: Client.Metrics
    /// Further attributes of all metrics, by their names, such as `["rpc.system.name": "acme"]`. They must stay the same for
    /// the life of the client.
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
    public init(of metrics: Client.Metrics, named name: String, attributes: [String: String] = [:]) {
        (self.metrics, self.name, self.attributes) = (metrics, name, attributes)
    }

    /// The attributes of all metrics of the client, in a fixed order.
    var common: [Attribute] {
        [Attribute("trunkline.client.name", name)]
            + attributes.sorted { $0.key < $1.key }.map { Attribute($0.key, $0.value) }
    }
}

/// A name and a value that tell the points of one metric apart.
package struct Attribute: Sendable, Hashable {
    package enum Value: Sendable, Hashable {
        case text(String)
        case integer(Int)
    }

    package let name: String
    package let value: Value

    init(_ name: String, _ value: String) { (self.name, self.value) = (name, .text(value)) }
    init(_ name: String, _ value: Int) { (self.name, self.value) = (name, .integer(value)) }

    /// The value as text.
    package var text: String {
        switch value {
        case .text(let text): text
        case .integer(let integer): "\(integer)"
        }
    }
}
