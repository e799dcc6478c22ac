import TrunklineCore

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
    /// Whether the time that it takes tells something about its server. Not that of a reply in parts, of a large
    /// request, of a batch, or of what the caller does.
    var isMeasured: Bool
    /// Whether it may be the probe of a server that is left out.
    var probing: PickTable.Wish.Probing
    /// The copies of a hedged request, of which this is one.
    var hedge: (copies: HedgedCopies, isSecond: Bool)?
    /// Whether this is only a part of a call, whose failure is not that of the call.
    var isPart = false
    /// Whether a server was chosen for it before.
    var isPlaced = false
    /// When the back-off before the present try ended; `nil` if there was none.
    var rested: Instant?
    /// Decides with which error the call fails; `nil` if nothing else can end it.
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
    /// Whether this is a second copy, which waits for nothing.
    var isExtra: Bool { hedge?.isSecond == true }
    /// Whether the call has not looked for a server before. A new call goes behind those that wait.
    var isNew: Bool { turn == nil && tried.isEmpty && tryNumber == 1 }
    /// Whether `WaitingCalls` knows that it looks for a server.
    private(set) var isSearching = false

    /// The call is neither measured nor a probe: what becomes of a one-way message or a subscription proves nothing about
    /// a server.
    mutating func provesNothing() { (isMeasured, probing) = (false, .never) }

    /// The servers that are not to be chosen: those that have failed, and that of the other copy.
    var excluded: [UInt64] {
        guard let hedge, let other = hedge.copies.server(ofSecond: !hedge.isSecond) else { return tried }
        return tried + [other]
    }

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

    /// What matters of a failed try for the next one.
    func failed(_ error: ClientError) -> FailedTry {
        let need: FailedTry.Need =
            if error.fate == .notSent, error.mayBeSentElsewhere {
                // Whatever the policy: it is about requests that a server may have received.
                .server
            } else if Task.isCancelled || !error.mayBeRetried {
                // Its caller may wait no longer: then there is no retry, and nothing to pay for one.
                .nothing
            } else {
                .link
            }
        return FailedTry(need, wasWritten: true, policy, number: tryNumber, latestEnd: latestEnd)
    }

    /// Returns the error of the latest try as the caller must see it.
    private func amended(_ error: ClientError) -> ClientError {
        error.after(earlierFate).changed {
            if tryNumber > 1 { $0.tries = tryNumber }
            if $0.timeline != nil { $0.timeline = timeline }
        }
    }

    /// Returns the error with which the call fails after a try, as the caller must see it.
    func failed(with error: ClientError) -> ClientError {
        let error = amended(error)
        return ending?(error).map { amended($0) } ?? error
    }

    /// Returns the error with which the call fails because no server took it, as the caller must see it.
    func failed(with error: ClientError, at now: Instant) -> ClientError {
        let error = waited(error, until: now)
        return ending?(error).map { waited($0, until: now) } ?? error
    }

    private func waited(_ error: ClientError, until now: Instant) -> ClientError {
        let error = amended(error)
        let failure = Client.Metrics.Failure(error.code, error.fate)
        return error.with(.waited(after: timeline, since: begun, until: now, failure))
    }

    /// The deadline that the caller watches; `nil` for none.
    var movableDeadline: MovableDeadline? { tryOptions.movableDeadline }

    /// When the call ends at the latest.
    var latestEnd: Instant { deadline ?? movableDeadline?.instant ?? .distantFuture }

    /// The time that is left; `.never` for no limit.
    func timeLeft(at now: Instant) -> Timeout { deadline.map { .after($0.since(now)) } ?? .never }
}
