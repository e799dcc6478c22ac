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
    var tryOptions: CallOptions
    /// Receives the timelines of the tries; `nil` if the caller does not record the call.
    let timelines: CallTimelines?
    /// The hash of the key of the request; `nil` without a key.
    var key: UInt64?
    /// Whether the request wants a link for large ones.
    let isLarge: Bool
    /// Servers that must not be chosen: another copy of the request is with them.
    var avoided: [UInt64] = []
    /// Whether this is a second copy, which waits for nothing.
    var isExtra = false
    /// Whether this is only a part of a call, whose failure is not that of the call.
    var isPart = false
    /// Whether a server was chosen for it before.
    var isPlaced = false
    /// When the back-off before the present try ended; `nil` if there was none.
    var rested: Instant?
    /// Holds the server of the latest try; `nil` if nothing asks for it.
    var trace: Lock<UInt64?>?
    /// Returns why the call has ended, if its task is cancelled because of that; `nil` if the cancellation is the reason.
    var ending: RoutedReplies.Ending?
    /// The number of the present try, counted from 1.
    var tryNumber = 1
    /// The servers that have failed since the last wait.
    var tried: [UInt64] = []
    /// The fate of the earlier tries.
    var earlierFate = ClientError.Fate.notSent
    /// The timeline of the earlier tries.
    var timeline: Timeline?
    /// The number of waits because no server could take the request although some were ready.
    var rests = 0
    /// The place of the call among those that wait.
    var turn: UInt64?
    /// Whether the call has not looked for a server before. A new call goes behind those that wait.
    var isNew: Bool { turn == nil && tried.isEmpty && tryNumber == 1 }
    /// Whether `WaitingCalls` knows that it looks for a server.
    private(set) var isSearching = false

    /// Tells that the call looks for a server, so that `close()` waits for it, until `endSearch`.
    mutating func beginSearch(in waiting: WaitingCalls) {
        if !isSearching { waiting.searchBegan() }
        isSearching = true
    }

    mutating func endSearch(in waiting: WaitingCalls) {
        if isSearching { waiting.searchEnded() }
        isSearching = false
    }

    /// Notes that a try on a server has failed.
    mutating func noteTry(_ error: ClientError, on member: ClusterMember) {
        guard let latest = error.timeline else { return }
        timeline = latest.joined(to: timeline, since: begun, rested: rested, isServerEjected: member.isEjected)
        rested = nil
    }

    /// Returns the error of the latest try as the caller must see it.
    func amended(_ error: ClientError) -> ClientError {
        error.after(earlierFate).changed {
            if tryNumber > 1 { $0.tries = tryNumber }
            if $0.timeline != nil { $0.timeline = timeline }
        }
    }

    /// Returns the error of a call that no server took, as the caller must see it.
    func amended(_ error: ClientError, at now: Instant) -> ClientError {
        let error = amended(error)
        let failure = Client.Metrics.Failure(error.code, error.fate)
        return error.with(.waited(after: timeline, since: begun, until: now, failure))
    }

    /// The time that is left; `.never` for no limit.
    func timeLeft(at now: Instant) -> Timeout { deadline.map { .after($0.since(now)) } ?? .never }
}
