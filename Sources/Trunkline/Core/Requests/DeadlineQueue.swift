/// The deadlines of many requests in one queue, so that a request costs no timer of its own.
///
/// Entries are not removed when their request ends: dead entries are dropped when they come up, or all at once when they
/// outnumber the living. Requests with the same timeout arrive in order of their deadlines, which makes inserting constant
/// work in practice. Memory for many more entries than there are is given back.
package struct DeadlineQueue: Sendable {
    private var heap = Heap<Instant, RequestID>()

    package init() {}

    /// How many entries there are, dead ones included.
    package var count: Int { heap.count }

    /// The number of entries for which there is memory.
    package var capacity: Int { heap.capacity }

    /// No deadline is earlier than this; `nil` when there are none.
    package var earliest: Instant? { heap.first?.key }

    package mutating func insert(_ id: RequestID, deadline: Instant) { heap.insert(id, key: deadline) }

    /// Takes the next id whose deadline is not after `now`, dead or alive; `nil` when there is none.
    package mutating func popDue(at now: Instant) -> RequestID? {
        guard let first = heap.first, first.key <= now else { return nil }
        heap.removeFirst()
        heap.giveBackMemory()
        return first.value
    }

    /// Whether dead entries outnumber the `alive` ones, so that it is time to `compact`.
    package func isCrowded(alive: Int) -> Bool { heap.count > 2 * alive + 256 }

    /// Drops the dead entries; `isAlive` tells which are not.
    package mutating func compact(isAlive: (RequestID) -> Bool) {
        heap.removeAll { !isAlive($1) }
        heap.giveBackMemory()
    }
}
