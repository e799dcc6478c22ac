import Synchronization
import Trunkline

/// What time it is in a simulation. Read from any thread, advanced by the loop alone.
final class VirtualTime: Sendable {
    private let nanoseconds = Atomic<Int64>(0)

    var now: Instant { Instant(nanoseconds: nanoseconds.load(ordering: .relaxed)) }

    /// Moves on to `instant`; time never goes back.
    func advance(to instant: Instant) {
        nanoseconds.store(max(now, instant).nanoseconds, ordering: .relaxed)
    }
}
