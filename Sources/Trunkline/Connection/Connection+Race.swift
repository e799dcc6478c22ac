import TrunklineCore
import TrunklineIO

/// One attempt at one endpoint: its name is looked up, its addresses race for the link. Performs what `AddressRace`
/// decides.
extension Connection {
    /// Looks up where `attempt` leads to, and goes there. It fails later, never before this returns.
    func beginRace(_ attempt: ReconnectMachine.Attempt) {
        var policy = AddressRace.Policy(
            attemptDelay: options.connecting.attemptDelay,
            resolutionDelay: options.connecting.resolutionDelay
        )
        if let source = options.connecting.sourceAddress {
            guard let address = literalAddress(source, port: 0) else {
                let message = "connecting to \(attempt.endpoint): the source address \"\(source)\" is no IP address"
                return failSoon(attempt, TransportError(.invalidAddress, message))
            }
            policy.sourceFamily = address.family
        }
        race = Race(attempt, policy)
        switch attempt.endpoint.target {
        // The system would see the text end at the zero byte, and go to another place.
        case .unix(let text) where text.hasZeroByte, .host(let text, _) where text.hasZeroByte:
            let message = "connecting to \(attempt.endpoint): the host or path contains a NUL byte"
            failSoon(attempt, TransportError(.invalidAddress, message))
        case .unix(let path): perform(race?.rules.resolved(to: [.unix(path: path)], at: loop.now))
        case .host(let host, let port):
            if let literal = literalAddress(host, port: port) {
                return perform(race?.rules.resolved(to: [literal], at: loop.now))
            }
            enter(.resolving)
            for family in [AddressFamily.ipv6, .ipv4] {
                let lookup = loop.resolve(host, port: port, family: family) { [weak self] answer in
                    self?.assumeIsolated { $0.resolved(attempt.id, family, answer) }
                }
                race?.lookups.append(lookup)
            }
        }
    }

    private func resolved(_ id: UInt64, _ family: AddressFamily, _ answer: NameLookup.Answer) {
        guard race?.attempt.id == id else { return }  // the answer came too late
        perform(race?.rules.resolved(family, answer, at: loop.now))
    }

    /// A socket has something to say. Returns whether it is one of the race's.
    func raceHears(of id: UInt64, _ event: TransportEvent) -> Bool {
        guard let attempt = race?.attempt(with: id) else { return false }
        switch event {
        // The others go on racing meanwhile.
        case .securing:
            race?.rules.attemptConnected(attempt)
            enter(.securing)
        case .connected: perform(race?.rules.attemptSucceeded(attempt))
        case .connectFailed(let error):
            race?.take(attempt)?.close()
            perform(race?.rules.attemptFailed(attempt, error, at: loop.now))
        case .readable, .writable: break  // asked for on links only
        }
        return true
    }

    /// The next address may have its turn, or the time of the whole attempt is over.
    func raceTimerFired(_ attempt: ReconnectMachine.Attempt) {
        let now = loop.now
        guard now >= attemptDeadline else {
            arm(at: attemptDeadline)  // unless the rules want it earlier
            return perform(race?.rules.timerFired(at: now))
        }
        let name = attempt.endpoint.description
        let error = race?.rules.timeoutError(connectingTo: name, after: options.connecting.timeout)
        attemptFailed(attempt.id, error ?? TransportError(.timedOut, "connecting to \(name): out of time"))
    }

    /// Closes every socket that has not become the link, and forgets the look-ups and what was read for it. Nothing is heard
    /// of them any more.
    func endRace() {
        endPreparing()
        race?.close()
        race = nil
        enter(nil)
    }

    private func perform(_ actions: [AddressRace.Action]?) {
        for action in actions ?? [] {
            switch action {
            case .connect(let address, let id):
                if connectingPhase != .securing { enter(.connecting) }  // that of another address has come further
                guard let attempt = race?.attempt else { return }
                do throws(TransportError) {
                    race?.add(try connect(to: address, for: attempt.endpoint), id)
                } catch {
                    enter(.securing)  // which nothing else can fail for before there is a socket
                    return failSoon(attempt, error)
                }
            case .arm(let instant): arm(at: min(instant ?? attemptDeadline, attemptDeadline))
            case .close(let id): race?.take(id)?.close()
            case .won(let id):
                guard let attempt = race?.attempt, let transport = race?.take(id) else { return }
                endRace()
                established(attempt, transport)
            case .fail:
                guard let race else { return }
                let name = race.attempt.endpoint.description
                failSoon(race.attempt, race.rules.error(connectingTo: name))
            }
        }
    }

    /// Not at once: `perform` may be at work for the attempt's beginning, and endpoint after endpoint would fail within
    /// the failure of the one before.
    func failSoon(_ attempt: ReconnectMachine.Attempt, _ error: TransportError) {
        loop.schedule(Completion { [weak self] in self?.assumeIsolated { $0.attemptFailed(attempt.id, error) } })
    }

    func enter(_ phase: ConnectingPhase?) {
        guard phase != connectingPhase else { return }
        connectingPhase = phase
        if phase != nil { publishState() }
    }

    var socketOptions: SocketOptions {
        var socketOptions = SocketOptions()
        socketOptions.noDelay = options.connecting.noDelay
        socketOptions.keepAlive = options.connecting.keepAlive.map {
            SocketOptions.KeepAlive(idle: $0.idle, interval: $0.interval, count: $0.count)
        }
        socketOptions.userTimeout = options.connecting.userTimeout
        socketOptions.sourceAddress = options.connecting.sourceAddress.flatMap { literalAddress($0, port: 0) }
        return socketOptions
    }
}
