/// Establishing and losing links: performs what the machine decides.
extension Connection {
    /// Somebody needs a link.
    func connectIfNeeded() {
        // Asked for every batch of requests, and hardly ever news.
        switch machine.state {
        case .idle, .suspended: perform(machine.linkNeeded(at: loop.now))
        case .waiting where machine.promptFrom != nil: perform(machine.linkNeeded(at: loop.now))
        case .connecting, .ready, .waiting, .closed: return
        }
    }

    func perform(_ action: ReconnectMachine.Action) {
        switch action {
        case .none: return
        case .connect(let attempt): begin(attempt)
        case .wait(let until):
            if case .ready = machine.state { return arm(at: until) }
            abandonAttempt()
            arm(at: until)
        case .rest:
            abandonAttempt()
            arm(at: nil)
        case .close(let session):
            arm(at: nil)
            if let index = index(of: session), links[index].draining == nil { lose(session, TransportError.closedByUs) }
        case .drain(let session, let next):
            if let index = index(of: session), links[index].draining == nil { drain(index, machine.lastCause) }
            return perform(next)
        case .giveUp:
            abandonAttempt()
            arm(at: nil)
            let error = unavailable()
            events.append(.unavailable(error))
            endReader(error)
        }
        publishState()
    }

    /// Who needs a link.
    var demand: ReconnectMachine.Demand {
        let demand: ReconnectMachine.Demand =
            isOwned ? ownerDemand : direct.isIdle ? .none : .request
        return subscriptions.isEmpty ? demand : max(demand, .pushes)
    }

    /// In words, for those who found none.
    var whyThereIsNoLink: String {
        machine.state == .suspended ? "the client is suspended" : "there was no link"
    }

    /// The error for those who wait for a link in vain.
    func unavailable(_ message: String = "no server could be reached") -> ClientError {
        let reason = machine.endpoints.isEmpty ? "the list of endpoints is empty" : message
        // What stands in the way of every server, by its latest attempt.
        let latest = Dictionary(failures.map { ($0.endpoint, DisconnectCause($0.cause)) }) { $1 }
        let isSecurity = !latest.isEmpty && latest.values.allSatisfy { $0 == .tls }
        return ClientError(
            isSecurity ? .tlsFailed : .unavailable,
            .notSent,
            reason,
            endpoint: failures.last?.endpoint,
            attempts: failures,
            cause: lastCause
        )
    }

    /// Drops what there is of an attempt that is not wanted any more.
    func abandonAttempt() {
        if ready == nil { reportEndByUs() }
        endAttempt()
        // A link that is not ready is the attempt's.
        guard let current, links[current].handshake != nil else { return }
        endHandshake(ClientError(.connectionLost, .notSent, "the attempt was given up"))
        dropCurrent()
    }

    /// The attempt's link is gone; nobody waits on it any more.
    private func dropCurrent() {
        guard let current else { return }
        links[current].transport.close()
        links.remove(at: current)
    }

    private func begin(_ attempt: ReconnectMachine.Attempt) {
        abandonAttempt()
        statistics.attempts += 1
        self.attempt = Attempt(attempt: attempt, deadline: loop.now.advanced(by: options.connecting.timeout))
        arm(at: self.attempt?.deadline)
        if attempt.endpoint.isSecured { prepareSecurity(for: attempt) } else { beginRace(attempt) }
    }

    /// `isPermanent`: whether trying again is of no use, where the error alone does not tell.
    func attemptFailed(_ id: UInt64, _ error: any Error, isPermanent: Bool? = nil) {
        guard case .connecting(let attempt) = machine.state, attempt.id == id else { return }
        let phase: DisconnectReport.Phase =
            current != nil ? .handshaking : self.attempt?.phase ?? .connecting
        endHandshake(ClientError(.connectionLost, .notSent, "the link ended during the handshake", cause: error))
        endAttempt()
        dropCurrent()
        lastCause = error
        if failures.count == 8 { failures.removeFirst() }
        failures.append(ClientError.Attempt(endpoint: attempt.endpoint, cause: error))
        let cause = DisconnectCause(error)
        report(phase, cause, error, (attempt.endpoint, attempt.id, attempt.number))
        let refusal = error as? HandshakeRefusal
        perform(
            machine.attemptFailed(
                id,
                cause,
                isPermanent: isPermanent ?? refusal?.isPermanent ?? isMistake(error),
                retryAfter: refusal?.retryAfter,
                at: loop.now
            )
        )
    }

    /// Whether time does not mend it: an address that is none, a frame of the handshake that cannot be sent.
    private func isMistake(_ error: any Error) -> Bool {
        switch (error as? ClientError)?.code {
        case .invalidRequest?, .invalidResponse?, .invalidArgument?: true
        default: (error as? TransportError)?.isPermanent ?? false
        }
    }

    /// The attempt has a socket that can be used; the user's handshake has the first word on it.
    func established(_ attempt: ReconnectMachine.Attempt, _ transport: any Transport) {
        guard machine.state == .connecting(attempt) else { return transport.close() }
        links.append(Link(attempt, transport, codec, quarantine: options.requests.quarantine))
        linksBegun += 1
        if !beginHandshake(attempt) { becomeReady(afterHandshake: false) }
    }

    /// The link may carry requests.
    ///
    /// - Parameter afterHandshake: The server has taken part in a handshake.
    func becomeReady(afterHandshake: Bool) {
        guard let current,
            let session = machine.linkReady(links[current].session, afterHandshake: afterHandshake, at: loop.now)
        else { return }
        attempt = nil
        arm(at: machine.deadline)
        statistics.links += 1
        links[current].readySince = loop.now
        if links[current].endpoint != judgedEndpoint {
            judgedEndpoint = links[current].endpoint
            errors?.reset()
            silence.end()
        }
        failures = []
        lastCause = nil
        startLiveness(current)
        updateReading()
        events.append(.ready(session: session))
        publishState()
        scheduleFlush()
    }
}

extension Connection: @preconcurrency TransportHandler {
    package func transport(_ id: UInt64, did event: TransportEvent) {
        entered { $0.heard(id, event) }
    }

    private func heard(_ id: UInt64, _ event: TransportEvent) {
        // No copy of the link: one that lives while reading makes the codec and the bytes received be copied.
        guard let index = links.firstIndex(where: { $0.transport.id == id }) else { return raceHears(of: id, event) }
        switch event {
        case .securing: return
        // Those of the race have been heard of: this is TLS that the handshake has asked for.
        case .connected: upgraded(index)
        case .connectFailed(let error): upgradeFailed(index, error)
        // What is left of the last turn comes first, and has this turn's share.
        case .readable: if isReadScheduled { links[index].mayHaveMore = true } else { read(links[index].session) }
        case .writable:
            if links[index].machine.phase == .ready { links[index].machine.socketTookBytes(at: loop.turnTime) }
            flush(links[index].session)
            scheduleFlush()  // it may have been the last of a draining link
        }
    }
}
