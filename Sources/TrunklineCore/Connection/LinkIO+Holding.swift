/// An owner pauses while the buffer of a stream is full and suspends reading, or while no task asks for frames. The
/// link must not look dead to the server then, and a dead link must still be detected: a client takes heartbeats as
/// they come. Everything else is held, in order, up to `options.inbound.maximumHeld`. Only then reading stops. A link
/// that ends or drains hands over what it holds, because its requests end. The next link may hold only what is left of
/// the limit: otherwise every link would add as much to a full buffer. Pushes beyond that become a gap (`limitPushes`).
extension LinkIO {
    func isHoldFull(_ link: Link) -> Bool {
        !link.state.held.isUnlimited && link.state.held.byteCount >= maximumHeld
    }

    var maximumHeld: Int { max(0, max(0, options.inbound.maximumHeld) - port.surplusBytes) }

    /// More than `maximumHeld`, because the frames of one turn are held even if they exceed it.
    private var heldLimitOfAllLinks: Int { min(max(0, options.inbound.maximumHeld), 1 << 60) + ReadShare.bytes }

    func hold(_ frames: [Frame], _ link: Link) -> [Frame] {
        guard port.isPaused || link.isCatchingUp else { return link.state.held.takeAll() + frames }
        var urgent: [Frame] = []
        for frame in frames {
            if !rules.deliversAll, frame.kind == .ping || frame.kind == .pong {
                urgent.append(frame)
            } else {
                link.state.held.append(frame)
            }
        }
        if isHoldFull(link) { updateReading() }
        return urgent
    }

    /// Held frames are delivered a little later, because the owner may be in the middle of a call.
    func setPaused(_ isPaused: Bool) {
        guard isPaused != port.isPaused else { return }
        port.isPaused = isPaused
        context.observation?.add(.limits, isPaused ? .limitReached(.streamBuffer) : .limitCleared(.streamBuffer))
        if !isPaused {
            port.surplusBytes = 0
            if links.handshaking != nil { host.handshakes.spillInbox() }
        }
        updateReading()
        guard !isPaused, links.all.contains(where: { !$0.state.held.frames.isEmpty }) else { return }
        host.schedule { $0.io.deliverAllHeld() }
    }

    private func deliverAllHeld() {
        links.forEach(where: { !$0.state.held.frames.isEmpty }) { session in
            if !port.isPaused, let link = links[session], !link.isCatchingUp { deliverHeld(link) }
        }
    }

    /// Even if the owner is paused: the frames came before what follows.
    func deliverHeld(_ link: Link, isLast: Bool = false) {
        guard !link.state.held.frames.isEmpty else { return }
        var frames = link.state.held.takeAll()
        let first = port.events.count
        host.take(&frames, link, isLast: isLast)
        if port.isPaused { limitPushes(from: first) }
        if link.isDraining { scheduleFlush() }  // a frame may have been the last response
    }

    /// None of the frames may be a heartbeat.
    func catchUp(with rest: ArraySlice<Frame>, _ link: Link) {
        for frame in rest { link.state.held.append(frame) }
        guard !link.isCatchingUp else { return }
        link.isCatchingUp = true
        updateReading()
        let session = link.session
        host.scheduleInNextTurn { $0.io.catchUp(session) }
    }

    private func catchUp(_ session: SessionID) {
        guard let link = links[session] else { return }
        defer { if deadlineWait != nil { endDeadlineWait() } }
        link.isCatchingUp = false
        // While the owner is paused, the frames stay held like others.
        if !port.isPaused {
            let count = link.state.held.frames.count
            deliverHeld(link)
            deadlineWait?.noteCaughtUp(count - link.state.held.frames.count)
        }
        guard links[session]?.isCatchingUp == false else { return }
        // The socket was not watched. What it holds may have come before a deadline of this turn.
        link.mayHaveMore = true
        updateReading()
    }

    private func limitPushes(from first: Int) {
        let new = port.events[first...]
        guard new.contains(where: { if case .pushes = $0 { true } else { false } }) else { return }
        port.giveBack(Array(port.events[..<first]))
        for event in new {
            guard case .pushes(let pushes) = event else {
                port.append(event)
                continue
            }
            var count = 0
            while count < pushes.count, port.surplusBytes < heldLimitOfAllLinks {
                port.surplusBytes += pushes[count].heldByteCount
                count += 1
            }
            if count > 0 { port.append(.pushes(Array(pushes[..<count]))) }
            if count < pushes.count { port.append(.surplusPushes(Array(pushes[count...]))) }
        }
    }
}
