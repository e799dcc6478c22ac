package final class NameLookup: Sendable {
    package typealias Answer = Result<[SocketAddress], TransportError>
    package typealias Completion = @Sendable (Answer) -> Void

    /// Taken out of the lock before they are called, so that neither closure is called twice or under the lock.
    private struct State: Sendable {
        var completion: Completion?
        var onCancel: (@Sendable () -> Void)?
        var obstacle: (@Sendable () -> String?)?
    }
    private let state: Lock<State>

    package init(_ completion: @escaping Completion) { state = Lock(State(completion: completion)) }

    deinit { cancel() }

    /// Call this on the loop.
    package func finish(_ answer: Answer) { take()?.completion?(answer) }

    package func cancel() { take()?.onCancel?() }

    package var obstacle: String? { state.withLock { $0.obstacle }?() }

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
