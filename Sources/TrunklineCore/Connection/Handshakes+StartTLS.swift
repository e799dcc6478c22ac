/// TLS that begins on an established link, because the handshake has agreed on it with the server.
extension Handshakes {
    /// The TLS handshake begins with what has been loaded; the attempt fails without it.
    func prepare(_ prepared: Result<LoadedTLS, TransportError>, _ session: SessionID) -> Result<LoadedTLS, ClientError>
    {
        switch prepared {
        case .success(let loaded):
            memory.dialMemory.loadedTLS = loaded
            return .success(loaded)
        case .failure(let error):
            if links.handshaking(session) != nil { host.attemptFailed(session, error) }
            return .failure(.tlsUnusable(error))
        }
    }

    func beginUpgrade(
        _ session: SessionID,
        _ tls: LoadedTLS,
        _ continuation: Continuation<Outcome>
    ) -> ClientError? {
        // Pongs normally go out at the end of the turn.
        if let link = links.handshaking(session), !link.state.machine.outbound.isEmpty { io.flush(session) }
        guard let link = links.handshaking(session), let handshake = link.handshake else { return .handshakeIsOver }
        if let loss = handshake.loss { return .lostDuringHandshake(loss, .notSent) }
        let machine = link.state.machine
        guard handshake.requests.count == 0, machine.outbound.isEmpty, link.secured == nil else {
            let message = "startTLS() needs a link in plaintext with no request in flight"
            return ClientError(.invalidRequest, .notSent, message)
        }
        guard link.state.received.isEmpty, handshake.inbox.isEmpty, !handshake.hasStray else {
            let violation = FrameError.plaintextBehindAgreement
            host.attemptFailed(session, violation)
            return ClientError(.protocolViolation, .notSent, "the server violated the protocol", cause: violation)
        }
        // The codec may hold plaintext that an attacker has added: a part of a frame that it has discarded from its
        // input.
        var fresh = LinkCodec(codec.base)
        // Each was set before. A codec that now refuses one is left with the others.
        for frame in handshake.defaults { try? fresh.setDefaults(from: frame) }
        if let size = link.negotiated.maximumFrameSize { _ = fresh.setMaximumFrameSize(size) }
        if let session = memory.savedSession { fresh.setSession(session) }
        do throws(TransportError) {
            let engine = try tls.makeEngine(for: link.endpoint)
            let secured = SecuredTransport(engine, on: loop, handler: link.transport.handler, over: link.transport)
            link.state.replaceCodec(by: fresh)
            link.upgrade(to: secured)
            link.fileVersions = tls.versions
            link.handshake?.securing = continuation
            io.updateReading()
            return nil
        } catch {
            host.attemptFailed(session, error)
            return .tlsUnusable(error)
        }
    }

    func upgraded(_ link: Link) {
        link.handshake?.securing.take()?.resume(returning: .success(.none))
    }

    func upgradeFailed(_ link: Link, _ error: TransportError) {
        guard link.isInHandshake else { return }
        let session = link.session
        // The next attempt offers no session, and may succeed.
        let isPermanent = link.secured?.hasFailedWithSession == true ? false : nil
        let failure: any Error = error.code == .tls(.notTLS) ? FrameError.plaintextBehindAgreement : error
        host.attemptFailed(session, failure, isPermanent: isPermanent)
    }
}

extension FrameError {
    fileprivate static var plaintextBehindAgreement: FrameError {
        FrameError(.unexpectedBytes, "the server sent plaintext where TLS should begin")
    }
}
