/// The one who waits in `suspend`, to be resumed exactly once, by whoever took this out of the place where it was kept.
///
/// An unsafe continuation underneath: a checked one costs an allocation per request to find a mistake that the tables
/// (removal is the only way out) do not allow.
@safe
package struct Suspension<Value: Sendable>: Sendable {
    private let continuation: UnsafeContinuation<Value, Never>

    fileprivate init(_ continuation: UnsafeContinuation<Value, Never>) {
        unsafe self.continuation = continuation
    }

    /// Lets the one who waits go on, on its own executor. Never to be called with a lock held.
    package func resume(returning value: Value) {
        unsafe continuation.resume(returning: value)
    }
}

extension Suspension<Void> {
    package func resume() { resume(returning: ()) }
}

/// Suspends the calling task until the `Suspension` given to `body`, which runs at once, is resumed.
package func suspend<Value: Sendable>(
    isolation: isolated (any Actor)? = #isolation,
    _ body: (Suspension<Value>) -> Void
) async -> Value {
    await unsafe withUnsafeContinuation(isolation: isolation) { unsafe body(Suspension($0)) }
}
