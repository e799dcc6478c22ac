/// The demand of a connection's owner, and the events that the owner has not received yet.
///
/// Confined to the event loop of the connection. A class, as `Links` is.
final class OwnerPort {
    /// The client that the connection belongs to, or its `FrameUse`.
    private(set) weak var owner: (any ConnectionOwner)?
    private var isKnown = false
    /// Whether the owner is calling: it takes the events itself at the end of its batch.
    var isCalling = false
    /// The owner's latest demand for a link.
    var demand = ReconnectMachine.Demand.none
    /// Whether the owner holds requests or parts that could not go out.
    var isWaiting = false
    /// Whether the owner takes no frames at present; a client still takes heartbeats.
    var isPaused: Bool
    /// How much memory the pushes take, counted as in `Link.Held`, that links have handed over because they ended or
    /// drained, since the owner paused.
    var surplusBytes = 0
    /// Events that the owner has not received yet. Exclusive access: see `LoopActor`.
    #if !DEBUG
        @exclusivity(unchecked)
    #endif
    @safe var events: [ConnectionEvent] = []
    /// An empty array whose memory is reused for the next events.
    private var spare: [ConnectionEvent] = []

    /// Creates the port of a connection that is used alone, whose `frameUse` has no reader yet; or of a client, which is
    /// known from its first call.
    init(of frameUse: FrameUse?) {
        isPaused = frameUse != nil
        if let frameUse { note(frameUse) }
    }

    /// Notes the owner, unless it is known.
    func note(_ owner: any ConnectionOwner) {
        if !isKnown { (self.owner, isKnown) = (owner, true) }
    }

    /// Whether events are to be delivered: never within a call of the owner.
    var hasToDeliver: Bool { !isCalling && !events.isEmpty }

    /// Takes the events. Give the array back when it is empty again.
    func takeBatch() -> [ConnectionEvent] { exchange(&events, with: exchange(&spare, with: [])) }

    func giveBack(_ batch: inout [ConnectionEvent]) {
        batch.removeAll(keepingCapacity: batch.count <= 8192)
        spare = exchange(&batch, with: [])
    }

    /// Takes the events at the end of a call of the owner.
    func takeEvents() -> [ConnectionEvent] { events.isEmpty ? [] : exchange(&events, with: []) }
}

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
        onItsLoop { $0.port.isCalling = true }
        defer { onItsLoop { $0.port.isCalling = false } }
        return assumeIsolated(body)
    }

    /// Sends the requests of `queue` that may go out, and returns whether one more could.
    nonisolated func admitEarly(from queue: inout RequestQueue, _ parts: inout RequestParts) -> Bool {
        onItsLoop(&queue, &parts, ()) { connection, queue, parts, _ in
            connection.port.isCalling = true
            defer { connection.port.isCalling = false }
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
    ) -> (session: SessionID, place: LinkMachine.Place)? {
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
                into: &connection.port.events
            )
        }
    }

    /// Delivers the events, but never within a call of the owner.
    func deliverEvents() {
        while port.hasToDeliver {
            var batch = port.takeBatch()
            port.owner?.handle(&batch, of: self)
            port.giveBack(&batch)
        }
        if !port.isCalling { observation?.deliver() }
    }
}
