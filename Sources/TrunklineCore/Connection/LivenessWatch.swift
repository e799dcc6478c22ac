/// What the watch for dead links asks of the driver of its connection.
protocol LivenessHost: AnyObject {
    var lifecycle: Lifecycle { get }
    var hasRoute: Bool { get }
    func arm(_ timer: ConnectionTimers.Name, at deadline: Instant?)
    func lose(_ session: SessionID, _ cause: any Error)
}

/// Detects dead links. Receiving does not move the timer: if there is nothing to do, it is armed anew. Confined to the
/// event loop of its connection.
final class LivenessWatch {
    private let io: LinkIO
    private let timers: ConnectionTimers
    private let paths: PathView
    /// It owns this object.
    private unowned let host: any LivenessHost
    /// `nil` until `liveness.adaptiveInterval` is used.
    private(set) var heartbeats: Heartbeats?

    init(_ io: LinkIO, _ timers: ConnectionTimers, _ paths: PathView, host: any LivenessHost) {
        (self.io, self.timers, self.paths, self.host) = (io, timers, paths, host)
    }

    private var context: ConnectionContext { io.context }
    private var links: Links { io.links }
    private var reports: LinkReports { io.reports }
    private var loop: any EventLoop { context.loop }
    private var options: ClientOptions { context.options }
    private var rules: LinkRules { context.rules }
    private var codec: ProtocolCodec { context.codec }
    private var observation: Observation? { context.observation }
    private var ready: Link? { links.ready }

    var presentRoundTripTime: RoundTripTime? { ready.flatMap { $0.state.machine.liveness.rules.roundTripTime } }

    func policy(for link: Link) -> Liveness.Policy {
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

    func start(_ link: Link) {
        // The handshake may have left an incomplete frame.
        if !link.state.received.isEmpty { _ = link.state.noteReceived(0, hasFrames: false, at: loop.turnTime) }
        arm()
    }

    func stop() {
        timers.livenessArmed = nil
        host.arm(.liveness, at: nil)
    }

    func arm() {
        guard let ready, let next = ready.state.machine.liveness.rules.nextLook, next < .distantFuture else { return }
        if let armed = timers.livenessArmed, armed <= next { return }
        timers.livenessArmed = next
        host.arm(.liveness, at: next)
    }

    func timerFired() {
        guard let due = timers.livenessArmed, let ready else { return }
        if io.mustReadFirst() { return host.arm(.liveness, at: loop.nextTurn) }
        timers.livenessArmed = nil
        switch look(due, ready) {
        case .none, .ping: break
        case .examine:
            // A socket reports its failure only to a read or write, and the client does neither now. Reads what is
            // left, and with it the failure.
            if ready.transport.hasFailed {
                ready.state.held.isUnlimited = true
                io.updateReading()
            }
        case .declareDead: return loseToSilence(ready)
        }
        arm()
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
        if !link.transport.awaitsWritable { io.scheduleFlush() }
    }

    func notePong(_ link: Link) {
        if let duration = link.state.machine.liveness.rules.measuredRoundTrip {
            reports.counts.pingDurations.record(duration)
        }
        if heartbeats != nil { noteSurvival(of: link) }
    }

    func probe(_ session: SessionID) {
        guard let ready, ready.session == session,
            case .ping(let number) = ready.state.machine.probe(at: loop.now)
        else { return }
        ping(number, ready)
        arm()
    }

    private func loseToSilence(_ link: Link) {
        let since = link.state.machine.liveness.rules.isProbing ? "of a ping" : "of the beginning of a frame"
        let deadline = (link.negotiated.liveness ?? options.liveness).deadline
        let silence = "no complete frame from \(link.endpoint) within \(deadline) \(since)"
        let opinion =
            link.transport.tcpInformation?.opinionAboutSilence
            ?? link.endpoint.opinionAboutSilence
            ?? TCPInformation.guessAboutSilence
        host.lose(link.session, TransportError(.halfOpen, "\(silence); \(opinion)"))
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

/// Learning the interval of heartbeats. All of it is rare: it happens for links, and for pings on idle links.
extension LivenessWatch {
    var heartbeatInterval: Duration? { ready.flatMap { $0.state.machine.liveness.rules.heartbeatInterval } }

    var learnedIntervals: [LearnedInterval] { heartbeats?.memory.learned ?? [] }

    /// The server can be reached, so the path had probably forgotten the earlier link.
    @inline(never)
    func learnFromLoss(before link: Link) {
        guard let heartbeats, !heartbeats.losses.isEmpty else { return }
        let key = HeartbeatMemory.Key(link.endpoint, link.path.latest)
        guard let idle = heartbeats.takeLoss(key, at: loop.now) else { return }
        tell(heartbeats.memory.lost(key, afterIdle: idle, at: loop.now))
    }

    private func learnedInterval(
        for link: Link,
        _ liveness: ClientOptions.Liveness,
        _ mode: HeartbeatMode
    ) -> Duration? {
        heartbeats?.present = nil
        guard let range = liveness.adaptiveInterval, mode == .pingPong else { return nil }
        let heartbeats = self.heartbeats ?? Heartbeats()
        self.heartbeats = heartbeats
        let key = HeartbeatMemory.Key(link.endpoint, link.path.latest)
        // The handshake has set an interval for this link.
        guard liveness.interval == options.liveness.interval else { return nil }
        let interval = heartbeats.memory.interval(for: key, within: range)
        heartbeats.present = Heartbeats.Present(session: link.session, key: key, interval: interval)
        return interval
    }

    @inline(never)
    private func noteSurvival(of link: Link) {
        guard let heartbeats, var present = heartbeats.present, present.session == link.session,
            isOnFirstPath(link, present.key), let idle = link.state.machine.liveness.rules.idleBeforeAnsweredPing,
            idle.until > present.countedPing, idle.duration >= present.interval - present.interval.tolerance
        else { return }
        present.countedPing = idle.until
        let news = heartbeats.memory.survived(present.key, at: loop.now)
        if let news {
            present.interval = news.interval
            link.state.machine.liveness.rules.setInterval(news.interval)
        }
        heartbeats.present = present
        tell(news)
    }

    @inline(never)
    func noteLoss(of link: Link, _ cause: DisconnectCause) {
        guard let heartbeats, let present = heartbeats.present, present.session == link.session
        else {
            return
        }
        heartbeats.present = nil
        let liveness = link.negotiated.liveness ?? options.liveness
        let shortest = liveness.adaptiveInterval?.lowerBound ?? .zero
        guard host.lifecycle == .open, isLossInSilence(link, cause), isOnFirstPath(link, present.key), host.hasRoute,
            let idle = link.state.machine.liveness.rules.idleBeforeSilence,
            // Otherwise the process slept meanwhile, or did not read.
            idle.duration >= shortest, idle.duration <= present.interval + max(.seconds(2), present.interval / 16),
            // Otherwise it is no answer.
            loop.now.since(idle.until) <= liveness.deadline.addingClamped(.seconds(60))
        else { return }
        heartbeats.noteLoss(present.key, afterIdle: idle.duration, at: loop.now)
    }

    private func isLossInSilence(_ link: Link, _ cause: DisconnectCause) -> Bool {
        switch cause {
        case .reset, .timedOut: return true
        case .halfOpen:
            guard link.state.machine.liveness.rules.isProbing else { return false }
            // If everything was acknowledged, the path works, and the server hangs.
            guard let information = link.transport.tcpInformation else { return true }
            return information.unacknowledgedSegments > 0
        default: return false
        }
    }

    private func isOnFirstPath(_ link: Link, _ key: HeartbeatMemory.Key) -> Bool {
        let ends = paths.pathsAtEnd(of: link)
        return ends.before == key.path && ends.after == key.path
    }

    private func tell(_ news: LearnedInterval?) {
        if let news { observation?.add(.links, .heartbeatIntervalChanged(news)) }
    }
}

extension Duration {
    /// Something may be written just after the latest frame was received.
    fileprivate var tolerance: Duration { min(self / 20, .seconds(1)) }
}
