/// A planned change: the next link is prepared while the present one stays in use.
///
/// If an attempt fails, the present link stays as it is. The reconnect policy decides when the next attempt of the
/// change begins.
package struct PlannedChange: Equatable, Sendable {
    /// Why the link is replaced.
    package enum Reason: Sendable {
        /// The server has announced its shutdown.
        case goAway
        /// The caller has chosen another endpoint.
        case choice
        /// The endpoint was removed from the list.
        case removal
        /// It is time to return to the preferred endpoint.
        case preference
        /// The link is old, its certificates have changed, a new link would take a better path, or the caller asked for
        /// a renewal.
        case renewal

        /// The cause in the report of the replaced link.
        package var cause: DisconnectCause { self == .goAway ? .goAway : .closedLocally }

        /// Why the client has left the link; `nil` if the server has asked for it.
        package var departure: String? {
            switch self {
            case .goAway: nil
            case .choice: "switchEndpoint(to:) was called"
            case .removal: "its endpoint was removed from the list"
            case .preference: "the client returns to the preferred endpoint (failover.returnsToPreferredAfter)"
            case .renewal: "it has reached the age of failover.maximumLinkAge"
            }
        }
    }

    package var reason: Reason
    /// The endpoint of the next link; `nil` for the endpoint whose turn it is.
    var target: Endpoint?
    /// The attempt in progress; `nil` while the change waits for its next attempt.
    package var attempt: ReconnectMachine.Attempt?
    /// When the next attempt begins.
    var until = Instant.distantPast
    /// The number of failed attempts of this change.
    var failures = 0
    /// The number of waits between attempts, including earlier waits that led to a link without work.
    var round: Int

    /// Whether the change waits for an optional endpoint, so that the present link may be renewed meanwhile.
    var isRenewable: Bool { attempt == nil && (reason == .choice || reason == .preference) }

    /// Whether another link to the present endpoint comes first when the present link has ended. An attempt at an
    /// endpoint that the caller has chosen continues instead: if links are short, it would never complete otherwise.
    var mayBePostponed: Bool { isRenewable || reason == .preference }
}

/// Planned changes.
extension ReconnectMachine {
    /// Replaces the link by another to the same endpoint, unless a replacement is already in progress.
    ///
    /// A change to an endpoint that cannot be reached waits until this one is complete.
    package mutating func renew(at now: Instant) -> Action {
        guard let link, link.change?.isRenewable ?? true else { return .none }
        postponed = link.change
        let target = ring.contains(link.endpoint) ? link.endpoint : nil
        ring.beginRound()
        return begin(.renewal, to: target, from: link, at: now)
    }

    /// Replaces the link as `renew` does, but later if a change prevents that: between two attempts of the change or when
    /// it is given up.
    package mutating func oweRenewal(at now: Instant) -> Action {
        guard var link else { return .none }
        (link.owesRenewal, link.agedAt) = (true, now)
        self.link = link
        return renew(at: now)
    }

    /// Begins a planned change. If links must not overlap, the present link drains at once.
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

    /// Begins the next attempt of the change.
    private mutating func goOnWithChange(at now: Instant) -> Action {
        guard let change else { return .none }
        if let target = change.target, !ring.select(target) { return dropChange(at: now) }
        guard let endpoint = ring.next(at: now) else { return dropChange(at: now) }
        let attempt = Attempt(id: nextID(), number: failures + change.failures + 1, endpoint: endpoint)
        self.change?.attempt = attempt
        return .connect(attempt)
    }

    /// Handles a failed attempt of the change. The ring has recorded the failure already.
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

    /// Begins the next attempt of the change without further wait.
    mutating func attemptChangeNow(at now: Instant) -> Action {
        change.map { $0.attempt == nil } ?? false ? goOnWithChange(at: now) : .none
    }

    /// Waits for the next attempt of the change.
    mutating func restBetweenAttempts(after cause: DisconnectCause, at now: Instant) -> Action {
        guard let change else { return .none }
        let failure = ReconnectFailure(
            round: change.round,
            failedAttempts: failures + change.failures,
            cause: cause
        )
        guard case .retry(let delay) = decide(by: policy.reconnect, failure) else { return dropChange(at: now) }
        ring.beginRound()
        let until = max(now.advanced(by: max(.zero, delay)), earliestStart(of: change, at: now))
        self.change?.round += 1
        self.change?.until = until
        return waitForPlans
    }

    /// The instant before which the endpoints of the change may not be tried, because their servers asked for that.
    func earliestStart(of change: PlannedChange, at now: Instant) -> Instant {
        change.target.map { ring.earliestStart(of: $0) } ?? ring.earliestStart(at: now)
    }

    /// Resumes a postponed change, unless the link leads to its endpoint now.
    mutating func resumePostponed() {
        guard let postponed = postponed.take(), let target = postponed.target, target != link?.endpoint else { return }
        change = postponed
        change?.attempt = nil
    }

    /// Restarts the attempt in progress, to the same endpoint.
    package mutating func restartAttempt(at now: Instant) -> Action {
        guard let attempt else { return .none }
        _ = ring.select(attempt.endpoint)
        return change == nil ? connect(at: now) : goOnWithChange(at: now)
    }

    /// Waits for the next instant at which a change, a return or a renewal is due.
    var waitForPlans: Action { deadline.map { .wait(until: $0) } ?? .none }

    /// Keeps the plan of `link`, which has ended, to return to the preferred endpoint.
    mutating func keepReturn(of link: ReadyLink) { keptReturn = link.returnAt.map { (link.endpoint, $0) } }

    /// Gives up the change. The present link stays as it is.
    package mutating func dropChange(at now: Instant) -> Action {
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

    /// Ends the link that the change replaces, because the next link is ready. Returns its session.
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

    /// Handles the loss of the link during `change`: the attempt of the change becomes the next attempt. Returns false
    /// if no attempt is in progress.
    mutating func goOn(with change: PlannedChange) -> Bool {
        if let attempt = change.attempt {
            phase = .connecting(attempt)
            promptFrom = nil
            return true
        }
        if change.reason == .choice, let target = change.target { _ = ring.select(target) }
        return false
    }

    /// Handles the announced shutdown of the server at `endpoint`. The link is used until the next one is ready.
    mutating func replaceGoing(_ endpoint: Endpoint, at now: Instant) -> Action {
        // An attempt at another endpoint continues.
        if let attempt = change?.attempt, attempt.endpoint != endpoint { return .none }
        if let change, change.reason == .goAway {
            // A repeated announcement does not change the pace. Otherwise a server could make the client connect
            // without end.
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

    /// Handles an instant at which a change, a return or a renewal is due.
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
            let action = renew(at: now)
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

    /// Plans the return to the preferred endpoint, if the link leads to another one.
    mutating func planReturn(at now: Instant, after least: Duration = .zero) {
        guard let stay = policy.returnsToPreferredAfter, let preferred = ring.preferred, preferred != link?.endpoint
        else {
            link?.returnAt = nil
            return
        }
        link?.returnAt = now.advanced(by: max(stay, least))
    }

    /// Plans the renewal of the link for its age: up to a tenth earlier than the policy says, so that the clients of a
    /// server that has restarted do not all replace their links at the same time.
    mutating func planRenewal(at now: Instant) {
        guard let age = policy.maximumLinkAge else {
            link?.agedAt = nil
            return
        }
        let nanoseconds = Double(max(1_000_000, age.clampedNanoseconds)) * (1 - 0.1 * generator.nextUnit())
        link?.agedAt = now.advanced(by: .nanoseconds(Int64(min(nanoseconds, 9e18))))
    }
}
