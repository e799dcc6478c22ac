import TrunklineCore
package import TrunklineIO

/// Establishing and losing links: performs what the machine decides.
extension Connection {
    /// Somebody wants a link.
    func want() {
        perform(machine.wanted())
    }

    func perform(_ action: ReconnectMachine.Action) {
        switch action {
        case .none: return
        case .connect(let attempt): begin(attempt)
        case .wait(let until): arm(at: until)
        case .giveUp:
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

    private func begin(_ attempt: ReconnectMachine.Attempt) {
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
        link = Link(session: attempt.id, endpoint: attempt.endpoint, transport: transport, codec: codec)
    }

    /// The time of an address, or of the whole attempt, is over.
    func attemptTimedOut(_ attempt: ReconnectMachine.Attempt) {
        let message = "connecting to \(attempt.endpoint): no link within \(options.connecting.timeout)"
        let error = TransportError(.timedOut, message)
        if untriedAddresses.isEmpty { attemptFailed(attempt.id, error) } else { tryNextAddress(attempt, after: error) }
    }

    func attemptFailed(_ id: UInt64, _ error: TransportError) {
        guard case .connecting(let attempt) = machine.state, attempt.id == id else { return }
        link?.transport.close()
        link = nil
        untriedAddresses = []
        lastCause = error
        if attempts.count == 8 { attempts.removeFirst() }
        attempts.append(ClientError.Attempt(endpoint: attempt.endpoint, cause: error))
        perform(machine.attemptFailed(id, at: loop.now))
    }

    private func established() {
        guard let link, let session = machine.established(link.session, at: loop.now) else { return }
        self.link?.isEstablished = true
        arm(at: nil)
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
        link.transport.close()
        self.link = nil
        stopLiveness()
        lastCause = cause
        outbound.linkLost()
        owner?.connection(did: .lost(cause))
        let error = ClientError(
            .connectionLost,
            .unknown,
            "the link was lost while writing",
            endpoint: link.endpoint,
            cause: cause
        )
        failWriters(error) { self.outbound.hasStarted($0) }
        if isDraining { return finishClosing() }
        perform(machine.linkLost(link.session, at: loop.now))
    }
}

extension Connection: @preconcurrency TransportHandler {
    package func transport(_ id: UInt64, did event: TransportEvent) {
        // Else it is of a link that is gone. No copy of the link: one that lives while reading makes the codec and
        // the bytes received be copied.
        guard link?.transport.id == id else { return }
        switch event {
        case .connected: established()
        case .connectFailed(let error):
            guard case .connecting(let attempt) = machine.state else { return }
            tryNextAddress(attempt, after: error)
        case .readable: read()
        case .writable:
            socketTookBytes()
            flush()
        }
    }
}
