import Synchronization
public import TrunklineCore

extension Cluster {
    /// Looks for servers and connects to them now instead of on first use, and returns when one is ready.
    ///
    /// The cluster tries until it succeeds, for ever if need be. To fail early, use ``connect(timeout:)``. If the task
    /// is cancelled, the call fails immediately, and the cluster continues.
    ///
    /// - Throws: A ``ClientError``, always with the fate `notSent`: `cancelled`, or `closed` if the cluster is closed
    ///   or closing.
    public nonisolated func connect() async throws(ClientError) {
        if isClosing.load(ordering: .acquiring) { throw .clusterIsClosed }
        begin()
        switch await waiting.waitForServer() {
        case .ready: return
        case .closed: throw .clusterWasClosed
        case .cancelled, .expired, .full: throw ClientError(.cancelled, .notSent, "cancelled while connecting")
        }
    }

    /// Looks for servers and connects to them now instead of on first use, and returns when one is ready, or fails when
    /// `timeout` has passed: for programs that must not start without a server.
    ///
    /// After an error, the cluster continues. Otherwise the method behaves like ``connect()``.
    ///
    /// - Parameter timeout: The time that the cluster has, counted from the call; at most a hundred years.
    /// - Throws: A ``ClientError``, always with the fate `notSent`: `timedOut` if no server was ready in time, or if
    ///   `timeout` is not positive. Its message names the latest causes of up to eight servers, or why the discovery
    ///   failed. Otherwise, the errors of ``connect()``.
    public nonisolated func connect(timeout: Duration) async throws(ClientError) {
        let connect: @Sendable () async throws(ClientError) -> Void = { () async throws(ClientError) in
            try await self.connect()
        }
        try await connecting(within: timeout, on: loop, connect) { _ in
            await self.notReady("no server was ready within \(timeout.text)", .timedOut)
        }
    }

    /// Closes the cluster after its requests have ended.
    ///
    /// New calls fail with `closed` from now on. Earlier ones, including those that wait for a server, continue until
    /// they are answered or their deadline passes, at most for ``ClientOptions/Requests/drainTimeout`` (30 s): then the
    /// remaining ones fail with `closed`. The call returns when all clients are closed.
    ///
    /// If the calling task is cancelled, the cluster is closed at once, as by ``closeNow()``. A second call returns
    /// when the cluster is closed, too.
    public nonisolated func close() async {
        isClosing.store(true, ordering: .releasing)
        await withTaskCancellationHandler {
            await drain()
        } onCancel: {
            // Performed at once in a task of its own: the task that was cancelled waits for it.
            Task(executorPreference: loop.taskExecutor) { await self.endNow() }
        }
    }

    /// Closes the cluster at once. Requests that have not ended fail with `closed`: fate `notSent` if no byte was
    /// written, otherwise `unknown`. The call returns when all clients are closed.
    public nonisolated func closeNow() async {
        isClosing.store(true, ordering: .releasing)
        await endNow()
        await awaitClosed()
    }

    /// Looks for servers, connects, and returns when the cluster is closed. Cancelling the task closes the cluster as
    /// ``close()`` does.
    ///
    /// The method has the signature that service lifecycle frameworks call. It does not throw.
    public nonisolated func run() async throws {
        begin()
        await withTaskCancellationHandler {
            await awaitClosed()
        } onCancel: {
            isClosing.store(true, ordering: .releasing)
            // The task that was cancelled waits for this one.
            Task(executorPreference: loop.taskExecutor) { await self.drain() }
        }
    }

    private func drain() async {
        guard lifecycle == .open else { return await awaitClosed() }
        lifecycle = .draining
        waiting.drain()
        let deadline = loop.now.advanced(by: callOptions.requests.drainTimeout)
        // Calls that wait for the first server need the discovery.
        await waiting.waitUntilIdle(until: deadline)
        endDiscovery()
        await end { await Self.close($0, until: deadline, on: self.loop) }
        await awaitClosed()
    }

    private func endNow() async {
        endDiscovery()
        await end { clients in
            await withTaskGroup { group in
                for client in clients { group.addTask { await client.closeNow() } }
            }
        }
    }

    /// May be called again while it runs, to end the clients faster.
    private func end(_ close: ([Client]) async -> Void) async {
        guard lifecycle < .closed else { return }
        lifecycle = .closing
        waiting.close()
        picker.use(PickTable(options.balancing))
        await close(servers.clients)
        let metrics = await metrics
        guard lifecycle < .closed else { return }
        lifecycle = .closed
        voice.close(metrics)
        subscriptions = ClusterSubscriptions()
        servers.past = metrics
        servers.removeAll()
        listeners.close()
        endStreams()
        await withContinuation { caller in
            HeldWaiters.resume(exchange(&closeWaiters, with: []) + [caller], after: voice.queues, on: loop)
        }
    }

    private static func close(_ clients: [Client], until deadline: Instant, on loop: any EventLoop) async {
        await withTaskGroup { group in
            for client in clients { group.addTask { await client.close() } }
            let watch = Alarm(on: loop)
            group.addTask {
                await watch.wait(until: deadline)
                for client in clients where loop.now >= deadline { await client.closeNow() }
            }
            for _ in clients { await group.next() }
            group.cancelAll()
        }
    }

    private func awaitClosed() async {
        if lifecycle == .closed { return }
        await withContinuation { closeWaiters.append($0) }
    }
}

/// Creates a cluster, passes it to a closure, and closes it when the closure ends.
///
/// When `body` returns, the cluster is closed as by ``Cluster/close()``. When `body` throws, it is closed as by
/// ``Cluster/closeNow()``, and the error is rethrown.
///
/// - Parameters:
///   - discovery: Finds the servers.
///   - codec: The wire format.
///   - options: The options of the calls and of each client.
///   - loops: The set of event loops over which the links are spread.
///   - change: Changes the options of the cluster.
///   - body: The closure that uses the cluster. Do not use the cluster after `body` has ended.
/// - Returns: What `body` returns.
public nonisolated(nonsending) func withCluster<Result>(
    discovering discovery: Discovery,
    speaking codec: some FrameCodec,
    options: ClientOptions = ClientOptions(),
    on loops: EventLoops = .shared,
    changing change: (inout ClusterOptions) -> Void = { _ in },
    _ body: nonisolated(nonsending) (Cluster) async throws -> Result
) async throws -> Result {
    var clusterOptions = ClusterOptions()
    change(&clusterOptions)
    let cluster = Cluster(discovery, codec, options, clusterOptions, on: loops)
    do {
        let result = try await body(cluster)
        await cluster.close()
        return result
    } catch {
        await cluster.closeNow()
        throw error
    }
}
