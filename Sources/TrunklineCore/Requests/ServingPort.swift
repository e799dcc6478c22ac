/// Carries the requests of the server from the event loop to the task that serves them.
package final class ServingPort: CancellationReceiver {
    private struct State {
        /// The calls that the task has not taken yet. No more than may run at once.
        var calls: [ServedCall] = []
        var waiter: Continuation<[ServedCall]?>?
        var isFinished = false
        var error: ClientError?

        mutating func takeCalls() -> [ServedCall] { exchange(&calls, with: []) }
    }

    private let state = Lock(State())

    // MARK: On the loop

    func offer(_ call: ServedCall) {
        let served = state.withLock { state -> (waiter: Continuation<[ServedCall]?>, calls: [ServedCall])? in
            state.calls.append(call)
            return exchange(&state.waiter, with: nil).map { ($0, state.takeCalls()) }
        }
        if let served { served.waiter.resume(returning: served.calls) }
    }

    /// The task still takes the calls that were handed over. `error` says why it did not begin.
    func finish(_ error: ClientError? = nil) {
        let waiter = state.withLock { state in
            (state.isFinished, state.error) = (true, state.error ?? error)
            return exchange(&state.waiter, with: nil)
        }
        waiter?.resume(returning: nil)
    }

    // MARK: In the task that serves

    var error: ClientError? { state.withLock { $0.error } }

    func next() async -> [ServedCall]? {
        await withContinuation(cancelling: self, 0...0) { continuation, cancellation in
            let result = state.withLock { state -> [ServedCall]?? in
                if cancellation.isRequested { return .some(nil) }
                if !state.calls.isEmpty { return state.takeCalls() }
                if state.isFinished { return .some(nil) }
                state.waiter = continuation
                return nil
            }
            if let result { continuation.resume(returning: result) }
        }
    }

    package func cancelWaits(_ numbers: ClosedRange<UInt64>) {
        state.withLock { exchange(&$0.waiter, with: nil) }?.resume(returning: nil)
    }

    func takeRest() -> [ServedCall] { state.withLock { $0.takeCalls() } }
}

/// A request of the server for which a handler runs.
package final class ServedCall: Sendable {
    package enum Outcome: Sendable {
        case answer(Frame)
        case nothing
        case failed
        /// It threw an error because the task that serves was cancelled, or it did not begin.
        case stopped
    }

    private struct State {
        var (isCancelled, hasEnded) = (false, false)
        var waiter: Continuation<Void>?
    }

    let id: RequestID
    private let request: Frame
    private let state = Lock(State())

    init(_ id: RequestID, _ request: Frame) { (self.id, self.request) = (id, request) }

    /// Runs the handler in a child task, which `cancel` cancels.
    func run(_ handler: @escaping @Sendable (Frame) async throws -> Frame?) async -> Outcome {
        await withTaskGroup(of: Outcome.self) { group in
            group.addTask {
                defer { self.noteEnd() }
                do {
                    return try await handler(self.request).map { .answer($0) } ?? .nothing
                } catch {
                    return .failed
                }
            }
            await waitForEnd()
            if state.withLock({ $0.isCancelled }) { group.cancelAll() }
            let outcome = await group.next() ?? .failed
            // Cancelled from outside: the server's cancellation reaches only the child.
            if case .failed = outcome, Task.isCancelled { return .stopped }
            return outcome
        }
    }

    private func waitForEnd() async {
        await withContinuation { continuation in
            let isOver = state.withLock { state in
                let isOver = state.isCancelled || state.hasEnded
                if !isOver { state.waiter = continuation }
                return isOver
            }
            if isOver { continuation.resume() }
        }
    }

    private func noteEnd() {
        state.withLock { state in
            state.hasEnded = true
            return exchange(&state.waiter, with: nil)
        }?.resume()
    }

    func cancel() {
        state.withLock { state in
            state.isCancelled = true
            return exchange(&state.waiter, with: nil)
        }?.resume()
    }
}
