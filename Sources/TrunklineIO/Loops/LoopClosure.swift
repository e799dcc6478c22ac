package final class LoopClosure: LoopWork {
    private let body: @Sendable () -> Void

    package init(_ body: @escaping @Sendable () -> Void) { self.body = body }

    package func runOnLoop() { body() }
}
