public import TrunklineCore

extension Cluster {
    /// Returns a stream of the selected pushes of all servers, from now on.
    ///
    /// Each element names its server: ``PushMessage/endpoint``. If several servers, or several links to one server,
    /// send the same push, the stream receives it several times. An element `.reconnected` says that the link to one of
    /// the servers was replaced. Otherwise the stream is like that of a client.
    ///
    /// - Parameters:
    ///   - selection: The pushes that the stream receives.
    ///   - buffering: How many pushes are buffered for a slow reader, and what happens beyond that.
    /// - Returns: The stream.
    public nonisolated func pushes(_ selection: PushSelection, buffering: PushBuffering = PushBuffering()) -> PushStream
    {
        begin()
        return listeners.add(selection, buffering)
    }

    /// Answers a push on the link on which it was received. See ``Client/post(_:answering:timeout:)``.
    ///
    /// - Parameters:
    ///   - request: The type, body and fields of the answer.
    ///   - push: The push to answer.
    ///   - timeout: The time from this call until the answer is written.
    /// - Throws: A ``ClientError``. If the server of the push has been removed, it is `connectionLost`, fate `notSent`.
    public nonisolated func post(
        _ request: Request,
        answering push: PushMessage,
        timeout: Timeout = .default
    ) async throws(ClientError) {
        try await client(of: push).post(request, answering: push, timeout: timeout)
    }

    /// Accepts an answer to a push for sending on the link on which the push was received. See
    /// ``Client/enqueue(_:answering:timeout:)``.
    ///
    /// - Parameters:
    ///   - request: The type, body and fields of the answer.
    ///   - push: The push to answer.
    ///   - timeout: The time from this call until the answer is written.
    /// - Throws: A ``ClientError``. If the server of the push has been removed, it is `connectionLost`, fate `notSent`.
    public nonisolated func enqueue(
        _ request: Request,
        answering push: PushMessage,
        timeout: Timeout = .default
    ) async throws(ClientError) {
        try await client(of: push).enqueue(request, answering: push, timeout: timeout)
    }

    private nonisolated func client(of push: PushMessage) throws(ClientError) -> Client {
        guard let session = push.session else {
            throw ClientError(.invalidArgument, .notSent, "the push was not received from a server")
        }
        guard let client = listeners.client(of: session) else {
            throw ClientError(.connectionLost, .notSent, "the server of the push has been removed")
        }
        return client
    }
}

/// The push streams of a cluster, each of which listens to all clients.
final class ClusterListeners: PushChannelOwner {
    private struct State {
        var channels: [PushChannel] = []
        var clients: [UInt64: (client: Client, source: ClusterSource)] = [:]
        /// Of the clients that were removed last, whose pushes may be in a buffer.
        var pastSources: [UInt64: ClusterSource] = [:]
        var lastNumber: UInt64 = 0
        var isClosed = false

        var all: [Client] { clients.sorted { $0.key < $1.key }.map(\.value.client) }
    }

    private let state = Lock(State())

    func add(_ selection: PushSelection, _ buffering: PushBuffering) -> PushStream {
        let (channel, clients, isClosed) = state.withLock { state in
            state.lastNumber += 1
            let channel = PushChannel(state.lastNumber, selection, buffer: buffering.buffer, owner: self)
            if !state.isClosed { state.channels.append(channel) }
            return (channel, state.all, state.isClosed)
        }
        if isClosed { channel.finish() }
        for client in clients { client.commandQueue.post(.listen(channel)) }
        return PushStream(channel)
    }

    func noteReconnected() { for channel in state.withLock({ $0.channels }) { channel.noteReconnected() } }

    func resumeReading() {
        for client in state.withLock({ $0.all }) { client.commandQueue.post(.resumeReading) }
    }

    func stopListening(_ channel: PushChannel) {
        let clients = state.withLock { state in
            state.channels.removeAll { $0 === channel }
            return state.all
        }
        for client in clients { client.commandQueue.post(.stopListening(channel)) }
    }

    func add(_ client: Client, _ number: UInt64, of source: ClusterSource) {
        let channels = state.withLock { state in
            state.clients[number] = (client, source)
            return state.channels
        }
        for channel in channels { client.commandQueue.post(.listen(channel)) }
    }

    func remove(_ number: UInt64) {
        state.withLock { state in
            guard let source = state.clients.removeValue(forKey: number)?.source else { return }
            state.pastSources[number] = source
            if state.pastSources.count > 1024, let oldest = state.pastSources.keys.min() {
                state.pastSources[oldest] = nil
            }
        }
    }

    var endsWithClient: Bool { false }

    func source(of session: SessionID) -> ClusterSource? {
        state.withLock { $0.clients[session.client]?.source ?? $0.pastSources[session.client] }
    }

    func client(of session: SessionID) -> Client? { state.withLock { $0.clients[session.client]?.client } }

    func close() {
        let channels = state.withLock { state in
            state.isClosed = true
            state.clients = [:]
            return exchange(&state.channels, with: [])
        }
        for channel in channels { channel.finish() }
    }
}
