/// The callers of `close` that wait for the receivers of events, at most for a limited time.
///
/// Unchecked `Sendable`: `timer` is accessed only on the event loop.
package final class HeldWaiters: TimerTarget, @unchecked Sendable {
    private struct State {
        var waiters: [Continuation<Void>]
        /// The number of queues that are not delivered, and 1 until all of them are asked.
        var reasons: Int
    }

    private let state: Lock<State>
    private let loop: any EventLoop
    private lazy var timer = LoopTimer(target: self)

    private static let patience = Duration.seconds(2)

    private init(_ waiters: [Continuation<Void>], reasons: Int, on loop: any EventLoop) {
        state = Lock(State(waiters: waiters, reasons: reasons))
        self.loop = loop
    }

    /// Resumes `waiters` when everything that is in `queues` now has been delivered. Call this on the event loop.
    package static func resume(
        _ waiters: [Continuation<Void>],
        after queues: [any DeliveryQueue],
        on loop: any EventLoop
    ) {
        let held = HeldWaiters(waiters, reasons: queues.count + 1, on: loop)
        for queue in queues {
            queue.afterDelivery {
                // The timer may be armed by then, or soon: this runs in a later step of the loop.
                if held.removeReason() { loop.schedule(LoopClosure { held.disarm() }) }
            }
        }
        if !held.removeReason() { loop.arm(held.timer, at: loop.now.advanced(by: patience)) }
    }

    package func timerFired() { resume() }

    private func removeReason() -> Bool {
        let isLast = state.withLock { state in
            state.reasons -= 1
            return state.reasons == 0
        }
        if isLast { resume() }
        return isLast
    }

    private func resume() {
        let waiters = state.withLock { exchange(&$0.waiters, with: []) }
        for waiter in waiters { waiter.resume() }
    }

    private func disarm() { loop.arm(timer, at: nil) }
}
