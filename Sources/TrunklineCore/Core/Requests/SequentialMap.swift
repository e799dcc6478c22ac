/// A map for keys that are issued in sequence and usually removed soon: request IDs and serial numbers. Recent keys are
/// in a ring indexed by the low bits of the key, without hashing. If a new key needs the slot of an old one, the old
/// one moves to a dictionary for stragglers. Both shrink, so that a burst does not keep memory, but not so far that a
/// map that fills and empties in turn allocates for every value.
package struct SequentialMap<Value> {
    /// Slot `key & mask` holds the value of `key`. The size is a power of two.
    var ring: [Slot]
    var stragglers: [UInt64: Value] = [:]
    var ringCount = 0

    struct Slot {
        var key: UInt64
        var value: Value?
    }

    init() { ring = [] }

    var count: Int { ringCount + stragglers.count }

    var isEmpty: Bool { count == 0 }

    var capacity: Int { ring.count + stragglers.capacity }

    /// The ring and the dictionary do not shrink below this: enough for 1,024 values that come and go together.
    static var keptCapacity: Int { 2048 }

    func index(_ key: UInt64) -> Int { Int(truncatingIfNeeded: key) & (ring.count &- 1) }

    func contains(_ key: UInt64) -> Bool {
        guard !ring.isEmpty else { return false }
        let index = index(key)
        if ring[index].key == key, ring[index].value != nil { return true }
        return stragglers.isEmpty ? false : stragglers[key] != nil
    }

    subscript(key: UInt64) -> Value? {
        guard !ring.isEmpty else { return nil }
        let index = index(key)
        if ring[index].key == key, let value = ring[index].value { return value }
        return stragglers.isEmpty ? nil : stragglers[key]
    }

    /// Copies no more of the value than `body` does.
    @inline(__always)
    func read<Result>(_ key: UInt64, _ body: (borrowing Value) -> Result) -> Result? {
        guard !ring.isEmpty else { return nil }
        let index = index(key)
        if ring[index].key == key, let value = ring[index].value { return body(value) }
        guard !stragglers.isEmpty, let value = stragglers[key] else { return nil }
        return body(value)
    }

    mutating func insert(_ value: consuming Value, for key: UInt64) {
        // The ring grows when it is half full, so that collisions are rare while the keys are in sequence.
        if ringCount >= ring.count / 2 { grow() }
        let index = index(key)
        if ring[index].value != nil {
            if ring[index].key == key {
                ring[index].value = value
                return
            }
            // A straggler stays in the dictionary. If it were in both places, it could be removed twice.
            if replaceStraggler(value, for: key) { return }
            stragglers[ring[index].key] = ring[index].value.take()
        } else {
            if replaceStraggler(value, for: key) { return }
            ringCount += 1
        }
        // Safe: what is overwritten is `nil`. To assign would release it, at the cost of 80 instructions.
        unsafe Self.initialize(&ring[index], key, value)
    }

    @inline(__always)
    private static func initialize(_ slot: UnsafeMutablePointer<Slot>, _ key: UInt64, _ value: consuming Value) {
        unsafe slot.initialize(to: Slot(key: key, value: value))
    }

    @discardableResult
    @inline(__always)
    mutating func update(_ key: UInt64, _ change: (inout Value) -> Void) -> Bool {
        guard !ring.isEmpty else { return false }
        let index = index(key)
        if ring[index].key == key, var value = ring[index].value.take() {
            change(&value)
            ring[index].value = value
            return true
        }
        guard !stragglers.isEmpty, var value = stragglers[key] else { return false }
        change(&value)
        stragglers[key] = value
        return true
    }

    mutating func replaceStraggler(_ value: Value, for key: UInt64) -> Bool {
        guard !stragglers.isEmpty, stragglers[key] != nil else { return false }
        stragglers[key] = value
        return true
    }

    @discardableResult
    mutating func remove(_ key: UInt64) -> Value? {
        guard !ring.isEmpty else { return nil }
        let index = index(key)
        if ring[index].key == key, let value = ring[index].value.take() {
            ringCount -= 1
            if ringCount < ring.count / 16, ring.count > Self.keptCapacity { resize(to: ring.count / 4) }
            return value
        }
        return stragglers.isEmpty ? nil : removeStraggler(key)
    }

    mutating func removeStraggler(_ key: UInt64) -> Value? {
        let value = stragglers.removeValue(forKey: key)
        if stragglers.count < stragglers.capacity / 16, stragglers.capacity > Self.keptCapacity {
            stragglers = Dictionary(uniqueKeysWithValues: stragglers.map { ($0.key, $0.value) })
        }
        return value
    }

    func hasValue(where predicate: (Value) -> Bool) -> Bool {
        ring.contains { $0.value.map(predicate) ?? false } || stragglers.values.contains(where: predicate)
    }

    func compactMap<Result>(_ transform: (Value) -> Result?) -> [Result] {
        ring.compactMap { $0.value.flatMap(transform) } + stragglers.values.compactMap(transform)
    }

    func forEach(_ body: (_ key: UInt64, _ value: Value) -> Void) {
        for slot in ring {
            if let value = slot.value { body(slot.key, value) }
        }
        for (key, value) in stragglers { body(key, value) }
    }

    var sorted: [(key: UInt64, value: Value)] {
        var all: [(key: UInt64, value: Value)] = stragglers.map { ($0.key, $0.value) }
        for slot in ring {
            if let value = slot.value { all.append((slot.key, value)) }
        }
        return all.sorted { $0.key < $1.key }
    }

    mutating func removeAll() { self = SequentialMap() }

    mutating func grow() { resize(to: max(4, ring.count * 2)) }

    /// `size` is more than twice the number of values.
    mutating func resize(to size: Int) {
        var old = exchange(&ring, with: [])
        ring.reserveCapacity(size)
        for _ in 0..<size { ring.append(Slot(key: 0, value: nil)) }
        ringCount = 0
        for index in old.indices {
            // Moved: a copy of each value would be retained and released.
            if let value = old[index].value.take() { insert(value, for: old[index].key) }
        }
    }
}

extension SequentialMap: Sendable where Value: Sendable {}
extension SequentialMap.Slot: Sendable where Value: Sendable {}
