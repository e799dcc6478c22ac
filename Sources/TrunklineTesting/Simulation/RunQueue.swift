import TrunklineCore

/// Lets the runs of a network begin one after the other: the body of a run is queued on the loop before its thread
/// exists, and would otherwise arrive in the middle of another run.
final class RunQueue: Sendable {
    private struct State {
        var isRunning = false
        var waiting: [CheckedContinuation<Void, Never>] = []
    }

    private let state = Lock(State())

    func begin() async {
        await withCheckedContinuation { continuation in
            let mayRun = state.withLock { state in
                if state.isRunning { state.waiting.append(continuation) }
                defer { state.isRunning = true }
                return !state.isRunning
            }
            if mayRun { continuation.resume() }
        }
    }

    func end() {
        let next = state.withLock { state in
            state.isRunning = !state.waiting.isEmpty
            return state.isRunning ? state.waiting.removeFirst() : nil
        }
        next?.resume()
    }
}
