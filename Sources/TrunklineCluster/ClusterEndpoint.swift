public import TrunklineCore

/// One server of a cluster, as a ``Discovery`` finds it.
public struct ClusterEndpoint: Sendable, Hashable {
    /// Where the server is. Two cluster endpoints with the same `endpoint` are the same server.
    public var endpoint: Endpoint
    /// The share of the requests that the server receives, in proportion to the others. Default: the weight of
    /// `endpoint` (``Endpoint/weighing(_:)``), 1 if it has none. A server whose weight is zero receives requests only
    /// if no other server is ready.
    ///
    /// Other weights are from 0.000001 to 1,000,000. A list with any other is an error of the discovery: the cluster
    /// keeps its last list.
    public var weight: Double
    /// The zone of the server; `nil` if it is unknown. See ``ClusterOptions/zone``.
    public var zone: String?
    /// The name for which the server's TLS certificate must be valid. Default `nil`: the host of `endpoint`, or else
    /// ``ClientOptions/TLS/serverName``.
    public var serverName: String?
    /// What the discovery knows besides, for a ``BalancingPolicy`` of your own. The cluster does not use it.
    public var metadata: [String: String]
    /// The name that has this address and exactly one of the other family: both are taken for one server. Otherwise
    /// `nil`.
    var sibling: String? {
        get { siblingName.value }
        set { siblingName.value = newValue }
    }
    private var siblingName = Uncompared<String?>(nil)
    /// Only earlier answers of the name server had this server: the answers rotate. It is used while it works, and is
    /// not added.
    var isFromEarlierAnswer: Bool {
        get { earlierAnswer.value }
        set { earlierAnswer.value = newValue }
    }
    private var earlierAnswer = Uncompared(false)

    /// Creates a cluster endpoint.
    ///
    /// - Parameters:
    ///   - endpoint: Where the server is.
    ///   - weight: The share of the requests that it receives. Default: the weight of `endpoint`.
    ///   - zone: The zone of the server. Default: unknown.
    ///   - serverName: The name for which the server's TLS certificate must be valid. Default: the host of `endpoint`.
    ///   - metadata: What the discovery knows besides. Default: nothing.
    public init(
        _ endpoint: Endpoint,
        weight: Double? = nil,
        zone: String? = nil,
        serverName: String? = nil,
        metadata: [String: String] = [:]
    ) {
        self.endpoint = endpoint
        self.weight = weight ?? endpoint.weight
        self.zone = zone
        self.serverName = serverName
        self.metadata = metadata
    }
}

extension ClusterEndpoint {
    var hasUsableWeight: Bool { weight == 0 || HashRing.weights.contains(weight) }
}

extension ClusterEndpoint: CustomStringConvertible, CustomReflectable {
    /// The endpoint, the weight unless it is 1, and the zone, for logs.
    public var description: String {
        "\(endpoint)\(weight == 1 ? "" : " weight=\(weight)")\(zone.map { " zone=\($0)" } ?? "")"
    }

    /// Without the values of the metadata, which may be secrets.
    public var customMirror: Mirror {
        Mirror(
            self,
            children: [
                "endpoint": endpoint, "weight": weight, "zone": zone as Any, "serverName": serverName as Any,
                "metadata": metadata.keys.sorted(),
            ]
        )
    }
}

extension ClusterEndpoint: ExpressibleByStringLiteral {
    /// Creates a cluster endpoint with weight 1 from the text of an ``Endpoint``. An invalid literal is a programming
    /// error and stops the program.
    public init(stringLiteral text: String) { self.init(Endpoint(stringLiteral: text)) }
}

extension Endpoint {
    /// For consistent hashing: the same in every process.
    var stableHash: UInt64 { StableHasher.hash("\(self)".utf8) }
}
