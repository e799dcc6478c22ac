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
        case .connecting, .ready, .closed: return .none
        }
    }

    /// The attempt `id` has a link that is ready to be used. Returns its session number; `nil` when the attempt is an
    /// old one and the link is to be closed.
    package mutating func linkReady(_ id: UInt64, afterHandshake: Bool = false, at now: Instant) -> UInt64? {
        guard case .connecting(let attempt) = state, attempt.id == id else { return nil }
        state = .ready(session: id)
        let isPlanned = returnAt != nil && linkEndpoint == attempt.endpoint
        linkEndpoint = attempt.endpoint
        beginReady(afterHandshake: afterHandshake, at: now)
        ring.succeeded(attempt.endpoint)
        if !isPlanned { planReturn(at: now) }
        return id
    }

    /// Sees about the preferred endpoint later, if the link is to another.
    mutating func planReturn(at now: Instant) {
        guard let stay = policy.returnsToPreferredAfter, ring.preferred != linkEndpoint else { return returnAt = nil }
        returnAt = now.advanced(by: stay)
    }

    /// The attempt `id` has failed: the next endpoint is tried at once, and after the last one there is a wait.
    ///
    /// - Parameters:
    ///   - isPermanent: Time does not mend it: the endpoint is left out of the rounds, and when all are, it gives up.
    ///   - retryAfter: The server's hint: it is not tried again earlier than this, nor much later.
    package mutating func attemptFailed(
        _ id: UInt64,
        _ cause: DisconnectCause,
        isPermanent: Bool = false,
        retryAfter: Duration? = nil,
        at now: Instant
    ) -> Action {
        guard case .connecting(let attempt) = state, attempt.id == id else { return .none }
        failures += 1
        lastCause = cause
        promptFrom = nil
        ring.failed(attempt.endpoint, at: now, isPermanent: isPermanent && !policy.retriesPermanentCauses)
        hold(attempt.endpoint, for: retryAfter, at: now)
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
    package mutating func linkLost(
        _ session: UInt64,
        _ cause: DisconnectCause,
        isOrderly: Bool = false,
        wasQuiet: Bool = true,
        demand: Demand = .request,
        retryAfter: Duration? = nil,
        countsAgainstEndpoint: Bool = false,
        at now: Instant
    ) -> Action {
        guard state == .ready(session: session) else { return .none }
        let endpoint = linkEndpoint
        let wasStable = lifetime(at: now) >= policy.stableAfter
        let hasProvedItself = endReady(inOrder: isOrderly && wasQuiet, wasSilent: countsAgainstEndpoint, at: now)
        lastCause = cause
        if let endpoint {
            // Where links break, or do nothing, another endpoint may be better.
            if countsAgainstEndpoint || !(wasStable || hasProvedItself && isOrderly) { ring.failed(endpoint, at: now) }
            hold(endpoint, for: retryAfter, at: now)
        }
        if !hasProvedItself { failures += 1 }
        if isOrderly, hasProvedItself { drawPromptStart(at: now) }
        if isOrderly, demand == .none, !policy.keepsLinkWarm { return rest(at: now) }
        if !hasProvedItself, hasUsedUpAttempts { return giveUp(at: now) }
        return askPolicy(for: demand, at: now)
    }

    /// The instant that `.wait(until:)`, or `deadline`, named has come.
    package mutating func timerFired(at now: Instant) -> Action {
        switch state {
        case .waiting(let until, _, _): return until <= now ? connect(at: now) : .wait(until: until)
        case .ready(let session):
            guard let returnAt, let stay = policy.returnsToPreferredAfter, let preferred = ring.preferred else {
                return .none
            }
            guard returnAt <= now else { return .wait(until: returnAt) }
            if preferred == linkEndpoint { return .none }
            guard ring.isHealthy(preferred, at: now) else {
                // It failed lately. A working link is not given up for that.
                let next = now.advanced(by: max(stay, .seconds(1)))
                self.returnAt = next
                return .wait(until: next)
            }
            return go(from: session, to: preferred, at: now)
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

    /// How long the link has been ready.
    private func lifetime(at now: Instant) -> Duration { readySince.map { now.since($0) } ?? .zero }

    /// The link is no more. Returns whether it has proved itself: then earlier failures are forgotten.
    ///
    /// - Parameters:
    ///   - inOrder: It ended in order with nothing in flight, so a handshake on it is proof enough.
    ///   - wasSilent: Its server said nothing, so its lifetime is no proof.
    mutating func endReady(inOrder: Bool = false, wasSilent: Bool = false, at now: Instant) -> Bool {
        let lifetime = lifetime(at: now)
        let hasProvedItself =
            hasAnswered || hasDelivered && lifetime >= Self.pushProof || inOrder && hadHandshake
            || lifetime >= policy.stableAfter && !wasSilent
        if hasProvedItself {
            failures = 0
            round = 0
        }
        // Servers that send us from one to the other get one turn each, as if they could not be reached.
        if lifetime >= policy.stableAfter { ring.beginRound() }
        readySince = nil
        returnAt = nil
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

    private mutating func decision(by policy: any ReconnectPolicy) -> ReconnectDecision {
        let failure = ReconnectFailure(round: round, failedAttempts: failures, cause: lastCause)
        var generator = generator
        defer { self.generator = generator }
        return policy.decision(for: failure) { generator.nextUnit() }
    }
}
