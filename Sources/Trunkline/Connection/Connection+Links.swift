/// Bytes in and out, of every link alike: handshaking, ready and draining.
extension Connection {
    // MARK: Reading

    /// Reads until the socket is empty or the share is used up, decodes the complete frames and hands them over. What is
    /// left then is read in the next turn.
    func read(_ session: UInt64) {
        guard let index = index(of: session), links[index].handshake?.loss == nil else { return }
        let transport = links[index].transport
        var share = ReadShare()
        share.limit(to: readBudget(index))
        let before = transport.receivedCount
        var count = 0
        var ending: (any Error)?
        if !links[index].holdsFrames { loop.withReceiveMemory { links[index].received.borrow(&$0) } }
        while true {
            let decodedBefore = decoded.count
            let step = links[index].readAndDecode(
                into: &decoded,
                limit: options.inbound.maximumUndecoded,
                maximumFrames: share.step
            )
            count += step.count
            ending = step.ending
            links[index].mayHaveMore = ending == nil && step.mayHaveMore
            guard links[index].mayHaveMore else { break }
            guard share.goesOn(after: step.count, decoded.count - decodedBefore, since: loop.turnTime, at: loop.now)
            else {
                scheduleReading()
                break
            }
        }
        loop.withReceiveMemory { links[index].received.giveBack(to: &$0) }
        // With TLS also what is no complete record yet, or has nothing to read.
        count = max(count, transport.receivedCount &- before)
        if links[index].machine.phase == .ready, count > 0 || !decoded.isEmpty {
            received(count, hasFrames: !decoded.isEmpty, index)
        }
        let hasProgress = count > 0 || !decoded.isEmpty
        if !decoded.isEmpty { deliver(index) }
        // The frames may have ended this very link.
        guard let index = self.index(of: session) else { return }
        if let ending { return lose(session, ending) }
        guard let lastWords = links[index].lastWords else { return }
        links[index].lastWords?.byteCount += count
        // Over TLS a read stops after so many records, and says nothing of those behind them.
        if hasProgress, mayReadLastWords(index) { scheduleReading() } else { lose(session, lastWords.failure) }
    }

    /// Whether what a link has left to say that cannot be written to any more may go on being read. What a receiver does not
    /// take is held as far as there is room; the rest is lost, for a link like that must not be kept for a receiver.
    private func mayReadLastWords(_ index: Int) -> Bool {
        guard let lastWords = links[index].lastWords, loop.turnTime < lastWords.deadline else { return false }
        if links[index].draining != nil { return true }
        if let handshake = links[index].handshake { return handshake.mayRead }
        if isOwned { return !isPaused || !isHoldFull(index) }
        return direct.reader != nil || lastWords.byteCount < options.inbound.maximumHeld
    }

    /// Hands over what was decoded, and keeps its memory unless it is large.
    private func deliver(_ index: Int) {
        var frames = exchange(&decoded, with: [])
        deliver(&frames, index)
        frames.removeAll(keepingCapacity: true)
        if frames.capacity <= 8192 { decoded = frames }
    }

    /// Reads on in the next turn.
    func scheduleReading() {
        guard !isReadScheduled else { return }
        isReadScheduled = true
        loop.scheduleInNextTurn(Completion { [weak self] in self?.onLoop { $0.readOn() } })
    }

    private func readOn() {
        isReadScheduled = false
        forEachLink(where: { links[$0].isToBeReadOn }) { read($0) }
    }

    /// Frames of a link go to its handshake, to the requests on it, or to those who ask for frames.
    func deliver(_ frames: inout [Frame], _ index: Int) {
        if links[index].handshake != nil { return takeInHandshake(frames, index) }
        if links[index].draining == nil {
            if !machine.hasDelivered, frames.contains(where: \.isPush) { machine.linkDelivered() }
            guard isOwned else { return deliverToReaders(frames, index) }
            if isPaused || !links[index].held.frames.isEmpty { frames = hold(frames, index) }
            if !frames.isEmpty { take(&frames, index) }
        } else {
            take(&frames, index)
            scheduleFlush()  // it may have been the last response
        }
    }

    /// Reading goes on while somebody wants frames; otherwise TCP pushes back on the server.
    func updateReading() {
        for index in links.indices where links[index].draining != nil { links[index].transport.isReading = !isPaused }
        if let handshaking, let handshake = links[handshaking].handshake {
            links[handshaking].transport.isReading = handshake.mayRead && handshake.loss == nil
        }
        if let ready {
            let transport = links[ready].transport
            let isWanted = isOwned ? !isPaused : direct.reader != nil || links[ready].held.isUnlimited
            transport.isReading = isWanted || isOwned && !isHoldFull(ready)
            links[ready].machine.readingChanged(to: transport.isReading, at: loop.turnTime)
            armLiveness()
        }
        if links.contains(where: \.isToBeReadOn) { scheduleReading() }
    }

    // MARK: Writing

    /// Writes at the end of this turn, unless the socket is full.
    func scheduleFlush() {
        guard !isFlushing else { return }
        isFlushing = true
        loop.scheduleAtEndOfTurn(self)
    }

    private func flushAll() {
        isFlushing = false
        forEachLink(where: isToBeFlushed) { flush($0) }
        closeDrained()
    }

    private func isToBeFlushed(_ index: Int) -> Bool {
        if !links[index].machine.outbound.isEmpty { return !links[index].transport.awaitsWritable }
        // A connection that closes has to know what TLS still holds.
        return lifecycle == .closing && links[index].machine.phase == .ready
    }

    /// Calls `body` with the session of every link that `isMeant` now. Links may end while it works.
    private func forEachLink(where isMeant: (Int) -> Bool, _ body: (UInt64) -> Void) {
        if links.count == 1 {
            if isMeant(0) { body(links[0].session) }  // the usual case takes no memory
            return
        }
        for session in links.indices.filter(isMeant).map({ links[$0].session }) { body(session) }
    }

    /// Writes as much as the socket takes: one system call for everything that accumulated, as a rule.
    func flush(_ session: UInt64) {
        guard let index = index(of: session), links[index].handshake?.loss == nil, links[index].lastWords == nil else {
            return
        }
        let phase = links[index].machine.phase
        if phase == .ready, links[index].machine.willWrite(at: loop.turnTime) { armLiveness() }
        let result = links[index].write()
        if let failure = result.failure { beginLastWords(failure, index) }
        take(result, index)
        guard result.failure == nil else { return }
        if let refusal = result.refused.first(where: { $0.item.id == 0 && $0.item.frame.kind == .ping }) {
            // Without a ping the link would be given up for a silence that is not the server's.
            return lose(session, TransportError(.closedLocally, "a ping cannot be encoded: \(refusal.error)"))
        }
        if phase == .handshaking, links[index].handshake?.isOver == true { return handshakeEnded(session, nil) }
        guard lifecycle == .closing, phase == .ready, links[index].machine.outbound.isEmpty else { return }
        // Encrypted, and waiting for the socket.
        if links[index].transport.isHoldingBytes {
            links[index].transport.awaitsWritable = true
        } else {
            finishClosing()
        }
    }

    /// What was written, or cannot be, leaves the link.
    private func take(_ result: Link.WriteResult, _ index: Int) {
        noteUnencodable(result.refused)
        if links[index].handshake != nil { return takeInHandshake(result, index) }
        for refusal in result.refused where refusal.item.id != 0 {
            if let waiter = links[index].machine.refused(refusal) {
                let error = ClientError(.invalidRequest, .notSent, "the frame cannot be encoded", cause: refusal.error)
                events.append(.failed(refusal.item.id, waiter, error))
            } else {
                events.append(.refusedPart(refusal.item.id, refusal.error))
            }
        }
        for id in result.wrote {
            if let waiter = links[index].machine.written(id) {
                events.append(.wrote(id, waiter))
            } else {
                events.append(.wrotePart(id))
            }
        }
        if links[index].machine.phase == .ready { events.append(.room) }
    }

    /// Counts the frames of ours among `refused`: nobody waits for them who could be told.
    func noteUnencodable(_ refused: [OutboundQueue.Refusal]) {
        for refusal in refused where refusal.item.id == 0 {
            statistics.unencodableFrames += 1
            statistics.lastEncodingFailure = refusal.error
        }
    }

    /// A write failed because the peer is gone; what it said before may still be there to read. The link is lost when that
    /// has been read; a draining one, whose reading may be suspended, when its time is over at the latest.
    private func beginLastWords(_ failure: TransportError, _ index: Int) {
        let deadline = links[index].draining?.deadline ?? loop.now.advanced(by: options.liveness.deadline)
        links[index].lastWords = Link.LastWords(failure: failure, deadline: deadline)
        links[index].mayHaveMore = true
        scheduleReading()
    }

    // MARK: Draining

    /// So many links may be draining; servers that keep sending us away end the oldest.
    private static let maximumDraining = 64

    /// The link takes no new requests from now on: those that have started on it finish there, or meet their deadline; the
    /// others go out on the next one.
    func drain(_ index: Int, _ cause: DisconnectCause) {
        let session = links[index].session
        guard isOwned else { return lose(session, TransportError.closedByUs) }
        deliverHeld(index)
        // What was held may have ended the link.
        guard let index = self.index(of: session), links[index].draining == nil else { return }
        stopLiveness()
        links[index].draining = Link.Draining(
            deadline: loop.now.advanced(by: options.failover.drainTimeout),
            cause: cause
        )
        events.append(.returned(links[index].machine.drain()))
        links[index].mayHaveMore = true  // it may have been left in the midst of reading
        if links.count > Self.maximumDraining { lose(links[0].session, TransportError.closedByUs) }
        armDraining()
        updateReading()
        scheduleFlush()
        // Right away: what is under way on it may be nothing.
        scheduleReading()
    }

    /// Closes the draining links on which nothing is under way, and nothing is left to be written.
    func closeDrained() {
        guard links.contains(where: { $0.draining != nil }) else { return }
        for index in links.indices where links[index].isDrained {
            if links[index].draining?.hasTakenLeave == false { takeLeave(index) }
        }
        let drained = links.filter { $0.isDrained }
        guard !drained.isEmpty else { return }
        links.removeAll { $0.isDrained }
        for var link in drained {
            Lingering.close(link.transport, on: loop)
            report(link, link.draining?.cause ?? .closedLocally, nil, link.machine.close(), requestsLost: 0)
        }
        armDraining()
        // Requests that were given up there count no more.
        events.append(.room)
    }

    /// Nothing is under way on the link any more: tells the server, once, if the protocol has words for it.
    private func takeLeave(_ index: Int) {
        links[index].draining?.hasTakenLeave = true
        guard let farewell = links[index].codec._closingFrame() else { return }
        links[index].machine.send(farewell)
        let result = links[index].write()
        noteUnencodable(result.refused)
        // Nobody is there to be told.
        if result.failure != nil || links[index].lastWords != nil { links[index].machine.dropOutbound() }
    }

    /// The server answers nothing more on the link, which is draining: what is under way on it is lost, and there is nothing
    /// to wait for (RFC 9112 §9.6 asks the client to close, too).
    func endDraining(_ session: UInt64) {
        guard let index = index(of: session), let draining = links[index].draining else { return }
        var link = links.remove(at: index)
        Lingering.close(link.transport, on: loop)
        armDraining()
        let remains = link.machine.close()
        report(link, draining.cause, nil, remains, requestsLost: remains.lost.count)
        events.append(.lost(LinkLoss(link, remains, TransportError.endedByServer)))
    }

    /// Loses every draining link.
    func loseDraining(_ cause: any Error) {
        forEachLink(where: { links[$0].draining != nil }) { lose($0, cause) }
    }

    func armDraining() {
        openHeldAttempt()
        guard let next = links.compactMap({ $0.draining?.deadline }).min() else {
            if let drainingTimer { loop.arm(drainingTimer.timer, at: nil) }
            return
        }
        let timer = drainingTimer ?? ConnectionTimer(self) { $0.drainingTimedOut() }
        drainingTimer = timer
        loop.arm(timer.timer, at: next)
    }

    /// The time of a draining link is over: what is still under way on it is lost.
    private func drainingTimedOut() {
        let now = loop.now
        forEachLink(where: { links[$0].draining.map { $0.deadline <= now } ?? false }) { session in
            lose(session, index(of: session).flatMap { links[$0].lastWords?.failure } ?? .closedByUs)
        }
        armDraining()
    }

    // MARK: The end of a link

    /// A link is gone, in whatever phase: what had started is lost, what had not goes out on the next one.
    func lose(_ session: UInt64, _ cause: any Error) {
        if let index = index(of: session) { deliverHeld(index) }
        // What was held may have ended the link, or made it drain.
        guard let index = index(of: session) else { return }
        if links[index].handshake != nil { return handshakeLost(session, cause) }
        if links[index].draining != nil { return loseDraining(index, cause) }
        // Its server may accept links and answer nothing on any of them.
        let wasNeverHeard = DisconnectCause(cause) == .halfOpen && !links[index].machine.liveness.rules.hasHeard
        stopLiveness()
        var link = links.remove(at: index)
        if link.transport.isHoldingBytes, (cause as? TransportError)?.code == .closedLocally {
            Lingering.close(link.transport, on: loop)  // what TLS holds counts as written
        } else {
            link.transport.close()
        }
        lastCause = cause
        let hasUnanswered = isOwned ? link.machine.hasUnanswered : link.machine.hasStartedMessage
        let wasQuiet = !hasUnanswered && link.machine.requests.abandonedCount == 0
        let remains = link.machine.close()
        let isOurDoing = (cause as? TransportError)?.code == .closedLocally
        // A link that the server, or the network, has ended proves nothing of the endpoint: only a frame does.
        if isOurDoing { silence.end() } else { for _ in remains.lost { errors?.countFailed() } }
        report(
            link,
            DisconnectCause(cause),
            cause,
            remains,
            requestsLost: remains.lost.count,
            phase: lifecycle == .open ? .ready : .draining
        )
        let needsLink = remains.unsent.isEmpty ? demand : .request
        events.append(.lost(LinkLoss(link, remains, cause)))
        let action = machine.linkLost(
            session,
            DisconnectCause(cause),
            isOrderly: DisconnectCause(cause) == .closedByServer || wasQuiet && link.isCutShort(by: cause),
            wasQuiet: wasQuiet,
            demand: needsLink,
            countsAgainstEndpoint: wasNeverHeard,
            isOurNetwork: DisconnectCause(cause) == .pathLost || DisconnectCause(cause).mayBeOurNetwork && !hasRoute,
            at: loop.now
        )
        if lifecycle == .closing { finishClosing() } else { perform(action) }
        publishState()
    }

    private func loseDraining(_ index: Int, _ cause: any Error) {
        var link = links.remove(at: index)
        link.transport.close()
        armDraining()
        let remains = link.machine.close()
        report(link, DisconnectCause(cause), cause, remains, requestsLost: remains.lost.count)
        events.append(.lost(LinkLoss(link, remains, cause)))
    }

    /// Tells of the end of a link that was ready.
    func report(
        _ link: Link,
        _ cause: DisconnectCause,
        _ error: (any Error)?,
        _ remains: LinkMachine<Waiter>.Remains,
        requestsLost: Int,
        phase: DisconnectReport.Phase = .draining
    ) {
        report(
            phase,
            cause,
            error,
            (link.endpoint, link.session, link.attempt),
            pathsAtEnd(of: link),
            lifetime: link.readySince.map { loop.now.since($0) } ?? .zero,
            requestsLost: requestsLost,
            bytesUnsent: remains.unwrittenBytes
        )
    }
}

extension Connection: @preconcurrency LoopWork {
    /// The end of a turn in which something was queued.
    package func runOnLoop() { entered { $0.flushAll() } }
}

extension Link {
    /// Whether it is draining, and nothing is under way or to be written on it.
    fileprivate var isDrained: Bool { draining != nil && machine.count == 0 && machine.outbound.isEmpty }

    /// Whether there is more to read than readiness tells of.
    fileprivate var isToBeReadOn: Bool {
        if lastWords != nil, draining == nil { return true }
        return transport.isReading && (mayHaveMore || holdsFrames || lastWords != nil)
    }
}

// MARK: - Reading on while the owner wants nothing

/// A full buffer of one stream, of pushes or of a reply, must not make the link look dead to the server, nor a dead link
/// look alive to us.
///
/// Heartbeats are handed over as they come; everything else is held, in order, up to `options.inbound.maximumHeld`. Only then
/// reading stops.
extension Connection {
    /// Whether nothing more is to be read before the owner goes on.
    private func isHoldFull(_ index: Int) -> Bool {
        !links[index].held.isUnlimited && links[index].held.byteCount >= options.inbound.maximumHeld
    }

    /// How much may be read in one go.
    private func readBudget(_ index: Int) -> Int {
        guard isPaused, links[index].machine.phase == .ready else { return .max }
        return max(1, options.inbound.maximumHeld - links[index].held.byteCount)
    }

    /// Sorts out what has just come in: returns what the owner is to have now.
    private func hold(_ frames: [Frame], _ index: Int) -> [Frame] {
        guard isPaused else { return links[index].held.takeAll() + frames }
        var urgent: [Frame] = []
        for frame in frames {
            if frame.kind == .ping || frame.kind == .pong {
                urgent.append(frame)
            } else {
                links[index].held.append(frame)
            }
        }
        if isHoldFull(index) { updateReading() }
        return urgent
    }

    /// The owner goes on, or not. What is held it has soon: it may be in the midst of something.
    func setPaused(_ isPaused: Bool) {
        guard isPaused != self.isPaused else { return }
        self.isPaused = isPaused
        if !isPaused { spillInbox() }
        updateReading()
        guard !isPaused, let ready, !links[ready].held.frames.isEmpty else { return }
        schedule { connection in
            if !connection.isPaused, let ready = connection.ready { connection.deliverHeld(ready) }
        }
    }

    /// Hands over what is held, whether or not the owner wants it: it came before what follows.
    func deliverHeld(_ index: Int) {
        guard links[index].draining == nil, !links[index].held.frames.isEmpty else { return }
        var frames = links[index].held.takeAll()
        take(&frames, index)
    }
}

extension Link {
    /// Frames that came while the owner wanted none.
    struct Held {
        private(set) var frames: [Frame] = []
        /// About how much memory they take.
        private(set) var byteCount = 0
        /// The socket has failed: nothing more comes than what is there.
        var isUnlimited = false

        mutating func append(_ frame: Frame) {
            frames.append(frame)
            byteCount += frame.byteCount + MemoryLayout<Frame>.stride
        }

        mutating func takeAll() -> [Frame] {
            let frames = frames
            self = Held()
            return frames
        }
    }
}
