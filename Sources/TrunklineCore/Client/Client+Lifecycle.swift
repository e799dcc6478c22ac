import Synchronization

extension Client {
    /// Connects now instead of on first use, and returns when the link is ready.
    ///
    /// The client tries until it succeeds, for ever if need be. To fail early, use ``connect(timeout:)``. If the task
    /// is cancelled, the call fails immediately, and the client continues to connect. While the client is suspended,
    /// the call waits for ``Client/resume()``.
    ///
    /// - Throws: A ``ClientError``, always with the fate `notSent`:
    ///   - `unavailable`: the client gave up. Either `options.reconnecting.maximumAttempts` attempts failed, or the
    ///     reconnect policy gave up, or every endpoint failed permanently, or there is no endpoint.
    ///   - `tlsFailed`: the client gave up, and the latest attempt at every endpoint failed because of TLS.
    ///   - `cancelled`: the task was cancelled.
    ///   - `closed`: the client is closed or closing.
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

    /// Connects now instead of on first use, and returns when the link is ready, or fails when `timeout` has passed:
    /// for programs that must not start without a server.
    ///
    /// After an error, the client continues to connect. Otherwise the method behaves like ``connect()``.
    ///
    /// - Parameter timeout: The time that the client has, with all attempts, counted from the call; at most a hundred
    ///   years.
    /// - Throws: A ``ClientError``, always with the fate `notSent`: `timedOut` if no link was ready in time, or if
    ///   `timeout` is not positive. Its ``ClientError/cause`` is why the latest attempt failed, if one did, and its
    ///   ``ClientError/attempts`` are the failed ones. Otherwise, the errors of ``connect()``.
    public nonisolated func connect(timeout: Duration) async throws(ClientError) {
        let connect: @Sendable () async throws(ClientError) -> Void = { () async throws(ClientError) in
            try await self.connect()
        }
        try await connecting(within: timeout, on: loop, connect) { error in
            let obstacle = error.linkObstacle == .notConnected ? nil : error.linkObstacle
            let further = obstacle.map { "; \($0.text)" } ?? ""
            return error.changed {
                ($0.code, $0.message) = (.timedOut, "no link was ready within \(timeout.text)\(further)")
            }
        }
    }

    /// Closes the client after its requests have ended.
    ///
    /// New requests fail with `closed` from now on. Earlier requests, including those that wait for a link, continue
    /// until they are answered or their deadline passes. After the last one, the client sends the closing frame of the
    /// protocol, if there is one, and closes the link. The call returns when the client is closed.
    ///
    /// This takes at most `options.requests.drainTimeout` (30 s): then the remaining requests fail with `closed`, fate
    /// `notSent` or `unknown`. After that the call waits, for at most 2 s, until the observers, the log and the
    /// receiver of dumps have received everything.
    ///
    /// If the link has a child process (``Endpoint/command(_:_:environment:inheritsEnvironment:workingDirectory:)``),
    /// the call returns when that has ended. This takes up to 4 s if the process ignores the end of its input and
    /// `SIGTERM`.
    ///
    /// If the calling task is cancelled, the client is closed at once, as by ``Client/closeNow()``. A second call
    /// returns when the client is closed, too.
    ///
    /// The socket may stay open after the call for up to 1 s (over TLS up to 30 s), until the server closes its side,
    /// so that the server can receive everything that was written.
    public nonisolated func close() async {
        commandQueue.post(.close)
        await withTaskCancellationHandler {
            await awaitClosed()
        } onCancel: {
            commandQueue.post(.closeNow)
        }
    }

    /// Closes the client at once.
    ///
    /// Requests that have not ended fail with `closed`: fate `notSent` if no byte was written, otherwise `unknown`. No
    /// closing frame is sent. The call returns when the client is closed, its child processes have ended (as with
    /// ``Client/close()``), and the observers, the log and the receiver of
    /// dumps have received everything; for these it waits at most 2 s. Cancelling the calling task has no effect.
    public nonisolated func closeNow() async {
        commandQueue.post(.closeNow)
        await awaitClosed()
    }

    /// Connects and returns when the client is closed. Cancelling the task closes the client as ``Client/close()``
    /// does.
    ///
    /// The method has the signature that service lifecycle frameworks call; <doc:Bridges#Lifecycle> has a service for a
    /// `ServiceGroup`. It does not throw: a failure to connect is reported by ``Client/states`` and
    /// ``Client/disconnects``, and the client continues as its reconnect policy says.
    public nonisolated func run() async throws {
        await withTaskCancellationHandler {
            connectSoon()
            await awaitClosed()
        } onCancel: {
            commandQueue.post(.close)
        }
    }

    package nonisolated func connectSoon() { commandQueue.post(.needLink) }

    private nonisolated func awaitClosed() async {
        await withContinuation { commandQueue.post(.awaitClosed($0)) }
    }
}

/// Creates a client, passes it to a closure, and closes it when the closure ends.
///
/// When `body` returns, the client is closed as by ``Client/close()``. When `body` throws, it is closed as by
/// ``Client/closeNow()``, and the error is rethrown.
///
/// - Parameters:
///   - endpoints: The endpoints, in the order in which they are tried.
///   - codec: The wire format.
///   - options: The options of the client.
///   - loops: The set of event loops from which the client takes one.
///   - body: The closure that uses the client. Do not use the client after `body` has ended.
/// - Returns: What `body` returns.
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

/// Creates a client of a single endpoint, passes it to a closure, and closes it when the closure ends.
///
/// When `body` returns, the client is closed as by ``Client/close()``. When `body` throws, it is closed as by
/// ``Client/closeNow()``, and the error is rethrown.
///
/// - Parameters:
///   - endpoint: The endpoint of the server.
///   - codec: The wire format.
///   - options: The options of the client.
///   - loops: The set of event loops from which the client takes one.
///   - body: The closure that uses the client. Do not use the client after `body` has ended.
/// - Returns: What `body` returns.
public nonisolated(nonsending) func withClient<Result>(
    to endpoint: Endpoint,
    speaking codec: some FrameCodec,
    options: ClientOptions = ClientOptions(),
    on loops: EventLoops = .shared,
    _ body: nonisolated(nonsending) (Client) async throws -> Result
) async throws -> Result {
    try await withClient(to: [endpoint], speaking: codec, options: options, on: loops, body)
}
