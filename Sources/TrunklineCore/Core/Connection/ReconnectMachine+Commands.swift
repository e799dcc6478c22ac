/// Commands of the caller and of the server.
extension ReconnectMachine {
    /// Ignores the waits that servers have asked for. The length of later waits does not change.
    mutating func reconnectNow(at now: Instant) -> Action {
        switch phase {
        case .idle where ring.isEmpty: .giveUp
        case .idle, .waiting, .noNetwork: connect(at: now)
        case .ready: attemptChangeNow(at: now)
        case .connecting, .suspended, .closed: .none
        }
    }

    mutating func suspend(at now: Instant) -> Action {
        switch phase {
        case .suspended, .closed: return .none
        case .idle(let restUntil):
            phase = .suspended(isWanted: false, restUntil: restUntil)
            return .none
        case .connecting, .waiting, .noNetwork:
            phase = .suspended(isWanted: true, restUntil: .distantPast)
            return .rest
        case .ready(let link):
            _ = endReady(at: now)
            lastCause = .closedLocally
            postponed = nil
            phase = .suspended(isWanted: true, restUntil: .distantPast)
            return .close(session: link.session)
        }
    }

    /// Connects at once if there was demand, unless every server has asked for a delay.
    mutating func resume(at now: Instant) -> Action {
        guard case .suspended(let isWanted, let restUntil) = phase else { return .none }
        phase = .idle(restUntil: restUntil)
        ring.beginRound()
        return isWanted ? start(notBefore: restUntil, at: now) : .none
    }

    /// Returns `nil` if the endpoint is not in the list.
    mutating func switchEndpoint(to endpoint: Endpoint, at now: Instant) -> Action? {
        guard ring.contains(endpoint) else { return nil }
        switch phase {
        case .closed: return Action.none
        case .connecting(let attempt) where attempt.endpoint == endpoint: return Action.none
        case .ready(let link):
            postponed = nil
            if link.endpoint == endpoint {
                return link.change?.target == endpoint ? Action.none : dropChange(at: now)
            }
            if link.change?.attempt?.endpoint == endpoint {
                change?.reason = .choice
                change?.target = endpoint
                return Action.none
            }
            ring.beginRound()
            return begin(.choice, to: endpoint, from: link, at: now)
        case .idle, .suspended:
            _ = ring.select(endpoint)
            return Action.none
        case .connecting, .waiting, .noNetwork:
            ring.beginRound()
            _ = ring.select(endpoint)
            return connect(at: now)
        }
    }

    /// Leaves the endpoint of the link of `session`. Without demand, no attempt follows `goAway` and `lastResponse`.
    ///
    /// - `goAway`: With `Policy.sendsAfterGoAway`, the link is used until the next one is ready, unless `isLinkEnding`.
    /// - `errorRate`: Only if another endpoint has not failed recently.
    /// - `lastResponse`, `unanswered`, `exhausted`: Connects to the same endpoint, unless the server gave a hint.
    /// - `silence`: The endpoint has failed.
    ///
    /// In all other cases, the link drains at once.
    mutating func leave(
        _ session: SessionID,
        because departure: Departure,
        demand: Demand = .request,
        retryAfter: Duration? = nil,
        isLinkEnding: Bool = false,
        at now: Instant
    ) -> Action {
        guard let link, link.session == session else { return .none }
        lastReplacement = nil
        let endpoint = link.endpoint
        if departure == .errorRate, link.change?.attempt != nil || !ring.hasHealthyAlternative(to: endpoint, at: now) {
            return .none
        }
        let isUnneeded =
            (departure == .goAway || departure == .lastResponse) && demand == .none && !policy.keepsLinkWarm
        if departure == .goAway, policy.sendsAfterGoAway, policy.overlapsLinks, !isUnneeded, !isLinkEnding {
            if lifetime(at: now) >= policy.stableAfter { ring.beginRound() }
            ring.leave(endpoint, at: now)
            hold(endpoint, for: retryAfter, at: now)
            return replaceGoing(endpoint, at: now)
        }
        let isOver = departure == .lastResponse || departure == .unanswered || departure == .exhausted
        if isOver, retryAfter == nil, let change = link.change, change.mayBePostponed, change.target != endpoint {
            postponed = change
            // Otherwise every short link would cause another attempt at the other endpoint.
            if change.attempt != nil { postponed?.until = now.advanced(by: Self.networkPace) }
        } else if let attempt = link.change?.attempt, !isUnneeded || isOver,
            departure != .silence || attempt.endpoint != endpoint
        {
            _ = endReady(wasSilent: departure == .silence, at: now)
            lastCause = departure.cause
            if departure == .silence { ring.leave(endpoint, at: now) }
            if departure == .goAway { hold(endpoint, for: retryAfter, at: now) }
            phase = .connecting(attempt)
            return .drain(session: session, then: .none)
        }
        if isOver, retryAfter == nil {
            _ = endReady(at: now)
            lastCause = departure.cause
            keepReturn(of: link)
            ring.beginRound()
            _ = ring.select(endpoint)
            guard isUnneeded else { return .drain(session: session, then: connect(at: now)) }
            // The response that ended the link was the only one that was due: the next request does not wait.
            phase = .idle(restUntil: .distantPast)
            return .drain(session: session, then: .rest)
        }
        let hasProvedItself = endReady(wasSilent: departure == .silence, at: now)
        lastCause = departure.cause
        ring.leave(endpoint, at: now)
        hold(endpoint, for: retryAfter, at: now)
        if !hasProvedItself { failures += 1 }
        if isUnneeded { return .drain(session: session, then: rest(at: now)) }
        if !hasProvedItself, hasUsedUpAttempts { return .drain(session: session, then: giveUp(at: now)) }
        if ring.hasTurnLeft(at: now) { return .drain(session: session, then: connect(at: now)) }
        return .drain(session: session, then: askPolicy(for: demand, at: now))
    }

    /// The wait of the policy continues, because many clients may receive a new list at the same time.
    mutating func replaceEndpoints(_ endpoints: [Endpoint], at now: Instant) -> Action {
        if case .closed = phase { return .none }
        ring.replace(with: endpoints)
        switch phase {
        case .idle, .suspended, .closed: return .none
        case .connecting(let attempt):
            if ring.contains(attempt.endpoint) { return .none }
            return connect(at: now)
        case .waiting(let present):
            if ring.isEmpty { return connect(at: now) }
            // The hint of a removed server must not delay an attempt at a new one.
            let earliest = max(present.policyUntil, ring.earliestStart(at: now))
            return earliest < present.until ? wait(until: earliest, policyUntil: present.policyUntil) : .none
        case .noNetwork:
            // The new endpoints may have a route.
            return connect(at: now)
        case .ready(let link):
            var isDropped = false
            if let next = link.change?.attempt?.endpoint ?? link.change?.target, !ring.contains(next) {
                isDropped = true
                _ = dropChange(at: now)
            }
            let isGone = !ring.isEmpty && !ring.contains(link.endpoint)
            if change != nil {
                // If the attempt fails, the next one may go to any endpoint.
                if isGone {
                    change?.reason = .removal
                    change?.target = nil
                }
                return isDropped ? .rest : .none
            }
            if isGone {
                ring.beginRound()
                return begin(.removal, to: nil, from: self.link ?? link, at: now)
            }
            // The preferred endpoint may be another one now.
            planReturn(at: now)
            return isDropped ? .rest : waitForPlans
        }
    }

    /// Keeps a link or an attempt even if its endpoint is not in the list.
    mutating func extendEndpoints(_ endpoints: [Endpoint]) { ring.replace(with: endpoints) }

    mutating func close() {
        phase = .closed
        postponed = nil
    }
}
