/// Smallest key first. Inserting in ascending order takes constant time; everything else, logarithmic time.
@usableFromInline
package struct Heap<Key: Comparable, Value> {
    @usableFromInline var entries: [(key: Key, value: Value)] = []

    @inlinable
    package init() {}

    @inlinable
    package var count: Int { entries.count }

    @inlinable
    package var capacity: Int { entries.capacity }

    @inlinable
    package var first: (key: Key, value: Value)? { entries.first }

    @inlinable
    package mutating func insert(_ value: Value, key: Key) {
        entries.append((key, value))
        var child = entries.count - 1
        while child > 0 {
            let parent = (child &- 1) / 2
            guard entries[child].key < entries[parent].key else { return }
            entries.swapAt(child, parent)
            child = parent
        }
    }

    @inlinable
    package mutating func removeFirst() {
        entries.swapAt(0, entries.count - 1)
        entries.removeLast()
        siftDown(0)
    }

    @inlinable
    package mutating func replaceFirst(with value: Value) { entries[0].value = value }

    @inlinable
    package mutating func removeAll(where isMeant: (Key, Value) -> Bool) {
        compactMapValues { key, value in isMeant(key, value) ? nil : value }
    }

    @inlinable
    package mutating func compactMapValues(_ transform: (Key, Value) -> Value?) {
        var kept = 0
        for index in entries.indices {
            let (key, value) = entries[index]
            guard let value = transform(key, value) else { continue }
            entries[kept] = (key, value)
            kept += 1
        }
        entries.removeLast(entries.count - kept)
        for parent in stride(from: entries.count / 2, through: 0, by: -1) { siftDown(parent) }
    }

    @inlinable
    package mutating func giveBackMemory() {
        guard entries.count < entries.capacity / 16, entries.capacity > 1024 else { return }
        entries = entries.map { $0 }
    }

    @inlinable
    mutating func siftDown(_ start: Int) {
        var parent = start
        while true {
            var least = parent
            let left = 2 &* parent &+ 1
            if left < entries.count, entries[left].key < entries[least].key { least = left }
            let right = left &+ 1
            if right < entries.count, entries[right].key < entries[least].key { least = right }
            guard least != parent else { return }
            entries.swapAt(least, parent)
            parent = least
        }
    }
}

extension Heap: Sendable where Key: Sendable, Value: Sendable {}
