#if os(Linux)
    import CTrunkline
#endif

/// A caller suspended in `withContinuation`, to be resumed exactly once, by the code that removed it from where it was
/// kept.
///
/// An unsafe continuation underneath: a checked one costs an allocation per request to find a mistake that the tables
/// (removal is the only way out) do not allow.
@safe
package struct Continuation<Value: Sendable>: Sendable {
    private let continuation: UnsafeContinuation<Value, Never>

    fileprivate init(_ continuation: UnsafeContinuation<Value, Never>) {
        unsafe self.continuation = continuation
    }

    /// Resumes the caller, on its own executor. Never to be called with a lock held.
    package func resume(returning value: Value) {
        tellThreadSanitizer(of: unsafe address(of: continuation), isResumed: true)
        unsafe continuation.resume(returning: value)
    }
}

extension Continuation<Void> {
    package func resume() { resume(returning: ()) }
}

/// Suspends the calling task until the `Continuation` given to `body`, which runs at once, is resumed.
package func withContinuation<Value: Sendable>(
    isolation: isolated (any Actor)? = #isolation,
    _ body: (Continuation<Value>) -> Void
) async -> Value {
    var task: UInt = 0
    let value = await unsafe withUnsafeContinuation(isolation: isolation) {
        (continuation: UnsafeContinuation<Value, Never>) in
        task = unsafe address(of: continuation)
        unsafe body(Continuation(continuation))
    }
    tellThreadSanitizer(of: task, isResumed: false)
    return value
}

// MARK: - For the thread sanitizer

/// What the continuation refers to: its task.
private func address<Value>(of continuation: UnsafeContinuation<Value, Never>) -> UInt {
    unsafe unsafeBitCast(continuation, to: UInt.self)
}

/// Says that what came before the resuming of a task happens before what comes after its suspension.
///
/// When a continuation is resumed on one thread before the other has come to await it, it is handed over by one atomic
/// operation inside the runtime, which is not instrumented: what the resuming thread wrote (an error, a frame) was
/// reported as racing with the task that reads it. Without the sanitizer this costs a comparison; elsewhere than on
/// Linux nothing.
private func tellThreadSanitizer(of task: UInt, isResumed: Bool) {
    #if os(Linux)
        if isResumed { trunkline_tsan_release(task) } else { trunkline_tsan_acquire(task) }
    #endif
}
