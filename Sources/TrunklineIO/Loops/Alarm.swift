/// Lets one task at a time wait for an instant on an event loop, or until another thread rings.
///
/// Unchecked `Sendable`: `timer` is used only on the event loop, after the initializer.
package final class Alarm: CancellationReceiver, TimerTarget, @unchecked Sendable {
    private struct State {
        var waiter: Continuation<(isRung: Bool, isEarly: Bool)>?
        var deadline = Instant.distantFuture
        var isRung = false

        mutating func takeWaiter() -> Continuation<(isRung: Bool, isEarly: Bool)>? { exchange(&waiter, with: nil) }
    }

    private let loop: any EventLoop
    private let state = Lock(State())
    private lazy var timer = LoopTimer(target: self)

    package init(on loop: any EventLoop) { self.loop = loop }

    /// Returns whether the alarm rang before `deadline` or a cancellation; at once if it rang since the last wait.
    @discardableResult
    package func wait(until deadline: Instant) async -> Bool {
        let (isRung, isEarly) = await waitForEnd(until: deadline)
        // An armed timer would stay in the queue of the loop until its deadline.
        if isEarly { loop.schedule(LoopClosure { [self] in arm() }) }
        return isRung
    }

    private func waitForEnd(until deadline: Instant) async -> (isRung: Bool, isEarly: Bool) {
        await withContinuation(cancelling: self, 0...0) { continuation, cancellation in
            let isOver = state.withLock { state -> Bool? in
                if exchange(&state.isRung, with: false) { return true }
                if cancellation.isRequested { return false }
                (state.waiter, state.deadline) = (continuation, deadline)
                return nil
            }
            if let isOver { return continuation.resume(returning: (isOver, false)) }
            loop.schedule(LoopClosure { [self] in arm() })
        }
    }

    package func ring() {
        let waiter = state.withLock { state in
            if state.waiter == nil { state.isRung = true }
            return state.takeWaiter()
        }
        waiter?.resume(returning: (true, true))
    }

    package func cancelWaits(_ numbers: ClosedRange<UInt64>) {
        state.withLock { $0.takeWaiter() }?.resume(returning: (false, true))
    }

    package func timerFired() {
        let now = loop.now
        let waiter = state.withLock { $0.deadline <= now ? $0.takeWaiter() : nil }
        if let waiter { waiter.resume(returning: (false, false)) } else { arm() }
    }

    /// A timer of an earlier wait is replaced or fires in vain.
    private func arm() {
        let deadline = state.withLock { $0.waiter == nil ? nil : $0.deadline }
        loop.arm(timer, at: deadline)
    }
}

extension EventLoop {
    package func sleep(until deadline: Instant) async { await Alarm(on: self).wait(until: deadline) }
}
