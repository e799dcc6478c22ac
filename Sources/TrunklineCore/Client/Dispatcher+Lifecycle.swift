/// The beginning and the end of a client, on its event loop.
extension Dispatcher {
    mutating func connect(_ id: RequestID, _ continuation: Continuation<ClientError?>) {
        guard lifecycle == .open else {
            return continuation.resume(returning: .clientIsClosed)
        }
        guard !isReady else { return continuation.resume(returning: nil) }
        connectWaiters[id] = continuation
        driver.connectIfNeeded()
    }

    mutating func beginDraining() {
        guard lifecycle == .open else { return }
        refuseRequests(.draining)
        drainDeadline = loop.now.advanced(by: options.requests.drainTimeout)
        failConnectWaiters()
        stopServing()
    }

    /// Every request has ended. The connection may still have bytes to write, until `drainDeadline`.
    mutating func endDraining() {
        self.lifecycle = .closing
        driver.beginClosing()
    }

    mutating func closeAtOnce() {
        guard lifecycle < .closed else { return }
        refuseRequests(.closing)
        drainDeadline = nil
        driver.finishClosing()
    }

    mutating func closed() {
        refuseRequests(.closed)
        drainDeadline = nil
        let error = ClientError.clientWasClosed(.notSent)
        failWaiting(error)
        let rest = parts.removeAll()
        for part in rest.held + rest.queued { part.fail(error, isSent: false) }
        requests.forgetDeadlines()
        failConnectWaiters()
        streams.finish()
        endServing()
        if !isWithoutServing, serving.hasUntold { tellUnserved() }
        updateReading()
        noteLimit()
        ledger.closed(metrics)
    }

    private mutating func refuseRequests(_ lifecycle: Lifecycle) {
        self.lifecycle = lifecycle
        messageRoom.close()
    }

    private mutating func failConnectWaiters() {
        resumeConnectWaiters(.clientWasClosed(.notSent))
    }

    /// In the order of the calls: that of a dictionary differs between processes, and simulations are reproducible.
    mutating func resumeConnectWaiters(_ error: ClientError?) {
        let waiters = exchange(&connectWaiters, with: [:]).sorted { $0.key < $1.key }
        for (_, waiter) in waiters { waiter.resume(returning: error) }
    }
}
