/// The timer of a client. A class, as `Links` is.
final class ClientClock {
    private let loop: any EventLoop
    private var timer: LoopTimer?
    private var armed: Instant?
    var deadline: Instant? { timer?.deadline }

    init(on loop: any EventLoop) { self.loop = loop }

    deinit {
        // The loop keeps an armed timer. This may run on any thread.
        if let timer { loop.schedule(LoopClosure { [loop] in loop.arm(timer, at: nil) }) }
    }

    func arm(at next: Instant?, for target: any TimerTarget) {
        guard next != armed else { return }
        armed = next
        let timer = timer ?? LoopTimer(target: target, ticks: true)
        self.timer = timer
        loop.arm(timer, at: next)
    }

    func fired() { armed = nil }
}
