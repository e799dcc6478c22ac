/// Receives the firing of a timer. A timer holds its target weakly.
package protocol TimerTarget: AnyObject, Sendable {
    /// Called on the loop, at the timer's deadline or later. Whatever the sockets held at `turnTime` of the loop has been
    /// read, so deadlines are judged at that time: see `EventLoop`.
    func timerFired()
}

/// A timer that its owner arms and re-arms. The loop keeps an armed timer, so an owner disarms it at the latest when it is
/// deallocated.
///
/// Safe to share between threads: used only on its loop, to which the `deinit` of an owner passes it.
package final class LoopTimer: @unchecked Sendable {
    package private(set) weak var target: (any TimerTarget)?
    /// The timer fires at a multiple of this many nanoseconds, at or after the instant that it was armed for; 1 for no
    /// delay.
    ///
    /// Timers with the same grid fire together, so that a loop with many of them wakes up less often. A simulated loop
    /// ignores it.
    let grid: Int64
    /// The instant at which the timer fires; `nil` when disarmed.
    package internal(set) var deadline: Instant?
    /// The earliest entry of this timer in its loop's queue. An entry that comes up before `deadline` is queued again,
    /// so that arming for a later instant, the usual case, costs nothing.
    var queued: Instant?
    /// Whether the loop measures more exactly how long the process did not run while this timer is armed, by waking up
    /// every `LoopDelay.nanosecondsOfTick`. For timers that time another party, and that are armed only while something is under way.
    let ticks: Bool

    package init(target: any TimerTarget, grid: Duration = .nanoseconds(1), ticks: Bool = false) {
        self.target = target
        self.ticks = ticks
        self.grid = max(1, grid.clampedNanoseconds)
    }

    /// Returns the first multiple of the grid at or after `deadline`.
    func onGrid(_ deadline: Instant) -> Instant {
        let excess = deadline.nanoseconds % grid
        guard excess > 0 else { return deadline }
        let (rounded, overflow) = deadline.nanoseconds.addingReportingOverflow(grid - excess)
        return overflow ? deadline : Instant(nanoseconds: rounded)
    }
}

/// The timers of one loop, ordered by deadline.
///
/// A timer that is disarmed, or armed for an earlier instant, leaves its entry behind. That costs nothing if the timer
/// is soon armed again. When stale entries outnumber the others they are removed, so that the timers of closed clients
/// do not stay in memory until their last deadline.
package struct TimerQueue {
    private var heap = Heap<Instant, LoopTimer>()
    /// The number of armed timers. Each has an entry.
    package private(set) var armedCount = 0
    /// The number of armed timers for which the loop ticks.
    package private(set) var tickingCount = 0

    package init() {}

    /// The earliest instant at which `popDue` may return a timer, or `nil` if there are no entries.
    package var next: Instant? { heap.first?.key }

    /// The number of entries, stale ones included.
    package var entryCount: Int { heap.count }

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

    /// Removes the entries of disarmed timers, and all but the earliest entry of each other timer.
    private mutating func dropStale() {
        guard heap.count > 2 * armedCount + 64 else { return }
        var kept: Set<ObjectIdentifier> = []
        heap.removeAll { deadline, timer in
            guard timer.queued == deadline else { return true }
            if timer.deadline == nil { timer.queued = nil }
            return timer.deadline == nil || !kept.insert(ObjectIdentifier(timer)).inserted
        }
    }

    /// Removes and disarms the next timer that is due at `now`. Returns `nil` if no timer is due.
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
