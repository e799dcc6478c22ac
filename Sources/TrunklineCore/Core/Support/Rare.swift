/// A value that most of its owners never change. Until then, it takes the memory of one reference.
package struct Rare<Value: EmptyInitializable & Sendable>: Sendable {
    /// Unchecked Sendable: changed only while one `Rare` refers to it, so as exclusively as the fields of that.
    private final class Box: @unchecked Sendable {
        var value: Value
        init(_ value: Value) { self.value = value }
    }

    private var box: Box?

    init() {}

    @inline(__always)
    var isInitial: Bool { box == nil }

    var value: Value {
        get { box?.value ?? Value() }
        _modify {
            if !isKnownUniquelyReferenced(&box) { box = Box(value) }
            guard let box else { preconditionFailure("set above") }
            yield &box.value
        }
    }
}

package protocol EmptyInitializable { init() }
