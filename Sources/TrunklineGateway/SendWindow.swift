import TrunklineCore
import TrunklineFoundation

/// The number of content bytes that a client currently accepts.
final class SendWindow: Sendable {
    private struct State {
        var room: Int
        var isClosed = false
        var waiters: [Continuation<Void>] = []
    }
    private let state: Lock<State>

    init(_ room: Int) { state = Lock(State(room: room)) }

    func add(_ count: Int) {
        wake { $0.room = min($0.room + count, TunnelWire.windows.upperBound) }
    }

    /// Called by one task at a time.
    func take(_ count: Int) async throws {
        while true {
            let isTaken = state.withLock { state in
                guard state.room >= count else { return false }
                state.room -= count
                return true
            }
            if isTaken { return }
            try Task.checkCancellation()
            await withTaskCancellationHandler {
                await withContinuation { (waiter: Continuation<Void>) in
                    let isLate = state.withLock { state in
                        if state.room >= count || state.isClosed { return true }
                        state.waiters.append(waiter)
                        return false
                    }
                    if isLate { waiter.resume() }
                }
            } onCancel: {
                wake { $0.isClosed = true }
            }
        }
    }

    private func wake(_ change: (inout State) -> Void) {
        let waiters = state.withLock { state in
            change(&state)
            defer { state.waiters = [] }
            return state.waiters
        }
        for waiter in waiters { waiter.resume() }
    }
}
