import TrunklineCore

/// A call of a cluster, from one try to the next.
struct ClusterCall: Sendable {
    let begun: Instant
    let deadline: Instant?
    let policy: RetryPolicy
    let waitsForReady: Bool
    /// The cluster retries, not the client.
    var tryOptions: CallOptions
    let timelines: CallTimelines?
    var key: UInt64?
    let isLarge: Bool
    /// Whether its time tells something about its server. Not that of a reply in parts, of a large request, of a batch,
    /// or of what the caller does.
    var isMeasured: Bool
    var probing: Wish.Probing
    var hedge: (copies: HedgedCopies, isSecond: Bool)?
    /// The failure of a part is not that of the call.
    var isPart = false
    var isPlaced = false
    var rested: Instant?
    /// Decides with which error the call fails; `nil` if nothing else can end it.
    var ending: RoutedReplies.Ending?
    var tryNumber = 1
    var tried: [UInt64] = []
    var earlierFate = ClientError.Fate.notSent
    var timeline: Timeline?
    /// The number of waits because no server could take the request although some were ready.
    var rests = 0
    var turn: UInt64?
    var isExtra: Bool { hedge?.isSecond == true }
    /// A new call goes behind those that wait.
    var isNew: Bool { turn == nil && tried.isEmpty && tryNumber == 1 }
    private(set) var isSearching = false

    /// What becomes of a one-way message or a subscription proves nothing about a server.
    mutating func provesNothing() { (isMeasured, probing) = (false, .never) }

    var excluded: [UInt64] {
        guard let hedge, let other = hedge.copies.server(ofSecond: !hedge.isSecond) else { return tried }
        return tried + [other]
    }

    /// Until `endSearch`, `close()` waits for the call.
    mutating func beginSearch(in waiting: WaitingCalls) {
        if !isSearching { waiting.searchBegan() }
        isSearching = true
    }

    mutating func endSearch(in waiting: WaitingCalls) {
        if isSearching { waiting.searchEnded() }
        isSearching = false
    }

    mutating func noteTry(_ error: ClientError, on member: ClusterMember) {
        guard let latest = error.timeline else { return }
        timeline = latest.joined(to: timeline, since: begun, rested: rested, isServerEjected: member.isEjected)
        rested = nil
    }

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
        return FailedTry(need, wasWritten: error.fate != .notSent, policy, number: tryNumber, latestEnd: latestEnd)
    }

    private func amended(_ error: ClientError) -> ClientError {
        error.after(earlierFate).changed {
            if tryNumber > 1 { $0.tries = tryNumber }
            if $0.timeline != nil { $0.timeline = timeline }
        }
    }

    func failed(with error: ClientError) -> ClientError {
        let error = amended(error)
        return ending?(error).map { amended($0) } ?? error
    }

    func failed(with error: ClientError, at now: Instant) -> ClientError {
        let error = waited(error, until: now)
        return ending?(error).map { waited($0, until: now) } ?? error
    }

    private func waited(_ error: ClientError, until now: Instant) -> ClientError {
        let error = amended(error)
        let failure = ClientMetrics.Failure(error.code, error.fate)
        return error.with(.waited(after: timeline, since: begun, until: now, failure))
    }

    var movableDeadline: MovableDeadline? { tryOptions.movableDeadline }

    var latestEnd: Instant { deadline ?? movableDeadline?.instant ?? .distantFuture }

    func timeLeft(at now: Instant) -> Timeout { deadline.map { .after($0.since(now)) } ?? .never }
}
