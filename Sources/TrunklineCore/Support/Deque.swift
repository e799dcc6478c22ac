/// A double-ended queue in a ring: append at the back, take from the front, both in constant time.
package struct Deque<Element> {
    @usableFromInline var slots: [Element?]
    @usableFromInline var head = 0
    package private(set) var count = 0

    package init() { slots = [] }

    package var isEmpty: Bool { count == 0 }

    /// The element at `index`, counted from the front.
    package subscript(index: Int) -> Element {
        get {
            precondition(index >= 0 && index < count, "index out of range")
            guard let element = slots[slot(index)] else { preconditionFailure("an empty slot within a deque") }
            return element
        }
        set {
            precondition(index >= 0 && index < count, "index out of range")
            slots[slot(index)] = newValue
        }
    }

    package var first: Element? { count == 0 ? nil : slots[head] }

    package mutating func append(_ element: Element) {
        if count == slots.count { grow() }
        slots[slot(count)] = element
        count += 1
    }

    /// Puts `element` before the first one.
    package mutating func prepend(_ element: Element) {
        if count == slots.count { grow() }
        head = (head + slots.count - 1) & (slots.count - 1)
        slots[head] = element
        count += 1
    }

    package mutating func popFirst() -> Element? {
        guard count > 0 else { return nil }
        let element = slots[head].take()
        head = (head + 1) & (slots.count - 1)
        count -= 1
        return element
    }

    package mutating func removeAll() {
        self = Deque()
    }

    /// Removes every element that satisfies `predicate`, in linear time; the others keep their order.
    package mutating func removeAll(where predicate: (Element) -> Bool) {
        var kept = Deque()
        while let element = popFirst() {
            if !predicate(element) { kept.append(element) }
        }
        self = kept
    }

    private func slot(_ index: Int) -> Int { (head + index) & (slots.count - 1) }

    /// Doubles the ring; its size is always a power of two.
    private mutating func grow() {
        var larger: [Element?] = []
        larger.reserveCapacity(max(8, slots.count * 2))
        for index in 0..<count { larger.append(slots[slot(index)].take()) }
        while larger.count < max(8, slots.count * 2) { larger.append(nil) }
        slots = larger
        head = 0
    }
}

extension Deque: Sendable where Element: Sendable {}
