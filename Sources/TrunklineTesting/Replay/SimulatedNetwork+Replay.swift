public import TrunklineCore
public import TrunklineDiagnostics
import TrunklineLogging

/// The result of replaying a recording.
public struct Replay: Sendable {
    /// The recording that was replayed.
    public let original: Recording
    /// The recording of the client in the simulation.
    public let recording: Recording
    /// The number of the last request before those of the original: see `ReplayScript.Beginning`.
    let lastBefore: RequestID
    /// In the order of the replay: callers on several threads may get their numbers in another order.
    let made: [RequestID]
    let end: Duration

    /// How each call ended in the original and in the replay, in the order of the calls. The numbers are those of the
    /// original; in the replay a call may have another one. `nil` if the call was not made.
    public var outcomes: [(id: RequestID, original: Recording.Outcome, replayed: Recording.Outcome?)] {
        let now = replayedOutcomes
        return original.outcomesInOrder.map { ($0.id, $0.outcome, now[$0.id]) }
    }

    private var replayedOutcomes: [RequestID: Recording.Outcome] {
        let outcomes = recording.outcomesInOrder.lazy.filter { $0.id > lastBefore }.map(\.outcome)
        return Dictionary(zip(made, outcomes)) { first, _ in first }
    }

    /// The calls that ended differently, and the ends of links that differ, each as a line. Empty if the client did the
    /// same as in the original. Times are not compared, and neither are calls that had not ended at the end of the
    /// original (`pending`).
    public var differences: [String] {
        let (was, now, names) = (original.outcomesInOrder, replayedOutcomes, original.names)
        var differences = was.compactMap { id, outcome -> String? in
            guard outcome != .pending, let other = now[id], other != outcome else { return nil }
            return "call \(id)\(names[id].map { " (\($0))" } ?? ""): was \(outcome), now \(other)"
        }
        if was.count != now.count { differences.append("calls: \(was.count) were made, now \(now.count)") }
        if !recording.isComplete { differences.append("the recording of the replay is not complete") }
        let (ends, replayed) = (original.ends.map(\.text), recording.ends)
        // The replay goes on a little longer than the original.
        let extra = replayed.dropFirst(ends.count).filter { $0.time < end }
        if ends != replayed.prefix(ends.count).map(\.text) || !extra.isEmpty {
            differences.append("ends of links: were \(ends), now \(replayed.map(\.text))")
        }
        return differences
    }
}

extension SimulatedNetwork {
    /// Replays a recording: the calls of its client, and what its servers and its network did. Must be called within
    /// ``run(limits:_:)``.
    ///
    /// A new client makes the recorded calls at their times, and cancels those that were cancelled. The servers reply
    /// to each request when they did, and send their pushes, pings and announcements. Attempts fail, and links end, as
    /// they did. What was not recorded of bodies and byte fields is filled with zeros, or with the name of the request.
    /// The client waits between its attempts as long as it did. A half-open link ends when it did, if the options end
    /// it within a second of that.
    ///
    /// Requests that were not recorded, such as further retries, are answered like the latest request of their type
    /// that was answered, while the server answers.
    ///
    /// If older entries were overwritten, the replay begins at the oldest one. Before that, the client connects to the
    /// server of the recorded link, and makes the calls that had not ended then, so that as many serials are in use.
    ///
    /// `options.handshake.perform` runs on a link if the recording has everything that the server said in its
    /// handshake: if the recorder kept the bodies of those frames, or if they are empty. Otherwise the handshake is
    /// bridged: it is left out, and has its recorded end. So is a handshake that began before the oldest entry, and one
    /// that begins TLS.
    ///
    /// This is not replayed:
    ///
    /// - TLS. Links are in plaintext. Attempts and links that failed because of TLS fail with the same cause, in the
    ///   same phase.
    /// - What a bridged handshake does with its ``/Trunkline/Handshaker``: default values, endpoints, server
    ///   information.
    /// - Call options other than the timeout: `waitsForReady`, caches, retry policies of calls that were not sent
    ///   again. The back-off before the third and later tries is drawn anew.
    /// - Subscriptions, which are single requests in a recording, and requests of `open`, which are left out.
    /// - Requests of the server: the client refuses them.
    /// - Sockets that take no bytes: requests that waited because of `options.outbound.highWatermark` may be sent.
    /// - Calls of ``/Trunkline/Client/switchEndpoint(to:)`` and ``/Trunkline/Client/renewLink()``.
    /// - What happened before the oldest entry, except the above: earlier failures of endpoints, for example.
    ///
    /// - Parameters:
    ///   - recording: The recording.
    ///   - codec: The codec of the recorded client.
    ///   - options: The options of the recorded client. The TLS options, the reconnect policy, the order of endpoints
    ///     and the recorder are replaced. Interceptors, observers and the log are left out: the recorded requests have
    ///     passed the interceptors already.
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

    /// `room` is the number of bytes that all frames may have in their bodies and byte fields.
    package func replay(
        _ recording: Recording,
        speaking codec: some FrameCodec,
        options: ClientOptions = ClientOptions(),
        room: Int
    ) async throws -> Replay {
        let isOrdered = options.failover.order == .ordered
        let script = try ReplayScript(recording, isOrdered: isOrdered, room: room)
        let time = ReplayTime(clock)
        let padding = Lock(RecordingPadding())
        var conditions = NetworkConditions()
        (conditions.latency, conditions.resolutionDelay) = (.zero...(.zero), .zero...(.zero))
        conditions.fragmentation = 0
        setConditions(conditions)
        let protocolCodec = ProtocolCodec(codec)
        let isInOrder = protocolCodec.matching == .inOrder
        var servers: [Endpoint: LoopbackServer] = [:]
        for endpoint in script.endpoints {
            prepare(endpoint, script.attempts[endpoint] ?? [])
            let exchanges = ReplayExchanges(script.exchanges[endpoint] ?? [], isInOrder: isInOrder)
            let options = LoopbackServer.Options { $0.answersCancelled = true }
            let linkCodec = LinkCodec(codec)
            let types = Lock<[SerialNumber: UInt32]>([:])
            servers[endpoint] = try await startServer(at: endpoint, speaking: codec, options: options) { request in
                if request.kind == .cancel {
                    let type = types.withLock { $0[request.cancelledSerial ?? request.serial] } ?? request.type
                    return linkCodec.cancelKind(ofType: type).isAnswered ? .reply(Frame(.response)) : .noReply
                }
                types.withLock { $0[request.serial] = request.type }
                guard let exchange = exchanges.next(for: request) else { return .noReply }
                return .sequence(padding.withLock { exchanges.reactions(exchange, time, &$0) })
            }
        }
        let created = clock.now
        let client = Client(
            to: script.endpoints,
            speaking: codec,
            options: replayed(options, script, recording, time),
            on: loops
        )
        let player = ReplayPlayer(script, client, protocolCodec, servers, padding, in: self)
        try await player.begin(options, at: time)
        let lastBefore = await client.diagnostics.recording?.lastCall ?? RequestID(0)
        let made = script.calls
        try await player.play(at: time)
        guard let replayed = await client.diagnostics.recording else {
            preconditionFailure("the client has a recorder")
        }
        client.cancelAll()
        await client.close()
        for server in servers.values.sorted(by: { "\($0.endpoint)" < "\($1.endpoint)" }) { await server.stop() }
        let end = created.duration(to: time.start) + script.length
        return Replay(original: recording, recording: replayed, lastBefore: lastBefore, made: made, end: end)
    }

    private func replayed(
        _ recorded: ClientOptions,
        _ script: ReplayScript,
        _ recording: Recording,
        _ time: ReplayTime
    ) -> ClientOptions {
        var options = recorded
        options.tls = ClientOptions.TLS()
        // The recorded requests have passed the interceptors. Logs and observers are those of the recorded client.
        (options.interceptors, options.observers, options.logging) = ([], [], nil)
        options.failover.order = .ordered
        options.reconnecting.policy = options.reconnecting.policy.map { RecordedDelays(script, time, then: $0) }
        options.handshake.perform = ReplayHandshakes(script, time).closure(over: options.handshake.perform)
        if script.hasHalfOpenLinks {
            options.liveness.deadline = options.liveness.deadline.addingClamped(ReplayPlayer.patience)
        }
        // The same entries take about as much memory as their text.
        let size = 2 * recording.jsonLines.utf8.count + 512 * (script.beginning?.calls.count ?? 0)
        options.recorder = .ring(bytes: max(4 << 20, size))
        return options
    }

    private func prepare(_ endpoint: Endpoint, _ attempts: [ReplayScript.Attempt]) {
        let name = endpoint.hostName
        host(name)
        let outcomes = attempts.map { attempt -> (lookupFails: Bool, connect: ScriptedConnect?) in
            switch attempt {
            case .established(let delay, _): (false, .accept(after: delay))
            case .failed(_, .resolving, _, _): (true, nil)
            case .failed(.timedOut, let phase, _, _): (false, .swallow(isSecuring: phase == .securing))
            case .failed(let cause, let phase, let isPermanent, let delay):
                (
                    false,
                    .refuse(
                        cause.transportError(isPermanent: isPermanent),
                        isSecuring: phase == .securing,
                        after: delay
                    )
                )
            }
        }
        scriptAttempts(at: name, lookupFailures: outcomes.map(\.lookupFails), outcomes.compactMap(\.connect))
    }
}

extension Recording {
    fileprivate var outcomesInOrder: [(id: RequestID, outcome: Outcome)] {
        let left = Set(
            entries.compactMap { entry in if case .call(let call) = entry.content, call.isOpen { call.id } else { nil }
            }
        )
        return outcomes.filter { !left.contains($0.key) }.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
    }

    fileprivate var ends: [(time: Duration, text: String)] {
        entries.compactMap { entry in
            guard case .event(let event) = entry.content, event.isEnd, let phase = event.phase, let cause = event.cause
            else { return nil }
            return (entry.time, "\(phase.rawValue) \(cause.rawValue)")
        }
    }

    fileprivate var names: [RequestID: String] {
        let named = entries.compactMap { entry -> (RequestID, String)? in
            guard case .call(let call) = entry.content, let name = call.name else { return nil }
            return (call.id, name.escaped(upTo: 64))
        }
        return Dictionary(named) { first, _ in first }
    }

    fileprivate var lastCall: RequestID? {
        entries.compactMap { if case .call(let call) = $0.content { call.id } else { nil } }.max()
    }
}
