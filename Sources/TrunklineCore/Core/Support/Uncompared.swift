/// A value that does not affect the equality and hash of its container: any two are equal.
package struct Uncompared<Value: Sendable>: Sendable, Hashable {
    package var value: Value

    package init(_ value: Value) { self.value = value }

    package static func == (a: Uncompared, b: Uncompared) -> Bool { true }

    package func hash(into hasher: inout Hasher) {}
}
