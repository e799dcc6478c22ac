/// A planned change of the link: the next one is made ready while the present one goes on.
///
/// If it fails, the present link stays as it is, and the change is tried again at the pace of the reconnect policy.
package struct PlannedChange: Equatable, Sendable {
    /// Why the link is to be replaced.
    package enum Reason: Sendable {
        /// Its server has said that it goes.
        case goAway
        /// Somebody has chosen another endpoint.
        case choice
        /// Its endpoint is in the list no more.
        case removal
        /// The preferred endpoint is to be tried again.
        case preference
        /// It is old, its certificates are, or a new link would take a better path.
        case renewal

        /// The cause in the report of the link that was replaced.
        package var cause: DisconnectCause { self == .goAway ? .goAway : .closedLocally }
    }

    package var reason: Reason
    /// Where the next link leads to; `nil` for the endpoint whose turn it is.
    var target: Endpoint?
    /// Under way; `nil` while it waits for the next.
    package var attempt: ReconnectMachine.Attempt?
    /// When the next attempt begins.
    var until = Instant.distantPast
    /// Attempts that failed.
    var failures = 0
    /// Waits between attempts, and those before that led to a link without work.
    var round: Int

    /// Whether it waits for an endpoint that does not have to be: the link may be renewed meanwhile.
    var isRenewable: Bool { attempt == nil && (reason == .choice || reason == .preference) }

    /// Whether another link to the present endpoint comes first when the present one has ended. An attempt at an endpoint that
    /// somebody has chosen goes on: where links are short it would never come to its end.
    var mayBePostponed: Bool { isRenewable || reason == .preference }
}

/// Planned changes.
extension ReconnectMachine {
    /// A link that begins.
    package struct Beginning: Equatable, Sendable {
        /// The session that it replaces, which is to be drained for this reason.
        package let replaced: Replaced?

        package struct Replaced: Equatable, Sendable {
            package let session: UInt64
            package let reason: PlannedChange.Reason
        }
    }

    /// Replaces the link by another to the same endpoint, unless it is being replaced already.
    ///
    /// A change to an endpoint that cannot be reached waits until this one is over.
    package mutating func renew(at now: Instant) -> Action {
        guard case .ready(let session) = state, change?.isRenewable ?? true, let linkEndpoint else { return .none }
        postponed = change
        let target = ring.contains(linkEndpoint) ? linkEndpoint : nil
        ring.beginRound()
        return begin(.renewal, to: target, from: session, at: now)
    }

    /// Makes the next link. Where links must not overlap, the present one drains at once.
    mutating func begin(
        _ reason: PlannedChange.Reason,
        to target: Endpoint?,
        from session: UInt64,
        at now: Instant
    ) -> Action {
        guard policy.overlapsLinks else {
            let planned = returnAt
            _ = endReady(isReplaced: true, at: now)
            if target == linkEndpoint { returnAt = planned }
            lastCause = reason.cause
            if let target { _ = ring.select(target) }
            return .drain(session: session, then: connect(at: now))
        }
        change = PlannedChange(reason: reason, target: target, round: hasProvedItself(at: now) ? 0 : round)
        return goOnWithChange(at: now)
    }

    /// The next attempt of the change.
    private mutating func goOnWithChange(at now: Instant) -> Action {
        guard let change else { return .none }
        if let target = change.target, !ring.select(target) { return dropChange(at: now) }
        guard let endpoint = ring.next(at: now) else { return dropChange(at: now) }
        lastID += 1
        let attempt = Attempt(id: lastID, number: failures + change.failures + 1, endpoint: endpoint)
        self.change?.attempt = attempt
        return .connect(attempt)
    }

    /// The change's attempt has failed. The ring knows it already.
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

    /// The change's next attempt begins without waiting any longer.
    mutating func attemptChangeNow(at now: Instant) -> Action {
        change.map { $0.attempt == nil } ?? false ? goOnWithChange(at: now) : .none
    }

    /// Waits for the change's next attempt.
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

    /// Before this instant the servers asked not to be tried.
    func earliestStart(of change: PlannedChange, at now: Instant) -> Instant {
        change.target.map { ring.earliestStart(of: $0) } ?? ring.earliestStart(at: now)
    }

    /// Goes on with a change that was postponed, unless the link leads there now.
    mutating func resumePostponed() {
        guard let postponed = postponed.take(), let target = postponed.target, target != linkEndpoint else { return }
        change = postponed
        change?.attempt = nil
    }

    /// Makes the attempt under way once more, from its beginning and to the same endpoint.
    package mutating func restartAttempt(at now: Instant) -> Action {
        guard let attempt else { return .none }
        _ = ring.select(attempt.endpoint)
        return change == nil ? connect(at: now) : goOnWithChange(at: now)
    }

    /// The next instant that the link's plans name.
    var waitForPlans: Action { deadline.map { .wait(until: $0) } ?? .none }

    /// Gives the change up: the present link stays as it is.
    package mutating func dropChange(at now: Instant) -> Action {
        guard let dropped = change.take() else { return .none }
        change = postponed.take()
        if dropped.reason == .preference { planReturn(at: now, after: .seconds(1)) }
        if agedAt.map({ $0 <= now }) ?? false { planRenewal(at: now) }
        return .rest
    }

    /// The change's link is ready: ends the one that it replaces, and returns that.
    mutating func endChanged(at now: Instant) -> Beginning.Replaced? {
        guard case .ready(let session) = state, let change else { return nil }
        let hasProvedItself = endReady(isReplaced: true, at: now)
        lastCause = change.reason.cause
        if !hasProvedItself {
            round = max(round, change.round)
            if change.reason == .goAway { failures += 1 }
        }
        return Beginning.Replaced(session: session, reason: change.reason)
    }

    /// The link is lost while `change` is under way: its attempt is the next one. Returns whether there is one.
    mutating func goOn(with change: PlannedChange) -> Bool {
        if let attempt = change.attempt {
            state = .connecting(attempt)
            promptFrom = nil
            return true
        }
        if change.reason == .choice, let target = change.target { _ = ring.select(target) }
        return false
    }

    /// The server of the link, at `endpoint`, says that it goes. The link is used until the next one is ready.
    mutating func replaceGoing(_ endpoint: Endpoint, at now: Instant) -> Action {
        // An attempt that leads elsewhere goes on.
        if let attempt = change?.attempt, attempt.endpoint != endpoint { return .none }
        if let change, change.reason == .goAway {
            // A server that repeats it changes nothing of the pace, or it could make us connect without end.
            guard change.attempt == nil else { return .none }
            let until = max(change.until, ring.earliestStart(at: now))
            self.change?.until = until
            return .wait(until: until)
        }
        // What somebody has chosen has the first turn.
        if let change, change.reason == .choice, let target = change.target { _ = ring.select(target) }
        change = PlannedChange(reason: .goAway, target: nil, round: hasProvedItself(at: now) ? 0 : round)
        return ring.hasTurnLeft(at: now) ? goOnWithChange(at: now) : restBetweenAttempts(after: .goAway, at: now)
    }

    /// An instant has come that the link's plans named.
    mutating func changeDue(at now: Instant) -> Action {
        guard case .ready(let session) = state, let linkEndpoint else { return .none }
        if let change {
            guard change.attempt == nil else { return .none }
            if change.until <= now { return goOnWithChange(at: now) }
            guard change.isRenewable, let agedAt, agedAt <= now else {
                return waitForPlans
            }
        }
        if let agedAt, agedAt <= now {
            let action = renew(at: now)
            if change != nil || state != .ready(session: session) { return action }
        }
        if let returnAt, returnAt <= now, let stay = policy.returnsToPreferredAfter {
            guard let preferred = ring.preferred, preferred != linkEndpoint else {
                self.returnAt = nil
                return waitForPlans
            }
            if ring.isHealthy(preferred, at: now) {
                ring.beginRound()
                return begin(.preference, to: preferred, from: session, at: now)
            } else {
                // It failed lately. A working link is not given up for that.
                self.returnAt = now.advanced(by: max(stay, .seconds(1)))
            }
        }
        return waitForPlans
    }

    /// Sees about the preferred endpoint later, if the link is to another.
    mutating func planReturn(at now: Instant, after least: Duration = .zero) {
        guard let stay = policy.returnsToPreferredAfter, let preferred = ring.preferred, preferred != linkEndpoint
        else { return returnAt = nil }
        returnAt = now.advanced(by: max(stay, least))
    }

    /// Replaces the link when it is old: up to a tenth earlier than the policy says, lest all clients of a server that has
    /// restarted replace theirs at the same time.
    mutating func planRenewal(at now: Instant) {
        guard let age = policy.maximumLinkAge else { return agedAt = nil }
        let nanoseconds = Double(max(1_000_000, age.clampedNanoseconds)) * (1 - 0.1 * generator.nextUnit())
        agedAt = now.advanced(by: .nanoseconds(Int64(min(nanoseconds, 9e18))))
    }
}
