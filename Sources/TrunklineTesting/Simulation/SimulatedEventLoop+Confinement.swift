import TrunklineCore

extension SimulatedEventLoop {
    func preconditionIsCurrent() {
        precondition(isCurrent, "must be called on the simulated event loop")
    }

    /// Another thread waits until the current run ends, which is soon, because the run learns that code has left the
    /// loop.
    func confined<Result>(_ body: () -> Result) -> Result {
        if isCurrent { return body() }
        posts.noteFault("the network was used from another thread")
        ownership.enter()
        defer { ownership.leave() }
        absorbPosts()
        return body()
    }

    /// Calls `action` now if the caller owns the loop or it has no owner, otherwise as posted work: for places that
    /// must not wait, such as a `deinit` or a cancellation handler.
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

    func absorbPosts() {
        guard !posts.isEmpty else { return }
        for entry in posts.takeAll() { ready.append(entry) }
    }
}

private final class Action: LoopWork {
    private let action: @Sendable () -> Void

    init(_ action: @escaping @Sendable () -> Void) { self.action = action }

    func runOnLoop() { action() }
}
