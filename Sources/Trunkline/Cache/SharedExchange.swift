/// One call with a `CachePolicy` that asks the server.
///
/// Sendable although it is not checked: what can change is touched on its client's loop only.
final class SharedCall: @unchecked Sendable {
    let ticket: RequestID
    let key: CacheKey
    let policy: CachePolicy
    let deadline: Instant?
    let retry: RetryPolicy
    let waitsForReady: Bool
    /// What is sent if nobody has asked yet.
    let frame: Frame
    /// What the call waits for; `nil` before and after.
    fileprivate(set) var exchange: SharedExchange?
    fileprivate var suspension: Suspension<Outcome>?

    init(
        _ ticket: RequestID,
        _ frame: Frame,
        _ key: CacheKey,
        _ policy: CachePolicy,
        deadline: Instant?,
        _ retry: RetryPolicy,
        waitsForReady: Bool
    ) {
        self.ticket = ticket
        self.frame = frame
        self.key = key
        self.policy = policy
        self.deadline = deadline
        self.retry = retry
        self.waitsForReady = waitsForReady
    }

    /// It leaves its exchange, which must have let go of it.
    fileprivate func end(_ outcome: Outcome) {
        let suspension = Swift.exchange(&self.suspension, with: nil)
        exchange = nil
        suspension?.resume(returning: outcome)
    }
}

/// A request on behalf of all calls that ask for the same: it lives as long as the one of them that waits longest.
///
/// In the request table it is one waiter, under the ticket of the call that began it. Its deadline there is the earliest
/// of its calls': when that has come, the calls whose time is over leave, and the last one of them ends the request.
///
/// Sendable although it is not checked: what can change is touched on its client's loop only, where requests are begun and
/// end.
final class SharedExchange: @unchecked Sendable {
    let ticket: RequestID
    let key: CacheKey
    private let retry: RetryPolicy
    private let waitsForReady: Bool
    private let cache: ResponseCache
    /// Those who wait. Removal is the only way out.
    private var calls: [RequestID: SharedCall] = [:]
    private var deadlines = DeadlineQueue()
    /// When the request table has the deadlines looked at: each of these is there once, the earliest is the last.
    private var watched: [Instant]

    init(for call: SharedCall, in cache: ResponseCache) {
        ticket = call.ticket
        key = call.key
        retry = call.retry
        waitsForReady = call.waitsForReady
        watched = call.deadline.map { [$0] } ?? []
        self.cache = cache
    }

    /// Whether what becomes of the request is what would become of the call's own.
    func hasTerms(of call: SharedCall) -> Bool { retry == call.retry && waitsForReady == call.waitsForReady }

    /// When the last call is out of time; `nil` for never.
    var end: Instant? {
        var end = Instant.distantPast
        for call in calls.values {
            guard let deadline = call.deadline else { return nil }
            end = max(end, deadline)
        }
        return end
    }

    // MARK: In

    /// Takes a call in. Returns its deadline if that is earlier than all that are watched.
    func add(_ call: SharedCall, _ suspension: Suspension<Outcome>) -> Instant? {
        (call.exchange, call.suspension) = (self, suspension)
        calls[call.ticket] = call
        guard let deadline = call.deadline else { return nil }
        deadlines.insert(call.ticket, deadline: deadline)
        if deadlines.isCrowded(alive: calls.count) {
            let calls = calls
            deadlines.compact { calls[$0] != nil }
        }
        return unwatched(deadline)
    }

    /// The instant if it is earlier than all that are watched; then it is to be watched, and is taken for it. Otherwise one
    /// deadline would be there again for every caller whose time is over before.
    private func unwatched(_ deadline: Instant) -> Instant? {
        if let earliest = watched.last, earliest <= deadline { return nil }
        watched.append(deadline)
        return deadline
    }

    // MARK: Out

    /// Lets the calls with these tickets leave, told `error`. Returns false, and nobody has left, if nobody would be left:
    /// then the request itself is to be given up, and they learn what became of it.
    func leave(_ tickets: [RequestID], _ error: @autoclosure () -> ClientError) -> Bool {
        guard tickets.count < calls.count else { return false }
        for ticket in tickets { calls.removeValue(forKey: ticket)?.end(.failure(error())) }
        return true
    }

    /// Its calls up to `last`.
    func tickets(upTo last: RequestID) -> [RequestID] { calls.keys.filter { $0 <= last }.sorted() }

    /// Lets those leave whose time is over at `now`. Returns when to look again, `.distantFuture` when that is watched
    /// already, or for never; `nil`, and nobody has left, if that is all of them.
    func nextLook(at now: Instant) -> Instant? {
        var expired: [RequestID] = []
        while let ticket = deadlines.popDue(at: now) {
            if calls[ticket] != nil { expired.append(ticket) }
        }
        guard leave(expired, .leftBehind(.timedOut, "out of time")) else { return nil }
        while let last = watched.last, last <= now { watched.removeLast() }
        return deadlines.earliest.flatMap(unwatched) ?? .distantFuture
    }

    /// The request has ended: tells everyone, in the order in which they came.
    func complete(_ outcome: Outcome) {
        let outcome = cache.end(self, outcome)
        for (_, call) in exchange(&calls, with: [:]).sorted(by: { $0.key < $1.key }) { call.end(outcome) }
    }
}

extension ClientError {
    /// Of a call whose request goes on for others: it may well be carried out.
    static func leftBehind(_ code: Code, _ message: String) -> ClientError {
        ClientError(code, .unknown, "\(message); its request goes on for other callers")
    }
}
