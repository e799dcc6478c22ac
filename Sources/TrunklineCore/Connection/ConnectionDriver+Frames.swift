/// Frames of ready and draining links: what they mean for their link.
extension ConnectionDriver {
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
        requests.judge.heard(answers: taken.answers, responses: taken.responses, isDraining: link.isDraining)
        if link.exchangesDatagrams, taken.answers > 0 {
            link.window.answered(taken.answers, unanswered: link.state.machine.count)
        }
        if let dropped = taken.dropped { reports.note(dropped, link) }
        if taken.hasToWrite { io.scheduleFlushUnlessFull(link) }
        if taken.hasPong { liveness.notePong(link) }
        if let last = taken.lastFrames {
            for reason in [last.first.reason, last.final?.reason] { reports.noteFarewell(reason, link) }
        }
        if !link.isDraining, taken.answers > 0 { noteAnswer(link) }
        // After the frames that came with it: these belong to the link that now drains.
        if let last = taken.lastFrames { take(last, link) }
        if let violation = taken.violation { lose(session, violation) }
        if taken.lastFrames?.final != nil, link.isReady { closingIsAnswered() }
    }

    private func take(_ frames: Link.LastFrames, _ link: Link) {
        if !link.isDraining {
            // One datagram, which anybody may have sent, ends no request: those in flight finish on the link.
            leave(frames.first, link.session, finalFrame: link.exchangesDatagrams ? nil : frames.final)
        } else if let finalFrame = frames.final,
            !link.exchangesDatagrams || link.draining?.awaitsAnswer == true
        {
            endDraining(link.session, finalFrame)
        }
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
