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
