import TrunklineCore

/// Responses by key. The least recently used is removed first, in constant time: slots form a list in the order of use.
/// Returns what it removes, so that a caller that holds a lock can free it after it.
struct ResponseStore: Sendable {
    struct Slot {
        let key: CacheKey
        let response: Frame
        let receivedAt: Instant
        let cost: Int
        fileprivate var newer: Int?
        fileprivate var older: Int?
    }

    static let overhead = 512

    private let maximumCount: Int
    private let maximumBytes: Int
    private var slots: [Slot?] = []
    private var free: [Int] = []
    private var indices: [CacheKey: Int] = [:]
    private var newest: Int?
    private var oldest: Int?
    private(set) var byteCount = 0

    init(maximumCount: Int, maximumBytes: Int) {
        self.maximumCount = maximumCount
        self.maximumBytes = maximumBytes
    }

    var count: Int { indices.count }

    mutating func response(for key: CacheKey, _ age: CachePolicy.Age, at now: Instant) -> Frame? {
        guard let index = indices[key], let slot = slots[index], age.admits(now.since(slot.receivedAt)) else {
            return nil
        }
        if newest != index {
            unlink(index)
            link(index)
        }
        return slot.response
    }

    /// The response for `key` is removed even if there is no room for the new one.
    @discardableResult
    mutating func insert(_ response: Frame, for key: CacheKey, at now: Instant) -> [Slot] {
        var dropped = remove(key).map { [$0] } ?? []
        let cost = response.contentSize + key.size + Self.overhead
        guard maximumCount > 0, cost <= maximumBytes else { return dropped }
        // In this order, so that the subtraction cannot overflow.
        while count >= maximumCount || byteCount > maximumBytes - cost, let oldest, let slot = drop(oldest) {
            dropped.append(slot)
        }
        let slot = Slot(key: key, response: response, receivedAt: now, cost: cost)
        let index = free.popLast() ?? slots.count
        if index == slots.count { slots.append(slot) } else { slots[index] = slot }
        indices[key] = index
        byteCount += cost
        link(index)
        return dropped
    }

    @discardableResult
    mutating func remove(_ key: CacheKey, where isMeant: (Frame) -> Bool = { _ in true }) -> Slot? {
        guard let index = indices[key], let slot = slots[index], isMeant(slot.response) else { return nil }
        return drop(index)
    }

    @discardableResult
    mutating func removeAll() -> ResponseStore {
        exchange(&self, with: ResponseStore(maximumCount: maximumCount, maximumBytes: maximumBytes))
    }

    private mutating func drop(_ index: Int) -> Slot? {
        guard let slot = slots[index] else { return nil }
        unlink(index)
        slots[index] = nil
        free.append(index)
        indices[slot.key] = nil
        byteCount -= slot.cost
        return slot
    }

    private mutating func link(_ index: Int) {
        slots[index]?.newer = nil
        slots[index]?.older = newest
        if let newest { slots[newest]?.newer = index } else { oldest = index }
        newest = index
    }

    private mutating func unlink(_ index: Int) {
        guard let slot = slots[index] else { return }
        if let newer = slot.newer { slots[newer]?.older = slot.older } else { newest = slot.older }
        if let older = slot.older { slots[older]?.newer = slot.newer } else { oldest = slot.newer }
    }
}
