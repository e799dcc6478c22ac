import TrunklineCore

/// One request on behalf of several calls. It goes on until it has ended, or until the last call has left it.
final class SharedRequest: Sendable {
    struct Call: Sendable {
        fileprivate let number: Int
        fileprivate let deadline: Instant
        fileprivate let alarm: Alarm
    }

    private struct State {
        var calls: [Int: Call] = [:]
        var lastNumber = 0
        /// The sender has the request, so the server may have received it.
        var isSending = false
        /// The request has ended, or it is cancelled because the last call has left it.
        var isOver = false
        var outcome: Outcome?
        /// Set before the first call waits, and so before any call can be the last one.
        var task: Task<Outcome, Never>?
    }

    /// What follows when a call waits no longer.
    private enum Departure {
        case ended(Outcome)
        case othersWait
        case isLast(Task<Outcome, Never>?)
    }

    let key: CacheKey
    let options: CallOptions
    /// Of the call that waits longest.
    let deadline = MovableDeadline(.distantPast)
    private let state = Lock(State())
    private let loop: any EventLoop

    private init(_ key: CacheKey, _ options: CallOptions, on loop: any EventLoop) {
        (self.key, self.options, self.loop) = (key, options, loop)
    }

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

    /// `nil` if the call may not join; `mayHaveBegun` allows a request that the server may have received.
    func join(until deadline: Instant, mayHaveBegun: Bool) -> Call? {
        state.withLock { state in
            if state.isOver || state.isSending && !mayHaveBegun { return nil }
            return add(until: deadline, to: &state)
        }
    }

    /// The first call does this before it waits.
    func begin(on executor: (any TaskExecutor)?, _ perform: @escaping @Sendable () async -> Outcome) {
        // Unstructured, because it goes on when the first call leaves. Each call waits for it in `outcome(of:)`, and
        // the last one to leave cancels it and waits for its end.
        let task = Task(executorPreference: executor) {
            let outcome = await perform()
            self.end(outcome)
            return outcome
        }
        state.withLock { $0.task = task }
    }

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
