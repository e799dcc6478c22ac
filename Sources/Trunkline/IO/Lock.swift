#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// A value behind a mutex. Never held while a continuation is created or resumed.
///
/// A pthread mutex, not `Synchronization.Mutex`: the thread sanitizer does not see the slow path of the latter and
/// reports races that are none.
///
/// Sendable although the compiler can't see it: `state` is touched only between `lock` and `unlock`.
@safe @usableFromInline
package final class Lock<State: ~Copyable>: @unchecked Sendable {
    private let mutex: UnsafeMutablePointer<pthread_mutex_t>
    @usableFromInline var state: State

    package init(_ state: consuming sending State) {
        self.state = state
        unsafe mutex = .allocate(capacity: 1)
        var attributes = pthread_mutexattr_t()
        unsafe pthread_mutexattr_init(&attributes)
        defer { unsafe pthread_mutexattr_destroy(&attributes) }
        #if canImport(Glibc)
            // Held for a few instructions only: whoever waits tries again a while before it goes to sleep.
            unsafe pthread_mutexattr_settype(&attributes, Int32(PTHREAD_MUTEX_ADAPTIVE_NP))
        #endif
        let code = unsafe pthread_mutex_init(mutex, &attributes)
        precondition(code == 0, "pthread_mutex_init failed with \(code)")
    }

    deinit {
        unsafe pthread_mutex_destroy(mutex)
        unsafe mutex.deallocate()
    }

    /// Calls `body` with the value while no other thread can.
    @inlinable
    @inline(__always)
    package func withLock<Result: ~Copyable>(_ body: (inout State) -> sending Result) -> sending Result {
        lock()
        defer { unlock() }
        return body(&state)
    }

    /// For what cannot be one closure; `unlock` on the same thread.
    @usableFromInline
    package func lock() { unsafe pthread_mutex_lock(mutex) }

    /// Locks unless another thread holds it. Returns whether it did.
    package func tryLock() -> Bool { unsafe pthread_mutex_trylock(mutex) == 0 }

    @usableFromInline
    package func unlock() { unsafe pthread_mutex_unlock(mutex) }
}
