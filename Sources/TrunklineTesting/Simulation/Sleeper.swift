import TrunklineCore

/// A task that sleeps in virtual time.
///
/// Unchecked `Sendable`: its fields are accessed only on the loop. `begin` and `cancel` may be called from any thread,
/// in either order.
final class Sleeper: TimerTarget, @unchecked Sendable {
    private let loop: SimulatedEventLoop
    private let deadline: Instant
    private var continuation: CheckedContinuation<Void, any Error>?
    private var timer: LoopTimer?
    private var isCancelled = false

    init(on loop: SimulatedEventLoop, until deadline: Instant) {
        self.loop = loop
        self.deadline = deadline
    }

    func begin(_ continuation: CheckedContinuation<Void, any Error>) {
        loop.perform { [self] in
            guard !isCancelled else { return continuation.resume(throwing: CancellationError()) }
            self.continuation = continuation
            let timer = LoopTimer(target: self)
            self.timer = timer
            loop.arm(timer, at: deadline)
        }
    }

    func cancel() {
        loop.perform { [self] in
            isCancelled = true
            if let timer { loop.arm(timer, at: nil) }
            continuation.take()?.resume(throwing: CancellationError())
        }
    }

    func timerFired() { continuation.take()?.resume() }
}
