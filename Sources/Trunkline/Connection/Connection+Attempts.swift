import TrunklineCore
package import TrunklineIO

/// Establishing and losing links: performs what the machine decides.
extension Connection {
    /// Somebody wants a link.
    func want() {
        // Asked for every batch of requests, and hardly ever news.
        switch machine.state {
        case .idle, .suspended: perform(machine.wanted(at: loop.now))
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
            if link?.session == session { lose(LocalClosure()) }
        case .retire(let session, let next):
            if link?.session == session { retire(machine.lastCause) }
            // What the loss set off may have closed the connection.
            guard machine.state != .closed else { return }
            return perform(next)
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

    /// The error for those who wait for a link in vain.
    func unavailable(_ message: String = "no server could be reached") -> ClientError {
        let reason = machine.endpoints.isEmpty ? "the list of endpoints is empty" : message
        return ClientError(
            .unavailable,
            .notSent,
            reason,
            endpoint: attempts.last?.endpoint,
            attempts: attempts,
            cause: lastCause
        )
    }

    /// Drops what there is of an attempt that is not wanted any more.
    func abandonAttempt() {
        untriedAddresses = []
        guard let abandoned = link, !abandoned.isEstablished || greeting != nil else { return }
        endGreeting(ClientError(.connectionLost, .notSent, "the attempt was given up"))
        abandoned.transport.close()
        link = nil
    }

    private func begin(_ attempt: ReconnectMachine.Attempt) {
        abandonAttempt()
        statistics.attempts += 1
        attemptDeadline = loop.now.advanced(by: options.connecting.timeout)
        arm(at: attemptDeadline)
        switch attempt.endpoint.target {
        case .unix(let path):
            untriedAddresses = [.unix(path: path)]
            tryNextAddress(attempt, after: nil)
        case .host(let host, let port):
            loop.resolve(host, port: port) { [weak self] result in
                self?.assumeIsolated { $0.resolved(attempt, result) }
            }
        }
    }

    private func resolved(
        _ attempt: ReconnectMachine.Attempt,
        _ result: Result<[SocketAddress], TransportError>
    ) {
        guard machine.state == .connecting(attempt) else { return }  // the answer came too late
        switch result {
        case .success(let addresses):
            untriedAddresses = addresses
            tryNextAddress(attempt, after: nil)
        case .failure(let error): attemptFailed(attempt.id, error)
        }
    }

    private func tryNextAddress(_ attempt: ReconnectMachine.Attempt, after error: TransportError?) {
        link?.transport.close()
        link = nil
        guard !untriedAddresses.isEmpty else {
            let error = error ?? TransportError(.nameResolutionFailed, "\(attempt.endpoint) has no address")
            return attemptFailed(attempt.id, error)
        }
        // Each address has its share of what is left of the time, so that one that swallows packets does not use it up.
        let now = loop.now
        arm(at: now.advanced(by: attemptDeadline.since(now) / untriedAddresses.count))
        var socketOptions = SocketOptions()
        socketOptions.noDelay = options.connecting.noDelay
        socketOptions.keepAlive = options.connecting.keepAlive
        let transport = loop.connect(to: untriedAddresses.removeFirst(), options: socketOptions, handler: self)
        link = Link(
            session: attempt.id,
            attempt: attempt.number,
            endpoint: attempt.endpoint,
            transport: transport,
            codec: codec
        )
    }

    /// The time of an address, or of the whole attempt, is over.
    func attemptTimedOut(_ attempt: ReconnectMachine.Attempt) {
        let message = "connecting to \(attempt.endpoint): no link within \(options.connecting.timeout)"
        let error = TransportError(.timedOut, message)
        if untriedAddresses.isEmpty { attemptFailed(attempt.id, error) } else { tryNextAddress(attempt, after: error) }
    }

    func attemptFailed(_ id: UInt64, _ error: any Error) {
        guard case .connecting(let attempt) = machine.state, attempt.id == id else { return }
        let isGreeting = greeting != nil
        endGreeting(ClientError(.connectionLost, .notSent, "the link ended while greeting", cause: error))
        let phase: DisconnectReport.Phase = isGreeting ? .greeting : link == nil ? .resolving : .connecting
        link?.transport.close()
        link = nil
        untriedAddresses = []
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
                isPermanent: refusal?.isPermanent ?? false,
                retryAfter: refusal?.retryAfter,
                at: loop.now
            )
        )
    }

    /// There is a socket; the user's greeting has the first word on it.
    private func established() {
        guard let link, case .connecting(let attempt) = machine.state, attempt.id == link.session else { return }
        self.link?.isEstablished = true
        linksBegun += 1
        if !beginGreeting(link.endpoint, link.session) { becomeReady() }
    }

    /// The link may carry requests.
    func becomeReady() {
        guard let link, let session = machine.linkReady(link.session, at: loop.now) else { return }
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
        guard let link, link.isEstablished else { return }
        guard greeting == nil else { return greetingFailed(link.session, cause) }
        link.transport.close()
        self.link = nil
        stopLiveness()
        lastCause = cause
        let bytesUnsent = outbound.unwrittenCount
        outbound.linkLost()
        let requestsLost = owner?.connectionLost(cause, to: link.endpoint) ?? 0
        report(
            isDraining ? .draining : .ready,
            DisconnectCause(cause),
            cause,
            (link.endpoint, link.session, link.attempt),
            lifetime: readySince.map { loop.now.since($0) } ?? .zero,
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
        if isDraining { return finishClosing() }
        perform(machine.linkLost(link.session, DisconnectCause(cause), at: loop.now))
    }
}

extension Connection: @preconcurrency TransportHandler {
    package func transport(_ id: UInt64, did event: TransportEvent) {
        // Else it is of a link that is gone. No copy of the link: one that lives while reading makes the codec and
        // the bytes received be copied.
        guard link?.transport.id == id else { return retiredTransport(id, did: event) }
        switch event {
        case .connected: established()
        case .connectFailed(let error):
            guard case .connecting(let attempt) = machine.state else { return }
            tryNextAddress(attempt, after: error)
        case .readable: read()
        case .writable:
            guard greeting == nil else { return flushGreeting() }
            socketTookBytes()
            flush()
        }
    }
}
