/// What the calls of a cluster share for their retries.
struct ClusterRetries: Sendable {
    /// Pays for the retries of requests that were written; `nil` if they are not limited.
    private var account: RetryAccount?
    private var generator: SeededGenerator

    init(_ budget: RetryBudget?, seed: UInt64) {
        account = budget.map { RetryAccount($0) }
        generator = SeededGenerator(seed: seed)
    }

    /// Withdraws one retry of a request that was written. Returns whether it is allowed.
    ///
    /// - Parameter requests: The number of requests so far.
    mutating func withdraw(at now: Instant, requests: Int) -> Bool {
        account?.withdraw(at: now, requests: requests) ?? true
    }

    /// Draws the wait before a try.
    mutating func wait(_ backoff: Backoff, round: Int) -> Duration {
        .nanoseconds(Int64.random(in: backoff.waits(round: round), using: &generator))
    }
}

/// A call of a cluster, from one try to the next.
struct ClusterCall: Sendable {
    let begun: Instant
    /// `nil` for no limit.
    let deadline: Instant?
    let policy: RetryPolicy
    let waitsForReady: Bool
    /// The options of each try: the cluster retries, not the client.
    let tryOptions: CallOptions
    /// The hash of the key of the request; `nil` without a key.
    var key: UInt64?
    /// Servers that must not be chosen: another copy of the request is with them.
    var avoided: [UInt64] = []
    /// Whether this is a second copy, which waits for nothing.
    var isExtra = false
    /// Holds the server of the latest try; `nil` if nothing asks for it.
    var trace: Lock<UInt64?>?
    /// The number of the present try, counted from 1.
    var tryNumber = 1
    /// The servers that have failed since the last wait.
    var tried: [UInt64] = []
    /// The fate of the earlier tries.
    var earlierFate = ClientError.Fate.notSent
    /// The number of waits because no server could take the request although some were ready.
    var rests = 0
    /// The place of the call among those that wait.
    var turn: UInt64?

    /// Returns the error as the caller must see it.
    func amended(_ error: ClientError) -> ClientError {
        let error = error.after(earlierFate)
        guard tryNumber > 1 else { return error }
        return error.changed { $0.tries = tryNumber }
    }

    /// The time that is left; `.never` for no limit.
    func timeLeft(at now: Instant) -> Timeout { deadline.map { .after($0.since(now)) } ?? .never }
}
