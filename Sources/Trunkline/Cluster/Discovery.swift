/// Finds the servers of a cluster: a sequence of complete lists.
///
/// ```swift
/// let cluster = Cluster(discovering: .dns("orders.svc:7000"), speaking: acme)
/// ```
///
/// Use ``static(_:)`` for a fixed list, ``dns(_:families:)`` for the addresses of a name,
/// ``srv(_:isSecured:families:)`` for the SRV records of a name, ``file(_:every:)`` for a file that another program writes, and
/// ``init(_:)`` for lists of your own, for example from the API of an orchestrator. See <doc:ManyServers#Discovery>.
///
/// Each list replaces the one before. After an error or an empty list, the cluster keeps the last list that was not
/// empty.
public struct Discovery: Sendable {
    /// What the log calls the source.
    let name: String
    /// Reports lists, until it has no more or its task is cancelled. If it throws, it is called again after a back-off.
    let run: @Sendable (DiscoveryReceiver) async throws -> Void

    init(name: String, _ run: @escaping @Sendable (DiscoveryReceiver) async throws -> Void) {
        (self.name, self.run) = (name, run)
    }

    /// Creates a discovery from a sequence of complete lists of servers.
    ///
    /// The cluster iterates the sequence in one task, from its first use until it is closed. If the sequence throws, the
    /// cluster reports the error, keeps the last list, and begins a new iteration after a back-off of 1 s to 30 s. If the
    /// sequence ends, the last list is final. Lists that follow each other within 10 ms may be skipped.
    ///
    /// A discovery over an `AsyncStream` serves one cluster: a second iteration of such a stream finds nothing.
    ///
    /// - Parameter lists: The sequence. Each element contains every server.
    public init<Lists: AsyncSequence & Sendable>(_ lists: Lists) where Lists.Element == [ClusterEndpoint] {
        self.init(name: "\(Lists.self)") { receiver in
            var hasFound = false
            for try await list in lists {
                receiver.found(list)
                hasFound = true
                // A sequence that never waits must not occupy the event loop.
                await receiver.loop.sleep(until: receiver.loop.now.advanced(by: .milliseconds(10)))
            }
            if !hasFound, !Task.isCancelled { receiver.failed(EndedDiscovery()) }
        }
    }

    /// A list that does not change.
    ///
    /// - Parameter endpoints: The servers. If one occurs several times, the first occurrence counts.
    public static func `static`(_ endpoints: [ClusterEndpoint]) -> Discovery {
        Discovery(name: "a fixed list") { $0.found(endpoints) }
    }
}

/// The sequence of a discovery ended without a list.
struct EndedDiscovery: Error, LoggableError {
    var description: String { "the sequence of lists ended without a list" }
}

/// Receives what a discovery finds, and tells it when the cluster wants to know more.
struct DiscoveryReceiver: Sendable {
    let loop: any EventLoop
    /// Rung when a server was lost. A source that asks again at intervals asks at once, within its own limits.
    let alarm: Alarm
    /// Takes a complete list of servers.
    let found: @Sendable ([ClusterEndpoint]) -> Void
    /// Takes an error, after which the source continues.
    let failed: @Sendable (any Error) -> Void
}
