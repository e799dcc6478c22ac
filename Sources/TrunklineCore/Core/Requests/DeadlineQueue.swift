/// The deadlines of many requests in one queue, so that a request needs no timer of its own.
///
/// An entry outlives its requests. Dead entries are dropped when their deadline comes, or all at once when there are
/// far more entries than requests. Requests with the same timeout arrive in the order of their deadlines, so inserting
/// takes constant time in practice.
package struct DeadlineQueue: Sendable {
    private var heap = Heap<Instant, Entry>()

    private struct Entry: Sendable {
        var next: RequestID
        let last: RequestID
    }

    package init() {}

    var count: Int { heap.count }

    var capacity: Int { heap.capacity }

    package var earliest: Instant? { heap.first?.key }

    package mutating func insert(_ id: RequestID, deadline: Instant) { insert(id...id, deadline: deadline) }

    mutating func insert(_ ids: ClosedRange<RequestID>, deadline: Instant) {
        heap.insert(Entry(next: ids.lowerBound, last: ids.upperBound), key: deadline)
    }

    package mutating func popDue(at now: Instant) -> RequestID? {
        guard let (deadline, entry) = heap.first, deadline <= now else { return nil }
        if entry.next < entry.last {
            heap.replaceFirst(with: Entry(next: entry.next.advanced(by: 1), last: entry.last))
        } else {
            heap.removeFirst()
            heap.giveBackMemory()
        }
        return entry.next
    }

    package func isCrowded(alive: Int) -> Bool { heap.count > 2 * alive + 256 }

    package mutating func compact(isAlive: (RequestID) -> Bool) {
        heap.compactMapValues { _, entry in
            var entry = entry
            while !isAlive(entry.next) {
                guard entry.next < entry.last else { return nil }
                entry.next = entry.next.advanced(by: 1)
            }
            return entry
        }
        heap.giveBackMemory()
    }
}
