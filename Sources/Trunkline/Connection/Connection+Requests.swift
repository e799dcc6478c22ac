/// Requests on their links: what the client asks of its connection, and what comes back.
extension Connection {
    // MARK: Onto a link

    /// The end of a batch of the client's: lets go out what may, and judges the link. Returns what has happened.
    func work(
        on queue: inout RequestQueue<Waiter>,
        _ parts: inout RequestParts,
        demand: ReconnectMachine.Demand,
        watchesErrors: Bool,
        for owner: any ConnectionOwner
    ) -> (events: [ConnectionEvent?], nextLook: Instant?) {
        if !isOwned { (self.owner, isOwned) = (owner, true) }
        ownerDemand = demand
        admit(from: &queue, &parts)
        judge(isWaiting: !queue.isEmpty, watchesErrors: watchesErrors)
        return (events.isEmpty ? [] : exchange(&events, with: []), nextLook)
    }

    /// Puts requests of `queue` on the link as far as they may go now, and parts of requests that have started.
    func admit(from queue: inout RequestQueue<Waiter>, _ parts: inout RequestParts) {
        var next = 0
        guard let ready else {
            while releasePart(of: &parts, &queue, from: &next) {}
            if !queue.isEmpty { connectIfNeeded() }
            return
        }
        if queue.isEmpty, parts.heldCount == 0 { return }
        // In turn, so that neither keep the others from the room below the watermark.
        var room = maximumInFlight - inFlight
        var hasToWrite = false
        repeat {
            let most = parts.heldCount == 0 ? room : min(room, 1)
            let admitted = links[ready].admit(from: &queue, atMost: most, by: rules, into: &events)
            room -= admitted
            hasToWrite = hasToWrite || admitted > 0
            if parts.heldCount == 0 { break }
            let hasReleased = releasePart(of: &parts, &queue, from: &next)
            hasToWrite = hasToWrite || hasReleased
            if admitted == 0, !hasReleased { break }
        } while true
        if hasToWrite { scheduleFlushUnlessFull(ready) }
    }

    /// Whether one request more could go out now.
    var mayAdmit: Bool {
        guard let ready else { return false }
        return inFlight < maximumInFlight && links[ready].isBelowWatermark(rules) && !links[ready].machine.isHeld
            && links[ready].machine.exhaustion == nil
    }

    /// Lets the first held part from `next` on go out whose request has started and for which there is room; moves `next` to
    /// where to go on. Returns whether there was one.
    private func releasePart(
        of parts: inout RequestParts,
        _ queue: inout RequestQueue<Waiter>,
        from next: inout Int
    ) -> Bool {
        while next < parts.held.count {
            defer { next += 1 }
            guard let part = parts.held[next],
                case .onLink(let session, .response(let number))? = queue[part.request],
                let index = index(of: session),
                links[index].machine.requests[number]?.id == part.request,
                links[index].machine.hasStarted(part.request, at: .response(number)),
                links[index].draining != nil || links[index].isBelowWatermark(rules)
            else { continue }
            links[index].machine.send(part: parts.release(at: next), id: part.id, of: number)
            if links[index].draining != nil { scheduleFlush() }
            return true
        }
        return false
    }

    private func scheduleFlushUnlessFull(_ index: Int) {
        if !links[index].transport.awaitsWritable { scheduleFlush() }
    }

    private var isInOrder: Bool { rules.isInOrder }
    private var maximumInFlight: Int { max(1, options.requests.maximumInFlight) }

    /// From this limit on `maximumInFlight` bounds what the client has to remember, and below it what the server has to do:
    /// such a limit holds across draining links, and no link is replaced for it.
    static let strictLimit = 1024
    private var isStrict: Bool { maximumInFlight < Self.strictLimit }

    /// How many requests and messages count against the limit, those among them that were given up.
    private var inFlight: Int {
        var count = abandonedInFlight
        for index in links.indices where links[index].handshake == nil { count += links[index].machine.count }
        return count
    }

    private var abandonedInFlight: Int {
        var count = 0
        for index in links.indices where links[index].draining == nil || isStrict {
            count += links[index].machine.requests.abandonedCount
        }
        return count
    }

    /// When every serial of the link is held: says so.
    var serialShortage: String? {
        guard let ready, let (count, abandoned) = links[ready].machine.exhaustion else { return nil }
        return "all \(count) serial numbers are held, \(abandoned) by requests that were given up"
    }

    /// What a request that was admitted by now would not wait for; `nil` when there is nothing of the kind.
    private var whatHoldsOthersBack: String? {
        guard inFlight < maximumInFlight else {
            let abandoned = abandonedInFlight
            let givenUp = abandoned == 0 ? "" : ", \(abandoned) of them given up and not answered"
            return "\(inFlight) requests are in flight\(givenUp)"
        }
        return serialShortage
    }

    /// A request has timed out that waited its turn; returns what for, if there is a link. Where responses match in order,
    /// and it waited behind requests that were given up, it counts as if it had gone out behind them.
    ///
    /// - Parameter rests: It waited between two tries, and so for no response.
    func timedOutWaiting(rests: Bool) -> String? {
        guard let ready else { return nil }
        let isBehind = isInOrder && abandonedInFlight > 0 && inFlight >= maximumInFlight
        let hasSilence = silence.hasBegun || links[ready].machine.isToBeJudged
        if isBehind || !rests && hasSilence {
            links[ready].machine.noteTimedOutUnsent(asIfWritten: isBehind)
        }
        return whatHoldsOthersBack
    }

    // MARK: Giving up

    /// What giving up a request on a link comes to.
    enum GivenUp: Sendable {
        /// It has left already, and is among the events.
        case none
        case notSent(Waiter)
        case sent(Waiter, Endpoint)
    }

    /// Gives up the request of `id`, which is at `place` on the link of `session`; tells the server if the protocol can.
    func cancel(_ id: RequestID, _ session: UInt64, _ place: LinkMachine<Waiter>.Place, isTimeout: Bool) -> GivenUp {
        guard let index = index(of: session) else { return .none }
        let endpoint = links[index].endpoint
        // It may have been the last request that the draining link, or the closing connection, waits for.
        if links[index].draining != nil || lifecycle == .closing { scheduleFlush() }
        switch links[index].machine.cancel(id, at: place, isTimeout: isTimeout, now: loop.now) {
        case .none: return .none
        case .notSent(let waiter):
            if isTimeout, links[index].machine.phase == .ready,
                silence.hasBegun || links[index].machine.isToBeJudged
            {
                links[index].machine.noteTimedOutUnsent(asIfWritten: false)
            }
            return .notSent(waiter)
        case .sent(let waiter): return .sent(waiter, endpoint)
        case .awaited(let waiter, let serial, let type):
            // What we do not read ourselves is no failure of the endpoint's, nor are requests on a link that was left.
            if isTimeout, !isPaused, links[index].draining == nil { errors?.countFailed() }
            if let frame = codec._cancelFrame(for: serial, type: type) { send(frame, on: session) }
            return .sent(waiter, endpoint)
        }
    }

    /// Sends a frame that nobody waits for on the link of `session`.
    func send(_ frame: Frame, on session: UInt64) {
        guard let index = index(of: session) else { return }
        links[index].machine.send(frame)
        scheduleFlushUnlessFull(index)
    }

    /// Takes a part of a request out of the way, unless a byte of it was written. Returns whether it did.
    func removePart(_ id: RequestID) -> Bool {
        for index in links.indices where links[index].machine.removePart(id) { return true }
        return false
    }

    /// Whether the server may have seen the request.
    func hasStarted(_ id: RequestID, _ session: UInt64, _ place: LinkMachine<Waiter>.Place) -> Bool {
        index(of: session).map { links[$0].machine.hasStarted(id, at: place) } ?? true
    }

    /// Who waits for a request on a link.
    func waiter(of id: RequestID, _ session: UInt64, _ place: LinkMachine<Waiter>.Place) -> Waiter? {
        index(of: session).flatMap { links[$0].machine.waiter(of: id, at: place) }
    }

    // MARK: Frames

    /// Frames of a link that is ready or draining.
    func take(_ frames: inout [Frame], _ index: Int) {
        let (session, count) = (links[index].session, frames.count)
        let taken = links[index].take(&frames, by: rules, at: loop.now, into: &events)
        answers &+= taken.answers
        if taken.hasToWrite { scheduleFlushUnlessFull(index) }
        if links[index].draining == nil {
            silence.end()
            errors?.countAnswered(taken.responses)
            if taken.answers > 0, !machine.hasAnswered, machine.state == .ready(session: session) {
                machine.linkAnswered()
            }
            // After the frames that came with it, which belong to the link that is left now.
            if let farewell = taken.farewell { leave(farewell, session, isLast: taken.isLast) }
            // Fewer are not worth the loop's time, and more take it so long that the first are heard anyway.
            if (8..<64).contains(count) { loop.expectNews() }
        } else if taken.isLast {
            endDraining(session)
        }
        if let violation = taken.violation { lose(session, violation) }
    }

    // MARK: Leaving

    /// The server is about to go, or answers nothing more on this link: what is out finishes there, or is lost.
    private func leave(_ farewell: Frame, _ session: UInt64, isLast: Bool) {
        let hint = codec._retryAfter(in: farewell)
        if farewell.kind == .goAway {
            leaveEndpoint(because: .goAway, retryAfter: hint, isLinkEnding: isLast)
        } else if let ready {
            // One on which nothing was ever sent has no successor at once: a server must not be able to make us connect
            // without end.
            let departure: ReconnectMachine.Departure = links[ready].machine.wasUsed ? .lastResponse : .goAway
            leaveEndpoint(because: departure, retryAfter: hint, isLinkEnding: true)
        }
        // Left because of a goAway that came along, it would wait for responses that do not come.
        if isLast { endDraining(session) }
    }

    /// Leaves the endpoint of the link for another, if there is one.
    func leaveEndpoint(
        because departure: ReconnectMachine.Departure,
        retryAfter: Duration? = nil,
        isLinkEnding: Bool = false
    ) {
        guard lifecycle < .closing, let ready, case .ready(let session) = machine.state,
            links[ready].session == session
        else { return }
        // A client that is at work will need the next link soon; and none that was shall wait because its server goes.
        let isAtWork = links[ready].machine.count > 0 || departure == .goAway && links[ready].machine.wasUsed
        let demand = isAtWork ? .request : demand
        perform(
            machine.leave(
                session,
                because: departure,
                demand: demand,
                retryAfter: retryAfter,
                isLinkEnding: isLinkEnding,
                at: loop.now
            )
        )
    }

    /// Requests were given up, or wait for what others hold that were given up: leaves the link, and its endpoint, if there
    /// is reason to. To be called at the end of every batch.
    ///
    /// - Parameters:
    ///   - isWaiting: Whether requests wait.
    ///   - watchesErrors: Whether the share of failed requests counts.
    func judge(isWaiting: Bool, watchesErrors: Bool) {
        let now = loop.now
        replacement.beginLook()
        if watchesErrors, errors != nil {
            errors?.roll(to: now)
            if errors?.isExceeded == true { leaveEndpoint(because: .errorRate) }
        }
        guard let ready else { return }
        if links[ready].machine.isToBeJudged { judge(ready, at: now) }
        guard isWaiting || replacement.isShort, let ready = self.ready else { return }
        let obstacle = obstacle(ready, at: now)
        let mayReplace = isWaiting || replacement.hasRefused
        guard let departure = replacement.look(obstacle, isWaiting: mayReplace, at: now) else { return }
        leaveEndpoint(because: departure)
        replacement.replaced(afterAnswers: answers, at: now)
    }

    /// What we do not read ourselves is not the server's silence.
    private func judge(_ index: Int, at now: Instant) {
        let maximumStalls = options.liveness.maximumStalls
        let (timeouts, isSpent) = links[index].machine.judge(counts: !isPaused, maximumStalls: maximumStalls)
        silence.timedOut(timeouts, at: now)
        let isUnasked = timeouts > 0 && links[index].machine.timedOut(timeouts, at: now)
        armLiveness()
        guard isSpent || isUnasked else { return }
        if silence.isTooLong(at: now) {
            silence.end()
            leaveEndpoint(because: .silence)
        } else if isSpent {
            leaveEndpoint(because: .unanswered)
        }
    }

    private func obstacle(_ index: Int, at now: Instant) -> LinkReplacement.Obstacle {
        let abandoned = links[index].machine.requests.abandonedCount
        guard inFlight < maximumInFlight else {
            if !isStrict, abandoned >= maximumInFlight / 2 { return .exhausted }
            // In order, nothing behind the oldest can be answered before it.
            guard let until = links[index].machine.oldestAbandonedUntil() else { return .other }
            return until <= now ? .unanswered : .unansweredUntil(until)
        }
        guard let (count, abandoned) = links[index].machine.exhaustion, !links[index].machine.isHeld,
            links[index].isBelowWatermark(rules)
        else { return .other }
        return abandoned * 2 >= count ? .exhausted : .other
    }

    /// When to look again for serials out of quarantine, and for a link to be replaced; `nil` for never.
    var nextLook: Instant? {
        var next = replacement.lookAgainAt
        for index in links.indices {
            guard let end = links[index].machine.requests.nextQuarantineEnd else { continue }
            next = min(next ?? end, end)
        }
        return next
    }

    /// Frees serials whose quarantine is over.
    func endQuarantines() {
        let now = loop.now
        for index in links.indices { links[index].machine.endQuarantine(at: now) }
    }

    // MARK: Counts

    /// How many requests were given up that the server may still work on, and how many serials are held, on all links; without
    /// those of a handshake.
    var held: (Int, Int) {
        var (abandoned, serials) = (0, 0)
        for link in links where link.handshake == nil {
            abandoned += link.machine.requests.abandonedCount
            if !isInOrder { serials += link.machine.requests.heldCount }
        }
        return (abandoned, serials)
    }
}
