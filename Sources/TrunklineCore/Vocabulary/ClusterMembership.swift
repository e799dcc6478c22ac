/// The place of a client in a cluster.
package struct ClusterMembership: Sendable {
    /// At least 1.
    package let client: UInt64
    let source: ClusterSource

    package init(client: UInt64, source: ClusterSource) { (self.client, self.source) = (client, source) }
}

/// The server from which pushes and events come. A class, to keep those small.
package final class ClusterSource: Sendable {
    let endpoint: Endpoint
    package init(_ endpoint: Endpoint) { self.endpoint = endpoint }
}
