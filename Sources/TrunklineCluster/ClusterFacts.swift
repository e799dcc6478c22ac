import TrunklineCore

/// What callers and clients tell a cluster.
enum ClusterFact: Sendable {
    case begun
    /// A complete list, taken out of its place when the cluster uses it.
    case found(Lock<FoundServers?>)
    /// The discovery continues, or is begun again.
    case discoveryFailed(any Error)
    /// The answers of a name server have the first number of servers, of those that are known.
    case answersRotate(Int, of: Int)
    case linkChanged(member: UInt64, link: UInt64, isReady: Bool)
    case linkEnded(member: UInt64, DisconnectReport)
    case failedInARow(UInt64, Int)
    case probeEnded(UInt64, Bool?)
    /// All links for ordinary requests are at their limit, or all those for large ones are in use.
    case isFull(UInt64, ofLarge: Bool)
}

struct FoundServers: Sendable {
    let list: [ClusterEndpoint]
    private let failures: Lock<Int>
    private let count: Int

    init(_ list: [ClusterEndpoint], _ failures: Lock<Int>) {
        (self.list, self.failures) = (list, failures)
        count = failures.withLock { $0 }
    }

    /// Whether no error has followed the list: a source that has found only a part reports one right after it.
    var isWhole: Bool { failures.withLock { $0 } == count }
}

/// The cluster. A protocol, so that what callers count can be used without it.
protocol ClusterFactReceiver: AnyObject, Sendable {
    /// On the event loop of the cluster, as the next method.
    func take(_ fact: ClusterFact)
    func makeTable()
}

/// The way from callers and clients to their cluster.
///
/// Unchecked `Sendable`: `receiver` is written once, before the initializer of the cluster returns and before any fact
/// can be told.
final class ClusterFacts: @unchecked Sendable {
    private let loop: any EventLoop
    weak var receiver: (any ClusterFactReceiver)?

    init(on loop: any EventLoop) { self.loop = loop }

    /// In order with the others of the same thread.
    func tell(_ fact: ClusterFact) {
        loop.schedule(LoopClosure { [self] in receiver?.take(fact) })
    }
}
