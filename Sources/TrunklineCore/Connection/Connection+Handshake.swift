/// What the closures of a handshake ask of their link.
extension Connection: HandshakeLink {
    nonisolated var codec: ProtocolCodec { driver.context.codec }

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
        driver.entered { $0.handshakes.closuresReturned(session, failure) }
    }
}

/// The values that handshakes have stored.
extension Connection {
    /// Returns the value that the handshake of the latest ready link stored with ``Handshaker/setServerInfo(_:)``, or
    /// `nil` if it stored no value, if the value has another type, or if no link has been ready yet.
    public func serverInfo<Info: Sendable>(as type: Info.Type) -> Info? { driver.memory.serverInfo as? Info }

    /// Returns the value that the handshake of the link of `session` stored with ``Handshaker/setServerInfo(_:)``, or
    /// `nil` if it stored no value, if the value has another type, or if that link is not ready yet or has ended. The
    /// link may be draining.
    public func serverInfo<Info: Sendable>(as type: Info.Type, of session: SessionID) -> Info? {
        driver.links[session]?.serverInfo as? Info
    }

    /// Returns the session that a handshake or ``saveSession(_:)`` has saved, or `nil` if there is none, or if the
    /// value has another type.
    public func savedSession<Session: Sendable>(as type: Session.Type) -> Session? {
        driver.memory.savedSession as? Session
    }

    /// Saves a session for the handshakes of later links, as ``Handshaker/saveSession(_:)`` does. The codec of the
    /// present link does not receive it.
    ///
    /// - Parameter session: The new value, or `nil` to forget the saved one.
    public func saveSession(_ session: (any Sendable)?) { driver.memory.savedSession = session }
}
