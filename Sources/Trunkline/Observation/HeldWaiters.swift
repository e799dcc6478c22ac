/// The callers of `close` that wait for slow receivers of events, at most for a limited time.
///
/// Unchecked `Sendable`: `timer` is accessed only on the event loop.
final class HeldWaiters: TimerTarget, @unchecked Sendable {
    private(set) lazy var timer = LoopTimer(target: self)
    private let state: Lock<(waiters: [Continuation<Void>], queues: Int)>

    /// Resumes `waiters` when `queues` queues are delivered, or when the timer fires.
    init(_ waiters: [Continuation<Void>], queues: Int) { state = Lock((waiters, queues)) }

    func queueIsDelivered() {
        let waiters = state.withLock { state in
            state.queues -= 1
            return state.queues == 0 ? exchange(&state.waiters, with: []) : []
        }
        for waiter in waiters { waiter.resume() }
    }

    func timerFired() {
        let waiters = state.withLock { exchange(&$0.waiters, with: []) }
        for waiter in waiters { waiter.resume() }
    }
}
