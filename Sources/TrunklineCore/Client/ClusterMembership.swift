// What a client knows of a cluster to which it belongs.

/// The place of a client in a cluster.
package struct ClusterMembership: Sendable {
    /// The number of the client, at least 1.
    package let client: UInt64
    package let source: ClusterSource

    package init(client: UInt64, source: ClusterSource) { (self.client, self.source) = (client, source) }
}

/// A server from which pushes and events come. A class, so that they are little larger for it.
package final class ClusterSource: Sendable {
    package let endpoint: Endpoint
    package init(_ endpoint: Endpoint) { self.endpoint = endpoint }
}
