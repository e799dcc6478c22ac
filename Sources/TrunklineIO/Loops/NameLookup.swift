/// A name look-up in progress, as its requester sees it. Deallocating it cancels the look-up.
package final class NameLookup: Sendable {
    package typealias Answer = Result<[SocketAddress], TransportError>
    package typealias Completion = @Sendable (Answer) -> Void

    /// Both are taken out of the state before they are called, so that neither is called twice or under the lock.
    private struct State: Sendable {
        var completion: Completion?
        var onCancel: (@Sendable () -> Void)?
        var obstacle: (@Sendable () -> String?)?
    }
    private let state: Lock<State>

    package init(_ completion: @escaping Completion) { state = Lock(State(completion: completion)) }

    deinit { cancel() }

    /// Calls the completion, unless it was called or the look-up was cancelled. Call this on the loop.
    package func finish(_ answer: Answer) { take()?.completion?(answer) }

    /// Cancels the look-up: the completion is not called.
    package func cancel() { take()?.onCancel?() }

    /// Why the look-up has not begun; `nil` if it has, or if that is unknown.
    package var obstacle: String? { state.withLock { $0.obstacle }?() }

    /// Sets what else to do on cancellation, and what `obstacle` returns until the look-up is over.
    func onCancel(_ body: @escaping @Sendable () -> Void, obstacle: @escaping @Sendable () -> String?) {
        let isOver = state.withLock { state in
            if state.completion == nil { return true }
            (state.onCancel, state.obstacle) = (body, obstacle)
            return false
        }
        if isOver { body() }
    }

    private func take() -> State? {
        state.withLock { state in
            defer { state = State() }
            return state.completion == nil ? nil : state
        }
    }
}
