import Synchronization

/// Lets the runs of a network begin one after the other, in the order of their calls.
///
/// The body of a run is queued on the loop before its thread exists. Without this queue, it would arrive in the middle of
/// another run.
final class RunQueue: Sendable {
    private struct State {
        private var isRunning = false
        var waiting: [CheckedContinuation<Void, Never>] = []

        /// Begins a run. Returns false if another one is in progress.
        mutating func begin() -> Bool {
            defer { isRunning = true }
            return !isRunning
        }

        /// Ends the run. Returns the caller whose run begins, if one waits.
        mutating func end() -> CheckedContinuation<Void, Never>? {
            if !waiting.isEmpty { return waiting.removeFirst() }
            isRunning = false
            return nil
        }
    }

    private let state = Mutex(State())

    /// Returns when no other run is in progress.
    func begin() async {
        if state.withLock({ $0.begin() }) { return }
        await withCheckedContinuation { continuation in
            let mayRun = state.withLock { state in
                if state.begin() { return true }
                state.waiting.append(continuation)
                return false
            }
            if mayRun { continuation.resume() }
        }
    }

    /// Ends a run, and lets the next one begin.
    func end() { state.withLock { $0.end() }?.resume() }
}
