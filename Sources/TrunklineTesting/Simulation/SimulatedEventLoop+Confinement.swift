import Trunkline

/// Getting onto the loop.
extension SimulatedEventLoop {
    func preconditionIsCurrent() {
        precondition(isCurrent, "this must be called on the simulated event loop")
    }

    /// Calls `body` as the owner of the loop. During a run another thread waits for its end, which is near: the run
    /// is told that it was left.
    func confined<Result>(_ body: () -> Result) -> Result {
        if isCurrent { return body() }
        posts.noteFault("the network was used from another thread")
        ownership.enter()
        defer { ownership.leave() }
        absorbPosts()
        return body()
    }

    /// Calls `action` on the loop: now when the loop is the caller's or nobody's, else as posted work.
    ///
    /// For places that must not wait, as a `deinit` and a cancellation handler.
    func perform(_ action: @escaping @Sendable () -> Void) {
        if isCurrent {
            action()
        } else if ownership.tryEnter() {
            defer { ownership.leave() }
            action()
        } else {
            schedule(Action(action))
        }
    }

    /// Makes ready what other threads posted.
    func absorbPosts() {
        guard !posts.isEmpty else { return }
        for entry in posts.takeAll() { ready.append(entry) }
    }
}

/// A closure as work of a loop.
private final class Action: LoopWork {
    private let action: @Sendable () -> Void

    init(_ action: @escaping @Sendable () -> Void) { self.action = action }

    func runOnLoop() { action() }
}
