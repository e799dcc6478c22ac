/// Reading and writing on all links: handshaking, ready and draining.
extension ConnectionDriver {
    func read(_ session: SessionID) {
        guard let link = links[session], !isLostInHandshake(link) else { return }
        defer { if turn.deadlineWait != nil { endDeadlineWait() } }
        var share = ReadShare()
        if port.isPaused, link.isReady { share.limit(to: max(1, maximumHeld - link.state.held.byteCount)) }
        var frames = turn.takeMemory()
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
        if result.isLookSooner { liveness.arm() }
        if hasFrames { deliver(&frames, link) }
        turn.giveBack(&frames)
        // The frames may have ended this link.
        guard let link = links[session] else { return }
        if let ending = result.ending { return lose(session, ending) }
        guard let finalReads = link.finalReads else { return }
        finalReads.byteCount += result.signs
        // Over TLS a read stops after a number of records, even if more are waiting.
        if result.signs > 0 || hasFrames, mayContinueFinalReads(link) {
            scheduleReading()
        } else {
            lose(session, finalReads.failure)
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
        guard !turn.isReadScheduled else { return }
        turn.isReadScheduled = true
        loop.scheduleInNextTurn(LoopClosure { [weak self] in self?.entered { $0.readOn() } })
    }

    private func readOn() {
        turn.isReadScheduled = false
        forEachLink(where: { $0.isToBeReadOn }) { read($0) }
    }

    func deliver(_ frames: inout [Frame], _ link: Link) {
        if link.isInHandshake { return handshakes.take(frames, link) }
        if rules.deliversAll { takeHeartbeats(among: &frames, link) }
        if !link.isDraining {
            if !link.hasDelivered, Frame.hasPush(frames) {
                link.hasDelivered = true
                machine.linkDelivered()
            }
            if port.isPaused || !link.state.held.frames.isEmpty {
                // The answer to the final frame may be held, too.
                let isAnswer = lifecycle == .closing && frames.contains { $0.linkEnding == .now }
                frames = hold(frames, link)
                if !frames.isEmpty { take(&frames, link) }
                if isAnswer { closingIsAnswered() }
                return
            }
            if !frames.isEmpty { take(&frames, link) }
        } else {
            if !link.state.held.frames.isEmpty { frames = hold(frames, link) }
            if !frames.isEmpty { take(&frames, link) }
            scheduleFlush()  // a frame may have been the last response
        }
    }

    /// Unless frames are wanted, the socket fills, and TCP slows the server down.
    func updateReading() {
        for link in links.draining { link.transport.isReading = !port.isPaused && !link.isCatchingUp }
        if let handshaking, let handshake = handshaking.handshake {
            handshaking.transport.isReading = handshake.mayRead && handshake.loss == nil
        }
        if let ready {
            let transport = ready.transport
            transport.isReading = (!port.isPaused || !isHoldFull(ready)) && !ready.isCatchingUp
            ready.state.machine.readingChanged(to: transport.isReading, at: loop.turnTime)
            liveness.arm()
        }
        if links.all.contains(where: \.isToBeReadOn) { scheduleReading() }
    }

    func scheduleFlush() {
        guard !turn.isFlushing else { return }
        turn.isFlushing = true
        loop.scheduleAtEndOfTurn(self)
    }

    private func flushAll() {
        turn.isFlushing = false
        // A connection that is closing has to know whether TLS still holds bytes.
        forEachLink(where: { !$0.transport.awaitsWritable || lifecycle == .closing && $0.isReady && $0.hasNoFrames }) {
            flush($0, isAsked: true)
        }
        closeDrained()
    }

    /// `body` may end links.
    func forEachLink(where isMeant: (Link) -> Bool, _ body: (SessionID) -> Void) {
        if let only = links.onlyReady {
            if isMeant(only) { body(only.session) }
            return
        }
        for link in links.all.filter(isMeant) { body(link.session) }
    }

    /// `isAsked`: something was queued in this turn, perhaps not on this link.
    func flush(_ session: SessionID, isAsked: Bool) {
        guard let link = links[session], !isLostInHandshake(link), link.finalReads == nil else { return }
        let (wasInHandshake, wasReady) = (link.isInHandshake, link.isReady)
        var result = Link.WriteResult()
        result.skipsEmpty = isAsked && !(lifecycle == .closing && wasReady)
        write(link, &result)
        if result.isSkipped { return }
        if result.isLookSooner { liveness.arm() }
        if let failure = result.failure { beginFinalReads(failure, link) }
        take(result, link)
        guard result.failure == nil else { return }
        // A loop: the runtime checks the isolation of a closure. Usually there is no refusal.
        for refusal in result.refused where refusal.item.id == nil && refusal.item.frame.kind == .ping {
            guard links[session] != nil else { return }
            reports.counts.pings -= 1
            link.state.machine.pingRefused(wasQueued: true, at: loop.turnTime)
            liveness.arm()
        }
        if wasInHandshake, link.handshake?.isOver == true { return handshakes.closuresReturned(session, nil) }
        guard lifecycle == .closing, wasReady, link.state.machine.outbound.isEmpty else { return }
        // The final frame is the last one. If it could not be encoded, nothing answers it.
        if let last = result.refused.last, last.item.id == nil { ending.awaitsAnswer = false }
        // The bytes are encrypted and wait for the socket.
        if link.isHoldingBytes {
            link.transport.awaitsWritable = true
        } else {
            closingIsWritten()
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
        if link.isInHandshake { return handshakes.take(result, link) }
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

extension ConnectionDriver: TransportHandler {
    package func transport(_ id: UInt64, did event: TransportEvent) {
        entered { $0.heard(id, event) }
    }

    private func heard(_ id: UInt64, _ event: TransportEvent) {
        guard let link = links.link(ofTransport: id) else { return }
        switch event {
        case .securing, .opening: return
        // The dialer has heard of the socket's connection, so this is TLS that the handshake has started (`startTLS`).
        case .connected: handshakes.upgraded(link)
        case .connectFailed(let error): handshakes.upgradeFailed(link, error)
        // What is left from the last turn is read first, within this turn's share.
        case .readable: if turn.isReadScheduled { link.mayHaveMore = true } else { read(link.session) }
        case .writable:
            if link.isReady { link.state.machine.socketTookBytes(at: loop.turnTime) }
            flush(link.session)
            scheduleFlush()  // it may have been the last frame of a draining link
        }
    }
}

extension ConnectionDriver: LoopWork {
    package func runOnLoop() {
        entered { $0.flushAll() }
    }
}

/// An owner pauses while the buffer of a stream is full and suspends reading, or while no task asks for frames. The
/// link must not look dead to the server then, and a dead link must still be detected: a client takes heartbeats as
/// they come. Everything else is held, in order, up to `options.inbound.maximumHeld`. Only then reading stops. A link
/// that ends or drains hands over what it holds, because its requests end. The next link may hold only what is left of
/// the limit: otherwise every link would add as much to a full buffer. Pushes beyond that become a gap (`limitPushes`).
extension ConnectionDriver {
    private func isHoldFull(_ link: Link) -> Bool {
        !link.state.held.isUnlimited && link.state.held.byteCount >= maximumHeld
    }

    private var maximumHeld: Int { max(0, max(0, options.inbound.maximumHeld) - port.surplusBytes) }

    /// More than `maximumHeld`, because the frames of one turn are held even if they exceed it.
    var heldLimitOfAllLinks: Int { min(max(0, options.inbound.maximumHeld), 1 << 60) + ReadShare.bytes }

    private func hold(_ frames: [Frame], _ link: Link) -> [Frame] {
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
        observation?.add(.limits, isPaused ? .limitReached(.streamBuffer) : .limitCleared(.streamBuffer))
        if !isPaused {
            port.surplusBytes = 0
            handshakes.spillInbox()
        }
        updateReading()
        guard !isPaused, links.all.contains(where: { !$0.state.held.frames.isEmpty }) else { return }
        schedule { $0.deliverAllHeld() }
    }

    private func deliverAllHeld() {
        forEachLink(where: { !$0.state.held.frames.isEmpty }) { session in
            if !port.isPaused, let link = links[session], !link.isCatchingUp { deliverHeld(link) }
        }
    }

    /// Even if the owner is paused: the frames came before what follows.
    func deliverHeld(_ link: Link, isLast: Bool = false) {
        guard !link.state.held.frames.isEmpty else { return }
        var frames = link.state.held.takeAll()
        let first = port.events.count
        take(&frames, link, isLast: isLast)
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
        loop.scheduleInNextTurn(LoopClosure { [weak self] in self?.entered { $0.catchUp(session) } })
    }

    private func catchUp(_ session: SessionID) {
        guard let link = links[session] else { return }
        defer { if turn.deadlineWait != nil { endDeadlineWait() } }
        link.isCatchingUp = false
        // While the owner is paused, the frames stay held like others.
        if !port.isPaused {
            let count = link.state.held.frames.count
            deliverHeld(link)
            turn.deadlineWait?.noteCaughtUp(count - link.state.held.frames.count)
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

extension Frame {
    /// An estimate.
    var heldByteCount: Int { byteCount + MemoryLayout<Frame>.stride }
}

extension Link {
    struct Held {
        private(set) var frames: [Frame] = []
        private(set) var byteCount = 0
        /// Whether the limit is lifted: the socket has failed, so only what it still holds can come.
        var isUnlimited = false

        mutating func append(_ frame: Frame) {
            frames.append(frame)
            byteCount += frame.heldByteCount
        }

        mutating func takeAll() -> [Frame] {
            let frames = frames
            self = Held()
            return frames
        }
    }
}

/// One link's share of a turn, so that other links, timers and writing get theirs. Frames are counted, because 1 MiB
/// may hold ninety thousand. Time is measured, because the cost of a frame depends on the codec.
struct ReadShare {
    /// A fraction of a millisecond, including the delivery of pushes.
    static let frames = 512
    private static let framesAtOnce = 256
    static let bytes = 1024 * 1024
    private static let time = Duration.microseconds(500)

    private var framesLeft = ReadShare.frames
    private var bytesLeft = ReadShare.bytes

    mutating func limit(to bytes: Int) { bytesLeft = min(bytesLeft, bytes) }

    var step: Int { min(framesLeft, Self.framesAtOnce) }

    mutating func goesOn(after bytes: Int, _ frames: Int, since start: Instant, at now: @autoclosure () -> Instant)
        -> Bool
    {
        bytesLeft -= bytes
        framesLeft -= frames
        return bytesLeft > 0 && framesLeft > 0 && now().since(start) < Self.time
    }
}

extension Connection.Metrics {
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
