/// The outcomes of attempts and links, and the rules for the next attempt.
extension ReconnectMachine {
    mutating func linkNeeded(at now: Instant) -> Action {
        switch phase {
        case .idle(let restUntil): return start(notBefore: restUntil, at: now)
        case .waiting(let wait): return connectPromptly(before: wait, at: now)
        case .suspended(_, let restUntil):
            phase = .suspended(isWanted: true, restUntil: restUntil)
            return .none
        case .connecting, .ready, .noNetwork, .closed: return .none
        }
    }

    /// Returns `nil` for the link of an old attempt, which must be closed.
    mutating func linkReady(_ id: SessionID, afterHandshake: Bool = false, at now: Instant) -> Action? {
        guard let attempt, attempt.id == id else { return nil }
        if let link { keepReturn(of: link) }
        let kept = keptReturn
        let replaced = endChanged(at: now)
        phase = .ready(ReadyLink(attempt, afterHandshake: afterHandshake, at: now))
        promptFrom = nil
        planRenewal(at: now)
        ring.succeeded(attempt.endpoint)
        if let kept, kept.endpoint == attempt.endpoint { link?.returnAt = kept.at } else { planReturn(at: now) }
        keptReturn = nil
        resumePostponed()
        return replaced.map { .drain(session: $0, then: .none) } ?? Action.none
    }

    /// - Parameters:
    ///   - hasRoute: Whether a route leads to any endpoint. Without one, this is not a failure of the endpoint.
    ///   - isOfThisHost: Whether the cause lies in this host. Without a route, attempts then pause until one appears.
    ///   - looksAgain: Whether such a pause ends after `longestPause` even without a route.
    mutating func attemptFailed(
        _ id: SessionID,
        _ cause: DisconnectCause,
        isPermanent: Bool = false,
        retryAfter: Duration? = nil,
        hasRoute: Bool = true,
        isOfThisHost: Bool = true,
        looksAgain: Bool = false,
        at now: Instant
    ) -> Action {
        guard let attempt, attempt.id == id else { return .none }
        // A permanent failure is the same on every route.
        let hasRoute = hasRoute || isPermanent
        if hasRoute {
            ring.failed(attempt.endpoint, at: now, isPermanent: isPermanent && !policy.retriesPermanentCauses)
        }
        // A proxy may lock an account that fails too often, as a server may.
        let isRefusedLogin = isPermanent && (cause == .handshakeRefused || cause == .proxy)
        if isRefusedLogin, retryAfter == nil {
            let pause = min(max(.zero, policy.refusalPause), .century)
            ring.hold(attempt.endpoint, until: now.advanced(by: pause * (1 + 0.1 * generator.nextUnit())))
        } else {
            hold(attempt.endpoint, for: retryAfter, at: now)
        }
        if change != nil {
            guard hasRoute else { return changeFailedWithoutRoute(cause, isOfThisHost: isOfThisHost, at: now) }
            return changeFailed(cause, isPermanent: isPermanent, at: now)
        }
        lastCause = cause
        promptFrom = nil
        guard hasRoute else { return isOfThisHost ? pause(looksAgain: looksAgain, at: now) : askPolicy(at: now) }
        failures += 1
        if hasUsedUpAttempts { return giveUp(at: now) }
        if ring.areAllRefused(at: now) { return giveUp(at: now) }
        return ring.hasTurnLeft(at: now) ? connect(at: now) : askPolicy(at: now)
    }

    /// Handles the loss of a link that the client did not cause. If it `countsAgainstEndpoint`, the endpoint has
    /// failed, however long the link was ready. If `isOurNetwork`, it has not, and the next attempt begins at once.
    mutating func linkLost(
        _ session: SessionID,
        _ cause: DisconnectCause,
        isOrderly: Bool = false,
        wasQuiet: Bool = true,
        demand: Demand = .request,
        retryAfter: Duration? = nil,
        countsAgainstEndpoint: Bool = false,
        isOurNetwork: Bool = false,
        at now: Instant
    ) -> Action {
        guard let link, link.session == session else { return .none }
        let endpoint = link.endpoint
        let wasStable = lifetime(at: now) >= policy.stableAfter
        let hasProvedItself = endReady(inOrder: isOrderly && wasQuiet, wasSilent: countsAgainstEndpoint, at: now)
        lastCause = cause
        if !isOurNetwork {
            // Another endpoint may be better. An attempt at a silent one would probably take all of its time.
            if countsAgainstEndpoint || cause.isOfSilentPeer || !(wasStable || hasProvedItself && isOrderly) {
                ring.failed(endpoint, at: now)
            }
            hold(endpoint, for: retryAfter, at: now)
        }
        if !hasProvedItself, !isOurNetwork { failures += 1 }
        if isOrderly, hasProvedItself { drawPromptStart(at: now) }
        if isOrderly, demand == .none, !policy.keepsLinkWarm { return rest(at: now) }
        if let change = link.change, goOn(with: change) { return .none }
        if isOurNetwork, !ring.isEmpty, now.since(lastPrompt) >= Self.networkPace,
            case .retry = decision(by: policy.reconnect)
        {
            lastPrompt = now
            // The attempts of this round were made on another network.
            ring.beginRound()
            return connect(at: now)
        }
        if !hasProvedItself, hasUsedUpAttempts { return giveUp(at: now) }
        return askPolicy(for: demand, at: now)
    }

    mutating func timerFired(at now: Instant) -> Action {
        switch phase {
        case .waiting(let wait): return wait.until <= now ? connect(at: now) : .wait(until: wait.until)
        case .noNetwork(_, let until): return until.map { $0 <= now ? connect(at: now) : .wait(until: $0) } ?? .none
        case .ready: return changeDue(at: now)
        case .idle, .connecting, .suspended, .closed: return .none
        }
    }

    var hasUsedUpAttempts: Bool { policy.maximumAttempts.map { failures >= $0 } ?? false }

    /// Waits for what is left of the wait that began when the machine gave up.
    mutating func start(notBefore restUntil: Instant, at now: Instant) -> Action {
        guard !ring.isEmpty else { return .giveUp }
        let earliest = max(restUntil, ring.earliestStart(at: now))
        return earliest > now ? wait(until: earliest, policyUntil: restUntil) : connect(at: now)
    }

    private mutating func connectPromptly(before present: Wait, at now: Instant) -> Action {
        guard let promptFrom else { return .none }
        let earliest = max(promptFrom, ring.earliestStart(at: now))
        if earliest <= now { return connect(at: now) }
        return earliest < present.until ? wait(until: earliest, policyUntil: present.policyUntil) : .none
    }

    private mutating func drawPromptStart(at now: Instant) {
        let (floor, jitter) = Self.promptDelay
        promptFrom = now.advanced(by: floor + jitter * generator.nextUnit())
    }

    /// The next request connects, but not before the end of the wait that would follow now.
    mutating func rest(at now: Instant) -> Action {
        phase = .idle(restUntil: promptFrom ?? restAfterPolicy(at: now))
        ring.beginRound()
        return .rest
    }

    mutating func connect(at now: Instant) -> Action {
        guard let endpoint = ring.next(at: now) else {
            phase = .idle(restUntil: .distantPast)
            return .giveUp
        }
        let attempt = Attempt(id: nextID(), number: failures + 1, endpoint: endpoint)
        phase = .connecting(attempt)
        return .connect(attempt)
    }

    mutating func nextID() -> SessionID {
        attemptCount += 1
        return SessionID(attemptCount, ofClient: client)
    }

    mutating func wait(until: Instant, policyUntil: Instant) -> Action {
        ring.beginRound()
        phase = .waiting(Wait(until: until, attempt: failures + 1, cause: lastCause, policyUntil: policyUntil))
        return .wait(until: until)
    }

    /// Waits as the policy decides; after an orderly end, with a request waiting, at most until `promptFrom`.
    mutating func askPolicy(for demand: Demand = .request, at now: Instant) -> Action {
        // Without endpoints, it is not the policy that gives up. The pause is as long as its wait.
        guard !ring.isEmpty else { return giveUp(at: now) }
        guard case .retry(let delay) = decision(by: policy.reconnect) else {
            return giveUp(at: now, policyGaveUp: true)
        }
        round += 1
        var policyUntil = now.advanced(by: max(.zero, delay))
        if demand == .request, let promptFrom { policyUntil = min(policyUntil, promptFrom) }
        return wait(until: max(policyUntil, ring.earliestStart(at: now)), policyUntil: policyUntil)
    }

    /// Steady demand must not cause a flood of attempts, so the machine rests for what would have been the next wait.
    mutating func giveUp(at now: Instant, policyGaveUp: Bool = false) -> Action {
        var restUntil = restAfterPolicy(at: now, policyGaveUp: policyGaveUp)
        if let promptFrom { restUntil = min(restUntil, promptFrom) }
        failures = 0
        ring.forgetPermanentFailures()
        ring.beginRound()
        phase = .idle(restUntil: restUntil)
        return .giveUp
    }

    private mutating func restAfterPolicy(at now: Instant, policyGaveUp: Bool = false) -> Instant {
        var rest = policyGaveUp ? ReconnectDecision.giveUp : decision(by: policy.reconnect)
        if rest == .giveUp { rest = decision(by: Backoff()) }
        round += 1
        guard case .retry(let delay) = rest else { return now }
        return now.advanced(by: max(.zero, delay))
    }

    func hasProvedItself(inOrder: Bool = false, wasSilent: Bool = false, at now: Instant) -> Bool {
        guard let link else { return false }
        let lifetime = now.since(link.since)
        return link.hasAnswered
            || (link.hasDelivered || inOrder && link.hadHandshake) && lifetime >= Self.shortestProof
            || lifetime >= policy.stableAfter && !wasSilent
    }

    func lifetime(at now: Instant) -> Duration { link.map { now.since($0.since) } ?? .zero }

    /// Returns whether the link has proved itself. `inOrder`: nothing in flight. `isReplaced`: the next link is ready.
    mutating func endReady(
        inOrder: Bool = false,
        wasSilent: Bool = false,
        isReplaced: Bool = false,
        at now: Instant
    ) -> Bool {
        let lifetime = lifetime(at: now)
        let hasProvedItself = hasProvedItself(inOrder: inOrder, wasSilent: wasSilent, at: now)
        if hasProvedItself {
            failures = 0
            round = 0
        }
        // After a shorter link the round continues: servers that close soon after connecting get one turn each.
        if lifetime >= policy.stableAfter, !isReplaced { ring.beginRound() }
        keptReturn = nil
        phase = .idle(restUntil: .distantPast)
        return hasProvedItself
    }

    /// Adds up to a tenth, so that the clients of a server do not all come back at once.
    mutating func hold(_ endpoint: Endpoint, for hint: Duration?, at now: Instant) {
        guard let hint, hint > .zero else { return }
        let extra = 0.1 * generator.nextUnit()
        func end(_ wait: Duration) -> Instant {
            let nanoseconds = max(0, min(wait, Self.longestHint).clampedNanoseconds)
            return now.advanced(by: .nanoseconds(nanoseconds + Int64(Double(nanoseconds) * extra)))
        }
        ring.hold(endpoint, until: end(hint), closedUntil: end(min(hint, policy.maximumRetryAfter)))
    }

    mutating func decision(by policy: any ReconnectPolicy) -> ReconnectDecision {
        decide(by: policy, ReconnectFailure(round: round, failedAttempts: failures, cause: lastCause))
    }

    mutating func decide(by policy: any ReconnectPolicy, _ failure: ReconnectFailure) -> ReconnectDecision {
        var generator = generator
        defer { self.generator = generator }
        return policy.decision(for: failure) { generator.nextUnit() }
    }
}
