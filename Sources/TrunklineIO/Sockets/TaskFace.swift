/// The loop's executor for tasks that prefer it. A separate object, so that the loop can recognize their jobs.
final class TaskFace: TaskExecutor {
    /// Written once, before the loop's `init` returns. Loops are never deallocated, so the reference cycle is harmless.
    nonisolated(unsafe) var loop: SocketEventLoop?

    func enqueue(_ job: consuming ExecutorJob) { enqueue(UnownedJob(job)) }

    func enqueue(_ job: UnownedJob) {
        guard let loop = unsafe loop else { preconditionFailure("the event loop was deallocated") }
        loop.enqueue(job, prefersLoop: true)
    }
}
