import TrunklineCore

/// One request on behalf of several calls. It goes on until it has ended, or until the last call has left it.
final class SharedRequest: Sendable {
    /// A call that waits for the request.
    struct Call: Sendable {
        fileprivate let number: Int
        fileprivate let deadline: Instant
        /// Rings when the request has ended.
        fileprivate let alarm: Alarm
    }

    private struct State {
        /// The calls that wait, by their numbers.
        var calls: [Int: Call] = [:]
        var lastNumber = 0
        /// Whether the sender has the request, so that the server may have received it.
        var isSending = false
        /// Whether it takes no more calls: it has ended, or it is cancelled because the last call has left it.
        var isOver = false
        var outcome: Outcome?
        /// Performs the request. Set before its first call waits, and so before any call can be the last one.
        var task: Task<Outcome, Never>?
    }

    /// What follows when a call waits no longer.
    private enum Departure {
        case ended(Outcome)
        case othersWait
        case isLast(Task<Outcome, Never>?)
    }

    let key: CacheKey
    /// The options with which calls may join.
    let options: CallOptions
    /// The deadline of the call that waits longest.
    let deadline = MovableDeadline(.distantPast)
    private let state = Lock(State())
    private let loop: any EventLoop

    private init(_ key: CacheKey, _ options: CallOptions, on loop: any EventLoop) {
        (self.key, self.options, self.loop) = (key, options, loop)
    }

    /// Creates a request with its first call.
    static func create(
        _ key: CacheKey,
        _ options: CallOptions,
        until deadline: Instant,
        on loop: any EventLoop
    ) -> (request: SharedRequest, call: Call) {
        let request = SharedRequest(key, options, on: loop)
        return (request, request.state.withLock { request.add(until: deadline, to: &$0) })
    }

    private func add(until deadline: Instant, to state: inout State) -> Call {
        state.lastNumber += 1
        let call = Call(number: state.lastNumber, deadline: deadline, alarm: Alarm(on: loop))
        state.calls[call.number] = call
        self.deadline.instant = max(self.deadline.instant, deadline)
        return call
    }

    /// Adds a call. Returns `nil` if it may not join.
    ///
    /// - Parameter mayHaveBegun: Whether the call may join if the server may have received the request before.
    func join(until deadline: Instant, mayHaveBegun: Bool) -> Call? {
        state.withLock { state in
            if state.isOver || state.isSending && !mayHaveBegun { return nil }
            return add(until: deadline, to: &state)
        }
    }

    // MARK: The request

    /// Begins the request. Its first call does this before it waits.
    func begin(on executor: (any TaskExecutor)?, _ perform: @escaping @Sendable () async -> Outcome) {
        // A task of its own, because it goes on when the first call leaves. It ends with the request: each call waits
        // for it in `outcome(of:)`, and the last one to leave cancels it and waits for its end.
        let task = Task(executorPreference: executor) {
            let outcome = await perform()
            self.end(outcome)
            return outcome
        }
        state.withLock { $0.task = task }
    }

    /// Notes that the sender gets the request now. Returns false if no call waits for it any more.
    func beginSending() -> Bool {
        state.withLock { state in
            state.isSending = true
            return !state.isOver
        }
    }

    private func end(_ outcome: Outcome) {
        let (calls, _) = state.withLock { state in
            (state.outcome, state.isOver) = (outcome, true)
            return (exchange(&state.calls, with: [:]), exchange(&state.task, with: nil))
        }
        for (_, call) in calls.sorted(by: { $0.key < $1.key }) { call.alarm.ring() }
    }

    // MARK: Its calls

    /// Waits for the outcome of a call: that of the request, unless the call is cancelled or its deadline passes while
    /// others wait.
    func outcome(of call: Call) async -> Outcome {
        let isEnded = await call.alarm.wait(until: call.deadline)
        let hasExpired = !isEnded && !Task.isCancelled
        switch leave(call) {
        case .ended(let outcome): return outcome
        case .othersWait:
            let reason = hasExpired ? "deadline exceeded" : "cancelled by the caller"
            let message = "\(reason); the request continues for other callers"
            return .failure(ClientError(hasExpired ? .timedOut : .cancelled, .unknown, message))
        case .isLast(let task):
            if hasExpired { deadline.expire() }
            task?.cancel()
            let outcome = await task?.value ?? .failure(.cancelledUnsent)
            // The sender was not waiting for an answer yet.
            guard hasExpired, case .failure(let error) = outcome, error.code == .cancelled else { return outcome }
            return .failure(error.changed { ($0.code, $0.message) = (.timedOut, "deadline exceeded") })
        }
    }

    /// Removes a call that waits no longer.
    private func leave(_ call: Call) -> Departure {
        state.withLock { state in
            if let outcome = state.outcome { return .ended(outcome) }
            state.calls[call.number] = nil
            guard state.calls.isEmpty else {
                if call.deadline == deadline.instant {
                    deadline.instant = state.calls.values.reduce(.distantPast) { max($0, $1.deadline) }
                }
                return .othersWait
            }
            state.isOver = true
            return .isLast(state.task)
        }
    }
}
