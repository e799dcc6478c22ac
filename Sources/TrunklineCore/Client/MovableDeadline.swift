import Synchronization

/// The deadline of a call whose caller watches it, because it may move while the call is under way.
///
/// The call has no other timeout. When the deadline has passed, the caller calls `expire` and then cancels the task of the
/// call: what the task waits for has timed out then, and counts as such for its link and its server.
package final class MovableDeadline: Sendable {
    private let nanoseconds: Atomic<Int64>
    private let expired = Atomic<Bool>(false)

    package init(_ instant: Instant) { nanoseconds = Atomic(instant.nanoseconds) }

    /// The deadline at present: no retry begins after it. `.distantFuture` for none.
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
