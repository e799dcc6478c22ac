/// A try that failed, as far as it matters for a further one.
package struct FailedTry: Sendable {
    /// What a further try needs to succeed.
    package enum Need: Sendable {
        /// Nothing helps, or the caller waits no longer.
        case nothing
        /// A new link, whether to this server or another.
        case link
        /// Another server. The failed one has received nothing of the request.
        case server
    }

    package let need: Need
    /// Whether the server may have received a part of the request.
    package let wasWritten: Bool
    package let policy: RetryPolicy
    /// The number of the try, counted from 1.
    package let number: Int
    /// When the call ends at the latest; `nil` for no limit.
    package let latestEnd: Instant?

    package init(_ need: Need, wasWritten: Bool, _ policy: RetryPolicy, number: Int, latestEnd: Instant?) {
        (self.need, self.wasWritten, self.policy) = (need, wasWritten, policy)
        (self.number, self.latestEnd) = (number, latestEnd)
    }
}

/// What follows a try that failed.
package enum RetryDecision: Sendable, Hashable {
    /// The call fails with the error of the try.
    case fail
    /// The call fails with the error of the try, because the retry budget is exhausted.
    case failOverBudget
    /// The request goes to another server at once. That is no retry, whatever the policy: it was not sent.
    case goElsewhere
    /// The next try begins at this time.
    case retry(at: Instant)
}

/// The one decision about retries, for clients and clusters, and what their calls share for it.
package struct RetryRules: Sendable {
    /// `nil` if retries are not limited.
    private var account: RetryAccount?
    private var generator: SeededGenerator

    package init(_ budget: RetryBudget?, seed: UInt64) {
        account = budget.map { RetryAccount($0) }
        generator = SeededGenerator(seed: seed)
    }

    /// - Parameter requests: The number of requests so far, without their further tries: a retry must not earn the next
    ///   one.
    package mutating func decision(
        after failed: FailedTry,
        at now: Instant,
        requests: @autoclosure () -> Int
    ) -> RetryDecision {
        switch failed.need {
        case .nothing: return .fail
        case .server: return .goElsewhere
        case .link: break
        }
        guard case .idempotent(let tries, let backoff) = failed.policy, failed.number < tries else { return .fail }
        let begin = now.advanced(by: wait(backoff, round: failed.number - 1))
        if let latestEnd = failed.latestEnd, begin >= latestEnd { return .fail }
        // A request that was never written adds no load to the server, so retrying it needs no token.
        if failed.wasWritten, !withdraw(at: now, requests: requests()) { return .failOverBudget }
        return .retry(at: begin)
    }

    /// Takes a token of the budget. Returns `false` if there is none.
    package mutating func withdraw(at now: Instant, requests: Int) -> Bool {
        account?.withdraw(at: now, requests: requests) ?? true
    }

    /// Draws the wait before a try.
    package mutating func wait(_ backoff: Backoff, round: Int) -> Duration {
        .nanoseconds(Int64.random(in: backoff.waits(round: round), using: &generator))
    }
}
