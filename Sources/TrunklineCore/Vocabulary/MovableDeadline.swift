import Synchronization

/// The only deadline of a call whose caller watches it, because it may move. When it has passed, the caller calls
/// `expire` and cancels the task: what the task waits for counts as timed out, for its link and its server too.
package final class MovableDeadline: Sendable {
    private let nanoseconds: Atomic<Int64>
    private let expired = Atomic<Bool>(false)

    package init(_ instant: Instant) { nanoseconds = Atomic(instant.nanoseconds) }

    /// No retry begins after it. `.distantFuture` for none.
    package var instant: Instant {
        get { Instant(nanoseconds: nanoseconds.load(ordering: .relaxed)) }
        set { nanoseconds.store(newValue.nanoseconds, ordering: .relaxed) }
    }

    /// Whether a cancellation of the call means that it has timed out.
    package var isExpired: Bool { expired.load(ordering: .acquiring) }

    package func expire() { expired.store(true, ordering: .releasing) }
}

extension MovableDeadline: Hashable {
    package static func == (a: MovableDeadline, b: MovableDeadline) -> Bool { a === b }

    package func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}
