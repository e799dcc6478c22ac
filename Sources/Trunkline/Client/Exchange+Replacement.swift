import TrunklineCore

/// Requests that were given up and on which the server may still work: what they hold, and when the link is replaced for
/// it.
///
/// They hold serial numbers and places below `maximumInFlight` until they are answered, their quarantine ends, or their link
/// does. Where they hold so many that others cannot go out, the link is replaced: the next one has all serials, and the
/// present one drains.
extension Exchange {
    /// When the link is replaced although it works.
    struct Replacement: Sendable {
        let policy: any ReconnectPolicy
        let stableAfter: Duration
        /// How often in a row it was. One that followed an answer, or came long after it could have, is the first again.
        var round = 0
        /// The next one comes no earlier than this.
        var notBefore = Instant.distantPast
        /// How many answers there had been, late ones included, at the latest one.
        var answers = 0
        /// Whether a request was refused because every serial is held, and they still are.
        var hasRefused = false
        /// Since when requests that were given up have kept others from going out, whether some waited all the time or not;
        /// `nil` while they do not.
        var shortageSince: Instant?
        /// When to look again, while requests wait for what others hold.
        var lookAgainAt: Instant?

        init(_ options: ClientOptions.Reconnecting) {
            (policy, stableAfter) = (options.policy, options.stableAfter)
        }
    }

    /// From this limit on `maximumInFlight` bounds what the client has to remember, and below it what the server has to do:
    /// such a limit holds across links that drain, and no link is replaced for it.
    static let strictLimit = 1024

    /// Whether the limit is so low that it is meant to protect the server.
    var isStrict: Bool { maximumInFlight < Self.strictLimit }

    /// How many requests were given up and count against the limit.
    var abandoned: Int { table.abandonedCount + (isStrict ? table.retiredAbandonedCount : 0) }

    /// Whether one request more may be in flight.
    var isBelowLimit: Bool { inFlight + abandoned < maximumInFlight }

    /// Whether requests wait that are in need of another link, or soon will be.
    var mayNeedAnotherLink: Bool { hasWaiting || replacement.hasRefused }

    /// So long a shortage must last: late answers may be on their way.
    private static let grace = Duration.milliseconds(250)

    private mutating func endShortage() { (replacement.hasRefused, replacement.shortageSince) = (false, nil) }

    /// No request waits. Those whose time was short may have left already: the shortage ends when there is room.
    mutating func noteNoneWaits(at now: @autoclosure () -> Instant) {
        guard replacement.shortageSince != nil else { return }
        if obstacle(at: now()) == nil { endShortage() }
        replacement.lookAgainAt = nil
    }

    /// Why the link is to be replaced; `nil` when it is not, or not yet.
    mutating func needForAnotherLink(at now: Instant) -> ReconnectMachine.Departure? {
        guard let departure = obstacle(at: now) else {
            endShortage()
            return nil
        }
        let since = replacement.shortageSince ?? now
        replacement.shortageSince = since
        // In order, the quarantine was time enough.
        let patience = departure == .unanswered ? Duration.zero : Self.grace
        let due = max(replacement.notBefore, since.advanced(by: patience))
        guard now >= due else {
            replacement.lookAgainAt = due
            return nil
        }
        return departure
    }

    private mutating func obstacle(at now: Instant) -> ReconnectMachine.Departure? {
        guard isBelowLimit else {
            if !isStrict, table.abandonedCount >= maximumInFlight / 2 { return .exhausted }
            // In order, nothing behind the oldest can be answered before it.
            guard let until = table.oldestAbandonedUntil() else { return nil }
            if until <= now { return .unanswered }
            replacement.lookAgainAt = until
            return nil
        }
        guard let (count, abandoned) = table.exhaustion, mayAdmit() else { return nil }
        return abandoned * 2 >= count ? .exhausted : nil
    }

    /// The link is being replaced. The next one that has to be, for want of answers, has more time: the policy's waits, but
    /// spent on a link.
    mutating func noteReplaced(at now: Instant) {
        let answers = counters.responses + counters.lateResponses
        if answers > replacement.answers || now >= replacement.notBefore.advanced(by: replacement.stableAfter) {
            replacement.round = 0
        }
        let failure = ReconnectFailure(round: replacement.round, failedAttempts: 0, cause: .exhausted)
        var (delay, generator) = (Duration.zero, generator)
        // A policy that gives up on servers says nothing about one that is there.
        for policy in [replacement.policy, Backoff()] as [any ReconnectPolicy] {
            guard case .retry(let wait) = policy.decision(for: failure, random: { generator.nextUnit() }) else {
                continue
            }
            delay = max(.zero, wait)
            break
        }
        self.generator = generator
        replacement.round += 1
        endShortage()
        replacement.notBefore = now.advanced(by: delay)
        replacement.answers = answers
    }

    // MARK: What callers are told

    /// Why a request that may not wait for a link may not be taken in: it would have to wait for a serial. `nil` when it
    /// may.
    mutating func lackOfSerials(_ terms: Terms) -> ClientError? {
        guard !terms.waitsForReady, outbound.isReady, let what = heldSerials else { return nil }
        replacement.hasRefused = true
        return ClientError(.overloaded, .notSent, what)
    }

    private var heldSerials: String? {
        table.exhaustion.map {
            "all \($0.count) serial numbers are held, \($0.abandoned) by requests that were given up"
        }
    }

    /// What a request that was admitted by now would not wait for; `nil` when there is nothing of the kind.
    var whatHoldsOthersBack: String? {
        guard isBelowLimit else {
            let givenUp = abandoned == 0 ? "" : ", \(abandoned) of them given up and not answered"
            return "\(inFlight + abandoned) requests are in flight\(givenUp)"
        }
        return heldSerials
    }

    /// A request exceeded its deadline while it waited behind abandoned requests. In order, that is as if it had gone out
    /// behind them: returns whether it was counted so.
    mutating func noteExpiredUnsent() -> Bool {
        guard order.codec != nil, abandoned > 0, !isBelowLimit else { return false }
        noteGivenUp(.timedOut)
        return true
    }
}
