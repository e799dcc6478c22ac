/// What somebody says who knows better.
extension ReconnectMachine {
    /// Connects without waiting any longer, be it for a server's hint. The waits to come are as long as they would have
    /// been.
    package mutating func reconnectNow(at now: Instant) -> Action {
        switch state {
        case .idle where ring.isEmpty: .giveUp
        case .idle, .waiting, .noNetwork: connect(at: now)
        case .ready: attemptChangeNow(at: now)
        case .connecting, .suspended, .closed: .none
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
        case .connecting, .waiting, .noNetwork:
            isWanted = true
            state = .suspended
            return .rest
        case .ready(let session):
            _ = endReady(at: now)
            lastCause = .closedLocally
            isWanted = true
            postponed = nil
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

    /// Goes to `endpoint`, from wherever it is: a link to another is replaced when the next is ready, an attempt or a wait
    /// ends. Without demand, and while suspended, it is where the next attempt goes. `nil` when there is no such endpoint.
    package mutating func switchEndpoint(to endpoint: Endpoint, at now: Instant) -> Action? {
        guard ring.contains(endpoint) else { return nil }
        switch state {
        case .closed: return Action.none
        case .connecting(let attempt) where attempt.endpoint == endpoint: return Action.none
        case .ready(let session):
            postponed = nil
            if linkEndpoint == endpoint { return change?.target == endpoint ? Action.none : dropChange(at: now) }
            if change?.attempt?.endpoint == endpoint {
                change?.reason = .choice
                change?.target = endpoint
                return Action.none
            }
            ring.beginRound()
            return begin(.choice, to: endpoint, from: session, at: now)
        case .idle, .suspended:
            _ = ring.select(endpoint)
            return Action.none
        case .connecting, .waiting, .noNetwork:
            ring.beginRound()
            _ = ring.select(endpoint)
            return connect(at: now)
        }
    }

    /// Leaves the endpoint of the link of `session` for another, if there is one.
    ///
    /// A server that is about to go is left in any case: with `Policy.sendsAfterGoAway`, when the next link is ready. Where it
    /// is the only one, the next is made after the policy's wait.
    ///
    /// Otherwise the link is of no more use, and drains at once. An error rate moves on only to an endpoint that has not failed
    /// lately. After the last response of a link that said nothing of a time, or when the link is of no more use, the next link
    /// is made at once and to the same endpoint. A server that answers nothing has failed: where it is the only one, the next
    /// link is made after the policy's wait.
    ///
    /// - Parameters:
    ///   - demand: Who needs another link. Without demand, none follows on `goAway`.
    ///   - retryAfter: The server's hint: it is not tried again earlier than this.
    ///   - isLinkEnding: Nothing more comes on the link: it drains at once in any case.
    package mutating func leave(
        _ session: UInt64,
        because departure: Departure,
        demand: Demand = .request,
        retryAfter: Duration? = nil,
        isLinkEnding: Bool = false,
        at now: Instant
    ) -> Action {
        guard state == .ready(session: session), let endpoint = linkEndpoint else { return .none }
        if departure == .errorRate, change?.attempt != nil || !ring.hasHealthyAlternative(to: endpoint, at: now) {
            return .none
        }
        let isUnneeded = departure == .goAway && demand == .none && !policy.keepsLinkWarm
        if departure == .goAway, policy.sendsAfterGoAway, policy.overlapsLinks, !isUnneeded, !isLinkEnding {
            if lifetime(at: now) >= policy.stableAfter { ring.beginRound() }
            ring.leave(endpoint, at: now)
            hold(endpoint, for: retryAfter, at: now)
            return replaceGoing(endpoint, at: now)
        }
        let isOver = departure == .lastResponse || departure == .unanswered || departure == .exhausted
        if isOver, retryAfter == nil, let change, change.mayBePostponed, change.target != endpoint {
            postponed = change
            // Links that are short must not become as many attempts elsewhere.
            if change.attempt != nil { postponed?.until = now.advanced(by: Self.networkPace) }
        } else if let attempt = change?.attempt, !isUnneeded, departure != .silence || attempt.endpoint != endpoint {
            _ = endReady(wasSilent: departure == .silence, at: now)
            lastCause = departure.cause
            if departure == .silence { ring.leave(endpoint, at: now) }
            if departure == .goAway { hold(endpoint, for: retryAfter, at: now) }
            state = .connecting(attempt)
            return .drain(session: session, then: .none)
        }
        if isOver, retryAfter == nil {
            let planned = returnAt
            _ = endReady(at: now)
            (lastCause, returnAt) = (departure.cause, planned)
            ring.beginRound()
            _ = ring.select(endpoint)
            return .drain(session: session, then: connect(at: now))
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

    /// Has these endpoints from now on.
    ///
    /// A link to one that is gone is replaced when the next is ready, and an attempt there is given up for another. With an
    /// empty list a link stays until it is lost; otherwise it gives up. The policy's wait goes on: those who are told of new
    /// servers are told at the same time.
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
        case .noNetwork:
            // Those that are new may have a route.
            return connect(at: now)
        case .ready(let session):
            var isDropped = false
            if let next = change?.attempt?.endpoint ?? change?.target, !ring.contains(next) {
                isDropped = true
                _ = dropChange(at: now)
            }
            let isGone = !ring.isEmpty && linkEndpoint.map { !ring.contains($0) } ?? false
            if change != nil {
                // Should that fail, it may be any.
                if isGone {
                    change?.reason = .removal
                    change?.target = nil
                }
                return .none
            }
            if isGone {
                ring.beginRound()
                return begin(.removal, to: nil, from: session, at: now)
            }
            // Another may be the preferred one now.
            planReturn(at: now)
            return isDropped ? .rest : waitForPlans
        }
    }

    /// Has these endpoints from now on. A link or an attempt stays, even if its endpoint is none of them.
    package mutating func extendEndpoints(_ endpoints: [Endpoint]) { ring.replace(with: endpoints) }

    /// No link is wanted ever again.
    package mutating func close() {
        state = .closed
        readySince = nil
        returnAt = nil
        agedAt = nil
        change = nil
        postponed = nil
    }
}
