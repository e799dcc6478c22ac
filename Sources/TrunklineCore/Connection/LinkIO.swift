/// Reads and writes on all links of a connection: handshaking, ready and draining. Confined to its event loop.
final class LinkIO {
    let context: ConnectionContext
    let links: Links
    let port: OwnerPort
    let reports: LinkReports
    /// It owns this object.
    unowned let host: ConnectionDriver
    // Only assigned as a whole: see `Link.content`.
    private var isFlushing = false
    private var isReadScheduled = false
    var deadlineWait: DeadlineWait?
    /// Empty. Its memory is used for the next frames that are decoded.
    private var memory: [Frame] = []

    init(
        _ context: ConnectionContext,
        _ links: Links,
        _ port: OwnerPort,
        _ reports: LinkReports,
        host: ConnectionDriver
    ) {
        (self.context, self.links, self.port, self.reports, self.host) = (context, links, port, reports, host)
    }

    var loop: any EventLoop { context.loop }
    var options: ClientOptions { context.options }
    var rules: LinkRules { context.rules }
    private var recorder: (any ClientRecorder)? { context.recorder }
    private var ready: Link? { links.ready }

    private func takeMemory() -> [Frame] {
        let memory = memory
        self.memory = []
        return memory
    }

    private func giveBack(_ frames: inout [Frame]) {
        frames.empty()
        if frames.capacity <= 8192 { memory = exchange(&frames, with: []) }
    }

    /// Handles an event of the transport with this ID.
    func heard(_ id: UInt64, _ event: TransportEvent) {
        guard let link = links.link(ofTransport: id) else { return }
        switch event {
        case .securing, .opening: return
        // The dialer has heard of the socket's connection, so this is TLS that the handshake has started (`startTLS`).
        case .connected: host.handshakes.upgraded(link)
        case .connectFailed(let error): host.handshakes.upgradeFailed(link, error)
        // What is left from the last turn is read first, within this turn's share.
        case .readable: if isReadScheduled { link.mayHaveMore = true } else { read(link.session) }
        case .writable:
            if link.isReady { link.state.machine.socketTookBytes(at: loop.turnTime) }
            flush(link.session)
            scheduleFlush()  // it may have been the last frame of a draining link
        }
    }

    func read(_ session: SessionID) {
        guard let link = links[session], !isLostInHandshake(link) else { return }
        defer { if deadlineWait != nil { endDeadlineWait() } }
        var share = ReadShare()
        if port.isPaused, link.isReady { share.limit(to: max(1, maximumHeld - link.state.held.byteCount)) }
        var frames = takeMemory()
        let result = link.state.read(
            into: &frames,
            limit: options.inbound.maximumUndecoded,
            share,
            of: link,
            on: loop
        )
        link.mayHaveMore = result.mayHaveMore
        if result.isShareUsedUp { scheduleReading() }
        reports.counts.noteReceived(result.count, frames.count)
        if let dropped = result.dropped { reports.note(dropped, link) }
        let hasFrames = !frames.isEmpty
        if hasFrames { recorder?.received(frames, session: session, at: loop.now) }
        if result.isLookSooner { host.liveness.arm() }
        if hasFrames { deliver(&frames, link) }
        giveBack(&frames)
        // The frames may have ended this link.
        guard let link = links[session] else { return }
        if let ending = result.ending { return host.lose(session, ending) }
        guard let finalReads = link.finalReads else { return }
        finalReads.byteCount += result.signs
        // Over TLS a read stops after a number of records, even if more are waiting.
        if result.signs > 0 || hasFrames, mayContinueFinalReads(link) {
            scheduleReading()
        } else {
            host.lose(session, finalReads.failure)
        }
    }

    private func isLostInHandshake(_ link: Link) -> Bool {
        link.handshake?.loss != nil
    }

    /// Frames are held while there is room. The rest is lost: a receiver must not keep such a link alive.
    private func mayContinueFinalReads(_ link: Link) -> Bool {
        guard let finalReads = link.finalReads,
            loop.turnTime < finalReads.deadline || finalReads.byteCount < Self.readBeforeDeadline
        else { return false }
        if link.isDraining { return true }
        if let handshake = link.handshake { return handshake.mayRead }
        return !port.isPaused || !isHoldFull(link)
    }

    func scheduleReading() {
        guard !isReadScheduled else { return }
        isReadScheduled = true
        host.scheduleInNextTurn { $0.io.readOn() }
    }

    private func readOn() {
        isReadScheduled = false
        links.forEach(where: { $0.isToBeReadOn }) { read($0) }
    }

    func deliver(_ frames: inout [Frame], _ link: Link) {
        if link.isInHandshake { return host.handshakes.take(frames, link) }
        if rules.deliversAll { takeHeartbeats(among: &frames, link) }
        if !link.isDraining {
            if !link.hasDelivered, Frame.hasPush(frames) {
                link.hasDelivered = true
                host.machine.linkDelivered()
            }
            if port.isPaused || !link.state.held.frames.isEmpty {
                // The answer to the final frame may be held, too.
                let isAnswer = host.lifecycle == .closing && frames.contains { $0.linkEnding == .now }
                frames = hold(frames, link)
                if !frames.isEmpty { host.take(&frames, link) }
                if isAnswer { host.closingIsAnswered() }
                return
            }
            if !frames.isEmpty { host.take(&frames, link) }
        } else {
            if !link.state.held.frames.isEmpty { frames = hold(frames, link) }
            if !frames.isEmpty { host.take(&frames, link) }
            scheduleFlush()  // a frame may have been the last response
        }
    }

    private func takeHeartbeats(among frames: inout [Frame], _ link: Link) {
        frames.removeAll { frame in
            guard frame.kind == .ping || frame.kind == .pong else { return false }
            let (meaning, hasToWrite) = link.state.takeHeartbeat(frame, rules, at: loop.now)
            if hasToWrite { scheduleFlush() }
            if meaning == .answer { host.liveness.notePong(link) }
            return meaning == .answer
        }
    }

    /// Unless frames are wanted, the socket fills, and TCP slows the server down.
    func updateReading() {
        for link in links.draining { link.transport.isReading = !port.isPaused && !link.isCatchingUp }
        if let handshaking = links.handshaking, let handshake = handshaking.handshake {
            handshaking.transport.isReading = handshake.mayRead && handshake.loss == nil
        }
        if let ready {
            let transport = ready.transport
            transport.isReading = (!port.isPaused || !isHoldFull(ready)) && !ready.isCatchingUp
            ready.state.machine.readingChanged(to: transport.isReading, at: loop.turnTime)
            host.liveness.arm()
        }
        if links.all.contains(where: \.isToBeReadOn) { scheduleReading() }
    }

    func scheduleFlush() {
        guard !isFlushing else { return }
        isFlushing = true
        loop.scheduleAtEndOfTurn(host)
    }

    func scheduleFlushUnlessFull(_ link: Link) {
        if !link.transport.awaitsWritable { scheduleFlush() }
    }

    func flushAll() {
        isFlushing = false
        // A connection that is closing has to know whether TLS still holds bytes.
        links.forEach(where: {
            !$0.transport.awaitsWritable || host.lifecycle == .closing && $0.isReady && $0.hasNoFrames
        }) {
            flush($0, isAsked: true)
        }
        host.closeDrained()
    }

    /// `isAsked`: something was queued in this turn, perhaps not on this link.
    func flush(_ session: SessionID, isAsked: Bool = false) {
        guard let link = links[session], !isLostInHandshake(link), link.finalReads == nil else { return }
        let (wasInHandshake, wasReady) = (link.isInHandshake, link.isReady)
        var result = Link.WriteResult()
        result.skipsEmpty = isAsked && !(host.lifecycle == .closing && wasReady)
        write(link, &result)
        if result.isSkipped { return }
        if result.isLookSooner { host.liveness.arm() }
        if let failure = result.failure { beginFinalReads(failure, link) }
        take(result, link)
        guard result.failure == nil else { return }
        for refusal in result.refused where refusal.item.id == nil && refusal.item.frame.kind == .ping {
            guard links[session] != nil else { return }
            reports.counts.pings -= 1
            link.state.machine.pingRefused(wasQueued: true, at: loop.turnTime)
            host.liveness.arm()
        }
        if wasInHandshake, link.handshake?.isOver == true { return host.handshakes.closureReturned(session, nil) }
        guard host.lifecycle == .closing, wasReady, link.state.machine.outbound.isEmpty else { return }
        // The final frame is the last one. If it could not be encoded, nothing answers it.
        if let last = result.refused.last, last.item.id == nil { host.ending.awaitsAnswer = false }
        // The bytes are encrypted and wait for the socket.
        if link.isHoldingBytes {
            link.transport.awaitsWritable = true
        } else {
            host.closingIsWritten()
        }
    }

    func write(_ link: Link, _ result: inout Link.WriteResult) {
        let observation = rules.stepObservation
        if let observation, !result.skipsEmpty || !link.hasNoFrames { result.completed = observation.spareIDs() }
        guard link.finalReads == nil else { return }
        link.state.write(
            into: &result,
            isObserved: observation != nil,
            recorder,
            of: link,
            on: loop
        )
        reports.counts.noteSent(result.byteCount, result.frameCount)
    }

    private func take(_ result: Link.WriteResult, _ link: Link) {
        reports.noteUnencodable(result.refused)
        if link.isInHandshake { return host.handshakes.take(result, link) }
        for refusal in result.refused {
            guard let id = refusal.item.id else { continue }
            let onLink = link.state.tryOnLink(WriteLog.Times(), now: loop.now, hasFailed: true)
            if link.state.machine.refused(refusal) {
                port.append(.failed(id, .unencodable(refusal), onLink))
            } else {
                port.append(.refusedPart(id, .unencodable(refusal)))
            }
        }
        if !result.completed.isEmpty {
            rules.stepObservation?.add(written: result.completed, on: link.session)
        }
        for id in result.wrote {
            if let position = link.state.machine.written(id) {
                port.append(.wrote(id, position))
            } else {
                port.append(.wrotePart(id))
            }
        }
        if port.isWaiting, link.isReady { port.append(.room) }
    }

    /// Frames sent before the peer closed may be unread. A draining link may not be read: it is lost at its deadline.
    private func beginFinalReads(_ failure: TransportError, _ link: Link) {
        let deadline = link.draining?.deadline ?? loop.now.advanced(by: options.liveness.deadline)
        link.finalReads = Link.FinalReads(failure, until: deadline)
        link.draining?.rest = nil
        link.mayHaveMore = true
        scheduleReading()
    }
}

extension ConnectionMetrics {
    fileprivate mutating func noteReceived(_ bytes: Int, _ frames: Int) {
        bytesReceived += bytes
        framesReceived += frames
    }

    fileprivate mutating func noteSent(_ bytes: Int, _ frames: Int) {
        bytesSent += bytes
        framesSent += frames
    }
}

extension Link {
    fileprivate var hasNoFrames: Bool { state.machine.outbound.isEmpty }
}
