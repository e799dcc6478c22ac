/// Where work on the loop enters the actors that live on it. This is the only file that assumes isolation. All other
/// entries are conformances marked `@preconcurrency`, which check the isolation at run time.
extension Connection {
    /// Runs `body`, and then delivers the events to the owner.
    func entered<Result>(_ body: (isolated Connection) -> Result) -> Result {
        let result = body(self)
        deliverEvents()
        return result
    }

    /// Runs `body` on the loop, soon, unless the connection has been deallocated by then.
    nonisolated func schedule(_ body: @escaping @Sendable (isolated Connection) -> Void) {
        loop.schedule(Completion { [weak self] in self?.onLoop(body) })
    }

    /// Runs `body` at once. Call this on the loop, but not from the owner.
    nonisolated func onLoop<Result: Sendable>(_ body: (isolated Connection) -> Result) -> Result {
        defer { assumeIsolated { $0.deliverEvents() } }
        return assumeIsolated(body)
    }

    /// Runs `body` at once, within a call of the owner. No events are delivered meanwhile: the owner takes them itself
    /// at the end of its batch.
    nonisolated func inCallOfOwner<Result: Sendable>(_ body: (isolated Connection) -> Result) -> Result {
        assumeIsolated { $0.isInCallOfOwner = true }
        defer { assumeIsolated { $0.isInCallOfOwner = false } }
        return assumeIsolated(body)
    }

    /// Sends the requests of `queue` that may go out, and returns whether one more could.
    nonisolated func admitEarly(from queue: inout RequestQueue<Waiter>, _ parts: inout RequestParts) -> Bool {
        assumeIsolated { connection in
            connection.admit(from: &queue, &parts)
            return connection.mayAdmit
        }
    }

    /// Delivers the events, but never within a call of the owner.
    fileprivate func deliverEvents() {
        while !events.isEmpty, !isInCallOfOwner {
            var batch = exchange(&events, with: exchange(&spareEvents, with: []))
            if let owner { owner.handle(&batch) } else { handle(batch) }
            batch.removeAll(keepingCapacity: batch.count <= 8192)
            spareEvents = batch
        }
    }
}

/// An additional timer of a connection, apart from that of its attempts. The connection owns it.
///
/// Unchecked Sendable: `timer` is accessed only on the connection's loop.
final class ConnectionTimer: TimerTarget, @unchecked Sendable {
    private(set) lazy var timer = LoopTimer(target: self, grid: grid)
    private let grid: Duration
    private weak let connection: Connection?
    private let action: @Sendable (isolated Connection) -> Void

    /// `grid`: see `LoopTimer.grid`.
    init(
        _ connection: Connection,
        grid: Duration = .nanoseconds(1),
        _ action: @escaping @Sendable (isolated Connection) -> Void
    ) {
        self.connection = connection
        self.grid = grid
        self.action = action
    }

    func timerFired() { connection?.onLoop(action) }
}
