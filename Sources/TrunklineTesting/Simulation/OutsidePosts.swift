import Synchronization
import Trunkline

/// What reaches a simulated loop from threads that do not own it.
///
/// Between runs that is how a test prepares the next one, and harmless. During a run it means that the code under
/// test has left the loop: it is kept, so that nothing is lost or torn, and the run is told.
///
final class OutsidePosts: Sendable {
    private struct State {
        var entries: [ReadyList.Entry] = []
        var isRunning = false
        var firstFault: String?
    }

    private let state = Lock(State())
    /// Spares the loop the lock on every turn. Written with it held.
    private let hasNews = Atomic<Bool>(false)

    /// Whether something came since the last `takeAll`.
    var isEmpty: Bool { !hasNews.load(ordering: .acquiring) }

    /// What came from another thread during a run first. Stays for ever: the simulation is not reproducible any more.
    var fault: String? { state.withLock { $0.firstFault } }

    func append(_ entry: ReadyList.Entry, fault: @autoclosure () -> String) {
        state.withLock { state in
            state.entries.append(entry)
            note(fault, in: &state)
        }
    }

    /// Notes that another thread did `fault`, if a run is in progress.
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
