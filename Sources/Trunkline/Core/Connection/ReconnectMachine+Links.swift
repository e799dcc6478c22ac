/// What becomes of attempts and links, and the rules by which another follows.
extension ReconnectMachine {
    /// A request, or a new reader of pushes, needs a link. After an orderly end it does not wait for the policy's delay.
    package mutating func linkNeeded(at now: Instant) -> Action {
        switch state {
        case .idle: return start(at: now)
        case .waiting(let until, _, _): return connectPromptly(before: until, at: now)
        case .suspended:
            isWanted = true
            return .none
        case .connecting, .ready, .noNetwork, .closed: return .none
        }
    }

    /// The attempt `id` has a link that is ready to be used: returns the session that it replaces, if it was a planned change.
    /// `nil` when the attempt is an old one and the link is to be closed.
    package mutating func linkReady(_ id: UInt64, afterHandshake: Bool = false, at now: Instant) -> Beginning? {
        guard let attempt, attempt.id == id else { return nil }
        let isSame = linkEndpoint == attempt.endpoint
        let planned = returnAt
        let replaced = endChanged(at: now)
        state = .ready(session: id)
        linkEndpoint = attempt.endpoint
        beginReady(afterHandshake: afterHandshake, at: now)
        ring.succeeded(attempt.endpoint)
        if isSame, let planned { returnAt = planned } else { planReturn(at: now) }
        resumePostponed()
        return Beginning(replaced: replaced)
    }

    /// The attempt `id` has failed: the next endpoint is tried at once, and after the last one there is a wait.
    ///
    /// - Parameters:
    ///   - isPermanent: Time does not mend it: the endpoint is left out of the rounds, and when all are, it gives up.
    ///   - retryAfter: The server's hint: it is not tried again earlier than this, nor much later.
    ///   - hasRoute: Whether a route leads to any endpoint. Without one this is no failure of the endpoint.
    ///   - isOfThisHost: This host knows the failure by itself: without a route there is no further attempt until one appears.
    ///   - looksAgain: Whether there is one all the same, now and then.
    package mutating func attemptFailed(
        _ id: UInt64,
        _ cause: DisconnectCause,
        isPermanent: Bool = false,
        retryAfter: Duration? = nil,
        hasRoute: Bool = true,
        isOfThisHost: Bool = true,
        looksAgain: Bool = false,
        at now: Instant
    ) -> Action {
        guard let attempt, attempt.id == id else { return .none }
        // What is wrong for good is so on every route.
        let hasRoute = hasRoute || isPermanent
        if hasRoute {
            ring.failed(attempt.endpoint, at: now, isPermanent: isPermanent && !policy.retriesPermanentCauses)
        }
        hold(attempt.endpoint, for: retryAfter, at: now)
        if change != nil { return changeFailed(cause, isPermanent: isPermanent, at: now) }
        lastCause = cause
        promptFrom = nil
        guard hasRoute else { return isOfThisHost ? pause(looksAgain: looksAgain, at: now) : askPolicy(at: now) }
        failures += 1
        if hasUsedUpAttempts { return giveUp(at: now) }
        if ring.areAllRefused(at: now) { return giveUp(at: now) }
        return ring.hasTurnLeft(at: now) ? connect(at: now) : askPolicy(at: now)
    }

    /// The link of `session` is lost, not by our doing.
    ///
    /// - Parameters:
    ///   - isOrderly: The server closed the link in order.
    ///   - wasQuiet: No request was in flight on it.
    ///   - demand: Who needs another link.
    ///   - countsAgainstEndpoint: Its endpoint has failed, however long the link was ready.
    ///   - isOurNetwork: Its path is gone, by which no endpoint has failed: the next link is made at once, but not again within
    ///     `networkPace`.
    package mutating func linkLost(
        _ session: UInt64,
        _ cause: DisconnectCause,
        isOrderly: Bool = false,
        wasQuiet: Bool = true,
        demand: Demand = .request,
        retryAfter: Duration? = nil,
        countsAgainstEndpoint: Bool = false,
        isOurNetwork: Bool = false,
        at now: Instant
    ) -> Action {
        guard state == .ready(session: session) else { return .none }
        let endpoint = linkEndpoint
        let change = change
        let wasStable = lifetime(at: now) >= policy.stableAfter
        let hasProvedItself = endReady(inOrder: isOrderly && wasQuiet, wasSilent: countsAgainstEndpoint, at: now)
        lastCause = cause
        if let endpoint, !isOurNetwork {
            // Where links break, or do nothing, another endpoint may be better.
            if countsAgainstEndpoint || !(wasStable || hasProvedItself && isOrderly) { ring.failed(endpoint, at: now) }
            hold(endpoint, for: retryAfter, at: now)
        }
        if !hasProvedItself, !isOurNetwork { failures += 1 }
        if isOrderly, hasProvedItself { drawPromptStart(at: now) }
        if isOrderly, demand == .none, !policy.keepsLinkWarm { return rest(at: now) }
        if let change, goOn(with: change) { return .none }
        if isOurNetwork, !ring.isEmpty, now.since(lastPrompt) >= Self.networkPace,
            case .retry = decision(by: policy.reconnect)
        {
            lastPrompt = now
            // Endpoints that had their turn had it in another network.
            ring.beginRound()
            return connect(at: now)
        }
        if !hasProvedItself, hasUsedUpAttempts { return giveUp(at: now) }
        return askPolicy(for: demand, at: now)
    }

    /// The instant that `.wait(until:)`, or `deadline`, named has come.
    package mutating func timerFired(at now: Instant) -> Action {
        switch state {
        case .waiting(let until, _, _): return until <= now ? connect(at: now) : .wait(until: until)
        case .noNetwork: return pausedUntil.map { $0 <= now ? connect(at: now) : .wait(until: $0) } ?? .none
        case .ready: return changeDue(at: now)
        case .idle, .connecting, .suspended, .closed: return .none
        }
    }

    // MARK: Rules

    /// Whether as many attempts in a row have failed, or led to links that did no work, as the policy allows.
    var hasUsedUpAttempts: Bool { policy.maximumAttempts.map { failures >= $0 } ?? false }

    /// An attempt, or what is left of the wait that giving up began with.
    mutating func start(at now: Instant) -> Action {
        guard !ring.isEmpty else { return .giveUp }
        policyUntil = restUntil
        let earliest = max(policyUntil, ring.earliestStart(at: now))
        return earliest > now ? wait(until: earliest) : connect(at: now)
    }

    /// After an orderly end a request does not wait for as long as the policy says, but for what a server asked for.
    private mutating func connectPromptly(before until: Instant, at now: Instant) -> Action {
        guard let promptFrom else { return .none }
        let earliest = max(promptFrom, ring.earliestStart(at: now))
        if earliest <= now { return connect(at: now) }
        return earliest < until ? wait(until: earliest) : .none
    }

    /// When a request may connect after an orderly end.
    private mutating func drawPromptStart(at now: Instant) {
        let (floor, jitter) = Self.promptDelay
        promptFrom = now.advanced(by: floor + jitter * generator.nextUnit())
    }

    /// No link is needed for now: the next request connects, not before the wait is over that would have come now.
    mutating func rest(at now: Instant) -> Action {
        restUntil = promptFrom ?? restAfterPolicy(at: now)
        ring.beginRound()
        state = .idle
        return .rest
    }

    mutating func connect(at now: Instant) -> Action {
        guard let endpoint = ring.next(at: now) else {
            state = .idle
            return .giveUp
        }
        lastID += 1
        let attempt = Attempt(id: lastID, number: failures + 1, endpoint: endpoint)
        state = .connecting(attempt)
        return .connect(attempt)
    }

    mutating func wait(until: Instant) -> Action {
        ring.beginRound()
        state = .waiting(until: until, attempt: failures + 1, cause: lastCause)
        return .wait(until: until)
    }

    /// Waits for as long as the policy says, and as the servers asked for, or gives up. A request that waits after an
    /// orderly end shortens the wait.
    mutating func askPolicy(for demand: Demand = .request, at now: Instant) -> Action {
        // Without endpoints it is not the policy that gives up: the rest is as long as its wait would have been.
        guard !ring.isEmpty else { return giveUp(at: now) }
        guard case .retry(let delay) = decision(by: policy.reconnect) else {
            return giveUp(at: now, policyGaveUp: true)
        }
        round += 1
        policyUntil = now.advanced(by: max(.zero, delay))
        if demand == .request, let promptFrom { policyUntil = min(policyUntil, promptFrom) }
        return wait(until: max(policyUntil, ring.earliestStart(at: now)))
    }

    /// Gives up, and rests for as long as the next wait would have been: demand goes on, and must not become a storm.
    mutating func giveUp(at now: Instant, policyGaveUp: Bool = false) -> Action {
        restUntil = restAfterPolicy(at: now, policyGaveUp: policyGaveUp)
        if let promptFrom { restUntil = min(restUntil, promptFrom) }
        failures = 0
        ring.pardon()
        ring.beginRound()
        state = .idle
        return .giveUp
    }

    /// The end of the policy's next wait, or of `Backoff()`'s where the policy gives up.
    private mutating func restAfterPolicy(at now: Instant, policyGaveUp: Bool = false) -> Instant {
        var rest = policyGaveUp ? ReconnectDecision.giveUp : decision(by: policy.reconnect)
        if rest == .giveUp { rest = decision(by: Backoff()) }
        round += 1
        guard case .retry(let delay) = rest else { return restUntil }
        return now.advanced(by: max(.zero, delay))
    }

    /// Whether the link that is ready has done work, or would have if it ended now.
    func hasProvedItself(inOrder: Bool = false, wasSilent: Bool = false, at now: Instant) -> Bool {
        let lifetime = lifetime(at: now)
        return hasAnswered || hasDelivered && lifetime >= Self.pushProof || inOrder && hadHandshake
            || lifetime >= policy.stableAfter && !wasSilent
    }

    /// How long the link has been ready.
    func lifetime(at now: Instant) -> Duration { readySince.map { now.since($0) } ?? .zero }

    /// The link is no more. Returns whether it has proved itself: then earlier failures are forgotten.
    ///
    /// - Parameters:
    ///   - inOrder: It ended in order with nothing in flight, so a handshake on it is proof enough.
    ///   - wasSilent: Its server said nothing, so its lifetime is no proof.
    ///   - isReplaced: The next link is ready, and its round goes on.
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
        // Servers that send us from one to the other get one turn each, as if they could not be reached.
        if lifetime >= policy.stableAfter, !isReplaced { ring.beginRound() }
        readySince = nil
        returnAt = nil
        agedAt = nil
        change = nil
        restUntil = .distantPast
        return hasProvedItself
    }

    /// Keeps from `endpoint` for as long as its server asked for, and up to a tenth more, lest all come back at once.
    mutating func hold(_ endpoint: Endpoint, for hint: Duration?, at now: Instant) {
        guard let hint, hint > .zero else { return }
        let nanoseconds = min(hint, Self.longestHint).clampedNanoseconds
        let jitter = Int64(Double(nanoseconds) * 0.1 * generator.nextUnit())
        ring.hold(endpoint, until: now.advanced(by: .nanoseconds(nanoseconds + jitter)))
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
