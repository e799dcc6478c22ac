import Synchronization
import Trunkline

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Which thread a simulated loop belongs to at the moment. Everything that is confined to the loop is touched by its
/// owner only, which is what makes the `@unchecked Sendable` types of the simulation sound.
final class LoopOwnership: Sendable {
    private let mutex = Lock<Void>(())
    /// The owning thread; 0 for none. A thread finds its own number here only if it put it there.
    private let owner = Atomic<UInt>(0)

    /// Whether the calling thread is the owner.
    var isMine: Bool { owner.load(ordering: .relaxed) == currentThread() }

    /// Waits until nobody owns the loop and takes it.
    func enter() {
        mutex.lock()
        owner.store(currentThread(), ordering: .relaxed)
    }

    /// Takes the loop if nobody owns it.
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
