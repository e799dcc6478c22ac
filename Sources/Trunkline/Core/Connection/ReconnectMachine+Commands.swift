/// What somebody says who knows better.
extension ReconnectMachine {
    /// Connects without waiting any longer, be it for a server's hint. The waits to come are as long as they would have
    /// been.
    package mutating func reconnectNow(at now: Instant) -> Action {
        switch state {
        case .idle where ring.isEmpty: .giveUp
        case .idle, .waiting: connect(at: now)
        case .connecting, .ready, .suspended, .closed: .none
        }
    }

    /// Ends the link or the attempt; no other follows until `resume`.
    package mutating func suspend(at now: Instant) -> Action {
        switch state {
        case .suspended, .closed: return .none
        case .idle:
            isWanted = false
            state = .suspended
            return .none
        case .connecting, .waiting:
            isWanted = true
            state = .suspended
            return .rest
        case .ready(let session):
            _ = endReady(at: now)
            lastCause = .closedLocally
            isWanted = true
            state = .suspended
            return .close(session: session)
        }
    }

    /// Ends the suspension, and connects if there was or is demand: at once, unless every server asked for more time.
    package mutating func resume(at now: Instant) -> Action {
        guard state == .suspended else { return .none }
        state = .idle
        ring.beginRound()
        return isWanted ? start(at: now) : .none
    }

    /// Goes to `endpoint`, from wherever it is: a link to another drains, an attempt or a wait ends. Without demand,
    /// and while suspended, it is where the next attempt goes. `nil` when there is no such endpoint.
    package mutating func switchEndpoint(to endpoint: Endpoint, at now: Instant) -> Action? {
        guard ring.contains(endpoint) else { return nil }
        switch state {
        case .closed: return Action.none
        case .connecting(let attempt) where attempt.endpoint == endpoint: return Action.none
        case .ready(let session):
            return linkEndpoint == endpoint ? Action.none : go(from: session, to: endpoint, at: now)
        case .idle, .suspended:
            _ = ring.select(endpoint)
            return Action.none
        case .connecting, .waiting:
            ring.beginRound()
            _ = ring.select(endpoint)
            return connect(at: now)
        }
    }

    /// Leaves the endpoint of the link of `session` for another, if there is one.
    ///
    /// An error rate moves on only to an endpoint that has not failed lately. A server that is about to go is left in
    /// any case; where it is the only one, after the policy's wait. After the last response of a link that said nothing
    /// of a time, or when the link is of no more use, the next link is made at once and to the same endpoint. A server that
    /// answers nothing has failed: where it is the only one, the next link is made after the policy's wait.
    ///
    /// - Parameters:
    ///   - demand: Who needs another link. Without demand, none follows on `goAway`.
    ///   - retryAfter: The server's hint: it is not tried again earlier than this.
    package mutating func leave(
        _ session: UInt64,
        because departure: Departure,
        demand: Demand = .request,
        retryAfter: Duration? = nil,
        at now: Instant
    ) -> Action {
        guard state == .ready(session: session), let endpoint = linkEndpoint else { return .none }
        if departure == .errorRate, !ring.hasHealthyAlternative(to: endpoint, at: now) { return .none }
        if departure == .lastResponse || departure == .unanswered || departure == .exhausted, retryAfter == nil {
            let planned = returnAt
            let action = go(from: session, to: endpoint, at: now)
            (lastCause, returnAt) = (departure.cause, planned)
            return action
        }
        let hasProvedItself = endReady(wasSilent: departure == .silence, at: now)
        lastCause = departure.cause
        ring.leave(endpoint, at: now)
        hold(endpoint, for: retryAfter, at: now)
        if !hasProvedItself { failures += 1 }
        if departure == .goAway, demand == .none, !policy.keepsLinkWarm {
            return .drain(session: session, then: rest(at: now))
        }
        if !hasProvedItself, hasUsedUpAttempts { return .drain(session: session, then: giveUp(at: now)) }
        if ring.hasTurnLeft(at: now) { return .drain(session: session, then: connect(at: now)) }
        return .drain(session: session, then: askPolicy(for: demand, at: now))
    }

    /// Has these endpoints from now on.
    ///
    /// A link or an attempt to one that is gone is given up for another. With an empty list a link stays until it is
    /// lost; otherwise it gives up. The policy's wait goes on: those who are told of new servers are told at the same
    /// time.
    package mutating func replaceEndpoints(_ endpoints: [Endpoint], at now: Instant) -> Action {
        guard state != .closed else { return .none }
        ring.replace(with: endpoints)
        switch state {
        case .idle, .suspended, .closed: return .none
        case .connecting(let attempt):
            if ring.contains(attempt.endpoint) { return .none }
            return connect(at: now)
        case .waiting(let until, _, _):
            if ring.isEmpty { return connect(at: now) }
            // A hint of servers that are gone keeps nobody from the new ones.
            let earliest = max(policyUntil, ring.earliestStart(at: now))
            return earliest < until ? wait(until: earliest) : .none
        case .ready(let session):
            guard !ring.isEmpty, let linkEndpoint, !ring.contains(linkEndpoint) else {
                // Another may be the preferred one now.
                planReturn(at: now)
                return returnAt.map { .wait(until: $0) } ?? .none
            }
            _ = endReady(at: now)
            lastCause = .closedLocally
            ring.beginRound()
            return .drain(session: session, then: connect(at: now))
        }
    }

    /// Has these endpoints from now on. A link or an attempt stays, even if its endpoint is none of them.
    package mutating func extendEndpoints(_ endpoints: [Endpoint]) { ring.replace(with: endpoints) }

    /// No link is wanted ever again.
    package mutating func close() {
        state = .closed
        readySince = nil
        returnAt = nil
    }

    /// From a link that works to another endpoint.
    mutating func go(from session: UInt64, to endpoint: Endpoint, at now: Instant) -> Action {
        _ = endReady(at: now)
        lastCause = .closedLocally
        ring.beginRound()
        _ = ring.select(endpoint)
        return .drain(session: session, then: connect(at: now))
    }
}
