import Synchronization
import TrunklineIO

/// What reaches a simulated loop from threads that do not own it.
///
/// Between runs that is how a test prepares the next one, and harmless. During a run it means that the code under
/// test has left the loop: it is kept, so that nothing is lost or torn, and the run is told.
///
/// Sendable: everything mutable is guarded by the mutex.
final class OutsidePosts: @unchecked Sendable {
    private let mutex = PosixMutex()
    private var entries: [ReadyList.Entry] = []
    private var isRunning = false
    private var firstFault: String?
    /// Spares the loop the mutex on every turn. Written under the mutex.
    private let hasNews = Atomic<Bool>(false)

    /// Whether something came since the last `takeAll`.
    var isEmpty: Bool { !hasNews.load(ordering: .acquiring) }

    /// What came from another thread during a run first. Stays for ever: the simulation is not reproducible any more.
    var fault: String? { mutex.withLock { firstFault } }

    func append(_ entry: ReadyList.Entry, fault: @autoclosure () -> String) {
        mutex.withLock {
            entries.append(entry)
            note(fault)
        }
    }

    /// Notes that another thread did `fault`, if a run is in progress.
    func noteFault(_ fault: @autoclosure () -> String) {
        mutex.withLock { note(fault) }
    }

    func takeAll() -> [ReadyList.Entry] {
        mutex.withLock {
            hasNews.store(false, ordering: .relaxed)
            defer { entries = [] }
            return entries
        }
    }

    func runBegins() { mutex.withLock { isRunning = true } }
    func runEnds() { mutex.withLock { isRunning = false } }

    private func note(_ fault: () -> String) {
        if isRunning, firstFault == nil { firstFault = fault() }
        hasNews.store(true, ordering: .releasing)
    }
}
