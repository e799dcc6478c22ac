/// A look-up of a name that is under way, as the one who asked for it has it. Letting go of it cancels it.
package final class NameLookup: Sendable {
    package typealias Answer = Result<[SocketAddress], TransportError>
    package typealias Completion = @Sendable (Answer) -> Void

    /// Both are taken out before they are called, so that neither is called twice, nor under the lock.
    private struct State: Sendable {
        var completion: Completion?
        var onCancel: (@Sendable () -> Void)?
    }
    private let state: Lock<State>

    package init(_ completion: @escaping Completion) { state = Lock(State(completion: completion)) }

    deinit { cancel() }

    /// Calls the completion, unless it was called or cancelled before. To be called on the loop.
    package func finish(_ answer: Answer) { take()?.completion?(answer) }

    /// Drops the completion: whoever asked does not want to know any more.
    package func cancel() { take()?.onCancel?() }

    /// What else to do when it is cancelled.
    func onCancel(_ body: @escaping @Sendable () -> Void) {
        let isOver = state.withLock { state in
            if state.completion == nil { return true }
            state.onCancel = body
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
