import TrunklineCore

/// What callers and clients tell a cluster.
enum ClusterFact: Sendable {
    /// The cluster is used for the first time.
    case begun
    /// The discovery has a complete list. Taken out of its place when the cluster uses it.
    case found(Lock<FoundServers?>)
    /// The discovery failed, and continues or is begun again.
    case discoveryFailed(any Error)
    /// The answers of a name server have a part of the servers: the first number, of those that are known.
    case answersRotate(Int, of: Int)
    /// A link of a server takes requests, or no longer does.
    case linkChanged(member: UInt64, link: UInt64, isReady: Bool)
    /// An attempt failed, or a link ended.
    case linkEnded(member: UInt64, DisconnectReport)
    /// A server has failed this many times in a row.
    case failedInARow(UInt64, Int)
    /// The probe of an ejected server has ended, perhaps without an outcome.
    case probeEnded(UInt64, Bool?)
    /// All links of a server for ordinary requests are at their limit, or all those for large ones are in use.
    case isFull(UInt64, ofLarge: Bool)
}

/// A complete list of servers.
struct FoundServers: Sendable {
    let list: [ClusterEndpoint]
    /// How often the discovery has failed.
    private let failures: Lock<Int>
    /// How often it had failed when it found the list.
    private let count: Int

    init(_ list: [ClusterEndpoint], _ failures: Lock<Int>) {
        (self.list, self.failures) = (list, failures)
        count = failures.withLock { $0 }
    }

    /// Whether no error has followed the list. A source that has found only a part of the servers reports an error too,
    /// right after the list.
    var isWhole: Bool { failures.withLock { $0 } == count }
}

/// The way from callers and clients to their cluster.
///
/// Unchecked `Sendable`: `cluster` is written once, before the initializer of the cluster returns and before any fact
/// can be told.
final class ClusterFacts: @unchecked Sendable {
    private let loop: any EventLoop
    weak var cluster: Cluster?

    init(on loop: any EventLoop) { self.loop = loop }

    /// Tells a fact, in order with the others of the same thread.
    func tell(_ fact: ClusterFact) {
        loop.schedule(LoopClosure { [self] in cluster?.take(fact) })
    }
}
