/// A ring buffer. It shrinks when less than a sixteenth is filled, to a quarter, so that a burst does not keep memory,
/// and a queue that fills and empties in turn does not allocate for every element.
@usableFromInline
package struct Deque<Element> {
    /// The size is zero or a power of two.
    @usableFromInline var slots: [Element?] = []
    @usableFromInline var head = 0
    @usableFromInline var filled = 0

    @inlinable
    package init() {}

    @inlinable
    package var count: Int { filled }

    @inlinable
    package var isEmpty: Bool { filled == 0 }

    @inlinable
    package var first: Element? { filled == 0 ? nil : slots[head] }

    @inlinable
    package var last: Element? { filled == 0 ? nil : slots[slot(filled &- 1)] }

    @inlinable
    package subscript(index: Int) -> Element {
        get {
            guard index >= 0, index < filled, let element = slots[slot(index)] else {
                preconditionFailure("index out of range")
            }
            return element
        }
        set {
            precondition(index >= 0 && index < filled, "index out of range")
            slots[slot(index)] = newValue
        }
    }

    @inlinable
    package mutating func append(_ element: consuming Element) {
        if filled == slots.count { grow() }
        slots[slot(filled)] = element
        filled &+= 1
    }

    @inlinable
    package mutating func prepend(_ element: Element) {
        if filled == slots.count { grow() }
        head = (head &+ slots.count &- 1) & (slots.count &- 1)
        slots[head] = element
        filled &+= 1
    }

    @inlinable
    package mutating func popFirst() -> Element? {
        guard filled > 0 else { return nil }
        let element = slots[head].take()
        head = (head &+ 1) & (slots.count &- 1)
        filled &-= 1
        if filled < slots.count / 16, slots.count > Self.keptCapacity { resize(to: slots.count / 4) }
        return element
    }

    @inlinable
    package mutating func popLast() -> Element? {
        guard filled > 0 else { return nil }
        filled &-= 1
        return slots[slot(filled)].take()
    }

    @inlinable
    package mutating func removeAll() {
        while popFirst() != nil {}
        head = 0
    }

    @inlinable
    package mutating func removeAll(where predicate: (Element) -> Bool) {
        for _ in 0..<filled {
            if let element = popFirst(), !predicate(element) { append(element) }
        }
    }

    @inlinable
    func slot(_ index: Int) -> Int { (head &+ index) & (slots.count &- 1) }

    @inlinable
    package var capacity: Int { slots.count }

    @inlinable
    static var keptCapacity: Int { 1024 }

    @inlinable
    mutating func grow() { resize(to: max(4, slots.count * 2)) }

    @usableFromInline
    mutating func resize(to size: Int) {
        var other: [Element?] = []
        other.reserveCapacity(size)
        for index in 0..<filled { other.append(slots[slot(index)].take()) }
        for _ in filled..<size { other.append(nil) }
        slots = other
        head = 0
    }
}

extension Deque: Sendable where Element: Sendable {}
