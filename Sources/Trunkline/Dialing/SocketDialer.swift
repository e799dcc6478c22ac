/// Dials TCP and Unix domain sockets of its event loop, real or simulated ones: looks up the name of the endpoint and
/// lets its addresses race, with a TLS handshake for `tls://` endpoints. Performs the actions of `AddressRace`.
///
/// Safe to share between threads: after its creation it is used on its loop only. `loadTLS()` hops to it.
final class SocketDialer: Dialer, @unchecked Sendable {
    private let loop: any EventLoop
    private let connecting: ClientOptions.Connecting
    private let tls: ClientOptions.TLS
    private let recorder: FlightRecorder?
    /// The present dialling; after its failure, until the next one, what is left of it.
    private var dial: Dial?
    private var dialCount: UInt64 = 0
    /// The look-ups that have outlasted their diallings.
    private var lateLookups = LateLookups()
    /// The TLS settings; `nil` before they were needed.
    private var loadedTLS: LoadedTLS?
    private var timer: LoopTimer?

    /// One dialling.
    private final class Dial {
        let number: UInt64
        let endpoint: Endpoint
        let startedAt: Instant
        /// When it ends at the latest.
        var deadline: Instant
        var progress = DialProgress()
        /// Reads what TLS needs.
        var loading: Task<Void, Never>?
        /// Its look-ups and sockets.
        var race: Race?
        /// Whether it was given its time again after the process was stopped.
        var isProlonged = false
        /// Since when its end waits for bytes to be handled that came in time.
        var waitsSince: Instant?
        /// Why it has failed.
        var failure: (error: TransportError, isPermanent: Bool?)?
        weak let delegate: (any DialerDelegate)?

        init(
            _ number: UInt64,
            _ endpoint: Endpoint,
            for delegate: any DialerDelegate,
            at now: Instant,
            deadline: Instant
        ) {
            (self.number, self.endpoint, startedAt) = (number, endpoint, now)
            (self.delegate, self.deadline) = (delegate, deadline)
        }

        func close() {
            loading?.cancel()
            loading = nil
            race?.close()
        }
    }

    init(_ options: ClientOptions, on loop: any EventLoop, _ recorder: FlightRecorder?) {
        (connecting, tls) = (options.connecting, options.tls)
        self.loop = loop
        self.recorder = recorder
    }

    deinit {
        dial?.loading?.cancel()
        // The loop keeps an armed timer. Releasing the race closes its sockets.
        guard let timer, dial?.failure == nil, dial != nil else { return }
        loop.schedule(LoopClosure { [loop] in loop.arm(timer, at: nil) })
    }

    // MARK: Dialer

    var progress: DialProgress { dial?.progress ?? DialProgress() }

    func dial(_ endpoint: Endpoint, for delegate: any DialerDelegate) {
        cancel()
        dialCount += 1
        let now = loop.now
        let deadline = now.advanced(by: connecting.timeout)
        let dial = Dial(dialCount, endpoint, for: delegate, at: now, deadline: deadline)
        self.dial = dial
        arm(at: deadline)
        if endpoint.isSecured { prepareTLS(dial) } else { beginRace(dial) }
    }

    func cancel() {
        guard let dial else { return }
        dial.close()
        if dial.failure == nil { arm(at: nil) }
        self.dial = nil
    }

    func forget(except endpoints: Set<Endpoint>) { lateLookups.keep(only: endpoints) }

    func loadTLS() async -> Result<LoadedTLS, TransportError> {
        let known = await withContinuation { continuation in
            loop.schedule(LoopClosure { continuation.resume(returning: self.loadedTLS) })
        }
        return await tls.load(unlessChangedSince: known)
    }

    func secure(
        _ channel: any Transport,
        to endpoint: Endpoint,
        with tls: LoadedTLS,
        handler: any TransportHandler
    ) throws(TransportError) -> SecuredTransport {
        loadedTLS = tls
        return SecuredTransport(try makeEngine(for: endpoint, tls), on: loop, handler: handler, over: channel)
    }

    // MARK: The end

    /// Runs `body` for something that `dial` waited for, and tells the delegate if it has come further.
    private func advance(_ dial: Dial, _ body: () -> Void) {
        let before = dial.progress
        body()
        if dial === self.dial, dial.progress != before { dial.delegate?.dialer(did: .progressed) }
    }

    private func connected(_ dial: Dial, _ winner: Race.Racer) {
        dial.close()
        arm(at: nil)
        self.dial = nil
        let versions = dial.endpoint.isSecured ? loadedTLS?.versions : nil
        let channel = DialedChannel(
            transport: winner.transport,
            address: winner.address,
            deadline: dial.deadline,
            fileVersions: versions
        )
        guard let delegate = dial.delegate else { return winner.transport.close() }
        delegate.dialer(did: .connected(channel))
    }

    /// Ends `dial`, and reports its failure later: never before `dial(_:for:)` has returned, and so that the failures of
    /// several endpoints do not nest. Its look-ups continue, for the next one.
    private func fail(_ dial: Dial, _ error: TransportError, isPermanent: Bool? = nil) {
        guard dial.failure == nil else { return }
        dial.failure = (error, isPermanent)
        keepLookups(of: dial)
        dial.close()
        arm(at: nil)
        let number = dial.number
        loop.schedule(LoopClosure { [weak self] in self?.reportFailure(of: number) })
    }

    private func reportFailure(of number: UInt64) {
        guard let dial, dial.number == number, let (error, isPermanent) = dial.failure else { return }
        dial.delegate?.dialer(did: .failed(error, isPermanent: isPermanent))
    }

    // MARK: TLS

    /// Reads what TLS needs, unless that has been done, and continues.
    private func prepareTLS(_ dial: Dial) {
        if loadedTLS != nil, tls.files.isEmpty { return beginRace(dial) }
        let (known, number) = (loadedTLS, dial.number)
        // Unstructured: it begins on the loop, which cannot await it. Reading files and asking for a passphrase would
        // block the loop. A result that comes after the end of `dial` has no effect.
        dial.loading = Task(executorPreference: loop.callbackExecutor) { [weak self, tls, loop] in
            let result = await tls.load(unlessChangedSince: known)
            loop.schedule(LoopClosure { [weak self] in self?.prepared(result, number) })
        }
    }

    private func prepared(_ result: Result<LoadedTLS, TransportError>, _ number: UInt64) {
        guard let dial, dial.number == number, dial.loading != nil else { return }
        dial.loading = nil
        advance(dial) {
            switch result {
            case .success(let loaded):
                loadedTLS = loaded
                beginRace(dial)
            case .failure(let error):
                dial.progress.phase = .securing
                // If the files were valid before, they may be in the middle of a replacement, with one of two files
                // written. So this is not permanent.
                fail(dial, error, isPermanent: loadedTLS == nil ? nil : false)
            }
        }
    }

    /// Begins to connect to `address`, one of the addresses of `endpoint`.
    private func connect(to address: SocketAddress, for endpoint: Endpoint) throws(TransportError) -> any Transport {
        let socketOptions = connecting.socketOptions
        guard endpoint.isSecured else { return loop.connect(to: address, options: socketOptions, handler: self) }
        guard let loadedTLS else { throw TransportError(.tls(.configuration), "the TLS settings are not loaded") }
        return SecuredTransport(try makeEngine(for: endpoint, loadedTLS), on: loop, handler: self) { [loop] handler in
            loop.connect(to: address, options: socketOptions, handler: handler)
        }
    }

    private func makeEngine(for endpoint: Endpoint, _ loaded: LoadedTLS) throws(TransportError) -> any TLSEngine {
        if let name = tls.serverName { return try loaded.context.makeEngine(for: name) }
        guard case .host(let host, _) = endpoint.target else {
            let message = "\(endpoint) has no host name to verify; set options.tls.serverName"
            throw TransportError(.tls(.configuration), message)
        }
        return try loaded.context.makeEngine(for: host)
    }

    // MARK: Names

    private func beginRace(_ dial: Dial) {
        var policy = AddressRace.Policy(
            attemptDelay: connecting.attemptDelay,
            resolutionDelay: connecting.resolutionDelay
        )
        if let source = connecting.sourceAddress {
            let doing = "connecting to \(dial.endpoint) from \(source.escaped())"
            if let error = unknownZone(of: source, doing) { return fail(dial, error) }
            guard let address = literalAddress(source, port: 0) else {
                let message = "connecting to \(dial.endpoint): the source address \"\(source)\" is not an IP address"
                return fail(dial, TransportError(.invalidAddress, message))
            }
            policy.sourceFamily = address.family
        }
        dial.race = Race(policy)
        switch dial.endpoint.target {
        // The system would end the text at the NUL byte and connect to another place.
        case .unix(let text) where text.hasZeroByte, .host(let text, _) where text.hasZeroByte:
            let message = "connecting to \(dial.endpoint): the host or path contains a NUL byte"
            fail(dial, TransportError(.invalidAddress, message))
        case .unix(let path): perform(dial.race?.rules.resolved(to: [.unix(path: path)], at: loop.now), dial)
        case .host(let host, let port):
            if let error = unknownZone(of: host, "connecting to \(dial.endpoint)") { return fail(dial, error) }
            if let literal = literalAddress(host, port: port) {
                return perform(dial.race?.rules.resolved(to: [literal], at: loop.now), dial)
            }
            dial.progress.phase = .resolving
            resolve(host, port, dial)
        }
    }

    /// Looks up both families of a name, unless a late answer is known.
    private func resolve(_ host: String, _ port: UInt16, _ dial: Dial) {
        let (number, endpoint) = (dial.number, dial.endpoint)
        var late: [(AddressFamily, [SocketAddress])] = []
        for family in AddressFamily.allCases {
            if let addresses = lateLookups.takeAnswer(endpoint, family, at: loop.now) {
                late.append((family, addresses))
                continue
            }
            dial.race?.lookups[family] = loop.resolve(host, port: port, family: family) { [weak self] answer in
                self?.resolved(number, endpoint, family, answer)
            }
        }
        for (family, addresses) in late { take(.success(addresses), family, dial) }
    }

    private func resolved(_ number: UInt64, _ endpoint: Endpoint, _ family: AddressFamily, _ answer: NameLookup.Answer)
    {
        if let dial, dial.number == number { return advance(dial) { take(answer, family, dial) } }
        lateLookups.answered(endpoint, family, answer, at: loop.now)
        // A failure says nothing about the look-up that the present dialling has begun.
        guard let dial, dial.endpoint == endpoint, dial.race?.rules.answered.contains(family) == false,
            case .success = answer
        else { return }
        _ = lateLookups.takeAnswer(endpoint, family, at: loop.now)
        advance(dial) { take(answer, family, dial) }
    }

    /// Passes an answer to the race.
    private func take(_ answer: NameLookup.Answer, _ family: AddressFamily, _ dial: Dial) {
        let actions = dial.race?.rules.resolved(family, answer, at: loop.now)
        if let rules = dial.race?.rules {
            if case .success(let found) = answer, !found.isEmpty { dial.progress.addresses = rules.addresses }
            dial.progress.isResolved = rules.isResolved
        }
        perform(actions, dial)
    }

    private func keepLookups(of dial: Dial) {
        guard let race = dial.race else { return }
        for (family, lookup) in race.lookups where !race.rules.answered.contains(family) {
            lateLookups.keep(lookup, of: dial.endpoint, family, since: dial.startedAt)
            dial.race?.lookups[family] = nil
        }
    }

    // MARK: The race

    private func perform(_ actions: [AddressRace.Action]?, _ dial: Dial) {
        for action in actions ?? [] {
            guard dial === self.dial, dial.failure == nil else { return }
            switch action {
            case .connect(let address, let id):
                dial.progress.firstAddress = dial.progress.firstAddress ?? address
                // Unless another address has come further.
                if dial.progress.phase != .securing { dial.progress.phase = .connecting }
                do throws(TransportError) {
                    let transport = try connect(to: address, for: dial.endpoint)
                    dial.race?.add(Race.Racer(id: id, address: address, transport: transport))
                } catch {
                    dial.progress.phase = .securing  // before there is a socket, only TLS can fail
                    fail(dial, error)
                }
            case .arm(let instant): arm(at: min(instant ?? .distantFuture, dial.deadline))
            case .close(let id): dial.race?.take(id)?.transport.close()
            case .won(let id): if let winner = dial.race?.take(id) { connected(dial, winner) }
            case .fail:
                if let rules = dial.race?.rules { fail(dial, rules.error(connectingTo: dial.endpoint.description)) }
            }
        }
    }

    /// Handles an event of a socket in the race.
    private func handle(_ event: TransportEvent, of racer: AddressRace.AttemptID, _ dial: Dial) {
        if dial.race?.isSelfConnected(racer) == true, let loser = dial.race?.take(racer) {
            // An orderly end would leave the port in TIME_WAIT, where it keeps a server from listening.
            loser.transport.reset()
            return perform(dial.race?.rules.attemptFailed(racer, .selfConnected(loser.address), at: loop.now), dial)
        }
        switch event {
        // The other sockets stay in the race meanwhile.
        case .securing:
            dial.race?.rules.attemptConnected(racer)
            dial.progress.phase = .securing
        case .connected: perform(dial.race?.rules.attemptSucceeded(racer), dial)
        case .connectFailed(let error):
            dial.race?.take(racer)?.transport.close()
            perform(dial.race?.rules.attemptFailed(racer, error, at: loop.now), dial)
        case .readable, .writable: break  // only links use these
        }
    }

    // MARK: The timer

    private func arm(at deadline: Instant?) {
        if timer == nil, deadline == nil { return }
        let timer = timer ?? LoopTimer(target: self)
        self.timer = timer
        loop.arm(timer, at: deadline)
    }

    /// Fires for the next address, or for the end of the time.
    private func checkTime(_ dial: Dial) {
        let now = loop.turnTime
        prolong(dial, at: now)
        let deadline = dial.deadline
        guard now >= deadline else {
            arm(at: deadline)  // unless the rules set an earlier instant below
            return perform(dial.race?.rules.timerFired(at: now), dial)
        }
        if mustReadFirst(dial, at: now) { return arm(at: loop.nextTurn) }
        let (name, timeout) = (dial.endpoint.description, connecting.timeout)
        let error = dial.race?.rules.timeoutError(connectingTo: name, after: timeout, obstacle: dial.race?.obstacle)
        fail(dial, error ?? TransportError(.timedOut, "connecting to \(name): deadline exceeded"))
    }

    /// Gives `dial` its time again, once, if the timer fires much later than its deadline: the process was stopped, or
    /// the machine slept, and neither this side nor the server could go on.
    private func prolong(_ dial: Dial, at now: Instant) {
        let late = now.since(dial.deadline)
        guard !dial.isProlonged, late > max(connecting.timeout / 10, .milliseconds(100)) else { return }
        dial.isProlonged = true
        dial.deadline = now.advanced(by: connecting.timeout)
    }

    /// Whether the end of the time waits for a later turn: TLS holds bytes that may have come in time.
    private func mustReadFirst(_ dial: Dial, at now: Instant) -> Bool {
        guard dial.race?.holdsUnread == true else { return false }
        let since = dial.waitsSince ?? now
        dial.waitsSince = since
        return now.since(since) < Connection.longestDeadlineWait
    }
}

extension SocketDialer: TransportHandler {
    func transport(_ id: UInt64, did event: TransportEvent) {
        guard let dial, dial.failure == nil, let racer = dial.race?.attempt(with: id) else { return }
        advance(dial) { handle(event, of: racer, dial) }
    }
}

extension SocketDialer: TimerTarget {
    func timerFired() {
        guard let dial, dial.failure == nil else { return }
        recorder?.timerFired("attempt")
        advance(dial) { checkTime(dial) }
    }
}

extension ClientOptions.Connecting {
    /// `sourceAddress`, if it is an address.
    var source: SocketAddress? { sourceAddress.flatMap { literalAddress($0, port: 0) } }

    fileprivate var socketOptions: SocketOptions {
        var socketOptions = SocketOptions()
        socketOptions.noDelay = noDelay
        socketOptions.keepAlive = keepAlive
        socketOptions.userTimeout = userTimeout
        socketOptions.sourceAddress = source
        return socketOptions
    }
}
