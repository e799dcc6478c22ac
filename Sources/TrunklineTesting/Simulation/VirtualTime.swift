import Synchronization
import TrunklineCore

/// The time of a simulation. Any thread may read it; only the loop advances it.
final class VirtualTime: Sendable {
    private let nanoseconds = Atomic<Int64>(0)

    var now: Instant { Instant(nanoseconds: nanoseconds.load(ordering: .relaxed)) }

    func advance(to instant: Instant) {
        nanoseconds.store(max(now, instant).nanoseconds, ordering: .relaxed)
    }
}
