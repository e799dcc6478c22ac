import TrunklineCore

/// Connects to a server, exchanges pings with it, and reports what it did. See `Probe`.
///
/// The addresses race as they do for a client (`AddressRace`), with two differences: an attempt that loses is not
/// ended, and addresses that the race has left out are tried after it.
actor Prober {
    private nonisolated let loop: any EventLoop
    private let probe: Probe
    private let security: ProbeSecurity?
    private let begun: Instant
    private let loops: EventLoops

    private var race = AddressRace()
    private var lookups: [Lookup] = []
    private var links: [ProbedLink] = []
    private var racers: [AddressRace.AttemptID: ProbedLink] = [:]
    private var winner: ProbedLink?
    private var isRaceOver = false
    private var isTimedOut = false
    /// Resumed when every lookup and attempt has ended.
    private var connecting: CheckedContinuation<Void, Never>?
    private var nextStart: (alarm: Alarm, timer: LoopTimer)?

    private struct Lookup {
        let family: AddressFamily
        var handle: NameLookup?
        var answer: NameLookup.Answer?
        var duration = Duration.zero
    }

    nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }

    init(_ probe: Probe, _ security: ProbeSecurity?, on loops: EventLoops) {
        (self.probe, self.security, self.loops) = (probe, security, loops)
        loop = loops.next()
        begun = loop.now
    }

    func run() async -> ProbeReport {
        await connect()
        var report = ProbeReport(probe, at: loop.unixTime)
        report.clientCertificate = security?.ownCertificate.map { .init($0, at: loop.unixTime) }
        report.resolution = lookups.map { .init($0.family, $0.answer, $0.duration) }
        // A client accepts no other link than that of the winner.
        let link = winner ?? (probe.needsClient ? nil : links.first { $0.usable != nil })
        if let link, !probe.needsClient { link.listen(speaking: probe.codec) }
        for other in links where other !== link || probe.needsClient { other.close() }
        if let link {
            if probe.needsClient {
                await ProbeSession(probe, on: loop, loops).run(into: &report)
            } else {
                await exchange(over: link, &report)
            }
            await checkForTLS(at: link.address, &report)
        }
        report.addresses = links.map { .init($0, since: begun, isWinner: $0 === winner) }
        report.duration = loop.now.since(begun).inSeconds
        report.judge(certificateWarning: probe.certificateWarning, isInsecure: probe.isInsecure)
        return report
    }

    private func exchange(over link: ProbedLink, _ report: inout ProbeReport) async {
        let isPinged = probe.codec.map { LinkCodec($0).ping(number: 0) != nil } ?? false
        if isPinged {
            report.pings = await pings(over: link)
        } else {
            await link.watch(for: probe.effectiveInterval)
        }
        report.link = .init(link)
        // Before further connections: some servers serve one at a time.
        link.close()
        if !isPinged { report.connections = await connections(to: link.address) }
    }

    /// TLS may be why the port does not speak the protocol in plaintext.
    private func checkForTLS(at address: SocketAddress, _ report: inout ProbeReport) async {
        guard security == nil, report.mayExpectTLS,
            let security = try? ProbeSecurity(ofAnyServerAt: probe.endpoint)
        else { return }
        let link = await connection(to: address, security)
        report.speaksTLS = link.usable != nil || link.failure?.isOfTLSServer == true
        link.close()
    }

    private func connect() async {
        let alarm = Alarm { [weak self] in self?.assumeIsolated { $0.timeOut() } }
        let timer = LoopTimer(target: alarm)
        loop.arm(timer, at: begun.advanced(by: probe.effectiveTimeout))
        await withCheckedContinuation { continuation in
            connecting = continuation
            switch probe.endpoint.target {
            case .unix(let path): perform(race.resolved(to: [.unix(path: path)], at: loop.now))
            case .vsock(let cid, let port):
                perform(race.resolved(to: [.vsock(cid: cid, port: port)], at: loop.now))
            case .command(let command): perform(race.resolved(to: [.command(command)], at: loop.now))
            case .descriptors(let pair): perform(race.resolved(to: [.descriptors(pair)], at: loop.now))
            case .host(let host, let port):
                if let literal = literalAddress(host, port: port) {
                    perform(race.resolved(to: [literal], at: loop.now))
                } else {
                    resolve(host, port)
                }
            }
        }
        loop.arm(timer, at: nil)
        if let nextStart { loop.arm(nextStart.timer, at: nil) }
        withExtendedLifetime(alarm) {}
    }

    private func resolve(_ host: String, _ port: UInt16) {
        for (index, family) in [AddressFamily.ipv6, .ipv4].enumerated() {
            let handle = loop.resolve(host, port: port, family: family) { [weak self] answer in
                self?.assumeIsolated { $0.resolved(index, answer) }
            }
            lookups.append(Lookup(family: family, handle: handle))
        }
    }

    private func resolved(_ index: Int, _ answer: NameLookup.Answer) {
        guard lookups[index].answer == nil else { return }
        lookups[index].answer = answer
        lookups[index].duration = loop.now.since(begun)
        perform(race.resolved(lookups[index].family, answer, at: loop.now))
        if isRaceOver { tryTheRest() }
        finishIfDone()
    }

    private func perform(_ actions: [AddressRace.Action]) {
        for action in actions {
            switch action {
            case .connect(let address, let id): if !isTimedOut { racers[id] = attempt(address) }
            case .arm(let instant): armNextStart(instant)
            case .close: break
            case .won(let id):
                winner = racers[id]
                endRace()
            case .fail: endRace()
            }
        }
    }

    private func armNextStart(_ instant: Instant?) {
        let alarm = nextStart?.alarm ?? Alarm { [weak self] in self?.assumeIsolated { $0.startNext() } }
        let timer = nextStart?.timer ?? LoopTimer(target: alarm)
        nextStart = (alarm, timer)
        loop.arm(timer, at: instant)
    }

    private func startNext() { perform(race.timerFired(at: loop.now)) }

    @discardableResult
    private func attempt(_ address: SocketAddress) -> ProbedLink {
        let link = ProbedLink(to: address, on: loop) { [weak self] link in
            self?.assumeIsolated { $0.settled(link) }
        }
        links.append(link)
        link.connect(security)
        return link
    }

    private func settled(_ link: ProbedLink) {
        // A client does not use a link whose certificate is not valid.
        let error = link.failure ?? (probe.isInsecure ? nil : link.distrust)
        if let id = racers.first(where: { $0.value === link })?.key {
            perform(error.map { race.attemptFailed(id, $0, at: loop.now) } ?? race.attemptSucceeded(id, at: loop.now))
        }
        finishIfDone()
    }

    private func endRace() {
        isRaceOver = true
        tryTheRest()
    }

    private func tryTheRest() {
        for lookup in lookups {
            guard case .success(let addresses)? = lookup.answer else { continue }
            for address in addresses where !links.contains(where: { $0.address == address }) { attempt(address) }
        }
    }

    private func timeOut() {
        for index in lookups.indices where lookups[index].answer == nil {
            lookups[index].handle?.cancel()
            lookups[index].answer = .failure(
                TransportError(.nameResolutionFailed, "no answer within \(probe.effectiveTimeout.text)")
            )
            lookups[index].duration = probe.effectiveTimeout
        }
        (isRaceOver, isTimedOut) = (true, true)
        for link in links where !link.isSettled { link.timeOut(after: probe.effectiveTimeout) }
        finishIfDone()
    }

    private func finishIfDone() {
        guard isRaceOver, lookups.allSatisfy({ $0.answer != nil }), links.allSatisfy(\.isSettled) else { return }
        connecting.take()?.resume()
    }

    private func pings(over link: ProbedLink) async -> ProbeReport.Pings {
        var pings = ProbeReport.Pings()
        for number in 0..<probe.effectivePings {
            if number > 0 { await link.watch(for: probe.effectiveInterval) }
            if link.exchange.ending != nil { break }
            guard let outcome = await link.ping(number: number, within: probe.effectiveTimeout) else { break }
            pings.sent += 1
            // After an unanswered ping, its late answer would be taken for that of the next one.
            guard case .answered(let time) = outcome else {
                pings.stray = link.exchange.strayPong
                break
            }
            pings.add(time)
        }
        return pings
    }

    private func connections(to address: SocketAddress) async -> ProbeReport.Connections {
        var connections = ProbeReport.Connections()
        for number in 0..<probe.effectivePings {
            if number > 0 { await loop.pause(for: probe.effectiveInterval) }
            let link = await connection(to: address, security)
            connections.add(link)
            link.close()
            if link.failure != nil { break }
        }
        return connections
    }

    private func connection(to address: SocketAddress, _ security: ProbeSecurity?) async -> ProbedLink {
        let settled = Lock<CheckedContinuation<Void, Never>?>(nil)
        let link = ProbedLink(to: address, on: loop) { _ in
            settled.withLock { $0.take() }?.resume()
        }
        let alarm = Alarm { [weak link, timeout = probe.effectiveTimeout] in link?.timeOut(after: timeout) }
        let timer = LoopTimer(target: alarm)
        loop.arm(timer, at: loop.now.advanced(by: probe.effectiveTimeout))
        await withCheckedContinuation { continuation in
            settled.withLock { $0 = continuation }
            link.connect(security)
        }
        loop.arm(timer, at: nil)
        withExtendedLifetime(alarm) {}
        return link
    }
}

extension EventLoop {
    /// Call this on the loop.
    func pause(for interval: Duration) async {
        guard interval > .zero else { return }
        let waiting = Lock<CheckedContinuation<Void, Never>?>(nil)
        let alarm = Alarm { waiting.withLock { $0.take() }?.resume() }
        let timer = LoopTimer(target: alarm)
        await withCheckedContinuation { continuation in
            waiting.withLock { $0 = continuation }
            arm(timer, at: now.advanced(by: interval))
        }
        withExtendedLifetime(alarm) {}
    }
}

extension TransportError {
    fileprivate var isOfTLSServer: Bool {
        switch code {
        case .tls(.alert), .tls(.protocolVersion), .tls(.noApplicationProtocol): true
        default: false
        }
    }
}
