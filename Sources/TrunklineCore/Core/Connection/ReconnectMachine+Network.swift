extension ReconnectMachine {
    /// A failure without a route says nothing about the servers.
    mutating func pause(looksAgain: Bool, at now: Instant) -> Action {
        guard !ring.isEmpty, case .retry = decision(by: policy.reconnect)
        else { return giveUp(at: now, policyGaveUp: true) }
        ring.beginRound()
        phase = .noNetwork(cause: lastCause, until: looksAgain ? now.advanced(by: Self.longestPause) : nil)
        return .rest
    }

    /// `isAttemptConcerned`: the attempt in progress began on a path that no longer exists.
    mutating func networkChanged(isAttemptConcerned: Bool = true, at now: Instant) -> Action {
        switch phase {
        case .closed, .suspended: return .none
        case .idle:
            phase = .idle(restUntil: .distantPast)
            startAnew()
            return .none
        case .noNetwork:
            startAnew()
            return connectLater(at: soon(at: now, isPaced: false), now)
        case .waiting(let present):
            startAnew()
            let start = soon(at: now, isPaced: true)
            return connectLater(at: start, unlessBefore: present, now)
        case .connecting(let attempt):
            guard isAttemptConcerned, now.since(lastPrompt) >= Self.networkPace else { return .none }
            startAnew()
            _ = ring.select(attempt.endpoint)
            return connectLater(at: soon(at: now, isPaced: true), now)
        case .ready(let link):
            guard let change = link.change else { return .none }
            guard change.attempt == nil else {
                guard isAttemptConcerned, now.since(lastPrompt) >= Self.networkPace else { return .none }
                lastPrompt = now
                return restartAttempt(at: now)
            }
            let start = soon(at: now, isPaced: true)
            let earliest = max(start, earliestStart(of: change, at: now))
            guard earliest < change.until else { return .none }
            lastPrompt = start
            self.change?.until = earliest
            self.change?.round = 0
            return waitForPlans
        }
    }

    /// No route seems to lead to any endpoint. An attempt verifies that: it fails at once if there is none.
    mutating func networkLost(at now: Instant) -> Action {
        guard now.since(lastPrompt) >= Self.networkPace else { return .none }
        switch phase {
        case .waiting where ring.earliestStart(at: now) <= now:
            lastPrompt = now
            return connect(at: now)
        case .connecting:
            lastPrompt = now
            return restartAttempt(at: now)
        default: return .none
        }
    }

    mutating func takeBetterPath(at now: Instant) -> Action {
        let earliest = lastPrompt.advanced(by: Self.networkPace)
        guard earliest > now else {
            lastPrompt = now
            return renew(because: .path, at: now)
        }
        guard let link, link.change == nil, policy.overlapsLinks, ring.contains(link.endpoint) else { return .none }
        change = PlannedChange(reason: .renewal(.path), target: link.endpoint, until: earliest, round: 0)
        lastPrompt = earliest
        return waitForPlans
    }

    private mutating func startAnew() { (failures, round) = (0, 0) }

    private mutating func connectLater(
        at start: Instant,
        unlessBefore present: Wait? = nil,
        _ now: Instant
    ) -> Action {
        let earliest = max(start, ring.earliestStart(at: now))
        if let present, earliest >= present.until {
            return wait(until: present.until, policyUntil: present.policyUntil)
        }
        lastPrompt = start
        return wait(until: earliest, policyUntil: start)
    }

    private mutating func soon(at now: Instant, isPaced: Bool) -> Instant {
        let start = now.advanced(by: Self.networkJitter * generator.nextUnit())
        return isPaced ? max(start, lastPrompt.advanced(by: Self.networkPace)) : start
    }
}
