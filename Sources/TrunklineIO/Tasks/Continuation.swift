#if os(Linux) && !Portable
    public import CTrunkline
#elseif os(Linux)
    import CTrunkline
#endif

/// A suspended caller of `withContinuation`, resumed once, by the code that removed it from its table.
///
/// A parked task on Linux. Elsewhere, and with the trait `Portable`, an unsafe continuation: a checked one costs an
/// allocation per request, to find a mistake that the tables do not allow.
@safe
@usableFromInline
package struct Continuation<Value: Sendable>: Sendable {
    #if os(Linux) && !Portable
        @usableFromInline let task: ParkedTask<Value>

        @inlinable
        init(task: ParkedTask<Value>) { self.task = task }
    #else
        @usableFromInline let task: UnsafeContinuation<Value, Never>

        @inlinable
        init(task: UnsafeContinuation<Value, Never>) { unsafe self.task = task }
    #endif

    /// On the caller's own executor. Never call this with a lock held.
    @inlinable
    package func resume(returning value: consuming Value) {
        #if os(Linux) && !Portable
            task.resume(returning: value)
        #else
            unsafe task.resume(returning: value)
        #endif
    }
}

extension Continuation<Void> {
    @inlinable
    package func resume() { resume(returning: ()) }
}

@inlinable
package nonisolated(nonsending) func withContinuation<Value: Sendable>(
    _ body: (Continuation<Value>) -> Void
) async -> Value {
    #if os(Linux) && !Portable
        let task = ParkedTask<Value>()
        body(Continuation(task: task))
        let value = await task.wait()
        task.free()
        return value
    #else
        return await unsafe withUnsafeContinuation { unsafe body(Continuation(task: $0)) }
    #endif
}

@usableFromInline
package protocol CancellationReceiver: AnyObject, Sendable {
    /// May be called before the wait has begun and after it has ended, on any thread.
    func cancelWaits(_ numbers: ClosedRange<UInt64>)
}

/// Safe: used only in the `body` of `withContinuation`, while the handler exists.
@safe
@usableFromInline
package struct Cancellation {
    #if os(Linux) && !Portable
        @usableFromInline let handler: UnsafeMutablePointer<trunkline_cancellation>

        @inlinable
        init(handler: UnsafeMutablePointer<trunkline_cancellation>) { unsafe self.handler = handler }

        /// Costs less than `Task.isCancelled`, which retains the task.
        @inlinable
        package var isRequested: Bool { unsafe trunkline_is_cancelled(handler) }
    #else
        @inlinable
        init() {}

        @inlinable
        package var isRequested: Bool { Task.isCancelled }
    #endif
}

/// Cancels the waits with `numbers` if the task is cancelled. `body` runs at once.
/// `withTaskCancellationHandler` needs three more async frames, and its closure, which is not isolated to the caller,
/// switches executors three times. With it, a request took 8,230 instructions instead of 7,450 (pinned: 8,110 instead
/// of 6,650), and with 65,536 requests in flight each of them took 3.3 KB of memory instead of 2.2.
///
/// Safe: the task that added the handler removes it, after everything that it added later, and `receiver` is alive
/// until then.
@inlinable
@inline(__always)
package nonisolated(nonsending) func withContinuation<Value: Sendable>(
    cancelling receiver: some CancellationReceiver,
    _ numbers: ClosedRange<UInt64>,
    _ body: (Continuation<Value>, Cancellation) -> Void
) async -> Value {
    #if os(Linux) && !Portable
        let size = unsafe MemoryLayout<trunkline_cancellation>.size
        let task = ParkedTask<Value>(reserving: size)
        let handler = unsafe trunkline_add_cancellation_handler(
            task.reserved(size),
            Unmanaged.passUnretained(receiver).toOpaque(),
            numbers.lowerBound,
            UInt32(numbers.count)
        )
        unsafe body(Continuation(task: task), Cancellation(handler: handler))
        let value = await task.wait()
        unsafe trunkline_remove_cancellation_handler(handler)
        task.free(reserving: size)
        withExtendedLifetime(receiver) {}
        return value
    #else
        return await withTaskCancellationHandler {
            await withContinuation { body($0, Cancellation()) }
        } onCancel: {
            receiver.cancelWaits(numbers)
        }
    #endif
}

var isThreadSanitizerOn: Bool {
    #if os(Linux)
        trunkline_tsan_is_on() != 0
    #else
        false
    #endif
}

#if os(Linux) && !Portable
    /// Called by the handler that `withContinuation` adds.
    @c
    func trunkline_cancel_waits(_ receiver: UnsafeRawPointer, _ first: UInt64, _ count: UInt32) {
        guard
            let receiver = unsafe Unmanaged<AnyObject>.fromOpaque(receiver).takeUnretainedValue()
                as? any CancellationReceiver
        else { preconditionFailure("the receiver of a cancellation is not one") }
        receiver.cancelWaits(first...first + UInt64(count) - 1)
    }
#endif
