import TrunklineCore

/// Finds the servers of a cluster: a sequence of complete lists.
///
/// ```swift
/// let cluster = Cluster(discovering: .dns("orders.svc:7000"), speaking: acme)
/// ```
///
/// Use ``static(_:)`` for a fixed list, ``dns(_:families:)`` for the addresses of a name,
/// ``srv(_:isSecured:families:)`` for the SRV records of a name, ``file(_:every:)`` for a file that another program
/// writes, and ``init(_:)`` for lists of your own, for example from the API of an orchestrator. See
/// <doc:ManyServers#Discovery>.
///
/// Each list replaces the one before. After an error or an empty list, the cluster keeps the last list that was not
/// empty.
public struct Discovery: Sendable {
    let name: String
    /// Reports lists, until it has no more or its task is cancelled. If it throws, it is called again after a back-off.
    let run: @Sendable (DiscoveryReceiver) async throws -> Void
    /// Whether `run` calls code of the user, which may block its thread, or never end. It must not run on an event
    /// loop.
    let runsUserCode: Bool

    init(
        name: String,
        runsUserCode: Bool = false,
        _ run: @escaping @Sendable (DiscoveryReceiver) async throws -> Void
    ) {
        (self.name, self.runsUserCode, self.run) = (name, runsUserCode, run)
    }

    /// Creates a discovery from a sequence of complete lists of servers.
    ///
    /// The cluster iterates the sequence in one task on the default executor, from its first use until it is closed or
    /// deallocated, which cancels the task. If the sequence throws, the cluster reports the error, keeps the last list,
    /// and begins a new iteration after a back-off of 1 s to 30 s. If the sequence ends, the last list is final. Lists
    /// that follow each other within 10 ms may be skipped.
    ///
    /// A discovery over an `AsyncStream` serves one cluster: a second iteration of such a stream finds nothing.
    ///
    /// - Parameter lists: The sequence. Each element contains every server.
    public init<Lists: AsyncSequence & Sendable>(_ lists: Lists) where Lists.Element == [ClusterEndpoint] {
        self.init(name: "\(Lists.self)", runsUserCode: true) { receiver in
            var hasFound = false
            for try await list in lists {
                // The sequence may ignore the cancellation: one that sleeps between its lists then returns at once,
                // again and again.
                if Task.isCancelled { return }
                receiver.found(list)
                hasFound = true
                // A sequence that never waits must not occupy a thread.
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

struct EndedDiscovery: Error, LoggableError {
    var description: String { "the sequence of lists ended without a list" }
}

/// Receives what a discovery finds, and tells it when the cluster wants to know more.
struct DiscoveryReceiver: Sendable {
    let loop: any EventLoop
    /// Rung when a server was lost. A source that asks at intervals asks at once, within its own limits.
    let alarm: Alarm
    let found: @Sendable ([ClusterEndpoint]) -> Void
    let failed: @Sendable (any Error) -> Void
    /// Answers of a name server have the first number of servers, of those that are known.
    var answersRotate: @Sendable (Int, Int) -> Void = { _, _ in }
}

extension DiscoveryReceiver {
    func found(_ servers: [ClusterEndpoint], after earlier: inout RotatingAnswers<Endpoint, ClusterEndpoint>) {
        let wasRotating = earlier.isRotating
        let others = earlier.take(servers.map { ($0.endpoint, $0) }, at: loop.now)
        guard earlier.isRotating else { return found(servers) }
        if !wasRotating { answersRotate(servers.count, earlier.count) }
        let latest = servers.map { $0.rotating(isFromEarlierAnswer: false) }
        found(latest + others.map { $0.rotating(isFromEarlierAnswer: true) })
    }
}

extension ClusterEndpoint {
    /// That an answer has one address of each family then says nothing about them.
    fileprivate func rotating(isFromEarlierAnswer: Bool) -> ClusterEndpoint {
        var server = self
        (server.isFromEarlierAnswer, server.sibling) = (isFromEarlierAnswer, nil)
        return server
    }
}
