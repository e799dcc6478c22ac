import TrunklineCore

/// Makes the table of a cluster once for all changes in a turn of the event loop. With thousands of servers it takes
/// milliseconds, so it happens rarely enough to leave the loop most of its time.
///
/// Unchecked `Sendable`: used only on the event loop, after the initializer, and in the deinitializer.
final class TableUpdate: LoopWork, TimerTarget, @unchecked Sendable {
    private enum State {
        case idle
        case scheduled
        case delayed
    }

    private let loop: any EventLoop
    private let facts: ClusterFacts
    private var state = State.idle
    private(set) var count = 0
    private var earliest = Instant.distantPast
    private lazy var timer = LoopTimer(target: self)

    /// The time between two updates, in relation to the time that one takes.
    private static let rest = 4

    init(_ facts: ClusterFacts, on loop: any EventLoop) { (self.facts, self.loop) = (facts, loop) }

    deinit {
        guard state == .delayed else { return }
        loop.schedule(LoopClosure { [loop, timer] in loop.arm(timer, at: nil) })
    }

    var isPending: Bool { state != .idle }

    func request(isUrgent: Bool) {
        let mayWait = !isUrgent && loop.now < earliest
        switch state {
        case .idle where mayWait:
            state = .delayed
            loop.arm(timer, at: earliest)
        case .idle: schedule()
        case .delayed where !mayWait:
            loop.arm(timer, at: nil)
            schedule()
        case .delayed, .scheduled: break
        }
    }

    private func schedule() {
        state = .scheduled
        loop.scheduleAtEndOfTurn(self)
    }

    func runOnLoop() { if state == .scheduled { update() } }

    func timerFired() { if state == .delayed { update() } }

    private func update() {
        state = .idle
        guard let cluster = facts.receiver else { return }
        let began = loop.now
        count += 1
        cluster.makeTable()
        let end = loop.now
        earliest = end.advanced(by: end.since(began) * Self.rest)
    }
}
