/// Waits for the helpers of a child that has ended, which were killed with its group and have become children of this process,
/// because it is process 1 or has asked for them. Nothing else would wait for them. Keeps itself until there are none.
///
/// It never waits for other children of the program. The number of the group is in use as long as a process of the group was
/// not waited for, so no other process can have it. When none is left, which the system tells with the next call, it stops.
///
/// Unchecked Sendable: it lives on one loop, and its methods are called there only.
final class OrphanReaper: TimerTarget, @unchecked Sendable {
    private let group: Int32
    private let loop: SocketEventLoop
    private lazy var timer = LoopTimer(target: self)
    private var itself: OrphanReaper?
    /// When the next look comes. Processes that were killed usually end within a millisecond; one that waits for a disk may
    /// take long.
    private var interval = Duration.milliseconds(5)
    private static let longestInterval = Duration.seconds(10)

    /// Waits for what has ended of `group`, whose leader was waited for just now, and for the rest later.
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
