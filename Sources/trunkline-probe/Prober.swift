import Foundation
import Trunkline

/// Connects to a server, exchanges pings with it, and reports what it did.
///
/// The addresses race as they do for a client (`AddressRace`), with two differences: an attempt that loses is not ended,
/// and addresses that the race has left out are tried after it.
actor Prober {
    private nonisolated let loop: any EventLoop
    private let arguments: Arguments
    private let security: ProbeSecurity?
    private let begun: Instant
    private let beginning = Date()

    private var race = AddressRace()
    private var lookups: [Lookup] = []
    /// All attempts, in the order of their start.
    private var links: [ProbedLink] = []
    private var racers: [AddressRace.AttemptID: ProbedLink] = [:]
    private var winner: ProbedLink?
    private var isRaceOver = false
    private var isTimedOut = false
    /// Resumed when every lookup and attempt has ended.
    private var connecting: CheckedContinuation<Void, Never>?
    private var nextStart: (alarm: Alarm, timer: LoopTimer)?

    /// A lookup of the addresses of one family.
    private struct Lookup {
        let family: AddressFamily
        var handle: NameLookup?
        var answer: NameLookup.Answer?
        var duration = Duration.zero
    }

    nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }

    /// Throws if the TLS settings cannot be used.
    init(_ arguments: Arguments, on loops: EventLoops = .shared) throws(TransportError) {
        self.arguments = arguments
        loop = loops.next()
        begun = loop.now
        security = try arguments.endpoint.isSecured ? Self.security(for: arguments) : nil
    }

    private static func security(for arguments: Arguments) throws(TransportError) -> ProbeSecurity {
        // The handshake goes on with an invalid certificate, so that the report has it and what follows.
        var settings = TLSSettings(.client(verifies: false))
        settings.examines = true
        settings.applicationProtocols = arguments.applicationProtocols
        if let roots = arguments.roots {
            settings.trustsSystem = false
            settings.roots = [try roots.load()]
        }
        settings.identity = try arguments.identity.map { (identity) throws(TransportError) in
            TLSSettings.Identity(
                certificates: try identity.certificates.load(),
                key: try identity.privateKey.load()
            )
        }
        let host = if case .host(let host, _) = arguments.endpoint.target { host } else { "" }
        return ProbeSecurity(context: try OpenSSLContext(settings), name: arguments.serverName ?? host)
    }

    /// Runs the probe once.
    func run() async throws(LayoutError) -> ProbeReport {
        let codec = try arguments.preset.layout()
        await connect()
        var report = ProbeReport(arguments, begun: beginning)
        report.resolution = lookups.map { .init($0.family, $0.answer, $0.duration) }
        let link = winner ?? links.first { $0.usable != nil }
        link?.listen(speaking: codec)
        for other in links where other !== link { other.close() }
        if let link {
            let isPinged = codec.map { $0.ping(number: 1) != nil } ?? false
            if let codec, isPinged {
                report.pings = await pings(over: link, codec)
            } else {
                await link.watch(for: arguments.interval)
            }
            report.link = .init(link)
            // Before further connections: some servers serve one at a time.
            link.close()
            if !isPinged { report.connections = await connections(to: link.address) }
        }
        report.addresses = links.map { .init($0, since: begun, isWinner: $0 === winner) }
        report.duration = loop.now.since(begun).inSeconds
        report.judge()
        return report
    }

    // MARK: Connecting

    private func connect() async {
        let alarm = Alarm { [weak self] in self?.assumeIsolated { $0.timeOut() } }
        let timer = LoopTimer(target: alarm)
        loop.arm(timer, at: begun.advanced(by: arguments.timeout))
        await withCheckedContinuation { continuation in
            connecting = continuation
            switch arguments.endpoint.target {
            case .unix(let path): perform(race.resolved(to: [.unix(path: path)], at: loop.now))
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
        let error = link.failure ?? (arguments.isInsecure ? nil : link.distrust)
        if let id = racers.first(where: { $0.value === link })?.key {
            perform(error.map { race.attemptFailed(id, $0, at: loop.now) } ?? race.attemptSucceeded(id))
        }
        finishIfDone()
    }

    private func endRace() {
        isRaceOver = true
        tryTheRest()
    }

    /// Tries the addresses that the race has left out.
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
                TransportError(.nameResolutionFailed, "no answer within \(arguments.timeout.text)")
            )
            lookups[index].duration = arguments.timeout
        }
        (isRaceOver, isTimedOut) = (true, true)
        for link in links where !link.isSettled { link.timeOut(after: arguments.timeout) }
        finishIfDone()
    }

    private func finishIfDone() {
        guard isRaceOver, lookups.allSatisfy({ $0.answer != nil }), links.allSatisfy(\.isSettled) else { return }
        connecting.take()?.resume()
    }

    // MARK: Measuring

    private func pings(over link: ProbedLink, _ codec: FrameLayout) async -> ProbeReport.Pings {
        var pings = ProbeReport.Pings()
        for number in 0..<arguments.pings {
            guard let ping = codec.ping(number: UInt64(number)) else { break }
            if number > 0 { await link.watch(for: arguments.interval) }
            if link.exchange.ending != nil { break }
            let outcome = await link.ping(ping, within: arguments.timeout)
            pings.sent += 1
            // After an unanswered ping, its late answer would be taken for that of the next one.
            guard case .answered(let time) = outcome else { break }
            pings.add(time)
        }
        return pings
    }

    /// Makes further connections, one after the other.
    private func connections(to address: SocketAddress) async -> ProbeReport.Connections {
        var connections = ProbeReport.Connections()
        for number in 0..<arguments.pings {
            if number > 0 { await pause() }
            let link = await connection(to: address)
            connections.add(link)
            link.close()
            if link.failure != nil { break }
        }
        return connections
    }

    private func connection(to address: SocketAddress) async -> ProbedLink {
        let settled = Lock<CheckedContinuation<Void, Never>?>(nil)
        let link = ProbedLink(to: address, on: loop) { _ in
            settled.withLock { $0.take() }?.resume()
        }
        let alarm = Alarm { [weak link, timeout = arguments.timeout] in link?.timeOut(after: timeout) }
        let timer = LoopTimer(target: alarm)
        loop.arm(timer, at: loop.now.advanced(by: arguments.timeout))
        await withCheckedContinuation { continuation in
            settled.withLock { $0 = continuation }
            link.connect(security)
        }
        loop.arm(timer, at: nil)
        withExtendedLifetime(alarm) {}
        return link
    }

    private func pause() async {
        guard arguments.interval > .zero else { return }
        let waiting = Lock<CheckedContinuation<Void, Never>?>(nil)
        let alarm = Alarm { waiting.withLock { $0.take() }?.resume() }
        let timer = LoopTimer(target: alarm)
        await withCheckedContinuation { continuation in
            waiting.withLock { $0 = continuation }
            loop.arm(timer, at: loop.now.advanced(by: arguments.interval))
        }
        withExtendedLifetime(alarm) {}
    }
}
