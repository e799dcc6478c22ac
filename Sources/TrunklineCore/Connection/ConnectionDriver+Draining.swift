/// Draining: a link that takes no new requests stays until those that have started on it have ended.
extension ConnectionDriver {
    /// Requests that have started finish on the link, or meet their deadline. The others go out on the next link.
    func drain(_ link: Link, _ cause: DisconnectCause) {
        let session = link.session
        io.deliverHeld(link)
        // A held frame may have ended the link.
        guard link.isReady else { return }
        liveness.stop()
        let deadline = loop.now.advanced(by: options.failover.drainTimeout)
        let departure = machine.lastReplacement.map(\.departure) ?? link.departure
        let unsent = links.drain(link, Link.Draining(until: deadline, cause, departure))
        let reason = departure ?? link.farewell.map { "the server says: \($0)" }
        observation?.add(.links, .linkDraining(link.endpoint, session: session, cause, reason: reason))
        port.append(.returned(unsent))
        link.mayHaveMore = true  // reading may have stopped half-way
        if links.count > Links.maximumDraining, let oldest = links.draining.first {
            lose(oldest.session, TransportError.closedByUs("more than \(Links.maximumDraining) links were draining"))
        }
        armDraining()
        io.updateReading()
        io.scheduleFlush()
        // At once: there may be nothing in flight on it.
        io.scheduleReading()
    }

    func closeDrained() {
        var isAnyDrained = false
        for link in links.draining where link.hasNothingInFlight {
            if link.isDrained {
                isAnyDrained = true
                if link.draining?.hasSentClosingFrame == false { sendClosingFrame(link) }
            }
            if !link.isDrained, link.finalReads == nil { watchRest(link) }
        }
        guard isAnyDrained else { return }
        let drained = links.draining.filter(\.isDrained)  // a closing frame may still have to be written
        guard !drained.isEmpty else { return }
        for link in drained {
            io.deliverHeld(link, isLast: true)  // there may be pushes among them
            if links[link.session] != nil { end(link, .drained) }
        }
        // Abandoned requests on these links no longer count.
        port.append(.room)
    }

    /// No caller waits for what is left: cancel frames, the rest of abandoned requests, the closing frame.
    private func watchRest(_ link: Link) {
        let left = link.left
        if let rest = link.draining?.rest, !left.isLess(than: rest.left) { return }
        link.draining?.rest = Link.Draining.Rest(left: left, until: loop.now.advanced(by: Link.stallLimit))
        armDraining()
    }

    private func sendClosingFrame(_ link: Link, answering farewell: Frame? = nil) {
        link.draining?.hasSentClosingFrame = true
        guard link.draining?.isStalled == false,
            let closingFrame = link.state.codec.closingFrame(answering: farewell)
        else { return }
        link.state.machine.send(closingFrame)
        var result = Link.WriteResult()
        io.write(link, &result)
        reports.noteUnencodable(result.refused)
        let isSent = result.refused.isEmpty && result.failure == nil && link.finalReads == nil
        link.draining?.awaitsAnswer = isSent && farewell == nil && link.state.codec.closingIsAnswered
        // The peer can no longer receive anything.
        if result.failure != nil || link.finalReads != nil { link.state.machine.dropOutbound() }
    }

    /// Requests in flight are lost: RFC 9112 §9.6 requires the client to close, too.
    func endDraining(_ session: SessionID, _ farewell: Frame) {
        guard let link = links[session], let draining = link.draining else { return }
        if draining.awaitsAnswer, link.isWritten {
            end(link, .drained)
            return
        }
        if !draining.hasSentClosingFrame { sendClosingFrame(link, answering: farewell) }
        end(link, .endedByServer)
    }

    func loseDraining(_ cause: any Error) {
        for link in links.draining { lose(link.session, cause) }
    }

    func armDraining() {
        openHeldAttempt()
        guard let next = links.draining.compactMap({ $0.draining?.nextLook }).min() else {
            return arm(.draining, at: nil)
        }
        arm(.draining, at: next)
    }

    func drainingTimedOut() {
        if io.mustReadFirst() { return arm(.draining, at: loop.nextTurn) }
        let now = loop.turnTime
        links.forEach(where: { $0.draining?.rest.map { $0.until <= now } ?? false }) { session in
            io.flush(session)  // the socket may take bytes before it reports that it is writable
            guard let link = links[session], let rest = link.draining?.rest else { return }
            let isStalled = !link.left.isLess(than: rest.left)
            link.draining?.isStalled = isStalled
        }
        closeDrained()
        links.forEach(where: { $0.draining.map { $0.deadline <= now } ?? false }) { session in
            let late =
                "requests on the draining link did not end within failover.drainTimeout"
                + " (\(options.failover.drainTimeout.text))"
            lose(session, links[session]?.finalReads?.failure ?? .closedByUs(late))
        }
        armDraining()
    }
}
