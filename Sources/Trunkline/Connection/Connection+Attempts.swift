import TrunklineCore
package import TrunklineIO

/// Establishing and losing links: performs what the machine decides.
extension Connection {
    /// Somebody wants a link.
    func want() {
        // Asked for every batch of requests, and hardly ever news.
        switch machine.state {
        case .idle, .suspended: perform(machine.wanted(at: loop.now))
        case .waiting where machine.promptFrom != nil: perform(machine.wanted(at: loop.now))
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
            if link?.session == session { lose(TransportError.closedByUs) }
        case .retire(let session, let next):
            return perform(next) { if link?.session == session { retire(machine.lastCause) } }
        case .giveUp:
            abandonAttempt()
            arm(at: nil)
            let error = unavailable()
            owner?.connection(did: .unavailable)
            if !isOwned { outbound.removeAll() }
            failWriters(error) { _ in true }
            endReaders()
        }
        publishState()
    }

    /// Who needs a link, apart from what is under way on links that are left.
    var demand: ReconnectMachine.Demand {
        if let owner {
            let demand = owner.demand(from: outbound.level.unstarted)
            return subscriptions.isEmpty && postedSubscriptions.isEmpty ? demand : max(demand, .subscription)
        }
        return readers.isEmpty && outbound.isEmpty ? .none : .request
    }

    /// Whether a request or a frame that has started on the link, which is ready, is still under way.
    func hasUnanswered(on link: Link) -> Bool {
        let started = link.firstPosition..<max(link.firstPosition, outbound.level.unstarted)
        if let owner { return owner.hasUnanswered(at: started) }
        return writers.values.contains { started.contains($0.position) }
    }

    /// Performs `action` after `body`, in which the owner hears of something, unless that made the machine go on: the
    /// action is of the past then.
    private func perform(_ action: ReconnectMachine.Action, after body: () -> Void) {
        let state = machine.state
        body()
        if machine.state == state { perform(action) } else { publishState() }
    }

    /// In words, for those who found none.
    var whyThereIsNoLink: String {
        machine.state == .suspended ? "the client is suspended" : "there was no link"
    }

    /// The error for those who wait for a link in vain.
    func unavailable(_ message: String = "no server could be reached") -> ClientError {
        let reason = machine.endpoints.isEmpty ? "the list of endpoints is empty" : message
        // What stands in the way of every server, by its latest attempt.
        let latest = Dictionary(attempts.map { ($0.endpoint, DisconnectCause($0.cause)) }) { $1 }
        let isSecurity = !latest.isEmpty && latest.values.allSatisfy { $0 == .tls }
        return ClientError(
            isSecurity ? .tlsFailed : .unavailable,
            .notSent,
            reason,
            endpoint: attempts.last?.endpoint,
            attempts: attempts,
            cause: lastCause
        )
    }

    /// Drops what there is of an attempt that is not wanted any more.
    func abandonAttempt() {
        if !isReady { reportEndByUs() }
        endRace()
        // A link that greets is the attempt's; any other is ready.
        guard greeting != nil else { return }
        endGreeting(ClientError(.connectionLost, .notSent, "the attempt was given up"))
        link?.transport.close()
        link = nil
    }

    private func begin(_ attempt: ReconnectMachine.Attempt) {
        abandonAttempt()
        statistics.attempts += 1
        attemptDeadline = loop.now.advanced(by: options.connecting.timeout)
        arm(at: attemptDeadline)
        if attempt.endpoint.isSecured { prepareSecurity(for: attempt) } else { beginRace(attempt) }
    }

    /// `isPermanent`: whether trying again is of no use, where the error alone does not tell.
    func attemptFailed(_ id: UInt64, _ error: any Error, isPermanent: Bool? = nil) {
        guard case .connecting(let attempt) = machine.state, attempt.id == id else { return }
        let phase: DisconnectReport.Phase =
            greeting != nil ? .greeting : connectingPhase.map(DisconnectReport.Phase.init) ?? .connecting
        endGreeting(ClientError(.connectionLost, .notSent, "the link ended while greeting", cause: error))
        endRace()
        link?.transport.close()
        link = nil
        lastCause = error
        if attempts.count == 8 { attempts.removeFirst() }
        attempts.append(ClientError.Attempt(endpoint: attempt.endpoint, cause: error))
        let cause = DisconnectCause(error)
        report(phase, cause, error, (attempt.endpoint, attempt.id, attempt.number))
        let refusal = error as? GreetingRefusal
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

    /// Whether time does not mend it: an address that is none, a frame of the greeting that cannot be sent.
    private func isMistake(_ error: any Error) -> Bool {
        (error as? TransportError)?.isPermanent ?? ((error as? ClientError)?.code == .invalidRequest)
    }

    /// The attempt has a socket that can be used; the user's greeting has the first word on it.
    func established(_ attempt: ReconnectMachine.Attempt, _ transport: any Transport) {
        guard machine.state == .connecting(attempt) else { return transport.close() }
        link = Link(
            session: attempt.id,
            attempt: attempt.number,
            endpoint: attempt.endpoint,
            transport: transport,
            codec: codec
        )
        linksBegun += 1
        if !beginGreeting(attempt.endpoint, attempt.id) { becomeReady(afterHandshake: false) }
    }

    /// The link may carry requests.
    ///
    /// - Parameter afterHandshake: The server has taken part in a handshake.
    func becomeReady(afterHandshake: Bool) {
        guard let link,
            let session = machine.linkReady(link.session, afterHandshake: afterHandshake, at: loop.now)
        else { return }
        self.link?.firstPosition = outbound.level.unstarted
        arm(at: machine.deadline)
        statistics.links += 1
        readySince = loop.now
        attempts = []
        lastCause = nil
        startLiveness()
        updateReading()
        owner?.connection(did: .ready(session: session))
        publishState()
        scheduleFlush()
    }

    /// The link is gone: what had started is lost, what had not goes out on the next one.
    func lose(_ cause: any Error) {
        deliverHeld()
        guard let link else { return }
        guard greeting == nil else { return greetingLost(link.session, cause) }
        if link.transport.isHoldingBytes, (cause as? TransportError)?.code == .closedLocally {
            Lingering.close(link.transport, on: loop)  // what TLS holds counts as written
        } else {
            link.transport.close()
        }
        self.link = nil
        // Its server may accept links and answer nothing on any of them.
        let wasNeverHeard = DisconnectCause(cause) == .halfOpen && !heartbeat.machine.hasHeard
        stopLiveness()
        lastCause = cause
        let bytesUnsent = outbound.unwrittenCount
        let wasQuiet = !hasUnanswered(on: link) && owner?.hasAbandoned != true
        let lifetime = readySince.map { loop.now.since($0) } ?? .zero
        readySince = nil
        let unsent = outbound.linkLost()
        // The machine first: while the owner hears of it, the link is no more, and no reason to leave its endpoint.
        let action = machine.linkLost(
            link.session,
            DisconnectCause(cause),
            isOrderly: DisconnectCause(cause) == .closedByServer || wasQuiet && link.isCutShort(by: cause),
            wasQuiet: wasQuiet,
            demand: demand,
            countsAgainstEndpoint: wasNeverHeard,
            at: loop.now
        )
        perform(action) {
            let requestsLost = owner?.connectionLost(cause, to: link.endpoint, unsent: unsent) ?? 0
            report(
                isDraining || isOwnerDraining ? .draining : .ready,
                DisconnectCause(cause),
                cause,
                (link.endpoint, link.session, link.attempt),
                lifetime: lifetime,
                requestsLost: requestsLost,
                bytesUnsent: bytesUnsent
            )
            let error = ClientError(
                .connectionLost,
                .unknown,
                "the link was lost while writing",
                endpoint: link.endpoint,
                cause: cause
            )
            failWriters(error) { self.outbound.hasStarted($0) }
            if isDraining { finishClosing() }
        }
    }
}

extension Connection: @preconcurrency TransportHandler {
    package func transport(_ id: UInt64, did event: TransportEvent) {
        // No copy of the link: one that lives while reading makes the codec and the bytes received be copied.
        guard link?.transport.id == id else {
            if !raceHears(of: id, event) { retiredTransport(id, did: event) }
            return
        }
        switch event {
        case .securing: return
        // Those of the race have been heard of: this is TLS that the greeting has asked for.
        case .connected: upgraded()
        case .connectFailed(let error): upgradeFailed(error)
        // What is left of the last turn comes first, and has this turn's share.
        case .readable: if !isReadScheduled { read() }
        case .writable:
            guard greeting == nil else { return flushGreeting() }
            socketTookBytes()
            flush()
        }
    }
}
