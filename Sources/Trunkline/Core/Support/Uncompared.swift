/// A value that does not affect the equality and hash of its container: any two are equal.
struct Uncompared<Value: Sendable>: Sendable, Hashable {
    var value: Value

    init(_ value: Value) { self.value = value }

    static func == (a: Uncompared, b: Uncompared) -> Bool { true }

    func hash(into hasher: inout Hasher) {}
}
