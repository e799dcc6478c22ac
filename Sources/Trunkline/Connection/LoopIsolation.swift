/// Where work on the loop enters the actors that live on it. The only file that assumes isolation. What else enters does so
/// by conformances marked `@preconcurrency`, which check it at run time.
extension Connection {
    /// Runs `body`, and then tells the owner what has come of it.
    func entered<Result>(_ body: (isolated Connection) -> Result) -> Result {
        let result = body(self)
        deliverEvents()
        return result
    }

    /// Runs `body` on the loop, soon, unless the connection is gone by then.
    nonisolated func schedule(_ body: @escaping @Sendable (isolated Connection) -> Void) {
        loop.schedule(Completion { [weak self] in self?.onLoop(body) })
    }

    /// Runs `body` at once. To be called on the loop, by whoever is not the owner.
    nonisolated func onLoop<Result: Sendable>(_ body: (isolated Connection) -> Result) -> Result {
        defer { assumeIsolated { $0.deliverEvents() } }
        return assumeIsolated(body)
    }

    /// Runs `body` at once, in a call of the owner's. Nothing is handed over meanwhile: the owner takes the events itself, at the
    /// end of its batch.
    nonisolated func inCallOfOwner<Result: Sendable>(_ body: (isolated Connection) -> Result) -> Result {
        assumeIsolated { $0.isInCallOfOwner = true }
        defer { assumeIsolated { $0.isInCallOfOwner = false } }
        return assumeIsolated(body)
    }

    /// Lets requests of `queue` go out that may, and returns whether one more could.
    nonisolated func admitEarly(from queue: inout RequestQueue<Waiter>, _ parts: inout RequestParts) -> Bool {
        assumeIsolated { connection in
            connection.admit(from: &queue, &parts)
            return connection.mayAdmit
        }
    }

    /// Never in the midst of a call of the owner's.
    fileprivate func deliverEvents() {
        while !events.isEmpty, !isInCallOfOwner {
            var batch = exchange(&events, with: exchange(&spareEvents, with: []))
            if let owner { owner.handle(&batch) } else { handle(batch) }
            batch.removeAll(keepingCapacity: batch.count <= 8192)
            spareEvents = batch
        }
    }
}

/// A timer of a connection beside that of its attempts. Kept by the connection.
///
/// Sendable although it is not checked: `timer` is touched on the connection's loop only.
final class ConnectionTimer: TimerTarget, @unchecked Sendable {
    private(set) lazy var timer = LoopTimer(target: self)
    private weak let connection: Connection?
    private let action: @Sendable (isolated Connection) -> Void

    init(_ connection: Connection, _ action: @escaping @Sendable (isolated Connection) -> Void) {
        self.connection = connection
        self.action = action
    }

    func timerFired() { connection?.onLoop(action) }
}
