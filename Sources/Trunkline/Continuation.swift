#if os(Linux)
    import CTrunkline
#endif

/// A caller that is suspended in `withContinuation`. It is resumed exactly once, by the code that removed it from the
/// table that held it.
///
/// It wraps an unsafe continuation. A checked one costs an allocation per request, to find a mistake that the tables do
/// not allow.
@safe
package struct Continuation<Value: Sendable>: Sendable {
    private let continuation: UnsafeContinuation<Value, Never>

    fileprivate init(_ continuation: UnsafeContinuation<Value, Never>) {
        unsafe self.continuation = continuation
    }

    /// Resumes the caller on its own executor. Never call this with a lock held.
    package func resume(returning value: consuming Value) {
        tellThreadSanitizer(of: unsafe address(of: continuation), isResumed: true)
        unsafe continuation.resume(returning: value)
    }
}

extension Continuation<Void> {
    package func resume() { resume(returning: ()) }
}

/// Suspends the calling task until the `Continuation` passed to `body` is resumed. `body` runs at once.
package nonisolated(nonsending) func withContinuation<Value: Sendable>(
    _ body: (Continuation<Value>) -> Void
) async -> Value {
    var task: UInt = 0
    let resumed = { (continuation: UnsafeContinuation<Value, Never>) in
        task = unsafe address(of: continuation)
        unsafe body(Continuation(continuation))
    }
    // `withUnsafeContinuation` would switch to the executor of its isolation, where the caller is already, once before
    // the closure and once afterwards. With it, a request took 100 instructions more (pinned: 600). The function used
    // instead is not for general use; if a compiler does without it, so can this.
    #if compiler(<6.4)
        let value = await unsafe _unsafeInheritExecutor_withUnsafeContinuation(resumed)
    #else
        let value = await unsafe withUnsafeContinuation(resumed)
    #endif
    tellThreadSanitizer(of: task, isResumed: false)
    return value
}

// MARK: - Cancellation

/// An object that tasks wait for, and that can cancel their waits.
protocol CancellationReceiver: AnyObject, Sendable {
    /// Cancels the waits with these numbers. Called on the thread that cancels the task, or on the thread of the task if
    /// it is already cancelled when it begins to wait. May be called before the wait has begun and after it has ended.
    func cancelWaits(_ numbers: ClosedRange<UInt64>)
}

/// Suspends the calling task until the `Continuation` passed to `body` is resumed. `body` runs at once. If the task is
/// cancelled, tells `receiver` to cancel the waits with `numbers`.
///
/// For waits of which there are thousands, or of which each request or push has one. On Linux it does what
/// `withTaskCancellationHandler` does, with the same functions of the runtime, but in the async frame of the caller.
/// `withTaskCancellationHandler` needs three more frames, and its closure, which is not isolated to the caller, switches
/// executors three times. With it, a request took 8,230 instructions instead of 7,450 (pinned: 8,110 instead of 6,650),
/// and with 65,536 requests in flight each of them took 3.3 KB of memory instead of 2.2.
///
/// Safe: the task that added the handler removes it, after everything that it added later, and `receiver` is alive until
/// then.
@inline(__always)
nonisolated(nonsending) func withContinuation<Value: Sendable>(
    cancelling receiver: some CancellationReceiver,
    _ numbers: ClosedRange<UInt64>,
    _ body: (Continuation<Value>) -> Void
) async -> Value {
    #if os(Linux)
        let handler = unsafe trunkline_add_cancellation_handler(
            { receiver, first, last in
                guard let receiver = unsafe receiver,
                    let receiver = unsafe Unmanaged<AnyObject>.fromOpaque(receiver).takeUnretainedValue()
                        as? any CancellationReceiver
                else { preconditionFailure("the receiver of a cancellation is not one") }
                receiver.cancelWaits(first...last)
            },
            Unmanaged.passUnretained(receiver).toOpaque(),
            numbers.lowerBound,
            numbers.upperBound
        )
        let value = await withContinuation(body)
        unsafe trunkline_remove_cancellation_handler(handler)
        withExtendedLifetime(receiver) {}
        return value
    #else
        return await withTaskCancellationHandler {
            await withContinuation(body)
        } onCancel: {
            receiver.cancelWaits(numbers)
        }
    #endif
}

// MARK: - Thread sanitizer

/// Returns the address of the task that the continuation refers to.
private func address<Value>(of continuation: UnsafeContinuation<Value, Never>) -> UInt {
    unsafe unsafeBitCast(continuation, to: UInt.self)
}

/// Tells the thread sanitizer that everything before the resumption of a task happens before everything after its
/// suspension.
///
/// If a continuation is resumed on one thread before another thread awaits it, the runtime passes the value on with one
/// atomic operation that is not instrumented. Without this function, the sanitizer reports what the resuming thread
/// wrote (an error, a frame) as a race with the task that reads it. When the sanitizer is off, this costs a comparison
/// on Linux, and nothing on other systems.
private func tellThreadSanitizer(of task: UInt, isResumed: Bool) {
    #if os(Linux)
        if isResumed { trunkline_tsan_release(task) } else { trunkline_tsan_acquire(task) }
    #endif
}

/// Whether the program runs under the thread sanitizer. Always false on systems other than Linux.
var isThreadSanitizerOn: Bool {
    #if os(Linux)
        trunkline_tsan_is_on() != 0
    #else
        false
    #endif
}
