import Synchronization
import TrunklineCore

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Tracks which thread owns a simulated loop. Only the owner accesses what is confined to the loop, which makes the
/// `@unchecked Sendable` types of the simulation safe.
final class LoopOwnership: Sendable {
    private let mutex = Lock<Void>(())
    /// The owning thread, or 0 for none. A thread finds its own number here only if it stored it.
    private let owner = Atomic<UInt>(0)

    /// Whether the calling thread is the owner.
    var isMine: Bool { owner.load(ordering: .relaxed) == currentThread() }

    /// Waits until the loop has no owner, then takes it.
    func enter() {
        mutex.lock()
        owner.store(currentThread(), ordering: .relaxed)
    }

    /// Takes the loop if it has no owner.
    func tryEnter() -> Bool {
        guard mutex.tryLock() else { return false }
        owner.store(currentThread(), ordering: .relaxed)
        return true
    }

    func leave() {
        owner.store(0, ordering: .relaxed)
        mutex.unlock()
    }
}

/// Blocks the thread for `milliseconds` of real time.
func sleepForReal(milliseconds: Int) { usleep(UInt32(milliseconds * 1000)) }
