import TrunklineCore

/// The part of a probe in which a client logs in and exchanges requests with the server.
struct ProbeSession {
    private let probe: Probe
    private let loop: any EventLoop
    private let loops: EventLoops
    private let options: ClientOptions

    /// `probe` needs a client. `loop` is that of the caller, for waiting.
    init(_ probe: Probe, on loop: any EventLoop, _ loops: EventLoops) {
        (self.probe, self.loop, self.loops) = (probe, loop, loops)
        var options = probe.options
        options.connecting.timeout = probe.effectiveTimeout
        options.reconnecting.maximumAttempts = 1
        if probe.ping == nil {
            options.liveness.heartbeat = .pingPong
            options.liveness.interval = max(.milliseconds(1), probe.effectiveInterval)
            options.liveness.deadline = probe.effectiveTimeout
        }
        self.options = options
    }

    /// Call this on the loop of the caller.
    func run(into report: inout ProbeReport) async {
        guard let codec = probe.codec else { return }
        let client = Client(to: probe.endpoint, speaking: codec, options: options, on: loops)
        let ends = client.disconnects
        let failure: ClientError?
        do throws(ClientError) {
            try await client.connect()
            failure = nil
        } catch {
            failure = error
        }
        let metrics = await client.metrics.connection
        var pings = ProbeReport.Pings()
        if failure == nil { await exchange(with: client, &pings) }
        let last = await client.metrics.connection
        // Orderly, so that the server receives the last frame of the protocol, but only for as long as a ping.
        if failure == nil {
            try? await withTimeout(probe.effectiveTimeout) { await client.close() }
        } else {
            await client.closeNow()
        }
        var attempt: DisconnectReport?
        var end: DisconnectReport?
        for await report in ends {
            switch report.phase {
            case .ready, .draining: if report.cause != .closedLocally, end == nil { end = report }
            default: if attempt == nil { attempt = report }
            }
        }
        report.login = ProbeReport.Login(failure, attempt, duration: metrics.handshakeDurations.mean)
        guard failure == nil else { return }
        if pings.sent > 0 || probe.ping != nil { report.pings = pings }
        report.link = ProbeReport.Link(metrics.link?.address ?? "\(probe.endpoint)", last, end)
    }

    private func exchange(with client: Client, _ pings: inout ProbeReport.Pings) async {
        if probe.effectivePings > 0, let ping = probe.ping { return await send(ping, with: client, &pings) }
        guard probe.effectivePings > 0, probe.codec.map({ LinkCodec($0).ping(number: 0) != nil }) ?? false else {
            // To notice a server that closes at once.
            return await loop.pause(for: probe.effectiveInterval)
        }
        await awaitHeartbeats(of: client, &pings)
    }

    private func send(
        _ ping: @escaping @Sendable (Client) async throws -> Void,
        with client: Client,
        _ pings: inout ProbeReport.Pings
    ) async {
        for number in 0..<probe.effectivePings {
            if number > 0 { await loop.pause(for: probe.effectiveInterval) }
            let begun = loop.now
            pings.sent += 1
            do {
                try await withTimeout(probe.effectiveTimeout) { try await ping(client) }
                pings.add(loop.now.since(begun))
            } catch {
                pings.fail(error)
                return
            }
        }
    }

    /// Waits for the heartbeats of the client, which it sends on a link that is idle for the interval.
    private func awaitHeartbeats(of client: Client, _ pings: inout ProbeReport.Pings) async {
        let patience = options.liveness.interval.addingClamped(probe.effectiveTimeout)
        var lastAnswer = loop.now
        while pings.answered < probe.effectivePings, loop.now.since(lastAnswer) < patience {
            await loop.pause(for: options.liveness.interval)
            let metrics = await client.metrics.connection
            let latest = await client.diagnostics.roundTripTime?.latest
            pings.sent = metrics.pings
            if let latest, metrics.pingDurations.count > pings.answered {
                pings.add(latest)
                lastAnswer = loop.now
            }
            if metrics.link == nil { return }
        }
        // The client may have sent more in the meantime.
        if pings.answered >= probe.effectivePings { pings.sent = pings.answered }
    }
}
