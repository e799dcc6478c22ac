@usableFromInline
package struct Uncompared<Value: Sendable>: Sendable, Hashable {
    @usableFromInline package var value: Value

    @inlinable
    package init(_ value: Value) { self.value = value }

    @inlinable
    package static func == (a: Uncompared, b: Uncompared) -> Bool { true }

    @inlinable
    package func hash(into hasher: inout Hasher) {}
}
