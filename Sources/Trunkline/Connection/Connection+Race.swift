/// One attempt at one endpoint: looks up its name and lets its addresses race for the link. Performs the actions of
/// `AddressRace`.
extension Connection {
    /// Looks up the endpoint of `attempt` and begins to connect. A failure is reported later, never before this method
    /// returns.
    func beginRace(_ attempt: ReconnectMachine.Attempt) {
        var policy = AddressRace.Policy(
            attemptDelay: options.connecting.attemptDelay,
            resolutionDelay: options.connecting.resolutionDelay
        )
        if let source = options.connecting.sourceAddress {
            let doing = "connecting to \(attempt.endpoint) from \(source.escaped())"
            if let error = unknownZone(of: source, doing) { return failSoon(attempt, error) }
            guard let address = literalAddress(source, port: 0) else {
                let message = "connecting to \(attempt.endpoint): the source address \"\(source)\" is not an IP address"
                return failSoon(attempt, TransportError(.invalidAddress, message))
            }
            policy.sourceFamily = address.family
        }
        self.attempt?.race = Race(policy)
        switch attempt.endpoint.target {
        // The system would end the text at the NUL byte and connect to another place.
        case .unix(let text) where text.hasZeroByte, .host(let text, _) where text.hasZeroByte:
            let message = "connecting to \(attempt.endpoint): the host or path contains a NUL byte"
            failSoon(attempt, TransportError(.invalidAddress, message))
        case .unix(let path): perform(self.attempt?.race?.rules.resolved(to: [.unix(path: path)], at: loop.now))
        case .host(let host, let port):
            if let error = unknownZone(of: host, "connecting to \(attempt.endpoint)") {
                return failSoon(attempt, error)
            }
            if let literal = literalAddress(host, port: port) {
                return perform(self.attempt?.race?.rules.resolved(to: [literal], at: loop.now))
            }
            enter(.resolving)
            resolve(host, port, attempt)
        }
    }

    /// Looks up both families of a name, unless a late answer is known.
    private func resolve(_ host: String, _ port: UInt16, _ attempt: ReconnectMachine.Attempt) {
        let endpoint = attempt.endpoint
        var late: [(AddressFamily, [SocketAddress])] = []
        for family in AddressFamily.allCases {
            if let addresses = lateLookups.takeAnswer(endpoint, family, at: loop.now) {
                late.append((family, addresses))
                continue
            }
            self.attempt?.race?.lookups[family] = loop.resolve(host, port: port, family: family) { [weak self] answer in
                self?.onLoop { $0.resolved(attempt.id, endpoint, family, answer) }
            }
        }
        for (family, addresses) in late { resolved(attempt.id, endpoint, family, .success(addresses)) }
    }

    private func resolved(_ id: UInt64, _ endpoint: Endpoint, _ family: AddressFamily, _ answer: NameLookup.Answer) {
        if attempt?.attempt.id == id { return take(answer, family, endpoint) }
        lateLookups.answered(endpoint, family, answer, at: loop.now)
        // A failure says nothing about the look-up that the present attempt has begun.
        guard attempt?.attempt.endpoint == endpoint, attempt?.race?.rules.answered.contains(family) == false,
            case .success = answer
        else { return }
        _ = lateLookups.takeAnswer(endpoint, family, at: loop.now)
        take(answer, family, endpoint)
    }

    /// Passes an answer to the race of the present attempt.
    private func take(_ answer: NameLookup.Answer, _ family: AddressFamily, _ endpoint: Endpoint) {
        let actions = attempt?.race?.rules.resolved(family, answer, at: loop.now)
        // The addresses of an earlier attempt are kept until there are new ones.
        if case .success(let found) = answer, !found.isEmpty, let addresses = attempt?.race?.rules.addresses {
            pathView.addresses[endpoint] = addresses
            pathView.unresolved.remove(endpoint)
            notePathsOfAttempt()
        }
        perform(actions)
    }

    /// Lets the look-ups of a failed attempt continue for the next one.
    func keepLookups() {
        guard let attempt, let race = attempt.race else { return }
        for (family, lookup) in race.lookups where !race.rules.answered.contains(family) {
            lateLookups.keep(lookup, of: attempt.attempt.endpoint, family, since: attempt.startedAt)
            attempt.race?.lookups[family] = nil
        }
    }

    /// Handles an event of a socket in the race.
    func raceHears(of id: UInt64, _ event: TransportEvent) {
        guard let racer = attempt?.race?.attempt(with: id) else { return }
        if attempt?.race?.isSelfConnected(racer) == true, let loser = attempt?.race?.take(racer) {
            // An orderly end would leave the port in TIME_WAIT, where it keeps a server from listening.
            loser.transport.reset()
            perform(attempt?.race?.rules.attemptFailed(racer, .selfConnected(loser.address), at: loop.now))
            return
        }
        switch event {
        // The other sockets stay in the race meanwhile.
        case .securing:
            attempt?.race?.rules.attemptConnected(racer)
            enter(.securing)
        case .connected: perform(attempt?.race?.rules.attemptSucceeded(racer))
        case .connectFailed(let error):
            attempt?.race?.take(racer)?.transport.close()
            perform(attempt?.race?.rules.attemptFailed(racer, error, at: loop.now))
        case .readable, .writable: break  // only links use these
        }
    }

    /// The timer of the race has fired: for the next address, or for the end of the attempt.
    func raceTimerFired(_ attempt: ReconnectMachine.Attempt) {
        let now = loop.turnTime
        let deadline = self.attempt?.deadline ?? now
        guard now >= deadline else {
            arm(at: deadline)  // unless the rules set an earlier instant below
            return perform(self.attempt?.race?.rules.timerFired(at: now))
        }
        let name = attempt.endpoint.description
        let race = self.attempt?.race
        let timeout = options.connecting.timeout
        let error = race?.rules.timeoutError(connectingTo: name, after: timeout, obstacle: race?.obstacle)
        attemptFailed(attempt.id, error ?? TransportError(.timedOut, "connecting to \(name): deadline exceeded"))
    }

    /// Ends the attempt: closes its sockets and cancels its look-ups. They report nothing after that.
    func endAttempt() {
        attempt?.preparing?.cancel()
        attempt?.race?.close()
        attempt = nil
    }

    private func perform(_ actions: [AddressRace.Action]?) {
        for action in actions ?? [] {
            guard let (attempt, deadline) = self.attempt.map({ ($0.attempt, $0.deadline) }) else { return }
            switch action {
            case .connect(let address, let id):
                if self.attempt?.firstPath == nil {
                    self.attempt?.firstPath = (address, path(to: address))
                    publishPath()
                }
                // Unless another address has come further.
                if self.attempt?.phase != .securing { enter(.connecting) }
                do throws(TransportError) {
                    let transport = try connect(to: address, for: attempt.endpoint)
                    self.attempt?.race?.add(Race.Racer(id: id, address: address, transport: transport))
                } catch {
                    enter(.securing)  // before there is a socket, only TLS can fail
                    return failSoon(attempt, error)
                }
            case .arm(let instant): arm(at: min(instant ?? deadline, deadline))
            case .close(let id): self.attempt?.race?.take(id)?.transport.close()
            case .won(let id):
                guard let winner = self.attempt?.race?.take(id) else { return }
                self.attempt?.race?.close()
                self.attempt?.phase = nil
                established(attempt, winner.transport, at: winner.address)
            case .fail:
                guard let race = self.attempt?.race else { return }
                failSoon(attempt, race.rules.error(connectingTo: attempt.endpoint.description))
            }
        }
    }

    /// Fails the attempt later, not at once: `perform` may be running for the start of the attempt, and the failures of
    /// several endpoints would nest.
    func failSoon(_ attempt: ReconnectMachine.Attempt, _ error: TransportError) {
        schedule { $0.attemptFailed(attempt.id, error) }
    }

    func enter(_ phase: DisconnectReport.Phase) {
        guard phase != attempt?.phase else { return }
        attempt?.phase = phase
        publishState()
    }

    var socketOptions: SocketOptions {
        var socketOptions = SocketOptions()
        socketOptions.noDelay = options.connecting.noDelay
        socketOptions.keepAlive = options.connecting.keepAlive
        socketOptions.userTimeout = options.connecting.userTimeout
        socketOptions.sourceAddress = options.connecting.sourceAddress.flatMap { literalAddress($0, port: 0) }
        return socketOptions
    }
}
