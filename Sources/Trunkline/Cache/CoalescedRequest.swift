/// One call with a `CachePolicy` that asks the server.
///
/// Sendable although it is not checked: what can change is touched on its client's loop only.
final class CoalescedCall: @unchecked Sendable {
    let requestID: RequestID
    let key: CacheKey
    let policy: CachePolicy
    let options: ResolvedOptions
    /// What is sent if nobody has asked yet.
    let frame: Frame
    /// What the call waits for; `nil` before and after.
    fileprivate(set) var request: CoalescedRequest?
    fileprivate var continuation: Continuation<Outcome>?

    init(_ requestID: RequestID, _ frame: Frame, _ key: CacheKey, _ policy: CachePolicy, _ options: ResolvedOptions) {
        self.requestID = requestID
        self.frame = frame
        self.key = key
        self.policy = policy
        self.options = options
    }

    /// It leaves its request, which must have let go of it.
    fileprivate func end(_ outcome: Outcome) {
        let continuation = exchange(&self.continuation, with: nil)
        request = nil
        continuation?.resume(returning: outcome)
    }
}

/// A request on behalf of all calls that ask for the same: it lives as long as the one of them that waits longest.
///
/// In the request table it is one waiter, under the request ID of the call that began it. Its deadline there is the
/// earliest of its calls': when that has come, the calls whose time is over leave, and the last one of them ends the
/// request.
///
/// Sendable although it is not checked: what can change is touched on its client's loop only, where requests are begun and
/// end.
final class CoalescedRequest: @unchecked Sendable {
    let requestID: RequestID
    let key: CacheKey
    private let options: ResolvedOptions
    private let cache: ResponseCache
    /// Those who wait. Removal is the only way out.
    private var calls: [RequestID: CoalescedCall] = [:]
    private var deadlines = DeadlineQueue()
    /// When the request table has the deadlines looked at: each of these is there once, the earliest is the last.
    private var watched: [Instant]

    init(for call: CoalescedCall, in cache: ResponseCache) {
        requestID = call.requestID
        key = call.key
        options = call.options
        watched = call.options.deadline.map { [$0] } ?? []
        self.cache = cache
    }

    /// Whether what becomes of the request is what would become of the call's own.
    func hasSameOptions(of call: CoalescedCall) -> Bool {
        options.retry == call.options.retry && options.waitsForReady == call.options.waitsForReady
    }

    /// When the last call is out of time; `nil` for never.
    var end: Instant? {
        var end = Instant.distantPast
        for call in calls.values {
            guard let deadline = call.options.deadline else { return nil }
            end = max(end, deadline)
        }
        return end
    }

    // MARK: In

    /// Takes a call in. Returns its deadline if that is earlier than all that are watched.
    func add(_ call: CoalescedCall, _ continuation: Continuation<Outcome>) -> Instant? {
        (call.request, call.continuation) = (self, continuation)
        calls[call.requestID] = call
        guard let deadline = call.options.deadline else { return nil }
        deadlines.insert(call.requestID, deadline: deadline)
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

    /// Lets the calls with these request IDs leave, told `error`. Returns false, and nobody has left, if nobody would
    /// be left: then the request itself is to be given up, and they learn what became of it.
    func leave(_ requestIDs: [RequestID], _ error: @autoclosure () -> ClientError) -> Bool {
        guard requestIDs.count < calls.count else { return false }
        for requestID in requestIDs { calls.removeValue(forKey: requestID)?.end(.failure(error())) }
        return true
    }

    /// Its calls up to `last`.
    func requestIDs(upTo last: RequestID) -> [RequestID] { calls.keys.filter { $0 <= last }.sorted() }

    /// Lets those leave whose time is over at `now`. Returns when to look again, `.distantFuture` when that is watched
    /// already, or for never; `nil`, and nobody has left, if that is all of them.
    func nextLook(at now: Instant) -> Instant? {
        var expired: [RequestID] = []
        while let requestID = deadlines.popDue(at: now) {
            if calls[requestID] != nil { expired.append(requestID) }
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
