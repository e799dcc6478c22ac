/// What handshakes change for their link and for later ones.
extension Handshakes {
    func change(_ change: HandshakeChange, _ session: SessionID) -> Result<Void, ClientError> {
        guard let link = links.handshaking(session), let handshake = link.handshake else {
            return .failure(.handshakeIsOver)
        }
        switch change {
        case .defaults(let frame): return setDefaults(from: frame, link, handshake)
        case .maximumFrameSize(let size): return setMaximumFrameSize(size, link, handshake)
        case .maximumInFlight(let count): link.negotiated.maximumInFlight = count
        case .keepsSubscriptions: handshake.keepsSubscriptions = true
        case .endpoints(let endpoints): handshake.learned.endpoints = endpoints
        case .serverInfo(let info): handshake.learned.serverInfo = info
        case .savedSession(let saved):
            memory.savedSession = saved
            link.state.codec.setSession(saved)
        case .sessionLost:
            (memory.savedSession, memory.hasLostSession) = (nil, true)
            link.state.codec.setSession(nil)
        }
        return .success(())
    }

    private func setDefaults(from frame: Frame, _ link: Link, _ handshake: HandshakeUse) -> Result<Void, ClientError> {
        if let loss = handshake.loss { return .failure(.lostDuringHandshake(loss, .notSent)) }
        do throws(FrameError) {
            try link.state.codec.setDefaults(from: frame)
            handshake.defaults.append(frame)
            return .success(())
        } catch {
            return .failure(ClientError(.invalidArgument, .notSent, "the field cannot be set", cause: error))
        }
    }

    private func setMaximumFrameSize(_ size: Int, _ link: Link, _ handshake: HandshakeUse) -> Result<Void, ClientError>
    {
        if let loss = handshake.loss { return .failure(.lostDuringHandshake(loss, .notSent)) }
        guard link.state.codec.setMaximumFrameSize(size) else {
            return .failure(ClientError(.invalidArgument, .notSent, "the codec is no FrameLimitCodec"))
        }
        link.negotiated.maximumFrameSize = size
        return .success(())
    }

    func changeLiveness(_ session: SessionID, _ change: (inout ClientOptions.Liveness) -> Void) {
        guard let link = links.handshaking(session) else { return }
        var liveness = link.negotiated.liveness ?? options.liveness
        change(&liveness)
        link.negotiated.liveness = liveness
    }

    func savedSession(in session: SessionID) -> (any Sendable)? {
        links.handshaking(session) == nil ? nil : memory.savedSession
    }

    func adopt(_ learned: HandshakeUse.Learned, from link: Link) {
        memory.serverInfo = learned.serverInfo
        if let info = learned.serverInfo { link.serverInfo = info }
        // A member of a cluster has one server.
        guard options.membership == nil, let added = learned.endpoints else { return }
        host.extendEndpoints(with: added)
    }
}
