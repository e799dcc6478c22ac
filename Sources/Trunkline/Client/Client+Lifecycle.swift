import Synchronization

/// From the first connect to the close.
extension Client {
    /// Connects now instead of on first use, and returns when the link is ready.
    ///
    /// - Throws: `unavailable` when the client gives up (`options.reconnecting.maximumAttempts` is reached, the policy says
    ///   so, every server refused for good, there is no endpoint), `closed`, or `cancelled`. Otherwise it goes on trying;
    ///   bound it with `withTimeout`.
    public nonisolated func connect() async throws(ClientError) {
        let id = nextRequestID()
        let error = await withTaskCancellationHandler {
            await withContinuation { continuation in
                commandQueue.post(.connect(id, continuation))
                if Task.isCancelled { commandQueue.post(.cancelConnect(id)) }
            }
        } onCancel: {
            commandQueue.post(.cancelConnect(id))
        }
        if let error { throw error }
    }

    /// Closes in good order: requests that are out finish or meet their deadline, new ones fail with `closed`.
    ///
    /// Returns when the socket is closed; calling it again waits for the same end. Waits for
    /// `options.requests.drainTimeout` (30 s) at most; if the calling task is cancelled, it closes at once.
    public nonisolated func close() async {
        commandQueue.post(.close)
        await withTaskCancellationHandler {
            await awaitClosed()
        } onCancel: {
            commandQueue.post(.closeNow)
        }
    }

    /// Closes at once: requests that are out fail with `closed`, fate `unknown` or `notSent`.
    public nonisolated func closeNow() async {
        commandQueue.post(.closeNow)
        await awaitClosed()
    }

    /// Connects, and returns when the client is closed. Cancelling the task closes the client in good order.
    ///
    /// For a `ServiceGroup` of swift-service-lifecycle, wrap the client in a service of your own. This package does not
    /// depend on that one, so a conformance by an empty extension would run, but not return on graceful shutdown:
    ///
    /// ```swift
    /// struct ClientService: Service {
    ///     let client: Client
    ///     func run() async throws { try await cancelWhenGracefulShutdown { try await client.run() } }
    /// }
    /// ```
    ///
    /// On graceful shutdown, requests in flight finish within `options.requests.drainTimeout` (30 s), new ones fail with
    /// `closed`, fate `notSent`, and the service returns. List it before the services that use the client: a group shuts
    /// down in reverse order.
    public nonisolated func run() async throws {
        let id = nextRequestID()
        await withTaskCancellationHandler {
            let _: ClientError? = await withContinuation { continuation in
                commandQueue.post(.connect(id, continuation))
                commandQueue.post(.cancelConnect(id))  // nobody waits for the link: it is only asked for
            }
            await awaitClosed()
        } onCancel: {
            commandQueue.post(.close)
        }
    }

    private nonisolated func awaitClosed() async {
        await withContinuation { commandQueue.post(.awaitClosed($0)) }
    }

    // MARK: On the loop

    func connect(_ id: UInt64, _ continuation: Continuation<ClientError?>) {
        guard lifecycle == .open else {
            return continuation.resume(returning: ClientError(.closed, .notSent, "the client is closed"))
        }
        guard !isReady else { return continuation.resume(returning: nil) }
        connectWaiters[id] = continuation
        connection.inCallOfOwner { $0.connectIfNeeded() }
    }

    func drain() {
        guard lifecycle == .open else { return }
        refuseRequests(.draining)
        drainDeadline = loop.now.advanced(by: options.requests.drainTimeout)
        failConnectWaiters()
    }

    /// Everything that was out has ended. The connection may still have something to write, until `drainDeadline`.
    func endDraining() {
        lifecycle = .closing
        connection.inCallOfOwner { $0.drain() }
    }

    func closeAtOnce() {
        guard lifecycle < .closed else { return }
        refuseRequests(.closing)
        drainDeadline = nil
        connection.inCallOfOwner { $0.finishClosing() }
    }

    /// The connection is closed for good.
    func closed() {
        refuseRequests(.closed)
        drainDeadline = nil
        let error = ClientError(.closed, .notSent, "the client was closed")
        failWaiting(error)
        let rest = parts.removeAll()
        for part in rest.held + rest.queued { part.fail(error, isSent: false) }
        queue.forgetDeadlines()
        failConnectWaiters()
        for channel in channels.all { channel.finish() }
        channels.removeAll()
        fullReplies.removeAll()
        for waiter in closeWaiters { waiter.resume() }
        closeWaiters.removeAll()
    }

    private func refuseRequests(_ lifecycle: Lifecycle) {
        self.lifecycle = lifecycle
        messageRoom.close()
        responseCache.close()
    }

    private func failConnectWaiters() {
        resumeConnectWaiters(ClientError(.closed, .notSent, "the client was closed"))
    }

    /// Tells everyone who waits for a link, in the order in which they came: the order of a dictionary differs from
    /// process to process, and a simulation is to repeat itself in all of them.
    func resumeConnectWaiters(_ error: ClientError?) {
        let waiters = Swift.exchange(&connectWaiters, with: [:]).sorted { $0.key < $1.key }
        for (_, waiter) in waiters { waiter.resume(returning: error) }
    }
}

/// Makes a client, runs `body` with it and closes it on every way out: in good order when `body` returns, at once when
/// it throws.
public nonisolated(nonsending) func withClient<Result>(
    to endpoints: [Endpoint],
    speaking codec: some FrameCodec,
    options: ClientOptions = ClientOptions(),
    on loops: EventLoops = .shared,
    _ body: nonisolated(nonsending) (Client) async throws -> Result
) async throws -> Result {
    let client = Client(to: endpoints, speaking: codec, options: options, on: loops)
    do {
        let result = try await body(client)
        await client.close()
        return result
    } catch {
        await client.closeNow()
        throw error
    }
}

/// As `withClient` with a list of endpoints, for a single one.
public nonisolated(nonsending) func withClient<Result>(
    to endpoint: Endpoint,
    speaking codec: some FrameCodec,
    options: ClientOptions = ClientOptions(),
    on loops: EventLoops = .shared,
    _ body: nonisolated(nonsending) (Client) async throws -> Result
) async throws -> Result {
    try await withClient(to: [endpoint], speaking: codec, options: options, on: loops, body)
}
