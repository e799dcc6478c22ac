import Synchronization

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
    private let mutex = PosixMutex()
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

/// A pthread mutex: unlike `Synchronization.Mutex` it is understood by the thread sanitizer.
///
/// Sendable: the pointer never changes, and what it points to is made for many threads.
@safe final class PosixMutex: @unchecked Sendable {
    private let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)

    init() {
        unsafe mutex.initialize(to: pthread_mutex_t())
        unsafe pthread_mutex_init(mutex, nil)
    }

    deinit {
        unsafe pthread_mutex_destroy(mutex)
        unsafe mutex.deallocate()
    }

    func lock() { unsafe pthread_mutex_lock(mutex) }
    func tryLock() -> Bool { unsafe pthread_mutex_trylock(mutex) == 0 }
    func unlock() { unsafe pthread_mutex_unlock(mutex) }

    func withLock<Result>(_ body: () -> Result) -> Result {
        lock()
        defer { unlock() }
        return body()
    }
}

/// A number of the calling thread that no other running thread has.
private func currentThread() -> UInt {
    #if canImport(Darwin)
        unsafe UInt(bitPattern: pthread_self())
    #else
        UInt(pthread_self())
    #endif
}

/// Blocks the thread for `milliseconds` of real time.
func sleepForReal(milliseconds: Int) { usleep(UInt32(milliseconds * 1000)) }
