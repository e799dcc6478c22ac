/// The deadlines of many requests in one queue, so that a request needs no timer of its own.
///
/// An entry is not removed when its request ends. Dead entries are dropped when their deadline comes, or all at once
/// when they outnumber the live ones. Requests with the same timeout arrive in the order of their deadlines, so
/// inserting takes constant time in practice. Memory for far more entries than there are is released.
package struct DeadlineQueue: Sendable {
    private var heap = Heap<Instant, RequestID>()

    package init() {}

    /// The number of entries, including dead ones.
    package var count: Int { heap.count }

    /// The number of entries for which memory is allocated.
    package var capacity: Int { heap.capacity }

    /// The earliest deadline, including those of dead entries; `nil` if there is none.
    package var earliest: Instant? { heap.first?.key }

    package mutating func insert(_ id: RequestID, deadline: Instant) { heap.insert(id, key: deadline) }

    /// Removes and returns the next ID whose deadline is not after `now`, dead or alive; `nil` if there is none.
    package mutating func popDue(at now: Instant) -> RequestID? {
        guard let first = heap.first, first.key <= now else { return nil }
        heap.removeFirst()
        heap.giveBackMemory()
        return first.value
    }

    /// Whether dead entries outnumber the `alive` ones by so much that `compact` should be called.
    package func isCrowded(alive: Int) -> Bool { heap.count > 2 * alive + 256 }

    /// Drops the dead entries, for which `isAlive` returns false.
    package mutating func compact(isAlive: (RequestID) -> Bool) {
        heap.removeAll { !isAlive($1) }
        heap.giveBackMemory()
    }
}
