/// Where closures enter the connection, and the calls of its client.
extension Connection {
    /// Runs `body`, and then delivers the events to the owner.
    func entered<Result>(_ body: (isolated Connection) -> Result) -> Result {
        let result = body(self)
        deliverEvents()
        return result
    }

    /// Runs `body` on the loop, soon, unless the connection has been deallocated by then.
    nonisolated func schedule(_ body: @escaping @Sendable (isolated Connection) -> Void) {
        loop.schedule(LoopClosure { [weak self] in self?.onLoop(body) })
    }

    /// Runs `body` at once. Call this on the loop, but not from the owner.
    nonisolated func onLoop<Result: Sendable>(_ body: (isolated Connection) -> Result) -> Result {
        defer { assumeIsolated { $0.deliverEvents() } }
        return assumeIsolated(body)
    }

    /// Runs `body` at once, within a call of the owner. No events are delivered meanwhile: the owner takes them itself
    /// at the end of its batch.
    nonisolated func inCallOfOwner<Result: Sendable>(_ body: (isolated Connection) -> Result) -> Result {
        onItsLoop { $0.isInCallOfOwner = true }
        defer { onItsLoop { $0.isInCallOfOwner = false } }
        return assumeIsolated(body)
    }

    /// Sends the requests of `queue` that may go out, and returns whether one more could.
    nonisolated func admitEarly(from queue: inout RequestQueue, _ parts: inout RequestParts) -> Bool {
        onItsLoop(&queue, &parts, ()) { connection, queue, parts, _ in
            connection.isInCallOfOwner = true
            defer { connection.isInCallOfOwner = false }
            connection.admit(from: &queue, &parts)
            return connection.mayAdmit
        }
    }

    /// The number of requests that could go out now, if the link allows them.
    nonisolated var roomNow: Int { onItsLoop { $0.room } }

    /// Puts a request on the ready link, if the link takes one now, and returns its place. The frame is moved out of
    /// `frame`. There is room for the request: see `roomNow`.
    @inline(__always)
    nonisolated func admitNow(
        _ id: RequestID,
        _ frame: inout Frame,
        expectsResponse: Bool,
        reports: QueuedRequest.Progress
    ) -> (session: UInt64, place: LinkMachine.Place)? {
        onItsLoop(&frame, (id, expectsResponse, reports)) { connection, frame, request in
            guard let ready = connection.openLink else { return nil }
            let (id, expectsResponse, reports) = request
            let frame = exchange(&frame, with: Frame(.pong))
            return connection.admit(id, frame, expectsResponse: expectsResponse, reports: reports, to: ready)
        }
    }

    /// Puts the first requests of a batch on the ready link, at most `room`, and notes their places in `queue`. Returns
    /// their number.
    nonisolated func admitNow(
        _ requests: [Request],
        first: RequestID,
        atMost room: Int,
        expectsResponse: Bool,
        _ queue: inout RequestQueue
    ) -> Int {
        onItsLoop(&queue, (requests, first, room, expectsResponse)) { connection, queue, call in
            guard let ready = connection.openLink else { return 0 }
            defer { connection.scheduleFlushUnlessFull(ready) }
            let (requests, first, room, expectsResponse) = call
            return ready.state.admit(
                requests,
                first: first,
                atMost: room,
                expectsResponse: expectsResponse,
                &queue,
                by: connection.rules,
                into: &connection.events
            )
        }
    }

    /// Delivers the events, but never within a call of the owner.
    func deliverEvents() {
        while !events.isEmpty, !isInCallOfOwner {
            var batch = exchange(&events, with: exchange(&spareEvents, with: []))
            owner?.handle(&batch, of: self)
            batch.removeAll(keepingCapacity: batch.count <= 8192)
            spareEvents = batch
        }
        if !isInCallOfOwner { observation?.deliver() }
    }
}

/// An additional timer of a connection, apart from that of its attempts. The connection owns it.
///
/// Unchecked Sendable: `timer` is accessed only on the connection's loop.
final class ConnectionTimer: TimerTarget, @unchecked Sendable {
    private(set) lazy var timer = LoopTimer(target: self, grid: grid)
    private let grid: Duration
    private weak let connection: Connection?
    private let name: String
    private let action: @Sendable (isolated Connection) -> Void

    /// `name` is for recordings. `grid`: see `LoopTimer.grid`.
    init(
        _ connection: Connection,
        _ name: String,
        grid: Duration = .nanoseconds(1),
        _ action: @escaping @Sendable (isolated Connection) -> Void
    ) {
        self.connection = connection
        self.name = name
        self.grid = grid
        self.action = action
    }

    func timerFired() {
        guard let connection else { return }
        connection.recorder?.timerFired(name)
        connection.onLoop(action)
    }
}
