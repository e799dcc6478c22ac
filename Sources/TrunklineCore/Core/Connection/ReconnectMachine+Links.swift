/// The outcomes of attempts and links, and the rules for the next attempt.
extension ReconnectMachine {
    /// Handles the demand for a link, by a request or a new reader of pushes. After an orderly end, the attempt does
    /// not wait for the delay of the policy.
    package mutating func linkNeeded(at now: Instant) -> Action {
        switch phase {
        case .idle(let restUntil): return start(notBefore: restUntil, at: now)
        case .waiting(let wait): return connectPromptly(before: wait, at: now)
        case .suspended(_, let restUntil):
            phase = .suspended(isWanted: true, restUntil: restUntil)
            return .none
        case .connecting, .ready, .noNetwork, .closed: return .none
        }
    }

    /// Handles the ready link of attempt `id`. If the link belongs to a planned change, the action is to drain the link
    /// that it replaces. Returns `nil` if the attempt is an old one; its link must be closed.
    package mutating func linkReady(_ id: SessionID, afterHandshake: Bool = false, at now: Instant) -> Action? {
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

    /// Handles the failure of attempt `id`: the next endpoint is tried at once, and after the last one there is a wait.
    ///
    /// - Parameters:
    ///   - isPermanent: Whether the failure is permanent. The endpoint is left out of the rounds, and when all
    ///     endpoints are, the machine gives up.
    ///   - retryAfter: The server's hint: the endpoint is not tried before this time has passed, plus up to a tenth.
    ///   - hasRoute: Whether a route leads to any endpoint. Without a route, this is not a failure of the endpoint.
    ///   - isOfThisHost: Whether the cause lies in this host. If true and there is no route, attempts pause until a
    ///     route appears.
    ///   - looksAgain: Whether such a pause ends after `longestPause` even if no route appears.
    package mutating func attemptFailed(
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
        if change != nil { return changeFailed(cause, isPermanent: isPermanent, at: now) }
        lastCause = cause
        promptFrom = nil
        guard hasRoute else { return isOfThisHost ? pause(looksAgain: looksAgain, at: now) : askPolicy(at: now) }
        failures += 1
        if hasUsedUpAttempts { return giveUp(at: now) }
        if ring.areAllRefused(at: now) { return giveUp(at: now) }
        return ring.hasTurnLeft(at: now) ? connect(at: now) : askPolicy(at: now)
    }

    /// Handles the loss of the link of `session`, which the client did not cause.
    ///
    /// - Parameters:
    ///   - isOrderly: Whether the server closed the link cleanly.
    ///   - wasQuiet: Whether no request was in flight on the link.
    ///   - demand: What needs another link.
    ///   - retryAfter: The server's hint: the endpoint is not tried before this time has passed.
    ///   - countsAgainstEndpoint: Whether this is a failure of the endpoint, regardless of how long the link was ready.
    ///   - isOurNetwork: Whether the path of the link was lost. Then the endpoint has not failed, and the next attempt
    ///     begins at once, but only once within `networkPace`.
    package mutating func linkLost(
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
            // If links break, or do no work, another endpoint may be better. So it may be if nothing comes from the
            // server any more: then an attempt at the same endpoint would probably take all of its time.
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

    /// Handles the instant that `.wait(until:)` or `deadline` named.
    package mutating func timerFired(at now: Instant) -> Action {
        switch phase {
        case .waiting(let wait): return wait.until <= now ? connect(at: now) : .wait(until: wait.until)
        case .noNetwork(_, let until): return until.map { $0 <= now ? connect(at: now) : .wait(until: $0) } ?? .none
        case .ready: return changeDue(at: now)
        case .idle, .connecting, .suspended, .closed: return .none
        }
    }

    // MARK: Rules

    /// Whether the number of attempts in a row that failed, or led to links that did no work, has reached the maximum
    /// of the policy.
    var hasUsedUpAttempts: Bool { policy.maximumAttempts.map { failures >= $0 } ?? false }

    /// Begins an attempt, or waits for what is left of the wait that began when the machine gave up.
    mutating func start(notBefore restUntil: Instant, at now: Instant) -> Action {
        guard !ring.isEmpty else { return .giveUp }
        let earliest = max(restUntil, ring.earliestStart(at: now))
        return earliest > now ? wait(until: earliest, policyUntil: restUntil) : connect(at: now)
    }

    /// Connects soon after an orderly end, without the delay of the policy. A delay that a server has asked for still
    /// applies.
    private mutating func connectPromptly(before present: Wait, at now: Instant) -> Action {
        guard let promptFrom else { return .none }
        let earliest = max(promptFrom, ring.earliestStart(at: now))
        if earliest <= now { return connect(at: now) }
        return earliest < present.until ? wait(until: earliest, policyUntil: present.policyUntil) : .none
    }

    /// Draws the instant from which a request may connect after an orderly end.
    private mutating func drawPromptStart(at now: Instant) {
        let (floor, jitter) = Self.promptDelay
        promptFrom = now.advanced(by: floor + jitter * generator.nextUnit())
    }

    /// Goes to `idle`, because no link is needed now. The next request connects, but not before the end of the wait
    /// that would follow now.
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

    /// Returns the ID of a new attempt.
    mutating func nextID() -> SessionID {
        attemptCount += 1
        return SessionID(attemptCount, ofClient: client)
    }

    mutating func wait(until: Instant, policyUntil: Instant) -> Action {
        ring.beginRound()
        phase = .waiting(Wait(until: until, attempt: failures + 1, cause: lastCause, policyUntil: policyUntil))
        return .wait(until: until)
    }

    /// Begins the wait before the next attempt, or gives up if the policy does.
    ///
    /// The wait has the length that the policy decides; after an orderly end, with a request waiting, it ends at
    /// `promptFrom` if that is sooner. In either case it lasts until a server may be tried.
    mutating func askPolicy(for demand: Demand = .request, at now: Instant) -> Action {
        // Without endpoints, it is not the policy that gives up. The pause is as long as the wait of the policy.
        guard !ring.isEmpty else { return giveUp(at: now) }
        guard case .retry(let delay) = decision(by: policy.reconnect) else {
            return giveUp(at: now, policyGaveUp: true)
        }
        round += 1
        var policyUntil = now.advanced(by: max(.zero, delay))
        if demand == .request, let promptFrom { policyUntil = min(policyUntil, promptFrom) }
        return wait(until: max(policyUntil, ring.earliestStart(at: now)), policyUntil: policyUntil)
    }

    /// Gives up. No attempt begins until the end of what would have been the next wait: continued demand must not cause
    /// a flood of attempts.
    mutating func giveUp(at now: Instant, policyGaveUp: Bool = false) -> Action {
        var restUntil = restAfterPolicy(at: now, policyGaveUp: policyGaveUp)
        if let promptFrom { restUntil = min(restUntil, promptFrom) }
        failures = 0
        ring.forgetPermanentFailures()
        ring.beginRound()
        phase = .idle(restUntil: restUntil)
        return .giveUp
    }

    /// The end of the policy's next wait, or of the wait of `Backoff()` if the policy gives up.
    private mutating func restAfterPolicy(at now: Instant, policyGaveUp: Bool = false) -> Instant {
        var rest = policyGaveUp ? ReconnectDecision.giveUp : decision(by: policy.reconnect)
        if rest == .giveUp { rest = decision(by: Backoff()) }
        round += 1
        guard case .retry(let delay) = rest else { return now }
        return now.advanced(by: max(.zero, delay))
    }

    /// Whether the ready link has proved itself, or would have if it ended now.
    func hasProvedItself(inOrder: Bool = false, wasSilent: Bool = false, at now: Instant) -> Bool {
        guard let link else { return false }
        let lifetime = now.since(link.since)
        return link.hasAnswered
            || (link.hasDelivered || inOrder && link.hadHandshake) && lifetime >= Self.shortestProof
            || lifetime >= policy.stableAfter && !wasSilent
    }

    /// How long the link has been ready.
    func lifetime(at now: Instant) -> Duration { link.map { now.since($0.since) } ?? .zero }

    /// Ends the ready link, and leaves the machine idle. Returns whether the link has proved itself; if so, earlier
    /// failures are forgotten.
    ///
    /// - Parameters:
    ///   - inOrder: Whether the link had an orderly end with nothing in flight. Then a handshake on it is sufficient
    ///     proof, unless it was very short.
    ///   - wasSilent: Whether the server sent nothing. Then its lifetime is no proof.
    ///   - isReplaced: Whether the next link is ready. Then the current round continues.
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
        // After a shorter link the round continues: servers that each close soon after connecting get one turn each, as
        // if they could not be reached.
        if lifetime >= policy.stableAfter, !isReplaced { ring.beginRound() }
        keptReturn = nil
        phase = .idle(restUntil: .distantPast)
        return hasProvedItself
    }

    /// Holds `endpoint` for as long as its server asked for, plus up to a tenth, so that its clients do not all come
    /// back at once. If no other endpoint can be used, the wait is not longer than the policy allows.
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
