extension Array {
    /// Like `removeAll(keepingCapacity:)`, which takes about 100 instructions even for one element or none.
    @inlinable
    package mutating func empty(keepingCapacity keepsCapacity: Bool = true) {
        guard keepsCapacity, count <= 4 else { return removeAll(keepingCapacity: keepsCapacity) }
        while popLast() != nil {}
    }
}
