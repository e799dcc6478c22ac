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
        beginRace(attempt)
    }

    func attemptFailed(_ id: UInt64, _ error: TransportError) {
        guard case .connecting(let attempt) = machine.state, attempt.id == id else { return }
        endRace()
        lastCause = error
        if attempts.count == 8 { attempts.removeFirst() }
        attempts.append(ClientError.Attempt(endpoint: attempt.endpoint, cause: error))
        perform(machine.attemptFailed(id, at: loop.now))
    }

    /// The attempt has a socket that can be used.
    func established(_ attempt: ReconnectMachine.Attempt, _ transport: any Transport) {
        guard let session = machine.established(attempt.id, at: loop.now) else { return transport.close() }
        link = Link(session: attempt.id, endpoint: attempt.endpoint, transport: transport, codec: codec)
        link?.isEstablished = true
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

extension Connection: @preconcurrency TransportHandler {
    package func transport(_ id: UInt64, did event: TransportEvent) {
        // Else it is of one that is connecting, or gone. No copy of the link: one that lives while reading makes the codec and
        // the bytes received be copied.
        guard link?.transport.id == id else { return raceHears(of: id, event) }
        switch event {
        case .connected, .connectFailed: return  // while it was in the race
        case .readable: read()
        case .writable: flush()
        }
    }
}
