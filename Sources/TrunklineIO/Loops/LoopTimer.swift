package protocol TimerTarget: AnyObject, Sendable {
    /// Called on the loop, at the deadline or later, after what the sockets held was read: see `EventLoop`.
    func timerFired()
}

/// The loop keeps an armed timer, so its owner disarms it at the latest in its `deinit`. Safe to share between threads:
/// used only on its loop, to which the `deinit` of an owner passes it.
package final class LoopTimer: @unchecked Sendable {
    package private(set) weak var target: (any TimerTarget)?
    /// In nanoseconds; 1 for no delay. Timers with one grid wake the loop together. A simulated loop ignores it.
    let grid: Int64
    package internal(set) var deadline: Instant?
    /// The earliest entry in the loop's queue. An entry that comes up before `deadline` is queued again, so that arming
    /// for a later instant, the usual case, costs nothing.
    var queued: Instant?
    /// Whether the loop wakes up every `LoopDelay.nanosecondsOfTick` to measure how long the process did not run.
    let ticks: Bool

    package init(target: any TimerTarget, grid: Duration = .nanoseconds(1), ticks: Bool = false) {
        self.target = target
        self.ticks = ticks
        self.grid = max(1, grid.clampedNanoseconds)
    }

    func onGrid(_ deadline: Instant) -> Instant {
        let excess = deadline.nanoseconds % grid
        guard excess > 0 else { return deadline }
        let (rounded, overflow) = deadline.nanoseconds.addingReportingOverflow(grid - excess)
        return overflow ? deadline : Instant(nanoseconds: rounded)
    }
}

/// A timer that is disarmed or armed earlier leaves a stale entry, which costs nothing if it is soon armed again. Stale
/// entries are removed when they outnumber the others, so that closed clients free their memory.
package struct TimerQueue {
    private var heap = Heap<Instant, LoopTimer>()
    private(set) var armedCount = 0
    private(set) var tickingCount = 0

    package init() {}

    package var next: Instant? { heap.first?.key }

    var entryCount: Int { heap.count }

    package mutating func arm(_ timer: LoopTimer, at deadline: Instant?) {
        let change = (deadline == nil ? 0 : 1) - (timer.deadline == nil ? 0 : 1)
        armedCount += change
        if timer.ticks { tickingCount += change }
        timer.deadline = deadline
        guard let deadline else { return dropStale() }
        if let queued = timer.queued, queued <= deadline { return }
        timer.queued = deadline
        heap.insert(timer, key: deadline)
        dropStale()
    }

    private mutating func dropStale() {
        guard heap.count > 2 * armedCount + 64 else { return }
        var kept: Set<ObjectIdentifier> = []
        heap.removeAll { deadline, timer in
            guard timer.queued == deadline else { return true }
            if timer.deadline == nil { timer.queued = nil }
            return timer.deadline == nil || !kept.insert(ObjectIdentifier(timer)).inserted
        }
    }

    package mutating func popDue(at now: Instant) -> LoopTimer? {
        while let (due, timer) = heap.first, due <= now {
            heap.removeFirst()
            guard timer.queued == due else { continue }  // superseded by an earlier entry
            timer.queued = nil
            guard let deadline = timer.deadline else { continue }
            if deadline <= now {
                timer.deadline = nil
                armedCount -= 1
                if timer.ticks { tickingCount -= 1 }
                return timer
            }
            timer.queued = deadline
            heap.insert(timer, key: deadline)
        }
        dropStale()
        return nil
    }
}

extension LoopTimer {
    package func fire() { target?.timerFired() }
}
