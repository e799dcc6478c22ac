/// A double-ended queue in a ring: append at the back, take from the front, both in constant time.
///
/// The ring shrinks to a quarter when less than a sixteenth of it is filled, so that a burst leaves no memory behind and
/// a queue that fills and empties in turn does not allocate for every element.
package struct Deque<Element> {
    /// The ring; its size is zero or a power of two.
    var slots: [Element?] = []
    var head = 0
    var filled = 0

    package init() {}

    package var count: Int { filled }

    package var isEmpty: Bool { filled == 0 }

    package var first: Element? { filled == 0 ? nil : slots[head] }

    package var last: Element? { filled == 0 ? nil : slots[slot(filled &- 1)] }

    /// The element at `index`, counted from the front.
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

    package mutating func append(_ element: consuming Element) {
        if filled == slots.count { grow() }
        slots[slot(filled)] = element
        filled &+= 1
    }

    /// Puts `element` before the first one.
    package mutating func prepend(_ element: Element) {
        if filled == slots.count { grow() }
        head = (head &+ slots.count &- 1) & (slots.count &- 1)
        slots[head] = element
        filled &+= 1
    }

    package mutating func popFirst() -> Element? {
        guard filled > 0 else { return nil }
        let element = slots[head].take()
        head = (head &+ 1) & (slots.count &- 1)
        filled &-= 1
        if filled < slots.count / 16, slots.count > Self.keptCapacity { resize(to: slots.count / 4) }
        return element
    }

    /// Removes every element and keeps a little memory.
    package mutating func removeAll() {
        while popFirst() != nil {}
        head = 0
    }

    /// Removes every element that satisfies `predicate`, in linear time; the others keep their order.
    package mutating func removeAll(where predicate: (Element) -> Bool) {
        for _ in 0..<filled {
            if let element = popFirst(), !predicate(element) { append(element) }
        }
    }

    func slot(_ index: Int) -> Int { (head &+ index) & (slots.count &- 1) }

    /// The number of elements for which there is room.
    package var capacity: Int { slots.count }

    /// A ring of so many slots, or fewer, does not shrink.
    static var keptCapacity: Int { 1024 }

    mutating func grow() { resize(to: max(8, slots.count * 2)) }

    mutating func resize(to size: Int) {
        var other = [Element?](repeating: nil, count: size)
        for index in 0..<filled { other[index] = slots[slot(index)].take() }
        slots = other
        head = 0
    }
}

extension Deque: Sendable where Element: Sendable {}
