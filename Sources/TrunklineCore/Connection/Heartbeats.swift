/// What a connection has learned for `liveness.adaptiveInterval`. Confined to the event loop of its connection.
final class Heartbeats {
    fileprivate(set) var memory = HeartbeatMemory()
    fileprivate var present: Present?
    /// Kept until it is known whether the next attempt at the same endpoint succeeds.
    fileprivate var losses: [(key: HeartbeatMemory.Key, idle: Duration, at: Instant)] = []

    /// How long a loss waits for that. With several endpoints, others may be used meanwhile.
    private static let patience = AdaptiveInterval.memory
    private static let maximumLosses = 16

    fileprivate struct Present {
        let session: SessionID
        let key: HeartbeatMemory.Key
        var interval: Duration
        var countedPing = Instant.distantPast
    }

    /// The server or the network is down, so the loss before says nothing about the interval.
    func attemptFailed(_ endpoint: Endpoint) { losses.removeAll { $0.key.endpoint == endpoint } }

    fileprivate func noteLoss(_ key: HeartbeatMemory.Key, afterIdle idle: Duration, at now: Instant) {
        losses.removeAll { $0.key == key }
        if losses.count == Self.maximumLosses { losses.removeFirst() }
        losses.append((key, idle, now))
    }

    fileprivate func takeLoss(_ key: HeartbeatMemory.Key, at now: Instant) -> Duration? {
        let loss = losses.first { $0.key == key && now.since($0.at) <= Self.patience }
        losses.removeAll { $0.key.endpoint == key.endpoint }
        return loss?.idle
    }
}

/// Learning the interval of heartbeats. All of it is rare: it happens for links, and for pings on idle links.
extension ConnectionDriver {
    var heartbeatInterval: Duration? { ready.flatMap { $0.state.machine.liveness.rules.heartbeatInterval } }

    var learnedIntervals: [LearnedInterval] { memory.heartbeats?.memory.learned ?? [] }

    /// The kernel's probes come after the longest learned interval: they would keep idle links alive, or find losses.
    var dialOptions: ClientOptions {
        guard let range = options.liveness.adaptiveInterval, options.liveness.heartbeat == .pingPong, codec.hasPing
        else {
            return options
        }
        return options.probing(after: range.upperBound)
    }

    /// The server can be reached, so the path had probably forgotten the earlier link.
    @inline(never)
    func learnFromLoss(before link: Link) {
        guard let heartbeats = memory.heartbeats, !heartbeats.losses.isEmpty else { return }
        let key = HeartbeatMemory.Key(link.endpoint, link.path.latest)
        guard let idle = heartbeats.takeLoss(key, at: loop.now) else { return }
        tell(heartbeats.memory.lost(key, afterIdle: idle, at: loop.now))
    }

    func learnedInterval(
        for link: Link,
        _ liveness: ClientOptions.Liveness,
        _ mode: HeartbeatMode
    ) -> Duration? {
        memory.heartbeats?.present = nil
        guard let range = liveness.adaptiveInterval, mode == .pingPong else { return nil }
        let heartbeats = memory.heartbeats ?? Heartbeats()
        memory.heartbeats = heartbeats
        let key = HeartbeatMemory.Key(link.endpoint, link.path.latest)
        // The handshake has set an interval for this link.
        guard liveness.interval == options.liveness.interval else { return nil }
        let interval = heartbeats.memory.interval(for: key, within: range)
        heartbeats.present = Heartbeats.Present(session: link.session, key: key, interval: interval)
        return interval
    }

    @inline(never)
    func noteSurvival(of link: Link) {
        guard let heartbeats = memory.heartbeats, var present = heartbeats.present, present.session == link.session,
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
        guard let heartbeats = memory.heartbeats, let present = heartbeats.present, present.session == link.session
        else {
            return
        }
        heartbeats.present = nil
        let liveness = link.negotiated.liveness ?? options.liveness
        let shortest = liveness.adaptiveInterval?.lowerBound ?? .zero
        guard lifecycle == .open, isLossInSilence(link, cause), isOnFirstPath(link, present.key), hasRoute,
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

extension ClientOptions {
    /// The first probe comes after `longest`, and after the answer to a ping that is sent then.
    fileprivate func probing(after longest: Duration) -> ClientOptions {
        guard var keepAlive = connecting.keepAlive else { return self }
        let answered = longest.addingClamped(liveness.deadline).addingClamped(.seconds(1))
        keepAlive.idle = max(keepAlive.idle, answered)
        var options = self
        options.connecting.keepAlive = keepAlive
        return options
    }
}
