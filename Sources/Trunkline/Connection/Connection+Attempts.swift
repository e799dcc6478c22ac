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
            _ = owner == nil ? outbound.removeAll() : []
            failWriters(error) { _ in true }
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
        arm(at: loop.now.advanced(by: options.connecting.timeout))
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
        var socketOptions = SocketOptions()
        socketOptions.noDelay = options.connecting.noDelay
        socketOptions.keepAlive = options.connecting.keepAlive
        let transport = loop.connect(to: untriedAddresses.removeFirst(), options: socketOptions, handler: self)
        link = Link(session: attempt.id, endpoint: attempt.endpoint, transport: transport, codec: codec)
    }

    func attemptFailed(_ id: UInt64, _ error: TransportError) {
        guard case .connecting(let attempt) = machine.state, attempt.id == id else { return }
        link?.transport.close()
        link = nil
        untriedAddresses = []
        lastCause = error
        if attempts.count == 8 { attempts.removeFirst() }
        attempts.append(ClientError.Attempt(endpoint: attempt.endpoint, cause: error))
        owner?.connection(did: .attemptFailed)
        perform(machine.attemptFailed(id, at: loop.now))
    }

    private func established() {
        guard let link, let session = machine.established(link.session, at: loop.now) else { return }
        self.link?.isEstablished = true
        arm(at: nil)
        attempts = []
        lastCause = nil
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

extension Connection: TransportHandler {
    package nonisolated func transport(_ id: UInt64, did event: TransportEvent) {
        assumeIsolated { $0.handle(event, of: id) }
    }

    private func handle(_ event: TransportEvent, of id: UInt64) {
        guard let link, link.transport.id == id else { return }  // of a link that is gone
        switch event {
        case .connected: established()
        case .connectFailed(let error):
            guard case .connecting(let attempt) = machine.state else { return }
            tryNextAddress(attempt, after: error)
        case .readable: read()
        case .writable: flush()
        }
    }
}
