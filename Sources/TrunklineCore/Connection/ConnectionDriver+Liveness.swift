/// Detecting a dead link. Receiving does not move the timer: if there is nothing to do, it is armed anew.
extension ConnectionDriver {
    var presentRoundTripTime: RoundTripTime? { ready.flatMap { $0.state.machine.liveness.rules.roundTripTime } }

    func livenessPolicy(for link: Link) -> Liveness.Policy {
        let liveness = link.negotiated.liveness ?? options.liveness
        var policy = Liveness.Policy()
        policy.interval = liveness.interval
        policy.deadline = liveness.deadline
        policy.probeAfter = liveness.probeAfter
        policy.speakAfter = liveness.speakAfter
        policy.minimumRate = liveness.minimumRate
        policy.maximumTimeouts = liveness.maximumStalls
        if link.exchangesDatagrams { policy.repeatPingAfter = liveness.deadline / 8 }
        if !liveness.endsBusyLinks {
            policy.excusing =
                link.endpoint.isOnThisHost ? .any : rules.isInOrder && !rules.isByChannel ? .earlier : .none
        }
        // A codec that has no ping now may have one later.
        let hasHeartbeat = codec.hasPing || link.state.codec.ping(number: 0) != nil
        policy.mode = hasHeartbeat ? liveness.heartbeat : .none
        if let interval = learnedInterval(for: link, liveness, policy.mode) { policy.interval = interval }
        return policy
    }

    func startLiveness(_ link: Link) {
        // The handshake may have left an incomplete frame.
        if !link.state.received.isEmpty { _ = link.state.noteReceived(0, hasFrames: false, at: loop.turnTime) }
        armLiveness()
    }

    func stopLiveness() {
        timers.livenessArmed = nil
        timers.arm(.liveness, at: nil, for: self)
    }

    func armLiveness() {
        guard let ready, let next = ready.state.machine.liveness.rules.nextLook, next < .distantFuture else { return }
        if let armed = timers.livenessArmed, armed <= next { return }
        timers.livenessArmed = next
        timers.arm(.liveness, at: next, for: self)
    }

    func livenessTimerFired() {
        guard let due = timers.livenessArmed, let ready else { return }
        if mustReadFirst() { return timers.arm(.liveness, at: loop.nextTurn, for: self) }
        timers.livenessArmed = nil
        switch look(due, ready) {
        case .none, .ping: break
        case .examine:
            // A socket reports its failure only to a read or write, and the client does neither now. Reads what is
            // left, and with it the failure.
            if ready.transport.hasFailed {
                ready.state.held.isUnlimited = true
                updateReading()
            }
        case .declareDead: return loseToSilence(ready)
        }
        armLiveness()
    }

    private func look(_ due: Instant, _ link: Link) -> Liveness.Action {
        let transport = link.transport
        let action = link.state.machine.look(due: due, at: loop.turnTime) { transport.isAcknowledged == true }
        // Only a full socket can delay the ping: see `socketTookBytes`.
        if case .ping(let number) = action { ping(number, link) }
        return action
    }

    private func ping(_ number: UInt64, _ link: Link) {
        // Nothing may follow a request that holds others.
        guard !link.state.machine.isHeld, let ping = link.state.codec.ping(number: number) else {
            return link.state.machine.pingRefused(wasQueued: false, at: loop.turnTime)
        }
        if link.state.machine.send(ping: ping, at: loop.now) { reports.counts.pings += 1 }
        if !link.transport.awaitsWritable { scheduleFlush() }
    }

    func notePong(_ link: Link) {
        if let duration = link.state.machine.liveness.rules.measuredRoundTrip {
            reports.counts.pingDurations.record(duration)
        }
        if memory.heartbeats != nil { noteSurvival(of: link) }
    }

    func probe(_ session: SessionID) {
        guard let ready, ready.session == session,
            case .ping(let number) = ready.state.machine.probe(at: loop.now)
        else { return }
        ping(number, ready)
        armLiveness()
    }

    private func loseToSilence(_ link: Link) {
        let since = link.state.machine.liveness.rules.isProbing ? "of a ping" : "of the beginning of a frame"
        let deadline = (link.negotiated.liveness ?? options.liveness).deadline
        let silence = "no complete frame from \(link.endpoint) within \(deadline) \(since)"
        let opinion =
            link.transport.tcpInformation?.opinionAboutSilence
            ?? link.endpoint.opinionAboutSilence
            ?? TCPInformation.guessAboutSilence
        lose(link.session, TransportError(.halfOpen, "\(silence); \(opinion)"))
    }
}

extension Endpoint {
    /// Whether the peer is known to run while the link lives, with no network in between.
    fileprivate var isOnThisHost: Bool {
        switch target {
        case .command, .descriptors, .unix: true
        case .host, .vsock: false
        }
    }

    fileprivate var opinionAboutSilence: String? {
        switch target {
        case .command: "the process is alive, and does not answer"
        case .descriptors: "the other end is open, and does not answer"
        case .unix: "the server has the socket open, and does not answer"
        case .vsock: "the server hangs, or the virtual machine does not run"
        case .host: nil
        }
    }
}

extension TCPInformation {
    fileprivate static let guessAboutSilence =
        "the server hangs, or the network drops the packets (a firewall, NAT or load balancer that has forgotten the connection)"

    var opinionAboutSilence: String {
        let unsent = unsentBytes ?? 0
        if unacknowledgedSegments > 0 {
            let segments = Quantity.count(unacknowledgedSegments, "segment is", "segments are")
            return
                "the path is broken, or the host of the server is down: \(segments) not acknowledged, after"
                + " \(Quantity.count(retransmissions, "retransmission")); \(Quantity.count(unsent, "byte")) unsent"
        }
        if unsent > 0 {
            let bytes = Quantity.count(unsent, "byte is", "bytes are")
            switch sendWindow {
            case 0?:
                return
                    "the path works, and the server does not read: everything that was sent is acknowledged, its window is"
                    + " closed, and \(bytes) unsent"
            case let window?:
                // The kernel keeps what it could not hand to the network.
                return
                    "this host does not send: the server takes \(Quantity.count(window, "byte")), and \(bytes) unsent,"
                    + " so a firewall or a queue of this host probably drops what leaves"
            case nil:
                return
                    "everything that was sent is acknowledged, and \(bytes) unsent: the server does not read, or a"
                    + " firewall of this host drops what leaves"
            }
        }
        return "the path works, and the server hangs: its kernel has acknowledged every byte"
    }
}
