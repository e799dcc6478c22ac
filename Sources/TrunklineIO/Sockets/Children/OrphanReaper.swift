/// Waits for helpers that were killed with a child's group and are now children of this process, as process 1 or a
/// subreaper. Keeps itself until there are none. Other children are never waited for: the number of the group stays in
/// use as long as one of its processes was not waited for.
/// Unchecked Sendable: it lives on one loop, and its methods are called there only.
final class OrphanReaper: TimerTarget, @unchecked Sendable {
    private let group: Int32
    private let loop: SocketEventLoop
    private lazy var timer = LoopTimer(target: self)
    private var itself: OrphanReaper?
    /// Killed processes usually end within a millisecond; one that waits for a disk may take long.
    private var interval = Duration.milliseconds(5)
    private static let longestInterval = Duration.seconds(10)

    /// Call this just after the leader of the group was waited for.
    static func reap(group: Int32, on loop: SocketEventLoop) {
        let reaper = OrphanReaper(group, loop)
        guard !reaper.isDone() else { return }
        reaper.itself = reaper
        reaper.wait()
    }

    private init(_ group: Int32, _ loop: SocketEventLoop) { (self.group, self.loop) = (group, loop) }

    private func isDone() -> Bool {
        while true {
            switch reapOne(ofGroup: group) {
            case .reaped: continue
            case .running: return false
            case .none: return true
            }
        }
    }

    private func wait() {
        loop.arm(timer, at: loop.now.advanced(by: interval))
        interval = min(interval * 2, Self.longestInterval)
    }

    func timerFired() { isDone() ? itself = nil : wait() }
}
