import TrunklineCore

/// Lets the runs of a network begin one after the other, in the order of their calls.
///
/// The body of a run is queued on the loop before its thread exists. Without this queue, it would arrive in the middle of
/// another run.
final class RunQueue: Sendable {
    private struct State {
        var isRunning = false
        var waiting: [CheckedContinuation<Void, Never>] = []
    }

    private let state = Lock(State())

    /// Returns when no other run is in progress.
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

    /// Ends a run, and lets the next one begin.
    func end() {
        let next = state.withLock { state in
            state.isRunning = !state.waiting.isEmpty
            return state.isRunning ? state.waiting.removeFirst() : nil
        }
        next?.resume()
    }
}
