/// The loop as the executor of tasks that prefer it: an object of its own, so that their jobs are known.
final class TaskFace: TaskExecutor {
    /// Unsafe for the compiler, safe in truth: written once, before the loop's `init` returns. Loops are never let go, so
    /// the cycle does no harm.
    nonisolated(unsafe) var loop: SocketEventLoop?

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        guard let loop = unsafe loop else { preconditionFailure("the event loop is gone") }
        loop.enqueue(job, prefersLoop: true)
    }
}
