#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Never held while a continuation is created or resumed. A pthread mutex, not `Synchronization.Mutex`, of which the
/// thread sanitizer does not see the slow path.
///
/// Safe to share between threads: `state` is accessed only between `lock` and `unlock`.
@safe @usableFromInline
package final class Lock<State: ~Copyable>: @unchecked Sendable {
    private let mutex: UnsafeMutablePointer<pthread_mutex_t>
    /// Exclusive without a check: a second access would have to lock the locked mutex first.
    @usableFromInline @safe @exclusivity(unchecked) var state: State

    package init(_ state: consuming sending State) {
        self.state = state
        unsafe mutex = .allocate(capacity: 1)
        var attributes = pthread_mutexattr_t()
        unsafe pthread_mutexattr_init(&attributes)
        defer { unsafe pthread_mutexattr_destroy(&attributes) }
        #if canImport(Glibc)
            // Held for a few instructions only, so a waiting thread spins for a while before it sleeps.
            unsafe pthread_mutexattr_settype(&attributes, Int32(PTHREAD_MUTEX_ADAPTIVE_NP))
        #endif
        let code = unsafe pthread_mutex_init(mutex, &attributes)
        precondition(code == 0, "pthread_mutex_init failed with \(code)")
    }

    deinit {
        unsafe pthread_mutex_destroy(mutex)
        unsafe mutex.deallocate()
    }

    @inlinable
    @inline(__always)
    package func withLock<Result: ~Copyable>(_ body: (inout State) -> sending Result) -> sending Result {
        lock()
        defer { unlock() }
        return body(&state)
    }

    /// For code that cannot be one closure. Call `unlock` on the same thread.
    @usableFromInline
    package func lock() { unsafe pthread_mutex_lock(mutex) }

    package func tryLock() -> Bool { unsafe pthread_mutex_trylock(mutex) == 0 }

    @usableFromInline
    package func unlock() { unsafe pthread_mutex_unlock(mutex) }
}

extension Lock: CustomReflectable where State: ~Copyable {
    /// Empty: reflection would read the value without the lock.
    @usableFromInline
    package var customMirror: Mirror { Mirror(self, children: []) }
}
