/// Reading and writing on all links: handshaking, ready and draining.
extension Connection {
    // MARK: Reading

    /// Reads until the socket is empty or the link's share of the turn is used up, decodes the complete frames and
    /// hands them over. The rest is read in the next turn.
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
        counts.noteReceived(result.count, frames.count)
        if let dropped = result.dropped { note(dropped, link) }
        let hasFrames = !frames.isEmpty
        if hasFrames { recorder?.received(frames, session: session, at: loop.now) }
        if result.isLookSooner { armLiveness() }
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

    /// Counts and tells the datagrams that were no frames, or answered no request.
    func note(_ dropped: Link.Dropped, _ link: Link) {
        counts.droppedDatagrams += dropped.count
        observation?.add(.mismatches, .datagramsDropped(dropped.count, link.endpoint, dropped.reason))
    }

    private func isLostInHandshake(_ link: Link) -> Bool {
        link.handshake?.loss != nil
    }

    /// Whether to continue reading a link that can no longer be written to. Frames that their receiver does not take
    /// are held while there is room. The rest is lost: a receiver must not keep such a link alive.
    private func mayContinueFinalReads(_ link: Link) -> Bool {
        guard let finalReads = link.finalReads,
            loop.turnTime < finalReads.deadline || finalReads.byteCount < Self.readBeforeDeadline
        else { return false }
        if link.isDraining { return true }
        if let handshake = link.handshake { return handshake.mayRead }
        return !port.isPaused || !isHoldFull(link)
    }

    /// Continues reading in the next turn.
    func scheduleReading() {
        guard !turn.isReadScheduled else { return }
        turn.isReadScheduled = true
        loop.scheduleInNextTurn(LoopClosure { [weak self] in self?.onLoop { $0.readOn() } })
    }

    private func readOn() {
        turn.isReadScheduled = false
        forEachLink(where: { $0.isToBeReadOn }) { read($0) }
    }

    /// Hands frames over to the handshake, to the requests on the link, or to the owner.
    func deliver(_ frames: inout [Frame], _ link: Link) {
        if link.isInHandshake { return takeInHandshake(frames, link) }
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

    /// Reads while frames are wanted. Otherwise the socket fills, and TCP slows the server down.
    func updateReading() {
        for link in links.draining { link.transport.isReading = !port.isPaused && !link.isCatchingUp }
        if let handshaking, let handshake = handshaking.handshake {
            handshaking.transport.isReading = handshake.mayRead && handshake.loss == nil
        }
        if let ready {
            let transport = ready.transport
            transport.isReading = (!port.isPaused || !isHoldFull(ready)) && !ready.isCatchingUp
            ready.state.machine.readingChanged(to: transport.isReading, at: loop.turnTime)
            armLiveness()
        }
        if links.all.contains(where: \.isToBeReadOn) { scheduleReading() }
    }

    // MARK: Writing

    /// Schedules writing for the end of this turn. A link whose socket is full is skipped then.
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

    /// Calls `body` with the session of every link for which `isMeant` is true now. `body` may end links.
    func forEachLink(where isMeant: (Link) -> Bool, _ body: (SessionID) -> Void) {
        if let only = links.onlyReady {
            if isMeant(only) { body(only.session) }
            return
        }
        for link in links.all.filter(isMeant) { body(link.session) }
    }

    /// Writes as much as the socket takes, usually everything that accumulated in one system call.
    ///
    /// - Parameter isAsked: Whether this is the end of a turn in which something was queued, perhaps not on this link.
    func flush(_ session: SessionID, isAsked: Bool = false) {
        guard let link = links[session], !isLostInHandshake(link), link.finalReads == nil else { return }
        let (wasInHandshake, wasReady) = (link.isInHandshake, link.isReady)
        var result = Link.WriteResult()
        result.skipsEmpty = isAsked && !(lifecycle == .closing && wasReady)
        write(link, &result)
        if result.isSkipped { return }
        if result.isLookSooner { armLiveness() }
        if let failure = result.failure { beginFinalReads(failure, link) }
        take(result, link)
        guard result.failure == nil else { return }
        // A loop: the runtime checks the isolation of a closure. Usually there is no refusal.
        for refusal in result.refused where refusal.item.id == nil && refusal.item.frame.kind == .ping {
            guard links[session] != nil else { return }
            counts.pings -= 1
            link.state.machine.pingRefused(wasQueued: true, at: loop.turnTime)
            armLiveness()
        }
        if wasInHandshake, link.handshake?.isOver == true { return handshakeEnded(session, nil) }
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

    /// Writes as much as the socket takes, and counts it.
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
        counts.noteSent(result.byteCount, result.frameCount)
    }

    /// Removes what was written, or cannot be encoded, from the link.
    private func take(_ result: Link.WriteResult, _ link: Link) {
        noteUnencodable(result.refused)
        if link.isInHandshake { return takeInHandshake(result, link) }
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

    /// Counts the codec's own frames among `refused`. No caller waits for these.
    func noteUnencodable(_ refused: [OutboundQueue.Refusal]) {
        for refusal in refused where refusal.item.id == nil {
            counts.unencodableFrames += 1
            counts.lastEncodingFailure = refusal.error
        }
    }

    /// A write has failed because the peer closed; frames that it sent earlier may still be unread. The link is lost
    /// when they have been read. Reading a draining link may be suspended: it is lost at its deadline at the latest.
    private func beginFinalReads(_ failure: TransportError, _ link: Link) {
        let deadline = link.draining?.deadline ?? loop.now.advanced(by: options.liveness.deadline)
        link.finalReads = Link.FinalReads(failure, until: deadline)
        link.draining?.rest = nil
        link.mayHaveMore = true
        scheduleReading()
    }
}

extension Connection: TransportHandler {
    package nonisolated func transport(_ id: UInt64, did event: TransportEvent) {
        var event = (id, event)
        onItsLoop(&event) { connection, event in
            connection.heard(event.0, event.1)
            connection.deliverEvents()
        }
    }

    private func heard(_ id: UInt64, _ event: TransportEvent) {
        guard let link = links.link(ofTransport: id) else { return }
        switch event {
        case .securing, .opening: return
        // The dialer has heard of the socket's connection, so this is TLS that the handshake has started (`startTLS`).
        case .connected: upgraded(link)
        case .connectFailed(let error): upgradeFailed(link, error)
        // What is left from the last turn is read first, within this turn's share.
        case .readable: if turn.isReadScheduled { link.mayHaveMore = true } else { read(link.session) }
        case .writable:
            if link.isReady { link.state.machine.socketTookBytes(at: loop.turnTime) }
            flush(link.session)
            scheduleFlush()  // it may have been the last frame of a draining link
        }
    }
}

extension Connection: LoopActor, LoopWork {
    /// Writes at the end of a turn in which something was queued.
    package nonisolated func runOnLoop() {
        onItsLoop {
            $0.flushAll()
            $0.deliverEvents()
        }
    }
}

// MARK: - Reading while the owner is paused

/// An owner pauses if the buffer of one stream (of pushes or of a reply) is full and suspends reading, or if no task
/// asks for frames. The link must not look dead to the server then, and a dead link must still be detected.
///
/// A client gets heartbeats as they come. Everything else is held, in order, up to `options.inbound.maximumHeld`.
/// Only then reading stops.
///
/// A link that ends or drains hands over what it holds although the owner is paused, because the requests on it end.
/// The next link may hold only what is left of the limit: otherwise every link would add as much to a buffer that is
/// full. Pushes beyond that become a gap (`limitPushes`).
///
/// Frames are also held, until the next turn, when very many copies of parts for several requests were made
/// (`catchUp`).
extension Connection {
    /// Whether reading must stop until the owner continues.
    private func isHoldFull(_ link: Link) -> Bool {
        !link.state.held.isUnlimited && link.state.held.byteCount >= maximumHeld
    }

    /// How much the ready link may hold now.
    private var maximumHeld: Int { max(0, max(0, options.inbound.maximumHeld) - port.surplusBytes) }

    /// How much links may hand over, all together, when they end or drain while the owner is paused. More than
    /// `maximumHeld`, because the frames of one turn are held even if they exceed it.
    var heldLimitOfAllLinks: Int { min(max(0, options.inbound.maximumHeld), 1 << 60) + ReadShare.bytes }

    /// Separates new frames: returns those for the owner now, and holds the others.
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

    /// Pauses or resumes the owner's frames. Held frames are delivered a little later, because the owner may be in the
    /// middle of a call.
    func setPaused(_ isPaused: Bool) {
        guard isPaused != port.isPaused else { return }
        port.isPaused = isPaused
        observation?.add(.limits, isPaused ? .limitReached(.streamBuffer) : .limitCleared(.streamBuffer))
        if !isPaused {
            port.surplusBytes = 0
            spillInbox()
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

    /// Delivers the held frames even if the owner is paused: they came before what follows.
    ///
    /// - Parameter isLast: Whether nothing may be left for the next turn, because the link ends.
    func deliverHeld(_ link: Link, isLast: Bool = false) {
        guard !link.state.held.frames.isEmpty else { return }
        var frames = link.state.held.takeAll()
        let first = port.events.count
        take(&frames, link, isLast: isLast)
        if port.isPaused { limitPushes(from: first) }
        if link.isDraining { scheduleFlush() }  // a frame may have been the last response
    }

    /// Holds frames, of which none is a heartbeat, until the next turn.
    func catchUp(with rest: ArraySlice<Frame>, _ link: Link) {
        for frame in rest { link.state.held.append(frame) }
        guard !link.isCatchingUp else { return }
        link.isCatchingUp = true
        updateReading()
        let session = link.session
        loop.scheduleInNextTurn(LoopClosure { [weak self] in self?.onLoop { $0.catchUp(session) } })
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

    /// Counts the pushes among the events from `first` on, and separates those that are too many.
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
    /// About how much memory the frame takes while it is held, in bytes.
    var heldByteCount: Int { byteCount + MemoryLayout<Frame>.stride }
}

extension Link {
    /// Frames received while the owner was paused.
    struct Held {
        private(set) var frames: [Frame] = []
        /// About how much memory the frames take, in bytes.
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

/// How much one link may read in one turn of its loop, so that other links, timers and writing get their share.
///
/// A link that has used up its share continues in the next turn. Frames are counted, not only bytes, because 1 MiB may
/// hold ninety thousand frames. Time is measured because the cost of a frame depends on the codec.
struct ReadShare {
    /// The frames of a link in one turn: a fraction of a millisecond, including the delivery of pushes.
    static let frames = 512
    /// The time is checked after this many frames, and after every read of the socket.
    private static let framesAtOnce = 256
    static let bytes = 1024 * 1024
    private static let time = Duration.microseconds(500)

    private var framesLeft = ReadShare.frames
    private var bytesLeft = ReadShare.bytes

    /// Limits the share to `bytes`.
    mutating func limit(to bytes: Int) { bytesLeft = min(bytesLeft, bytes) }

    /// The maximum number of frames to decode in one step.
    var step: Int { min(framesLeft, Self.framesAtOnce) }

    /// Counts a step of a turn that began at `start`. Returns whether another one may follow.
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
    /// Whether no frame waits to be written.
    fileprivate var hasNoFrames: Bool { state.machine.outbound.isEmpty }
}
