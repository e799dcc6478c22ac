import Synchronization
import TrunklineCore

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Which thread owns a simulated loop. Only the owner accesses what is confined to the loop, which makes the
/// `@unchecked Sendable` types of the simulation safe.
final class LoopOwnership: Sendable {
    private let mutex = Lock<Void>(())
    /// 0 for none. A thread finds its own number here only if it stored it.
    private let owner = Atomic<UInt>(0)

    var isMine: Bool { owner.load(ordering: .relaxed) == currentThread() }

    func enter() {
        mutex.lock()
        owner.store(currentThread(), ordering: .relaxed)
    }

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

func sleepForReal(milliseconds: Int) { usleep(UInt32(milliseconds * 1000)) }
