/// The requests of the owner on the links of a connection: how they get there, how they are withdrawn, and what they
/// say about the server. Confined to the event loop of the connection.
final class LinkRequests {
    let io: LinkIO
    /// It owns this object.
    unowned let host: ConnectionDriver
    var judge: EndpointJudge
    var cancellations: [CancellationRun] = []
    /// Whether the first waiting request is exclusive, and waits for others on the link.
    private(set) var awaitsAlone = false

    init(_ io: LinkIO, host: ConnectionDriver) {
        (self.io, self.host) = (io, host)
        let options = io.context.options
        let silence = EndpointSilence(
            maximumTimeouts: options.liveness.maximumStalls,
            patience: options.liveness.probeAfter ?? options.liveness.deadline
        )
        let errors = options.failover.errorRate.map {
            ErrorRateWindow(share: $0.share, minimumRequests: $0.minimumRequests, window: $0.window)
        }
        let stableAfter = options.reconnecting.stableAfter
        let replacement = LinkReplacement(stableAfter: stableAfter, seed: io.loop.randomSeed())
        judge = EndpointJudge(errors, silence, replacement)
    }

    var context: ConnectionContext { io.context }
    var links: Links { io.links }
    var port: OwnerPort { io.port }
    var loop: any EventLoop { context.loop }
    var options: ClientOptions { context.options }
    var rules: LinkRules { context.rules }
    var ready: Link? { links.ready }

    /// Called by the owner at the end of each batch. Returns the events, and when to call again.
    func work(
        on queue: inout RequestQueue,
        _ parts: inout RequestParts,
        demand: ReconnectMachine.Demand,
        watchesErrors: Bool,
        for owner: any ConnectionOwner
    ) -> (events: [ConnectionEvent], nextLook: Instant?) {
        port.note(owner)
        port.demand = queue.hasWaiting ? .request : demand
        admit(from: &queue, &parts)
        if rules.isByChannel { ready?.state.machine.dropAwaited { queue.hasParked($0) } }
        if !queue.hasWaiting { port.demand = demand }
        port.isWaiting = queue.hasWaiting || parts.heldCount > 0
        port.waitingCount = queue.waitingCount
        let nextLook = look(isWaiting: queue.hasWaiting, watchesErrors: watchesErrors)
        return (port.takeAll(), nextLook)
    }

    /// Returns whether the link takes a further request.
    func admitEarly(from queue: inout RequestQueue, _ parts: inout RequestParts) -> Bool {
        admit(from: &queue, &parts)
        return links.room > 0 && ready?.state.takesMore(rules) == true
    }

    private func admit(from queue: inout RequestQueue, _ parts: inout RequestParts) {
        if ready == nil, queue.hasWaiting { host.connectIfNeeded() }
        if parts.heldCount > 0 { releasePartsOnDraining(&parts) }
        guard let ready, queue.hasWaiting || parts.heldCount > 0 else { return }
        let now = loop.now
        var (hasToWrite, events) = (false, port.takeEvents())
        if !queue.isWithoutAnswers {
            hasToWrite = ready.state.admitAnswers(from: &queue, at: now, by: rules, into: &events)
        }
        // One of each in turn, so that neither takes all the room below the watermark.
        var room = links.room
        repeat {
            var (most, isAlone) = (parts.heldCount == 0 ? room : min(room, 1), false)
            if !queue.exclusives.isEmpty {
                // All in their order: see `RequestQueue.popFirst(channel:mayGo:)`.
                if rules.isByChannel { queue.beginParking(on: ready.session) }
                awaitsAlone = false
                if !ready.state.machine.isHeld { (most, isAlone) = limited(most, queue, on: ready) }
            } else if awaitsAlone {
                awaitsAlone = false
            }
            let admitted = ready.state.admit(
                from: &queue,
                &parts,
                atMost: most,
                at: now,
                by: rules,
                telling: rules.stepObservation,
                into: &events
            )
            if isAlone, admitted > 0 { ready.state.machine.holdOthers(behind: queue.latestPlace) }
            room -= admitted
            hasToWrite = hasToWrite || admitted > 0
            if parts.heldCount == 0 { break }
            let hasReleased = ready.state.isBelowWatermark(rules) && ready.state.releasePart(of: &parts)
            hasToWrite = hasToWrite || hasReleased
            if admitted == 0, !hasReleased { break }
        } while true
        port.giveBack(events)
        if hasToWrite { io.scheduleFlushUnlessFull(ready) }
    }

    /// Those before the first exclusive request, or that one alone if nothing is in flight.
    private func limited(_ most: Int, _ queue: borrowing RequestQueue, on link: Link) -> (Int, isAlone: Bool) {
        let (count, isExclusive) = queue.countBeforeExclusive(atMost: most)
        guard count == 0, isExclusive else { return (count, false) }
        awaitsAlone = link.state.machine.inFlightCount > 0
        return awaitsAlone ? (0, false) : (min(most, 1), true)
    }

    private func releasePartsOnDraining(_ parts: inout RequestParts) {
        for session in parts.sessions {
            guard let link = links[session], link.isDraining else { continue }
            while link.state.releasePart(of: &parts) { io.scheduleFlush() }
        }
    }

    var mayAdmitAnswer: Bool { ready?.state.isBelowWatermark(rules) == true }

    func admitNow(
        _ requests: [Request],
        first: RequestID,
        atMost room: Int,
        expectsResponse: Bool,
        _ queue: inout RequestQueue
    ) -> Int {
        guard let ready else { return 0 }
        let admitted = ready.state.admit(
            requests,
            first: first,
            atMost: room,
            expectsResponse: expectsResponse,
            &queue,
            by: rules
        )
        if admitted > 0 { io.scheduleFlushUnlessFull(ready) }
        return admitted
    }

    enum GivenUp: Sendable {
        /// The request has left the link already: an event says how.
        case none
        case notSent
        case sent(Endpoint)
    }

    func cancel(_ id: RequestID, _ session: SessionID, _ place: PlaceOnLink, isTimeout: Bool) -> GivenUp {
        guard let link = links[session] else { return .none }
        let endpoint = link.endpoint
        // It may have been the last request for which the draining link, or the closing connection, waits.
        if link.isDraining || host.lifecycle == .closing { io.scheduleFlush() }
        let cancellable = cancellable(id, place, on: link, isTimeout: isTimeout)
        if isTimeout, link.exchangesDatagrams, let sentAt = link.state.machine.writeTimes(of: id, at: place)?.lastByte {
            link.window.lost(sentAt: sentAt, at: loop.now)
        }
        switch link.state.machine.cancel(id, at: place, isTimeout: isTimeout, now: loop.now) {
        case .none: return .none
        case .notSent:
            if isTimeout, link.isReady, !context.isServerExcused,
                judge.isSilent || link.state.machine.isToBeJudged
            {
                link.state.machine.noteTimedOutUnsent(asIfWritten: false)
            }
            return .notSent
        case .sent: return .sent(endpoint)
        case .awaited(let serial, let type):
            // A response that the client does not read is no failure of the endpoint, nor is one on a draining link.
            if isTimeout, !port.isPaused, !context.isServerExcused, !link.isDraining { judge.requestTimedOut() }
            if let cancellable { beginCancelling(cancellable, on: link) }
            // Nothing may come between the pieces of another request.
            if !link.state.machine.isUploading(besides: place),
                sendCancelFrame(for: serial, type: type, on: session)
            {
                link.state.machine.noteClosingPiece(at: loop.now)
            }
            return .sent(endpoint)
        }
    }

    func sendCancelFrame(for serial: SerialNumber, type: UInt32, on session: SessionID) -> Bool {
        guard let link = links[session], link.state.sendCancelFrame(for: serial, type: type, now: loop.now) else {
            return false
        }
        io.scheduleFlushUnlessFull(link)
        return true
    }

    func sendAgain(
        _ frame: Frame,
        _ id: RequestID,
        _ session: SessionID,
        _ number: SerialNumber,
        sentAt: Instant
    ) {
        guard let link = links[session] else { return }
        link.window.lost(sentAt: sentAt, at: loop.now)
        link.state.machine.sendAgain(frame, id, as: number)
        io.scheduleFlushUnlessFull(link)
    }

    /// Like a part of a request, the answer never moves to another link.
    func answer(_ frame: Frame, _ id: RequestID, to serial: SerialNumber, on session: SessionID) {
        guard let link = links[session] else { return }
        link.state.machine.send(part: frame, id: id, of: serial)
        io.scheduleFlushUnlessFull(link)
    }

    /// A draining link waits for the requests of the server.
    func noteCall(_ change: Int, on session: SessionID) {
        guard let link = links[session] else { return }
        link.openCalls += change
        if change < 0, link.isDraining { io.scheduleFlush() }
    }
}
