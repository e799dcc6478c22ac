/// A call with a `CachePolicy` that needs the server.
///
/// Unchecked `Sendable`: its mutable state is accessed only on the event loop of its client.
package final class CoalescedCall: @unchecked Sendable {
    let requestID: RequestID
    let key: CacheKey
    let policy: CachePolicy
    let options: ResolvedOptions
    /// The frame to send if there is no request to join.
    let frame: Frame
    /// The request that the call waits for; `nil` before and after.
    fileprivate(set) var request: CoalescedRequest?
    fileprivate var continuation: Continuation<Outcome>?

    init(_ requestID: RequestID, _ frame: Frame, _ key: CacheKey, _ policy: CachePolicy, _ options: ResolvedOptions) {
        self.requestID = requestID
        self.frame = frame
        self.key = key
        self.policy = policy
        self.options = options
    }

    /// Ends the call. Its request must have removed it.
    fileprivate func end(_ outcome: Outcome) {
        let continuation = exchange(&self.continuation, with: nil)
        request = nil
        continuation?.resume(returning: outcome)
    }
}

/// One request on behalf of several calls. It lives as long as the call with the latest deadline.
///
/// In the request table it is one waiter, with the request ID of the call that began it. Its deadline there is the
/// earliest deadline of its calls. When that passes, the expired calls leave, and when all have expired, the request
/// ends.
///
/// Unchecked `Sendable`: its mutable state is accessed only on the event loop of its client.
final class CoalescedRequest: @unchecked Sendable {
    let requestID: RequestID
    let key: CacheKey
    private let options: ResolvedOptions
    private let cache: ResponseCache
    /// The waiting calls. A call ends only by being removed.
    private var calls: [RequestID: CoalescedCall] = [:]
    private var deadlines = DeadlineQueue()
    /// The instants at which the request table checks the deadlines, without duplicates. The earliest is last.
    private var watched: [Instant]

    init(for call: CoalescedCall, in cache: ResponseCache) {
        requestID = call.requestID
        key = call.key
        options = call.options
        watched = call.options.deadline.map { [$0] } ?? []
        self.cache = cache
    }

    /// Whether the outcome of the request would also be that of the call's own request.
    func hasSameOptions(of call: CoalescedCall) -> Bool {
        options.retry == call.options.retry && options.marks == call.options.marks
            && options.session == call.options.session
    }

    /// The latest deadline of its calls; `nil` for never.
    var end: Instant? {
        var end = Instant.distantPast
        for call in calls.values {
            guard let deadline = call.options.deadline else { return nil }
            end = max(end, deadline)
        }
        return end
    }

    // MARK: Joining

    /// Adds a call. Returns its deadline if that is earlier than all watched instants.
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

    /// Returns the instant, and records it as watched, if it is earlier than all watched instants. Without this check,
    /// the same deadline would be registered again for each call that expires before it.
    private func unwatched(_ deadline: Instant) -> Instant? {
        if let earliest = watched.last, earliest <= deadline { return nil }
        watched.append(deadline)
        return deadline
    }

    // MARK: Leaving

    /// Ends the calls with these request IDs with `error`. If no other call would be left, it ends none and returns
    /// false: the caller must then cancel the request itself, and its outcome ends the calls.
    func leave(_ requestIDs: [RequestID], _ error: @autoclosure () -> ClientError) -> Bool {
        guard requestIDs.count < calls.count else { return false }
        for requestID in requestIDs { calls.removeValue(forKey: requestID)?.end(.failure(error())) }
        return true
    }

    /// Returns the request IDs of its calls up to `last`.
    func requestIDs(upTo last: RequestID) -> [RequestID] { calls.keys.filter { $0 <= last }.sorted() }

    /// Ends the calls whose deadline has passed at `now`. Returns when to check again, or `.distantFuture` if that
    /// instant is already watched or there is none. If all calls have expired, it ends none and returns `nil`.
    func nextLook(at now: Instant) -> Instant? {
        var expired: [RequestID] = []
        while let requestID = deadlines.popDue(at: now) {
            if calls[requestID] != nil { expired.append(requestID) }
        }
        guard leave(expired, .leftBehind(.timedOut, "deadline exceeded")) else { return nil }
        while let last = watched.last, last <= now { watched.removeLast() }
        return deadlines.earliest.flatMap(unwatched) ?? .distantFuture
    }

    /// Ends all calls with the outcome of the request, in the order in which they were made.
    func complete(_ outcome: Outcome) {
        let outcome = cache.end(self, outcome)
        for (_, call) in exchange(&calls, with: [:]).sorted(by: { $0.key < $1.key }) { call.end(outcome) }
    }
}

extension ClientError {
    /// The error of a call whose request continues for others, and so may be carried out.
    static func leftBehind(_ code: Code, _ message: String) -> ClientError {
        ClientError(code, .unknown, "\(message); the request continues for other callers")
    }
}
