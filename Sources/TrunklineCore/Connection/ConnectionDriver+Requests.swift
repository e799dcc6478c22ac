/// Requests on links: the calls of the owner, and what comes back.
extension ConnectionDriver {
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
        let nextLook = judge(isWaiting: queue.hasWaiting, watchesErrors: watchesErrors)
        return (port.takeAll(), nextLook)
    }

    /// Returns whether the link takes a further request.
    func admitEarly(from queue: inout RequestQueue, _ parts: inout RequestParts) -> Bool {
        admit(from: &queue, &parts)
        return links.room > 0 && ready?.state.takesMore(rules) == true
    }

    private func admit(from queue: inout RequestQueue, _ parts: inout RequestParts) {
        if ready == nil, queue.hasWaiting { connectIfNeeded() }
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
        if hasToWrite { scheduleFlushUnlessFull(ready) }
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
        if admitted > 0 { scheduleFlushUnlessFull(ready) }
        return admitted
    }

    func scheduleFlushUnlessFull(_ link: Link) {
        if !link.transport.awaitsWritable { io.scheduleFlush() }
    }

    enum GivenUp: Sendable {
        /// The request has left the link already: an event says how.
        case none
        case notSent
        case sent(Endpoint)
    }

    func cancel(_ id: RequestID, _ session: SessionID, _ place: LinkMachine.Place, isTimeout: Bool) -> GivenUp {
        guard let link = links[session] else { return .none }
        let endpoint = link.endpoint
        // It may have been the last request for which the draining link, or the closing connection, waits.
        if link.isDraining || lifecycle == .closing { io.scheduleFlush() }
        let cancellable = cancellable(id, place, on: link, isTimeout: isTimeout)
        if isTimeout, link.exchangesDatagrams, let sentAt = link.state.machine.writeTimes(of: id, at: place)?.lastByte {
            link.window.lost(sentAt: sentAt, at: loop.now)
        }
        switch link.state.machine.cancel(id, at: place, isTimeout: isTimeout, now: loop.now) {
        case .none: return .none
        case .notSent:
            if isTimeout, link.isReady, !isServerExcused,
                endpointJudge.isSilent || link.state.machine.isToBeJudged
            {
                link.state.machine.noteTimedOutUnsent(asIfWritten: false)
            }
            return .notSent
        case .sent: return .sent(endpoint)
        case .awaited(let serial, let type):
            // A response that the client does not read is no failure of the endpoint, nor is one on a draining link.
            if isTimeout, !port.isPaused, !isServerExcused, !link.isDraining { endpointJudge.requestTimedOut() }
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
        scheduleFlushUnlessFull(link)
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
        scheduleFlushUnlessFull(link)
    }

    func take(_ frames: inout [Frame], _ link: Link, isLast: Bool = false) {
        if rules.deliversAll { return handOver(frames, link) }
        let session = link.session
        var taken = Link.Taken(at: loop.now)
        taken.mayLeaveRest = !isLast
        var events = port.takeEvents()
        link.state.take(&frames, &taken, isDraining: link.isDraining, by: rules, into: &events)
        port.giveBack(events)
        // Before anything else: a frame that was handled may end the link.
        if let rest = taken.rest { io.catchUp(with: frames[rest...], link) }
        endpointJudge.heard(answers: taken.answers, responses: taken.responses, isDraining: link.isDraining)
        if link.exchangesDatagrams, taken.answers > 0 {
            link.window.answered(taken.answers, unanswered: link.state.machine.count)
        }
        if let dropped = taken.dropped { reports.note(dropped, link) }
        if taken.hasToWrite { scheduleFlushUnlessFull(link) }
        if taken.hasPong { liveness.notePong(link) }
        if taken.lastFrame != nil {
            for reason in [taken.lastFrame?.reason, taken.finalFrame?.reason] { reports.noteFarewell(reason, link) }
        }
        if !link.isDraining {
            if taken.answers > 0 { noteAnswer(link) }
            // After the frames that came with it: these belong to the link that now drains.
            if let lastFrame = taken.lastFrame {
                // One datagram, which anybody may have sent, ends no request: those in flight finish on the link.
                leave(lastFrame, session, finalFrame: link.exchangesDatagrams ? nil : taken.finalFrame)
            }
        } else if let finalFrame = taken.finalFrame,
            !link.exchangesDatagrams || link.draining?.awaitsAnswer == true
        {
            endDraining(session, finalFrame)
        }
        if let violation = taken.violation { lose(session, violation) }
        if taken.finalFrame != nil, link.isReady { closingIsAnswered() }
    }

    private func noteAnswer(_ link: Link) {
        guard !link.hasAnswered, machine.state == .ready(session: link.session) else { return }
        link.hasAnswered = true
        machine.linkAnswered()
    }

    private func handOver(_ frames: [Frame], _ link: Link) {
        guard !frames.isEmpty else { return }
        // Without requests an answer cannot be distinguished from an error message, unless nothing was written.
        if !link.hasAnswered, link.state.machine.wasUsed { noteAnswer(link) }
        // A reader is about to have one of them. If the link ends with them, no other one is needed.
        if !port.isWaiting { port.demand = .none }
        var frames = frames
        for index in frames.indices {
            frames[index].session = link.session
            if frames[index].isFarewell { reports.noteFarewell(frames[index].reason, link) }
        }
        port.append(.pushes(frames))
        guard let finalFrame = frames.first(where: { $0.linkEnding == .now }) else { return }
        if link.isReady {
            closingIsAnswered()
        } else if link.draining?.awaitsAnswer == true {
            endDraining(link.session, finalFrame)
        }
    }

    /// Requests in flight finish on the link, or are lost if there is a `finalFrame`.
    private func leave(_ lastFrame: Frame, _ session: SessionID, finalFrame: Frame?) {
        let hint = links[session]?.state.codec.retryAfter(in: lastFrame)
        let isOrdinary = lastFrame.kind == .response || lastFrame.kind == .goAway
        if lastFrame.linkEnding != .now || !isOrdinary || lastFrame.reason != nil {
            leaveEndpoint(because: .goAway, retryAfter: hint, isLinkEnding: finalFrame != nil)
        } else if let ready {
            // A link without traffic is not replaced at once, or a server could make the client connect without end.
            let departure: ReconnectMachine.Departure = ready.state.machine.wasUsed ? .lastResponse : .goAway
            leaveEndpoint(because: departure, retryAfter: hint, isLinkEnding: true)
        }
        // Otherwise a link that drains after an earlier goAway in the batch would wait for responses that never come.
        if let finalFrame { endDraining(session, finalFrame) }
    }

    func leaveEndpoint(
        because departure: ReconnectMachine.Departure,
        _ explanation: String? = nil,
        retryAfter: Duration? = nil,
        isLinkEnding: Bool = false
    ) {
        guard lifecycle < .closing, let ready, case .ready(let session) = machine.state,
            ready.session == session
        else { return }
        // An active client will soon need the next link, and must not wait because its server goes away.
        let isAtWork = ready.state.machine.count > 0 || departure == .goAway && ready.state.machine.wasUsed
        let demand = isAtWork ? .request : demand
        let action = machine.leave(
            session,
            because: departure,
            demand: demand,
            retryAfter: retryAfter,
            isLinkEnding: isLinkEnding,
            at: loop.now
        )
        if action != .none { ready.departure = explanation }
        perform(action)
    }
}
