/// What becomes of attempts and links, and the rules by which another follows.
extension ReconnectMachine {
    /// Somebody wants a link.
    package mutating func wanted(at now: Instant) -> Action {
        switch state {
        case .idle: return start(at: now)
        case .suspended:
            isWanted = true
            return .none
        case .connecting, .ready, .waiting, .closed: return .none
        }
    }

    /// The attempt `id` has a link that is ready to be used. Returns its session number; `nil` when the attempt is an
    /// old one and the link is to be closed.
    package mutating func linkReady(_ id: UInt64, at now: Instant) -> UInt64? {
        guard case .connecting(let attempt) = state, attempt.id == id else { return nil }
        state = .ready(session: id)
        failuresInRow = 0
        let isPlanned = returnAt != nil && linkEndpoint == attempt.endpoint
        linkEndpoint = attempt.endpoint
        readySince = now
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
        failuresInRow += 1
        lastCause = cause
        ring.failed(attempt.endpoint, at: now, isPermanent: isPermanent && !policy.retriesPermanentCauses)
        hold(attempt.endpoint, for: retryAfter, at: now)
        if let limit = policy.maximumAttempts, failuresInRow >= limit { return giveUp(at: now) }
        if ring.areAllRefused(at: now) { return giveUp(at: now) }
        return ring.hasTurnLeft(at: now) ? connect(at: now) : askPolicy(at: now)
    }

    /// The link of `session` is lost, not by our doing.
    ///
    /// - Parameter countsAgainstEndpoint: Its endpoint has failed, however long the link was ready.
    package mutating func linkLost(
        _ session: UInt64,
        _ cause: DisconnectCause,
        retryAfter: Duration? = nil,
        countsAgainstEndpoint: Bool = false,
        at now: Instant
    ) -> Action {
        guard state == .ready(session: session) else { return .none }
        let endpoint = linkEndpoint
        let wasStable = endReady(at: now)
        lastCause = cause
        if let endpoint {
            // Where links do not last another endpoint may be better.
            if !wasStable || countsAgainstEndpoint { ring.failed(endpoint, at: now) }
            hold(endpoint, for: retryAfter, at: now)
        }
        return askPolicy(at: now)
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

    /// An attempt, or what is left of the wait that giving up began with.
    mutating func start(at now: Instant) -> Action {
        guard !ring.isEmpty else { return .giveUp }
        policyUntil = restUntil
        let earliest = max(policyUntil, ring.earliestStart(at: now))
        return earliest > now ? wait(until: earliest) : connect(at: now)
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

    /// Waits for as long as the policy says, and as the servers asked for, or gives up.
    mutating func askPolicy(at now: Instant) -> Action {
        // Without endpoints it is not the policy that gives up: the rest is as long as its wait would have been.
        guard !ring.isEmpty else { return giveUp(at: now) }
        guard case .retry(let delay) = decision(by: policy.reconnect) else {
            return giveUp(at: now, policyGaveUp: true)
        }
        round += 1
        policyUntil = now.advanced(by: max(.zero, delay))
        return wait(until: max(policyUntil, ring.earliestStart(at: now)))
    }

    /// Gives up, and rests for as long as the next wait would have been: demand goes on, and must not become a storm.
    mutating func giveUp(at now: Instant, policyGaveUp: Bool = false) -> Action {
        var rest = policyGaveUp ? ReconnectDecision.giveUp : decision(by: policy.reconnect)
        if rest == .giveUp { rest = decision(by: Backoff()) }
        if case .retry(let delay) = rest { restUntil = now.advanced(by: max(.zero, delay)) }
        round += 1
        failures = 0
        failuresInRow = 0
        ring.pardon()
        ring.beginRound()
        state = .idle
        return .giveUp
    }

    /// The link is no more. Returns whether it stayed ready for long enough to forget earlier failures.
    mutating func endReady(at now: Instant) -> Bool {
        let isStable = readySince.map { now.since($0) >= policy.stableAfter } ?? false
        if isStable {
            failures = 0
            round = 0
            // Servers that send us from one to the other get one turn each, as if they could not be reached.
            ring.beginRound()
        }
        readySince = nil
        returnAt = nil
        restUntil = .distantPast
        return isStable
    }

    /// Keeps from `endpoint` for as long as its server asked for, and up to a tenth more, lest all come back at once.
    mutating func hold(_ endpoint: Endpoint, for hint: Duration?, at now: Instant) {
        guard let hint, hint > .zero else { return }
        let nanoseconds = min(hint, Self.longestHint).clampedNanoseconds
        let jitter = Int64(Double(nanoseconds) * 0.1 * generator.nextUnit())
        ring.hold(endpoint, until: now.advanced(by: .nanoseconds(nanoseconds + jitter)))
    }

    private mutating func decision(by policy: any ReconnectPolicy) -> ReconnectDecision {
        let failure = ReconnectFailure(round: round, failedAttempts: failuresInRow, cause: lastCause)
        var generator = generator
        defer { self.generator = generator }
        return policy.decision(for: failure) { generator.nextUnit() }
    }
}
