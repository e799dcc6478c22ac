import TrunklineCore
import TrunklineDiagnostics

/// Counts from the oldest entry. Unchecked `Sendable`: confined to the loop of the simulation.
final class ReplayTime: @unchecked Sendable {
    private let clock: SimulatedClock
    private(set) var start: SimulatedClock.Instant

    init(_ clock: SimulatedClock) {
        self.clock = clock
        start = clock.now
    }

    func begin() { start = clock.now }

    var elapsed: Duration { start.duration(to: clock.now) }

    func sleep(until time: Duration) async throws { try await clock.sleep(until: start.advanced(by: time)) }

    /// How far off something may be to happen at its recorded time.
    static let tolerance = Duration.milliseconds(250)

    /// The wait for something that happened at `time`, and `delay` after something that happened at `earlier` and
    /// happens now.
    func delay(until time: Duration, since earlier: Duration) -> Duration {
        let now = elapsed
        let isOnTime = max(now - earlier, earlier - now) <= Self.tolerance
        return max(.zero, time - (isOnTime ? now : earlier))
    }
}

/// Performs the actions of a script at their times.
final class ReplayPlayer {
    private let network: SimulatedNetwork
    private let script: ReplayScript
    private let client: Client
    private let codec: ProtocolCodec
    private let servers: [Endpoint: LoopbackServer]
    private let padding: Lock<RecordingPadding>
    /// Only calls that are cancelled: a handle keeps the response.
    private var calls: [RequestID: PendingRequest<Response>] = [:]

    /// How late the client may have given up a half-open link: its event loop may have been late.
    static let patience = Duration.seconds(1)
    /// Calls that are sent again may end a little later than they did.
    private static let overtime = Duration.milliseconds(100)

    init(
        _ script: ReplayScript,
        _ client: Client,
        _ codec: ProtocolCodec,
        _ servers: [Endpoint: LoopbackServer],
        _ padding: Lock<RecordingPadding>,
        in network: SimulatedNetwork
    ) {
        (self.script, self.client, self.codec, self.servers) = (script, client, codec, servers)
        (self.padding, self.network) = (padding, network)
    }

    func begin(_ options: ClientOptions, at time: ReplayTime) async throws {
        guard let beginning = script.beginning else { return time.begin() }
        if let endpoint = beginning.endpoint {
            if endpoint != script.endpoints.first { try? await client.switchEndpoint(to: endpoint) }
            connect()
            try await pass(.milliseconds(1))
            await client.diagnostics.markLinkAsProved()
            // After that, a link is not young any more. It is quiet meanwhile.
            let age = min(beginning.age, max(.zero, options.reconnecting.stableAfter).addingClamped(.seconds(1)))
            try await pass(min(age, .seconds(3600)))
        } else {
            await client.suspend()
        }
        time.begin()
        // Their serials are held from now on as long as they were held from the end of these calls on.
        let abandoned = beginning.calls.filter { call in
            call.abandonedFor.map { $0 < options.requests.quarantine } ?? false
        }
        let handles = abandoned.map { client.start(Request(type: $0.type), timeout: .never) }
        try await pass(.nanoseconds(1))
        for handle in handles { handle.cancel() }
        for call in beginning.calls where call.abandonedFor == nil { await make(call) }
        // Everything that follows from these calls happens before the oldest entry.
        try await pass(.nanoseconds(1))
        time.begin()
    }

    func play(at time: ReplayTime) async throws {
        for (instant, action) in script.actions {
            try await time.sleep(until: instant)
            await perform(action)
        }
        try await time.sleep(until: script.length + Self.overtime)
    }

    private func pass(_ duration: Duration) async throws { try await network.clock.sleep(for: duration) }

    private func connect() {
        // Unstructured: it ends when the link is ready, or with the client.
        Task(executorPreference: network.executor) { [client] in try? await client.connect() }
    }

    private func perform(_ action: ReplayScript.Action) async {
        switch action {
        case .connect: connect()
        case .call(let call): await make(call)
        case .cancel(let id): calls.removeValue(forKey: id)?.cancel()
        case .send(let header, let endpoint):
            let frame = padding.withLock { header.frame(&$0) }
            _ = try? await servers[endpoint]?.broadcast(frame)
        case .end(let endpoint, let cause): await endLinks(to: endpoint, cause)
        case .silence(let endpoint): network.halfOpen(endpoint.hostName)
        case .giveUp(let endpoint):
            // With other options, the client may give the link up later, or not at all.
            guard await client.diagnostics.givesLinkUp(within: Self.patience * 2) else { return }
            network.breakLinks(to: endpoint.hostName, TransportError(.halfOpen, "the recorded link was half-open"))
        case .renewLink: await client.renewLink()
        case .replaceEndpoints(let endpoints): await client.replaceEndpoints(endpoints)
        case .suspend: await client.suspend()
        case .resume: await client.resume()
        case .close:
            // Unstructured: it ends with the client.
            Task(executorPreference: network.executor) { [client] in await client.close() }
        }
    }

    private func make(_ call: ReplayScript.Call) async {
        let request = padding.withLock { [codec] in call.request(&$0, codec) }
        let timeout = call.timeout.map { Timeout.after($0) } ?? .never
        if call.isOneWay {
            try? await client.enqueue(request, timeout: timeout)
            return
        }
        var options = CallOptions()
        if let (tries, delay) = call.retries {
            options.retry = .idempotent(tries: tries, backoff: Backoff(minimum: delay, base: delay, cap: delay))
        }
        let handle = client.start(request, timeout: timeout, options: options)
        if call.isCancelledAtOnce { handle.cancel() } else if call.isCancelled, let id = call.id { calls[id] = handle }
    }

    private func endLinks(to endpoint: Endpoint, _ cause: DisconnectCause) async {
        switch cause {
        case .closedByServer: await servers[endpoint]?.disconnectAll()
        case .goAway: break  // the server has announced it, and the client closes the link
        case .protocolViolation: await servers[endpoint]?.perform(.absurdLength)
        default: network.breakLinks(to: endpoint.hostName, cause.transportError(isPermanent: false))
        }
    }
}

extension ReplayScript.Call {
    fileprivate func request(_ padding: inout RecordingPadding, _ codec: ProtocolCodec) -> Request {
        guard var frame = header?.frame(&padding, named: codec) else {
            return Request(type: type, body: padding.padded(nil, to: bodyCount))
        }
        frame.serial = 0
        return Request(frame)
    }
}

extension DisconnectCause {
    func transportError(isPermanent: Bool) -> TransportError {
        switch self {
        case .refused: TransportError(.refused, errno: 111, "connection refused")
        case .unreachable: TransportError(.unreachable, errno: 113, "no route to host")
        case .timedOut: TransportError(.timedOut, errno: 110, "connection timed out")
        case .pathLost: TransportError(.pathLost, "the path was lost")
        case .closedByServer: TransportError(.closedByPeer, "the server closed the connection")
        case .exited: TransportError.exited(.signal(9))
        case .halfOpen: TransportError(.halfOpen, "nothing was received")
        case .system where isPermanent: TransportError(.invalidAddress, "the address is invalid")
        case .system: TransportError(.system, "an error of the system")
        case .proxy:
            TransportError(.proxy(isPermanent ? .notAllowed : .unreachable), "the proxy failed in the recording")
        case .tls: TransportError(.tls(isPermanent ? .untrusted : .protocolViolation), "TLS failed in the recording")
        default: TransportError(.reset, errno: 104, "connection reset by peer")
        }
    }
}

extension Endpoint {
    var hostName: String {
        switch target {
        case .host(let name, _): name
        case .unix(let path): "unix:\(path)"
        case .vsock, .command, .descriptors: "\(Endpoint(target: target))"
        }
    }
}
