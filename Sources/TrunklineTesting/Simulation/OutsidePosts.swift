import Synchronization
import TrunklineCore

/// Jobs and work that reach a simulated loop from threads that do not own it.
///
/// Between runs, a test prepares the next run. During a run, the code under test has left the loop: the work is kept,
/// so that nothing is lost, and the run ends with an error.
final class OutsidePosts: Sendable {
    private struct State {
        var entries: [ReadyList.Entry] = []
        var isRunning = false
        var firstFault: String?
    }

    private let state = Lock(State())
    /// Spares the loop from locking on every turn. Written only while the lock is held.
    private let hasNews = Atomic<Bool>(false)

    var isEmpty: Bool { !hasNews.load(ordering: .acquiring) }

    /// Stays set: the simulation is no longer reproducible.
    var fault: String? { state.withLock { $0.firstFault } }

    func append(_ entry: ReadyList.Entry, fault: @autoclosure () -> String) {
        state.withLock { state in
            state.entries.append(entry)
            note(fault, in: &state)
        }
    }

    func noteFault(_ fault: @autoclosure () -> String) {
        state.withLock { note(fault, in: &$0) }
    }

    func takeAll() -> [ReadyList.Entry] {
        state.withLock { state in
            hasNews.store(false, ordering: .relaxed)
            return exchange(&state.entries, with: [])
        }
    }

    func runBegins() { state.withLock { $0.isRunning = true } }
    func runEnds() { state.withLock { $0.isRunning = false } }

    private func note(_ fault: () -> String, in state: inout State) {
        if state.isRunning, state.firstFault == nil { state.firstFault = fault() }
        hasNews.store(true, ordering: .releasing)
    }
}
