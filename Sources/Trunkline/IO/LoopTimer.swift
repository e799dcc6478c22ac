/// Hears of a timer. A timer holds its target weakly.
package protocol TimerTarget: AnyObject, Sendable {
    /// Called on the loop, at the timer's deadline or after.
    func timerFired()
}

/// A timer that its owner arms and re-arms. Confined to its loop.
package final class LoopTimer {
    weak var target: (any TimerTarget)?
    /// When to fire; `nil` when disarmed.
    package internal(set) var deadline: Instant?
    /// The earliest entry for this timer in its loop's queue. An entry that comes up before `deadline` is renewed,
    /// so that re-arming for later, the usual case, costs nothing.
    var queued: Instant?

    package init(target: any TimerTarget) { self.target = target }
}

/// The timers of one loop, ordered by deadline.
///
/// A timer that is disarmed, or armed for earlier, leaves its entry behind, which costs nothing where it is soon armed again.
/// When such entries outnumber the others they are dropped, so that timers of clients that are closed do not stay for as
/// long as their last deadline.
package struct TimerQueue {
    private var heap = Heap<Instant, LoopTimer>()
    /// How many timers are armed. Each has an entry.
    package private(set) var armedCount = 0

    package init() {}

    /// When `popDue` may next have something; `nil` for never.
    package var next: Instant? { heap.first?.key }

    /// How many entries there are, of whatever timers.
    package var entryCount: Int { heap.count }

    package mutating func arm(_ timer: LoopTimer, at deadline: Instant?) {
        armedCount += (deadline == nil ? 0 : 1) - (timer.deadline == nil ? 0 : 1)
        timer.deadline = deadline
        guard let deadline else { return dropStale() }
        if let queued = timer.queued, queued <= deadline { return }
        timer.queued = deadline
        heap.insert(timer, key: deadline)
        dropStale()
    }

    /// Drops the entries of timers that are not armed, and all but the earliest of each other.
    private mutating func dropStale() {
        guard heap.count > 2 * armedCount + 64 else { return }
        var kept: Set<ObjectIdentifier> = []
        heap.removeAll { deadline, timer in
            guard timer.queued == deadline else { return true }
            if timer.deadline == nil { timer.queued = nil }
            return timer.deadline == nil || !kept.insert(ObjectIdentifier(timer)).inserted
        }
    }

    /// Takes the next timer that is due at `now` and disarms it; `nil` when there is none.
    package mutating func popDue(at now: Instant) -> LoopTimer? {
        while let (due, timer) = heap.first, due <= now {
            heap.removeFirst()
            guard timer.queued == due else { continue }  // superseded by an earlier entry
            timer.queued = nil
            guard let deadline = timer.deadline else { continue }
            if deadline <= now {
                timer.deadline = nil
                armedCount -= 1
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
    /// Tells the target.
    package func fire() { target?.timerFired() }
}
