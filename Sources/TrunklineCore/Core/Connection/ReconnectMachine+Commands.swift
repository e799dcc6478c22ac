/// Commands of the caller and of the server.
extension ReconnectMachine {
    /// Connects without further wait, even if a server has asked for one. The length of later waits does not change.
    package mutating func reconnectNow(at now: Instant) -> Action {
        switch phase {
        case .idle where ring.isEmpty: .giveUp
        case .idle, .waiting, .noNetwork: connect(at: now)
        case .ready: attemptChangeNow(at: now)
        case .connecting, .suspended, .closed: .none
        }
    }

    /// Ends the link or the attempt. No other attempt begins until `resume`.
    package mutating func suspend(at now: Instant) -> Action {
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

    /// Ends the suspension, and connects if there was demand before or during it: at once, unless every server has
    /// asked for a delay.
    package mutating func resume(at now: Instant) -> Action {
        guard case .suspended(let isWanted, let restUntil) = phase else { return .none }
        phase = .idle(restUntil: restUntil)
        ring.beginRound()
        return isWanted ? start(notBefore: restUntil, at: now) : .none
    }

    /// Moves to `endpoint`. A link to another endpoint is replaced when the next link is ready; an attempt or a wait
    /// ends. Without demand, and while suspended, the next attempt goes to `endpoint`. Returns `nil` if the endpoint is
    /// not in the list.
    package mutating func switchEndpoint(to endpoint: Endpoint, at now: Instant) -> Action? {
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

    /// Leaves the endpoint of the link of `session` for another one, if there is one. What follows depends on
    /// `departure`:
    ///
    /// - `goAway`: The endpoint is left in any case. With `Policy.sendsAfterGoAway`, the link is used until the next
    ///   one is ready; otherwise it drains at once. If the endpoint is the only one, the next attempt begins after the
    ///   wait of the policy.
    /// - `errorRate`: The link drains at once, and the next attempt goes to an endpoint that has not failed recently.
    ///   Without such an endpoint, nothing changes.
    /// - `lastResponse`, `unanswered` and `exhausted`: The link drains at once, and the next attempt begins at once. It
    ///   goes to the same endpoint, unless the server gave a hint (`retryAfter`).
    /// - `lastResponse` without demand: The link drains at once, and the next request connects to the same endpoint. An
    ///   attempt at another endpoint continues.
    /// - `silence`: The link drains at once, and the endpoint has failed. If it is the only one, the next attempt
    ///   begins after the wait of the policy.
    ///
    /// - Parameters:
    ///   - demand: What needs another link. Without demand, no attempt follows `goAway` and `lastResponse`.
    ///   - retryAfter: The server's hint: the endpoint is not tried before this time has passed, plus up to a tenth.
    ///   - isLinkEnding: Whether nothing more arrives on the link. If true, it drains at once in any case.
    package mutating func leave(
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

    /// Replaces the list of endpoints.
    ///
    /// A link to a removed endpoint is replaced when the next link is ready. An attempt at a removed endpoint ends, and
    /// another one begins. With an empty list a link stays until it is lost; without a link, the machine gives up. The
    /// wait of the policy continues, because many clients may receive a new list at the same time.
    package mutating func replaceEndpoints(_ endpoints: [Endpoint], at now: Instant) -> Action {
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

    /// Replaces the list of endpoints, but keeps a link or an attempt even if its endpoint is not in the list.
    package mutating func extendEndpoints(_ endpoints: [Endpoint]) { ring.replace(with: endpoints) }

    /// Closes the machine for good.
    package mutating func close() {
        phase = .closed
        postponed = nil
    }
}
