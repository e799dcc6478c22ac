/// The deadlines of many requests in one queue, so that a request costs no timer of its own.
///
/// A heap whose entries are not removed when their request ends: dead entries are dropped when they come up, or all
/// at once when they outnumber the living. Requests with the same timeout arrive in order of their deadlines, which
/// makes inserting constant work in practice. Memory for many more entries than there are is given back.
package struct DeadlineQueue: Sendable {
    var heap: [Entry] = []

    package struct Entry: Sendable, Equatable {
        package var deadline: Instant
        package var id: RequestID

        init(deadline: Instant, id: RequestID) {
            self.deadline = deadline
            self.id = id
        }
    }

    package init() {}

    /// How many entries there are, dead ones included.
    package var count: Int { heap.count }

    /// No deadline is earlier than this; `nil` when there are none.
    package var earliest: Instant? { heap.first?.deadline }

    package mutating func insert(_ id: RequestID, deadline: Instant) {
        heap.append(Entry(deadline: deadline, id: id))
        siftUp(heap.count - 1)
    }

    /// Takes the next id whose deadline is not after `now`, dead or alive; `nil` when there is none.
    package mutating func popDue(at now: Instant) -> RequestID? {
        guard let first = heap.first, first.deadline <= now else { return nil }
        heap.swapAt(0, heap.count - 1)
        heap.removeLast()
        siftDown(0)
        giveBackMemory()
        return first.id
    }

    /// Whether dead entries outnumber the `alive` ones, so that it is time to `compact`.
    package func isCrowded(alive: Int) -> Bool { heap.count > 2 * alive + 256 }

    /// Drops the dead entries; `isAlive` tells which are not.
    package mutating func compact(isAlive: (RequestID) -> Bool) {
        heap.removeAll { !isAlive($0.id) }
        for index in stride(from: heap.count / 2, through: 0, by: -1) { siftDown(index) }
        giveBackMemory()
    }

    /// The number of entries for which there is memory.
    package var capacity: Int { heap.capacity }

    mutating func giveBackMemory() {
        guard heap.count < heap.capacity / 16, heap.capacity > 1024 else { return }
        heap = heap.map { $0 }
    }

    mutating func siftUp(_ start: Int) {
        var child = start
        while child > 0 {
            let parent = (child &- 1) / 2
            guard heap[child].deadline < heap[parent].deadline else { return }
            heap.swapAt(child, parent)
            child = parent
        }
    }

    mutating func siftDown(_ start: Int) {
        var parent = start
        while true {
            var least = parent
            let left = 2 &* parent &+ 1
            if left < heap.count, heap[left].deadline < heap[least].deadline { least = left }
            let right = left &+ 1
            if right < heap.count, heap[right].deadline < heap[least].deadline { least = right }
            guard least != parent else { return }
            heap.swapAt(least, parent)
            parent = least
        }
    }
}
