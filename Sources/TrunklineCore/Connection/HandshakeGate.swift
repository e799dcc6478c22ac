/// The way of the closures of a handshake to their link, on the event loop. Keeps the driver and its reference alive.
actor HandshakeGate: HandshakeLink {
    private nonisolated let driver: ConnectionDriver
    /// Keeps events and timers arriving. `nil` only if the client was deallocated, whose `deinit` ends the handshake.
    private nonisolated let reference: DriverReference?

    init(to driver: ConnectionDriver) { (self.driver, reference) = (driver, driver.reference) }

    nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe driver.loop.asUnownedSerialExecutor() }
    nonisolated var codec: ProtocolCodec { driver.context.codec }
    nonisolated var options: ClientOptions { driver.options }
    private nonisolated var loop: any EventLoop { driver.loop }

    /// Calls `body` unless the handshake is over. If the task is cancelled, the attempt ends.
    private func inHandshake(
        _ session: SessionID,
        _ body: (ConnectionDriver, Link, Continuation<Outcome>) -> Void
    ) async -> Outcome {
        await withTaskCancellationHandler {
            await withContinuation { continuation in
                guard let link = driver.links.handshaking(session) else {
                    return continuation.resume(returning: .handshakeIsOver)
                }
                guard !Task.isCancelled else { return continuation.resume(returning: .failure(.cancelledUnsent)) }
                driver.entered { body($0, link, continuation) }
            }
        } onCancel: {
            driver.schedule { $0.handshakes.giveUp(session) }
        }
    }

    func send(
        _ frame: Frame,
        _ session: SessionID,
        timeout: Duration?,
        expectsResponse: Bool
    ) async -> Outcome {
        await inHandshake(session) { driver, link, continuation in
            driver.handshakes.send(frame, link, timeout: timeout, expectsResponse: expectsResponse, continuation)
        }
    }

    func send(
        _ requests: [Request],
        _ session: SessionID,
        expectsResponse: Bool,
        stopsAtFailure: Bool
    ) async -> [Outcome] {
        guard !requests.isEmpty else { return [] }
        return await withTaskCancellationHandler {
            await withContinuation { continuation in
                let options = ResolvedOptions(accepted: loop.now, expectsResponse: expectsResponse)
                let batch = Batch(
                    count: requests.count,
                    options,
                    continuation,
                    naming: requests,
                    stopsAtFailure: stopsAtFailure
                )
                func fail(_ error: ClientError) {
                    for index in requests.indices { batch.complete(index, .failure(error)) }
                }
                guard !Task.isCancelled else { return fail(.cancelledUnsent) }
                guard let link = driver.links.handshaking(session) else { return fail(.handshakeIsOver) }
                if let loss = link.handshake?.loss { return fail(.lostDuringHandshake(loss, .notSent)) }
                driver.entered { $0.handshakes.send(requests, link, expectsResponse: expectsResponse, batch) }
            }
        } onCancel: {
            driver.schedule { $0.handshakes.giveUp(session) }
        }
    }

    func next(_ session: SessionID) async -> Outcome {
        await inHandshake(session) { $0.handshakes.read($1, $2) }
    }

    func loadedTLS() -> LoadedTLS? { driver.dialMemory.loadedTLS }

    func startTLS(_ session: SessionID, _ prepared: Result<LoadedTLS, TransportError>) async -> Outcome {
        let tls: LoadedTLS
        switch driver.entered({ $0.handshakes.prepare(prepared, session) }) {
        case .success(let loaded): tls = loaded
        case .failure(let error): return .failure(error)
        }
        return await inHandshake(session) { driver, _, continuation in
            if let refusal = driver.handshakes.beginUpgrade(session, tls, continuation) {
                continuation.resume(returning: .failure(refusal))
            }
        }
    }

    func change(_ change: HandshakeChange, _ session: SessionID) -> Result<Void, ClientError> {
        driver.entered { $0.handshakes.change(change, session) }
    }

    func changeLiveness(_ session: SessionID, _ change: @Sendable (inout ClientOptions.Liveness) -> Void) {
        driver.handshakes.changeLiveness(session, change)
    }

    func savedSession(in session: SessionID) -> (any Sendable)? { driver.handshakes.savedSession(in: session) }

    func closureReturned(_ session: SessionID, _ failure: (any Error)?) {
        driver.entered { $0.handshakes.closureReturned(session, failure) }
    }
}

extension HandshakeGate: CustomReflectable {
    /// Empty: the state of the driver belongs to its event loop, and holds secrets such as the bodies of requests.
    nonisolated var customMirror: Mirror { Mirror(self, children: []) }
}
