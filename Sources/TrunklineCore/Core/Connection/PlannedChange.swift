/// Prepares the next link while the present one stays in use. A failed attempt leaves the present link as it is.
package struct PlannedChange: Equatable, Sendable {
    package enum Reason: Hashable, Sendable {
        case goAway
        case choice
        case removal
        case preference
        case renewal(Renewal)

        var cause: DisconnectCause { self == .goAway ? .goAway : .closedLocally }

        var departure: String? {
            switch self {
            case .goAway: nil
            case .choice: "switchEndpoint(to:) was called"
            case .removal: "its endpoint was removed from the list"
            case .preference: "the client returns to the preferred endpoint (failover.returnsToPreferredAfter)"
            case .renewal(let renewal): renewal.departure
            }
        }
    }

    package enum Renewal: Hashable, Sendable {
        case age
        case files
        case path
        case request
        /// The server does not know a subscription on the link.
        case subscription

        fileprivate var departure: String {
            switch self {
            case .age: "it has reached the age of failover.maximumLinkAge"
            case .files: "a file of options.tls has changed"
            case .path: "a new link takes another path"
            case .request: "renewLink() was called"
            case .subscription: "the server does not know a subscription on it"
            }
        }
    }

    var reason: Reason
    /// `nil` for the endpoint whose turn it is.
    var target: Endpoint?
    /// `nil` while the change waits for its next attempt.
    var attempt: ReconnectMachine.Attempt?
    var until = Instant.distantPast
    var failures = 0
    /// Includes earlier waits that led to a link without work.
    var round: Int

    /// The change waits for an optional endpoint, so the present link may be renewed meanwhile.
    var isRenewable: Bool { attempt == nil && (reason == .choice || reason == .preference) }

    /// An attempt at a chosen endpoint is not postponed: with short links, it would never complete.
    var mayBePostponed: Bool { isRenewable || reason == .preference }
}

extension ReconnectMachine {
    /// A change to an endpoint that cannot be reached waits until the renewal is complete.
    mutating func renew(because renewal: PlannedChange.Renewal, at now: Instant) -> Action {
        guard let link, link.change?.isRenewable ?? true else { return .none }
        postponed = link.change
        let target = ring.contains(link.endpoint) ? link.endpoint : nil
        ring.beginRound()
        return begin(.renewal(renewal), to: target, from: link, at: now)
    }

    /// Like `renew`, but if a change prevents it, between two attempts of the change or when it is given up.
    mutating func oweRenewal(at now: Instant) -> Action {
        guard var link else { return .none }
        (link.owesRenewal, link.agedAt) = (true, now)
        self.link = link
        return renew(because: .subscription, at: now)
    }

    mutating func begin(
        _ reason: PlannedChange.Reason,
        to target: Endpoint?,
        from link: ReadyLink,
        at now: Instant
    ) -> Action {
        guard policy.overlapsLinks else {
            _ = endReady(isReplaced: true, at: now)
            if target == link.endpoint { keepReturn(of: link) }
            (lastCause, lastReplacement) = (reason.cause, reason)
            if let target { _ = ring.select(target) }
            return .drain(session: link.session, then: connect(at: now))
        }
        change = PlannedChange(reason: reason, target: target, round: hasProvedItself(at: now) ? 0 : round)
        return goOnWithChange(at: now)
    }

    private mutating func goOnWithChange(at now: Instant) -> Action {
        guard let change else { return .none }
        if let target = change.target, !ring.select(target) { return dropChange(at: now) }
        guard let endpoint = ring.next(at: now) else { return dropChange(at: now) }
        let attempt = Attempt(id: nextID(), number: failures + change.failures + 1, endpoint: endpoint)
        self.change?.attempt = attempt
        return .connect(attempt)
    }

    /// The ring has recorded the failure already.
    mutating func changeFailed(_ cause: DisconnectCause, isPermanent: Bool, at now: Instant) -> Action {
        guard var change else { return .none }
        change.attempt = nil
        change.failures += 1
        self.change = change
        let isRefused = isPermanent && !policy.retriesPermanentCauses
        if isRefused, change.target != nil || ring.areAllRefused(at: now) { return dropChange(at: now) }
        if let most = policy.maximumAttempts, change.failures >= most { return dropChange(at: now) }
        if change.target == nil, ring.hasTurnLeft(at: now) { return goOnWithChange(at: now) }
        return restBetweenAttempts(after: cause, at: now)
    }

    /// Says nothing about the servers. When a route appears, `networkChanged` ends the wait. It has an end of its own,
    /// because the present link may need to be replaced, and may use a path that is not monitored.
    mutating func changeFailedWithoutRoute(_ cause: DisconnectCause, isOfThisHost: Bool, at now: Instant) -> Action {
        change?.attempt = nil
        guard isOfThisHost else { return restBetweenAttempts(after: cause, at: now) }
        guard let change, case .retry = decision(about: change, after: cause) else { return dropChange(at: now) }
        ring.beginRound()
        self.change?.until = now.advanced(by: Self.longestPause)
        return waitForPlans
    }

    private mutating func decision(about change: PlannedChange, after cause: DisconnectCause) -> ReconnectDecision {
        let failure = ReconnectFailure(
            round: change.round,
            failedAttempts: failures + change.failures,
            cause: cause
        )
        return decide(by: policy.reconnect, failure)
    }

    mutating func attemptChangeNow(at now: Instant) -> Action {
        change.map { $0.attempt == nil } ?? false ? goOnWithChange(at: now) : .none
    }

    mutating func restBetweenAttempts(after cause: DisconnectCause, at now: Instant) -> Action {
        guard let change else { return .none }
        guard case .retry(let delay) = decision(about: change, after: cause) else { return dropChange(at: now) }
        ring.beginRound()
        let until = max(now.advanced(by: max(.zero, delay)), earliestStart(of: change, at: now))
        self.change?.round += 1
        self.change?.until = until
        return waitForPlans
    }

    func earliestStart(of change: PlannedChange, at now: Instant) -> Instant {
        change.target.map { ring.earliestStart(of: $0) } ?? ring.earliestStart(at: now)
    }

    mutating func resumePostponed() {
        guard let postponed = postponed.take(), let target = postponed.target, target != link?.endpoint else { return }
        change = postponed
        change?.attempt = nil
    }

    mutating func restartAttempt(at now: Instant) -> Action {
        guard let attempt else { return .none }
        _ = ring.select(attempt.endpoint)
        return change == nil ? connect(at: now) : goOnWithChange(at: now)
    }

    var waitForPlans: Action { deadline.map { .wait(until: $0) } ?? .none }

    mutating func keepReturn(of link: ReadyLink) { keptReturn = link.returnAt.map { (link.endpoint, $0) } }

    mutating func dropChange(at now: Instant) -> Action {
        guard let dropped = change else { return .none }
        change = postponed.take()
        if dropped.reason == .preference { planReturn(at: now, after: .seconds(1)) }
        if link?.owesRenewal == true {
            let isElsewhere = dropped.reason == .choice || dropped.reason == .preference
            link?.agedAt = isElsewhere ? now : now.advanced(by: Self.owedRenewalDelay)
        } else if link?.agedAt.map({ $0 <= now }) ?? false {
            planRenewal(at: now)
        }
        return .rest
    }

    mutating func endChanged(at now: Instant) -> SessionID? {
        guard let link, let change = link.change else { return nil }
        let hasProvedItself = endReady(isReplaced: true, at: now)
        (lastCause, lastReplacement) = (change.reason.cause, change.reason)
        if !hasProvedItself {
            round = max(round, change.round)
            if change.reason == .goAway { failures += 1 }
        }
        return link.session
    }

    /// The attempt of the change becomes the next attempt. Returns false if none is in progress.
    mutating func goOn(with change: PlannedChange) -> Bool {
        if let attempt = change.attempt {
            phase = .connecting(attempt)
            promptFrom = nil
            return true
        }
        if change.reason == .choice, let target = change.target { _ = ring.select(target) }
        return false
    }

    /// The server has announced its shutdown. The link is used until the next one is ready.
    mutating func replaceGoing(_ endpoint: Endpoint, at now: Instant) -> Action {
        // An attempt at another endpoint continues.
        if let attempt = change?.attempt, attempt.endpoint != endpoint { return .none }
        if let change, change.reason == .goAway {
            // A repeated announcement keeps the pace: a server could make the client connect without end.
            guard change.attempt == nil else { return .none }
            let until = max(change.until, ring.earliestStart(at: now))
            self.change?.until = until
            return .wait(until: until)
        }
        // The endpoint that the caller has chosen has the first turn.
        if let change, change.reason == .choice, let target = change.target { _ = ring.select(target) }
        change = PlannedChange(reason: .goAway, target: nil, round: hasProvedItself(at: now) ? 0 : round)
        return ring.hasTurnLeft(at: now) ? goOnWithChange(at: now) : restBetweenAttempts(after: .goAway, at: now)
    }

    mutating func changeDue(at now: Instant) -> Action {
        guard let due = link else { return .none }
        if let change = due.change {
            guard change.attempt == nil else { return .none }
            if change.until <= now { return goOnWithChange(at: now) }
            guard change.isRenewable, let agedAt = due.agedAt, agedAt <= now else {
                return waitForPlans
            }
        }
        if let agedAt = due.agedAt, agedAt <= now {
            let action = renew(because: due.owesRenewal ? .subscription : .age, at: now)
            if change != nil || link?.session != due.session { return action }
        }
        guard let present = link, let returnAt = present.returnAt, returnAt <= now,
            let stay = policy.returnsToPreferredAfter
        else { return waitForPlans }
        guard let preferred = ring.preferred, preferred != present.endpoint else {
            link?.returnAt = nil
            return waitForPlans
        }
        if ring.isHealthy(preferred, at: now) {
            ring.beginRound()
            return begin(.preference, to: preferred, from: present, at: now)
        }
        // The preferred endpoint failed recently. A working link is not given up for it.
        link?.returnAt = now.advanced(by: max(stay, .seconds(1)))
        return waitForPlans
    }

    mutating func planReturn(at now: Instant, after least: Duration = .zero) {
        guard let stay = policy.returnsToPreferredAfter, let preferred = ring.preferred, preferred != link?.endpoint
        else {
            link?.returnAt = nil
            return
        }
        link?.returnAt = now.advanced(by: max(stay, least))
    }

    /// Up to a tenth earlier than the policy says: the clients of a restarted server do not all reconnect at once.
    mutating func planRenewal(at now: Instant) {
        guard let age = policy.maximumLinkAge else {
            link?.agedAt = nil
            return
        }
        let nanoseconds = Double(max(1_000_000, age.clampedNanoseconds)) * (1 - 0.1 * generator.nextUnit())
        link?.agedAt = now.advanced(by: .nanoseconds(Int64(min(nanoseconds, 9e18))))
    }
}
