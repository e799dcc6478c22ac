/// What a handshake changes for its link and for later ones.
extension Handshakes {
    func learn(in session: SessionID, _ change: (inout HandshakeUse.Learned) -> Void) {
        guard let link = links.handshaking(session), var learned = link.handshake?.learned else { return }
        change(&learned)
        link.handshake?.learned = learned
    }

    func negotiate(
        in session: SessionID,
        _ change: (inout Link.Negotiated, ClientOptions) -> Void
    ) {
        guard let link = links.handshaking(session) else { return }
        var negotiated = link.negotiated
        change(&negotiated, options)
        link.negotiated = negotiated
    }

    func setMaximumFrameSize(_ size: Int, _ session: SessionID) -> Result<Void, ClientError> {
        guard let link = links.handshaking(session) else { return Outcome.handshakeIsOver.map { _ in } }
        if let loss = link.handshake?.loss { return .failure(.lostDuringHandshake(loss, .notSent)) }
        guard link.state.codec.setMaximumFrameSize(size) else {
            return .failure(ClientError(.invalidArgument, .notSent, "the codec is no FrameLimitCodec"))
        }
        link.negotiated.maximumFrameSize = size
        return .success(())
    }

    func adopt(_ learned: HandshakeUse.Learned, from link: Link) {
        memory.serverInfo = learned.serverInfo
        if let info = learned.serverInfo { link.serverInfo = info }
        // A member of a cluster has one server.
        guard options.membership == nil, let added = learned.endpoints else { return }
        host.extendEndpoints(with: added)
    }

    func savedSession(in session: SessionID) -> (any Sendable)? {
        links.handshaking(session) == nil ? nil : memory.savedSession
    }

    func saveSession(_ saved: (any Sendable)?, in session: SessionID) {
        guard let link = links.handshaking(session) else { return }
        memory.savedSession = saved
        link.state.codec.setSession(saved)
    }

    func loseSession(in session: SessionID) {
        guard let link = links.handshaking(session) else { return }
        (memory.savedSession, memory.hasLostSession) = (nil, true)
        link.state.codec.setSession(nil)
    }

    func setDefaults(from frame: Frame, _ session: SessionID) -> Result<Void, ClientError> {
        guard let link = links.handshaking(session) else { return Outcome.handshakeIsOver.map { _ in } }
        if let loss = link.handshake?.loss { return .failure(.lostDuringHandshake(loss, .notSent)) }
        do throws(FrameError) {
            try link.state.codec.setDefaults(from: frame)
            link.handshake?.defaults.append(frame)
            return .success(())
        } catch {
            return .failure(ClientError(.invalidArgument, .notSent, "the field cannot be set", cause: error))
        }
    }
}
