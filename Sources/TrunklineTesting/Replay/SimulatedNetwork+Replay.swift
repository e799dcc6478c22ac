public import Trunkline
public import TrunklineDiagnostics

/// The result of replaying a recording.
public struct Replay: Sendable {
    /// The recording that was replayed.
    public let original: Recording
    /// The recording of the client in the simulation.
    public let recording: Recording

    /// How each call ended in the original and in the replay, in the order of the calls. The numbers are those of the
    /// original; in the replay a call may have another one. `nil` if the call was not made.
    public var outcomes: [(id: RequestID, original: Recording.Outcome, replayed: Recording.Outcome?)] {
        let now = recording.outcomesInOrder
        return original.outcomesInOrder.enumerated().map { index, was in
            (was.id, was.outcome, index < now.count ? now[index].outcome : nil)
        }
    }

    /// The calls that ended differently, and the ends of links that differ, each as a line. Empty if the client did the
    /// same as in the original. Times are not compared.
    public var differences: [String] {
        let (was, now) = (original.outcomesInOrder, recording.outcomesInOrder)
        var differences = zip(was, now).filter { $0.0.outcome != $0.1.outcome }.map { was, now in
            "call \(was.id): was \(was.outcome), now \(now.outcome)"
        }
        if was.count != now.count { differences.append("calls: \(was.count) were made, now \(now.count)") }
        if !recording.isComplete { differences.append("the recording of the replay is not complete") }
        if original.ends != recording.ends {
            differences.append("ends of links: were \(original.ends), now \(recording.ends)")
        }
        return differences
    }
}

extension SimulatedNetwork {
    /// Replays a recording: the calls of its client, and what its servers and its network did. Must be called within
    /// ``run(limits:_:)``.
    ///
    /// A new client makes the recorded calls at their times, and cancels those that were cancelled. The servers reply to
    /// each request as they did, after the recorded time, and send their pushes, pings and announcements. Attempts fail,
    /// and links end, as they did. What was not recorded of bodies and byte fields is filled with zeros. The client
    /// waits between its attempts as long as it did.
    ///
    /// This is not replayed:
    ///
    /// - TLS. Links are in plaintext, and attempts that failed in the TLS handshake end with `reset` instead.
    /// - Call options other than the timeout: retry policies of single calls, `waitsForReady`, caches. The back-off before
    ///   a request is sent again is drawn anew.
    /// - Subscriptions, which are single requests in a recording, and requests of `open`, which are left out.
    /// - What happened before the first entry, if the recording is not complete.
    ///
    /// - Parameters:
    ///   - recording: The recording.
    ///   - codec: The codec of the recorded client.
    ///   - options: The options of the recorded client. The TLS options, the reconnect policy and the recorder are
    ///     replaced. Interceptors, observers and the log are left out: the recorded requests have passed the interceptors
    ///     already.
    /// - Returns: The recording of the new client, to compare.
    /// - Throws: `RecordingError` if all bodies and byte fields of the recorded frames together have more than 1 GiB:
    ///   a recording may come from anywhere. `TransportError` if a server cannot be started, because this network has
    ///   one with the same address.
    public func replay(
        _ recording: Recording,
        speaking codec: some FrameCodec,
        options: ClientOptions = ClientOptions()
    ) async throws -> Replay {
        try await replay(recording, speaking: codec, options: options, room: 1 << 30)
    }

    /// - Parameter room: The number of bytes that all frames may have in their bodies and byte fields.
    package func replay(
        _ recording: Recording,
        speaking codec: some FrameCodec,
        options: ClientOptions = ClientOptions(),
        room: Int
    ) async throws -> Replay {
        let script = try ReplayScript(recording, room: room)
        let padding = Lock(RecordingPadding())
        var conditions = NetworkConditions()
        (conditions.latency, conditions.resolutionDelay) = (.zero...(.zero), .zero...(.zero))
        conditions.fragmentation = 0
        setConditions(conditions)
        var servers: [Endpoint: LoopbackServer] = [:]
        for endpoint in script.endpoints {
            prepare(endpoint, script.attempts[endpoint] ?? [])
            servers[endpoint] = try await startReplayServer(
                at: endpoint,
                codec,
                script.exchanges[endpoint] ?? [],
                padding
            )
        }

        var options = options
        options.tls = ClientOptions.TLS()
        // The recorded requests have passed the interceptors. Logs and observers are those of the recorded client.
        (options.interceptors, options.observers, options.logging) = ([], [], nil)
        options.reconnecting.policy = options.reconnecting.policy.map { RecordedDelays(script.delays, then: $0) }
        // The same entries take about as much memory as their text.
        options.recorder = .ring(bytes: max(4 << 20, 2 * recording.jsonLines.utf8.count))
        let client = Client(to: script.endpoints, speaking: codec, options: options, on: loops)
        try await perform(script, client, servers, padding)
        guard let replayed = await client.diagnostics.recording else {
            preconditionFailure("the client has a recorder")
        }
        client.cancelAll()
        await client.close()
        for server in servers.values.sorted(by: { "\($0.endpoint)" < "\($1.endpoint)" }) { await server.stop() }
        return Replay(original: recording, recording: replayed)
    }

    /// Does what the script says, at its times.
    private func perform(
        _ script: ReplayScript,
        _ client: Client,
        _ servers: [Endpoint: LoopbackServer],
        _ padding: Lock<RecordingPadding>
    ) async throws {
        let start = clock.now
        // Only those that are cancelled: a handle keeps the response.
        var calls: [RequestID: PendingRequest<Response>] = [:]
        for (time, action) in script.actions {
            try await clock.sleep(until: start.advanced(by: time))
            switch action {
            // It ends when the link is ready, or with the client.
            case .connect: Task(executorPreference: executor) { try? await client.connect() }
            case .call(let call, let header):
                let request = padding.withLock { call.request(header, &$0) }
                let timeout = call.timeout.map { Timeout.after($0) } ?? .never
                if call.isOneWay {
                    try? await client.enqueue(request, timeout: timeout)
                } else {
                    let handle = client.start(request, timeout: timeout)
                    if script.cancelled.contains(call.id) { calls[call.id] = handle }
                }
            case .cancel(let id): calls.removeValue(forKey: id)?.cancel()
            case .send(let header, let endpoint):
                let frame = padding.withLock { header.frame(&$0) }
                _ = try? await servers[endpoint]?.broadcast(frame)
            case .end(let endpoint, .closedByServer): await servers[endpoint]?.disconnectAll()
            case .end(_, .goAway): break  // the server has announced it, and the client closes the link
            case .end(let endpoint, .protocolViolation): await servers[endpoint]?.perform(.absurdLength)
            case .end(let endpoint, .halfOpen): halfOpen(endpoint.hostName)
            case .end(let endpoint, let cause): breakLinks(to: endpoint.hostName, cause.transportError)
            case .close: Task(executorPreference: executor) { await client.close() }  // ends with the client
            }
        }
        try await clock.sleep(until: start.advanced(by: script.length + .milliseconds(1)))
    }

    /// Makes the attempts at `endpoint` end as they did.
    private func prepare(_ endpoint: Endpoint, _ attempts: [ReplayScript.Attempt]) {
        let name = endpoint.hostName
        host(name)
        let outcomes = attempts.map { attempt -> (lookupFails: Bool, connect: ScriptedConnect?) in
            switch attempt {
            case .ready(let delay): (false, .accept(after: delay))
            case .failed(_, .resolving, _): (true, nil)
            case .failed(.timedOut, _, _): (false, .swallow)
            case .failed(let cause, _, let delay): (false, .refuse(cause.transportError, after: delay))
            }
        }
        scriptAttempts(at: name, lookupFailures: outcomes.map(\.lookupFails), outcomes.compactMap(\.connect))
    }

    private func startReplayServer(
        at endpoint: Endpoint,
        _ codec: some FrameCodec,
        _ exchanges: [Recording.Exchange],
        _ padding: Lock<RecordingPadding>
    ) async throws -> LoopbackServer {
        var all: [Likeness: Deque<Recording.Exchange>] = [:]
        for exchange in exchanges {
            let likeness = Likeness(type: exchange.request.type, bodyCount: exchange.request.bodyCount)
            all[likeness, default: Deque()].append(exchange)
        }
        let rest = Lock(all)
        let options = LoopbackServer.Options { $0.answersCancelled = true }
        return try await startServer(at: endpoint, speaking: codec, options: options) { request in
            let likeness = Likeness(type: request.type, bodyCount: request.body.count)
            let exchange = rest.withLock { $0[likeness]?.popFirst() }
            return exchange.map { exchange in .sequence(padding.withLock { exchange.reactions(&$0) }) } ?? .noReply
        }
    }
}

/// Requests that look the same have the exchanges of the recording in turn.
private struct Likeness: Hashable {
    let type: UInt32
    let bodyCount: Int
}

extension Recording.Call {
    /// The request of the call, with what was recorded of its frame.
    fileprivate func request(_ header: Recording.Header?, _ padding: inout RecordingPadding) -> Request {
        guard var frame = header?.frame(&padding) else {
            return Request(type: type, body: padding.padded(nil, to: bodyCount))
        }
        frame.serial = 0
        return Request(frame)
    }
}

/// Decides as recorded, and then as another policy.
private final class RecordedDelays: ReconnectPolicy {
    private let delays: Lock<ArraySlice<Duration>>
    private let policy: any ReconnectPolicy

    init(_ delays: [Duration], then policy: any ReconnectPolicy) {
        self.delays = Lock(delays[...])
        self.policy = policy
    }

    func decision(for failure: ReconnectFailure, random: () -> Double) -> ReconnectDecision {
        let decision = policy.decision(for: failure, random: random)
        if case .giveUp = decision { return decision }
        return delays.withLock { $0.popFirst() }.map { .retry(after: $0) } ?? decision
    }
}

extension Recording.Exchange {
    /// The replies, at their times after the request.
    fileprivate func reactions(_ padding: inout RecordingPadding) -> [Reaction] {
        replies.map { reply in
            var frame = reply.header.frame(&padding)
            frame.serial = 0
            let reaction: Reaction = frame.kind == .part ? .part(frame) : .reply(frame)
            return .after(max(.zero, reply.time - time), reaction)
        }
    }
}

extension Recording {
    /// How the calls ended, in the order in which they were made.
    fileprivate var outcomesInOrder: [(id: RequestID, outcome: Outcome)] {
        let left = Set(
            entries.compactMap { entry in if case .call(let call) = entry.content, call.isOpen { call.id } else { nil }
            }
        )
        return outcomes.filter { !left.contains($0.key) }.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
    }

    /// The phases and causes of failed attempts and ended links.
    fileprivate var ends: [String] {
        entries.compactMap { entry in
            guard case .event(let event) = entry.content, event.isEnd, let phase = event.phase, let cause = event.cause
            else { return nil }
            return "\(phase.rawValue) \(cause.rawValue)"
        }
    }
}

extension DisconnectCause {
    /// An error of the network with this cause.
    fileprivate var transportError: TransportError {
        switch self {
        case .refused: TransportError(.refused, errno: 111, "connection refused")
        case .unreachable: TransportError(.unreachable, errno: 113, "no route to host")
        case .timedOut: TransportError(.timedOut, errno: 110, "connection timed out")
        case .pathLost: TransportError(.pathLost, "the path was lost")
        case .system: TransportError(.system, "an error of the system")
        default: TransportError(.reset, errno: 104, "connection reset by peer")
        }
    }
}

extension Endpoint {
    /// The host, as the methods of `SimulatedNetwork` name it.
    fileprivate var hostName: String {
        switch target {
        case .host(let name, _): name
        case .unix(let path): "unix:\(path)"
        }
    }
}
