/// Dials what its event loop connects to, real or simulated, by the actions of `AddressRace`. With a proxy these are
/// the name and the addresses of the proxy. Unchecked Sendable: after its creation it is used on its loop only.
final class SocketDialer: Dialer, @unchecked Sendable {
    private let endpoint: Endpoint
    private let connecting: ClientOptions.Connecting
    private let proxy: Proxy?
    private let tls: ClientOptions.TLS
    private let memory: DialMemory
    private let loop: any EventLoop
    private let recorder: (any ClientRecorder)?
    private weak var delegate: (any DialerDelegate)?

    private(set) var progress = DialProgress()
    private let startedAt: Instant
    private var deadline: DialDeadline
    private lazy var timer = LoopTimer(target: self, ticks: true)
    private var loading: Task<Void, Never>?
    private var race: Race?
    private var failure: (error: TransportError, isPermanent: Bool?)?
    /// From `dial` until it is connected, has failed or was cancelled.
    private var isActive = false

    init(
        _ endpoint: Endpoint,
        _ options: ClientOptions,
        _ memory: DialMemory,
        on loop: any EventLoop,
        _ recorder: (any ClientRecorder)?
    ) {
        self.endpoint = endpoint
        (connecting, tls) = (options.connecting, options.tls)
        proxy = options.connecting.proxy(for: endpoint)
        (self.memory, self.loop, self.recorder) = (memory, loop, recorder)
        startedAt = loop.now
        deadline = DialDeadline(startedAt.advanced(by: options.connecting.timeout))
    }

    deinit {
        guard isActive else { return }
        loading?.cancel()
        // The loop keeps an armed timer. Releasing the race closes its sockets.
        loop.schedule(LoopClosure { [loop, timer] in loop.arm(timer, at: nil) })
    }

    func dial(for delegate: any DialerDelegate) {
        self.delegate = delegate
        isActive = true
        memory.dialer = self
        loop.arm(timer, at: deadline.instant)
        if endpoint.isSecured, case .command = endpoint.target {
            return fail(TransportError(.invalidAddress, "\(endpoint): a command cannot use TLS"))
        }
        if endpoint.isSecured { prepareTLS() } else { beginRace() }
    }

    var opening: [any Transport] { race?.transports ?? [] }

    func cancel() { end() }

    private func advance(_ body: () -> Void) {
        guard isActive else { return }
        let before = progress
        body()
        if isActive, progress != before { delegate?.dialer(did: .progressed) }
    }

    private func end() {
        isActive = false
        failure = nil
        loading?.cancel()
        loading = nil
        race?.close()
        loop.arm(timer, at: nil)
    }

    private func connected(_ winner: Race.Racer) {
        let passedOver = race?.rules.passedOver ?? []
        end()
        let channel = DialedChannel(
            transport: winner.transport,
            address: winner.address,
            deadline: deadline.instant,
            fileVersions: endpoint.isSecured ? memory.loadedTLS?.versions : nil,
            passedOver: passedOver
        )
        memory.note(passedOver, insteadOf: winner.address, at: loop.now)
        guard let delegate else { return winner.transport.close() }
        delegate.dialer(did: .connected(channel))
    }

    /// Reports the failure later: never before `dial` has returned, and so that the failures of several endpoints do
    /// not nest. The look-ups continue, for the next dialer.
    private func fail(_ error: TransportError, isPermanent: Bool? = nil) {
        guard isActive else { return }
        keepLookups()
        race?.forgetUnansweredSessions()
        end()
        failure = (error, isPermanent)
        loop.schedule(LoopClosure { [weak self] in self?.reportFailure() })
    }

    private func reportFailure() {
        guard let (error, isPermanent) = failure.take() else { return }
        delegate?.dialer(did: .failed(error, isPermanent: isPermanent))
    }

    private func prepareTLS() {
        let known = memory.loadedTLS
        if known != nil, tls.files.isEmpty { return beginRace() }
        // Unstructured: it begins on the loop, which cannot await it. Reading files and asking for a passphrase would
        // block the loop. A result that comes after the end has no effect.
        loading = Task(executorPreference: loop.callbackExecutor) { [weak self, tls, loop] in
            let result = await tls.load(unlessChangedSince: known)
            loop.schedule(LoopClosure { [weak self] in self?.prepared(result) })
        }
    }

    private func prepared(_ result: Result<LoadedTLS, TransportError>) {
        advance {
            switch result {
            case .success(let loaded):
                memory.loadedTLS = loaded
                beginRace()
            case .failure(let error):
                progress.phase = .securing
                // If the files were valid before, they may be in the middle of a replacement, with one of two files
                // written. So this is not permanent.
                fail(error, isPermanent: memory.loadedTLS == nil ? nil : false)
            }
        }
    }

    private func connect(to address: SocketAddress) throws(TransportError) -> any Transport {
        let exchanges = try connecting.exchanges(with: endpoint, through: proxy)
        let options = connecting.socketOptions(isDatagram: endpoint.usesDatagrams)
        let connect = { [loop] (handler: any TransportHandler) -> any Transport in
            loop.connect(to: address, options: options, handler: handler)
        }
        let open = { [loop] (handler: any TransportHandler) -> any Transport in
            exchanges.isEmpty
                ? connect(handler)
                : OpeningTransport(exchanges, on: loop, handler: handler, connecting: connect)
        }
        guard endpoint.isSecured else { return open(self) }
        guard let engine = try memory.loadedTLS?.makeEngine(for: endpoint) else {
            throw TransportError(.tls(.configuration), "the TLS settings are not loaded")
        }
        return SecuredTransport(engine, on: loop, handler: self, connecting: open)
    }

    private func beginRace() {
        var policy = AddressRace.Policy(
            attemptDelay: connecting.attemptDelay,
            resolutionDelay: connecting.resolutionDelay
        )
        if let source = connecting.sourceAddress {
            let doing = "connecting to \(endpoint) from \(source.escaped())"
            if let error = unknownZone(of: source, doing) { return fail(error) }
            guard let address = literalAddress(source, port: 0) else {
                let message = "connecting to \(endpoint): the source address \"\(source)\" is not an IP address"
                return fail(TransportError(.invalidAddress, message))
            }
            policy.sourceFamily = address.family
        }
        policy.avoided = memory.silentAddresses(at: loop.now)
        policy.isProxied = proxy != nil
        policy.families = connecting.addressFamilies.members
        race = Race(policy)
        let target = connecting.target(of: endpoint)
        // The system, or the proxy, would end the text at the NUL byte and connect to another place.
        if target.hasZeroByte || endpoint.target.hasZeroByte {
            let message = "connecting to \(endpoint): the host or path contains a NUL byte"
            return fail(TransportError(.invalidAddress, message))
        }
        switch target {
        case .unix(let path): perform(race?.rules.resolved(to: [.unix(path: path)], at: loop.now))
        case .vsock(let cid, let port):
            perform(race?.rules.resolved(to: [.vsock(cid: cid, port: port)], at: loop.now))
        case .command(let command): perform(race?.rules.resolved(to: [.command(command)], at: loop.now))
        case .descriptors(let pair): perform(race?.rules.resolved(to: [.descriptors(pair)], at: loop.now))
        case .host(let host, let port):
            if let error = unknownZone(of: host, "connecting to \(endpoint)") { return fail(error) }
            if let literal = literalAddress(host, port: port) {
                return perform(race?.rules.resolved(to: [literal], at: loop.now))
            }
            if let family = policy.sourceFamily, !policy.families.contains(family) {
                let reason = "the source address is \(family.name), which options.connecting.addressFamilies leaves out"
                return fail(TransportError(.invalidAddress, "connecting to \(name): \(reason)"))
            }
            progress.phase = .resolving
            resolve(host, port)
        }
    }

    private func resolve(_ host: String, _ port: UInt16) {
        var late: [(AddressFamily, [SocketAddress])] = []
        for family in AddressFamily.allCases where connecting.addressFamilies.members.contains(family) {
            if let addresses = memory.lateLookups.takeAnswer(endpoint, family, at: loop.now) {
                late.append((family, addresses))
                continue
            }
            race?.lookups[family] = loop.resolve(host, port: port, family: family) {
                [weak self, weak memory, endpoint, loop] answer in
                if let self, self.isActive { return self.resolved(family, answer) }
                memory?.answered(endpoint, family, answer, at: loop.now)
            }
        }
        for (family, addresses) in late { take(.success(addresses), family) }
    }

    func isWaiting(for family: AddressFamily, of endpoint: Endpoint) -> Bool {
        isActive && endpoint == self.endpoint && race?.rules.answered.contains(family) == false
    }

    func resolved(_ family: AddressFamily, _ answer: NameLookup.Answer) { advance { take(answer, family) } }

    private func take(_ answer: NameLookup.Answer, _ family: AddressFamily) {
        let actions = race?.rules.resolved(family, answer, at: loop.now)
        if let rules = race?.rules {
            if case .success(let found) = answer, !found.isEmpty { progress.addresses = rules.addresses }
            progress.isResolved = rules.isResolved
            progress.hasFailedLookup = rules.hasFailedLookup
        }
        perform(actions)
    }

    private func keepLookups() {
        guard let race else { return }
        for (family, lookup) in race.lookups where !race.rules.answered.contains(family) {
            memory.lateLookups.keep(lookup, of: endpoint, family, since: startedAt)
            self.race?.lookups[family] = nil
        }
    }

    private func perform(_ actions: [AddressRace.Action]?) {
        for action in actions ?? [] {
            guard isActive else { return }
            switch action {
            case .connect(let address, let id):
                progress.firstAddress = progress.firstAddress ?? address
                // Unless another address has come further.
                if progress.phase != .securing { progress.phase = .connecting }
                do throws(TransportError) {
                    let transport = try connect(to: address)
                    race?.add(Race.Racer(id: id, address: address, transport: transport))
                } catch {
                    if case .tls = error.code { progress.phase = .securing }
                    fail(error)
                }
            case .arm(let instant): loop.arm(timer, at: min(instant ?? .distantFuture, deadline.instant))
            case .close(let id): race?.take(id)?.transport.close()
            case .won(let id): if let winner = race?.take(id) { connected(winner) }
            case .fail:
                guard let rules = race?.rules else { return }
                let error = rules.error(connectingTo: name)
                fail(error.code == .nameResolutionFailed ? unreachable(error) : error)
            }
        }
    }

    private func handle(_ event: TransportEvent, of racer: AddressRace.AttemptID) {
        if race?.isSelfConnected(racer) == true, let loser = race?.take(racer) {
            // An orderly end would leave the port in TIME_WAIT, where it keeps a server from listening.
            loser.transport.reset()
            let error = unreachable(.selfConnected(loser.address))
            return perform(race?.rules.attemptFailed(racer, error, at: loop.now))
        }
        switch event {
        // The other sockets stay in the race meanwhile.
        case .opening: if proxy != nil { race?.rules.attemptConnected(racer, awaiting: .proxy) }
        case .securing:
            race?.rules.attemptConnected(racer)
            progress.phase = .securing
        case .connected: perform(race?.rules.attemptSucceeded(racer, at: loop.now))
        case .connectFailed(let error):
            let failed = race?.take(racer)
            failed?.transport.close()
            if let failed, failed.hasFailedWithSession, !failed.isRepeated { return repeatHandshake(failed) }
            let isConnected = race?.rules.connected[racer] != nil
            let named = isConnected ? error.naming(failed?.address, endpoint, proxy) : unreachable(error)
            // The other addresses are those of the same proxy, which would refuse again.
            if case .proxy = named.code, named.isPermanent { return fail(named) }
            perform(race?.rules.attemptFailed(racer, named, at: loop.now))
        case .readable, .writable: break  // only links use these
        }
    }

    /// The session that was offered is forgotten, so this is a full handshake. The attempt goes on: its failure would
    /// end the requests that wait, although the server can be reached.
    private func repeatHandshake(_ failed: Race.Racer) {
        race?.rules.attemptRepeated(failed.id, at: loop.now)
        if race?.rules.connected.values.contains(.tls) != true { progress.phase = .connecting }
        do throws(TransportError) {
            let transport = try connect(to: failed.address)
            race?.add(Race.Racer(id: failed.id, address: failed.address, transport: transport, isRepeated: true))
        } catch {
            fail(error)
        }
    }

    private var name: String { proxy.map { "\(endpoint) through \($0)" } ?? endpoint.description }

    /// No connection was established, so it is the error of the proxy, if there is one.
    private func unreachable(_ error: TransportError) -> TransportError {
        guard let proxy, error.code != .system, error.code != .invalidAddress else { return error }
        return TransportError(.proxy(.unreachable), errno: error.errno, "\(proxy) cannot be reached: \(error.message)")
    }

    private func checkTime() {
        let now = loop.turnTime
        guard now >= deadline.instant else {
            loop.arm(timer, at: deadline.instant)  // unless the rules set an earlier instant below
            return perform(race?.rules.timerFired(at: now))
        }
        let holdsUnread = race?.holdsUnread == true
        if deadline.mustReadFirst(holdsUnread: holdsUnread, at: now) { return loop.arm(timer, at: loop.nextTurn) }
        let (name, timeout) = (name, connecting.timeout)
        let error = race?.rules.timeoutError(connectingTo: name, after: timeout, obstacle: race?.obstacle)
        guard let error else { return fail(TransportError(.timedOut, "connecting to \(name): deadline exceeded")) }
        fail(error.code == .nameResolutionFailed ? unreachable(error) : error)
    }

    func loopWasLate(_ delay: LoopDelay) { deadline.loopWasLate(delay, of: connecting.timeout) }
}

extension SocketDialer: TransportHandler {
    func transport(_ id: UInt64, did event: TransportEvent) {
        guard isActive, let racer = race?.attempt(with: id) else { return }
        advance { handle(event, of: racer) }
    }
}

extension Endpoint.Target {
    fileprivate var takesProxyHeader: Bool {
        switch self {
        case .host, .unix: true
        case .vsock, .command, .descriptors: false
        }
    }

    fileprivate var hasZeroByte: Bool {
        switch self {
        case .unix(let text), .host(let text, _): text.hasZeroByte
        case .vsock, .command, .descriptors: false  // a command is checked when it starts
        }
    }
}

extension TransportError {
    /// Adds the address, because TLS names only the server, and the server and the proxy of a tunnel.
    fileprivate func naming(_ address: SocketAddress?, _ endpoint: Endpoint, _ proxy: Proxy?) -> TransportError {
        if case .proxy = code, let proxy {
            return TransportError(code, errno: errno, "connecting to \(endpoint) through \(proxy): \(message)")
        }
        var error = self
        if let proxy {
            // During the TLS handshake: the proxy has connected, and cannot say any more what happens.
            error = closing(tunnelThrough: proxy, isSecured: false, " to \(endpoint)")
            if !error.isOfTunnel { error.message += " (through \(proxy))" }
        }
        guard let address, !message.contains("\(address)") else { return error }
        error.message += " (\(address))"
        return error
    }
}

extension SocketDialer: TimerTarget {
    func timerFired() {
        guard isActive else { return }
        recorder?.timerFired("attempt")
        advance { checkTime() }
    }
}

extension ClientOptions.Connecting {
    var source: SocketAddress? { sourceAddress.flatMap { literalAddress($0, port: 0) } }

    func target(of endpoint: Endpoint) -> Endpoint.Target { proxy(for: endpoint)?.target ?? endpoint.target }

    func goesThroughProxy(to endpoint: Endpoint) -> Bool { proxy(for: endpoint) != nil }

    func proxy(for endpoint: Endpoint) -> Proxy? {
        guard let proxy, case .host(let host, let port) = endpoint.target, proxy.isUsed(for: host, port: port) else {
            return nil
        }
        return proxy
    }

    fileprivate func exchanges(
        with endpoint: Endpoint,
        through proxy: Proxy?
    ) throws(TransportError) -> [any OpeningExchange] {
        var exchanges: [any OpeningExchange] = []
        if let proxy, case .host(let host, let port) = endpoint.target {
            exchanges.append(try proxy.exchange(connectingTo: host, port: port))
        }
        if let proxyHeader, endpoint.target.takesProxyHeader {
            exchanges.append(ProxyHeaderExchange(proxyHeader, isProxied: proxy != nil))
        }
        return exchanges
    }

    fileprivate func socketOptions(isDatagram: Bool) -> SocketOptions {
        var socketOptions = SocketOptions()
        socketOptions.isDatagram = isDatagram
        socketOptions.noDelay = noDelay
        socketOptions.keepAlive = keepAlive
        socketOptions.userTimeout = userTimeout
        socketOptions.multipath = multipath
        socketOptions.sourceAddress = source
        return socketOptions
    }
}
