import TrunklineCore
import TrunklineIO

/// Leaving a link without losing what is under way on it.
///
/// Whatever the owner is told here may make it close, cancel or leave: a link is looked up anew by its transport's number
/// after every such call. What the owner has to say on such a link is written at the end of the turn, never while it takes
/// frames.
extension Connection {
    /// So many links may be left and not yet closed; servers that keep sending us away end the oldest.
    private static let maximumRetired = 64

    /// The link takes no new requests from now on: those that have started on it finish there, or meet their deadline;
    /// the others go out on the next one.
    func retire(_ cause: DisconnectCause) {
        deliverHeld()
        guard let current = link, greeting == nil else { return }
        guard let owner else { return lose(TransportError.closedByUs) }
        link = nil
        let unstarted = outbound.level.unstarted
        retired.append(
            RetiredLink(
                link: current,
                liveness: heartbeat.machine,
                outbound: outbound.splitOff(),
                positions: current.firstPosition..<max(unstarted, current.firstPosition),
                readySince: readySince,
                deadline: loop.now.advanced(by: options.failover.drainTimeout),
                cause: cause
            )
        )
        readySince = nil
        stopLiveness()
        _ = owner.connectionRetired(current.session, before: unstarted)
        if retired.count > Self.maximumRetired, let oldest = retired.first {
            loseRetired(oldest.link.transport.id, TransportError.closedByUs)
        }
        armRetired()
        current.transport.isReading = !isPaused
        scheduleReading()
        writeRetired(current.transport.id)
    }

    /// Nothing is under way any more on the links of `sessions`, which were left: closes those that have nothing left to
    /// write. Returns which of them are gone.
    func endRetired(_ sessions: [UInt64]) -> [UInt64] {
        for index in retired.indices
        where retired[index].outbound.isEmpty && sessions.contains(retired[index].link.session) {
            noteUnencodable(retired[index].takeLeave())
        }
        for old in retired where old.outbound.isEmpty && sessions.contains(old.link.session) {
            retired.removeAll { $0.link.transport === old.link.transport }
            Lingering.close(old.link.transport, on: loop)
            report(old, old.cause, nil, requestsLost: 0)
        }
        armRetired()
        return sessions.filter { session in !retired.contains { $0.link.session == session } }
    }

    /// The server answers nothing more on the link of `session`, which was left: what is under way on it is lost, and
    /// there is nothing to wait for (RFC 9112 §9.6 asks the client to close, too).
    func endRetired(_ session: UInt64) {
        guard let index = retired.firstIndex(where: { $0.link.session == session }) else { return }
        let old = retired.remove(at: index)
        Lingering.close(old.link.transport, on: loop)
        armRetired()
        let lost = tellOwner(of: old, TransportError.endedByServer)
        report(old, old.cause, nil, requestsLost: lost)
    }

    /// Closes every link that was left: nobody waits for an answer any more. The server is told what is yet to be written,
    /// cancellations as a rule, as far as the socket takes it.
    func closeRetired() {
        for var old in exchange(&retired, with: []) {
            if !old.outbound.isEmpty { _ = old.write() }
            Lingering.close(old.link.transport, on: loop)
            report(old, .closedLocally, nil, requestsLost: 0)
        }
        armRetired()
    }

    /// Loses every link that was left.
    func loseRetired(_ cause: any Error) {
        while let old = retired.first { loseRetired(old.link.transport.id, cause) }
    }

    /// The link of `session` is not to be trusted any more, whether or not it was left.
    func lose(_ violation: FrameError, of session: UInt64) {
        if link?.session == session { return lose(violation) }
        guard let old = retired.first(where: { $0.link.session == session }) else { return }
        loseRetired(old.link.transport.id, violation)
    }

    /// The codec of the link of `session`; a fresh one when that is gone.
    func codec(of session: UInt64) -> any FrameCodec {
        if let link, link.session == session { return link.codec }
        return retired.first { $0.link.session == session }?.link.codec ?? codec
    }

    /// Where the request at `position` has started, or would start.
    func endpoint(of position: OutboundPosition) -> Endpoint? {
        retired.first { $0.positions.contains(position) }?.link.endpoint ?? link?.endpoint
    }

    /// Sends a frame that belongs to the link on which the request at `position` started.
    func enqueueRetired(_ item: OutboundQueue.Item, for position: OutboundPosition) {
        guard let index = retired.firstIndex(where: { $0.positions.contains(position) }) else { return }
        retired[index].outbound.append(item)
        flushAtEndOfTurn()
    }

    /// Takes the frame of `ticket` out of the way to whatever link, unless a byte of it was written. Returns whether it
    /// did.
    func remove(of ticket: Ticket) -> Bool {
        if outbound.remove(of: ticket) { return true }
        for index in retired.indices where retired[index].outbound.remove(of: ticket) { return true }
        return false
    }

    /// Writes what has come to be said on links that were left.
    func flushRetired() {
        for id in retired.filter({ !$0.outbound.isEmpty }).map(\.link.transport.id) { writeRetired(id) }
    }

    /// What happens on a link that was left.
    func retiredTransport(_ id: UInt64, did event: TransportEvent) {
        switch event {
        case .readable: readRetired(id)
        case .writable: writeRetired(id)
        case .securing, .connected, .connectFailed: break
        }
    }

    // MARK: Time

    private func armRetired() {
        guard let next = retired.map(\.deadline).min() else {
            if let retiredTimeout { loop.arm(retiredTimeout.timer, at: nil) }
            return
        }
        let timeout = retiredTimeout ?? ConnectionTimer(self) { $0.retiredTimedOut() }
        retiredTimeout = timeout
        loop.arm(timeout.timer, at: next)
    }

    /// The time of a link that was left is over: what is still under way on it is lost.
    private func retiredTimedOut() {
        let now = loop.now
        while let old = retired.first(where: { $0.deadline <= now }) {
            loseRetired(old.link.transport.id, old.link.lastWords?.failure ?? .closedByUs)
        }
        armRetired()
    }

    // MARK: Traffic

    private func indexOfRetired(_ id: UInt64) -> Int? { retired.firstIndex { $0.link.transport.id == id } }

    private func writeRetired(_ id: UInt64) {
        guard let index = indexOfRetired(id) else { return }
        guard retired[index].link.lastWords == nil else { return }
        let result = retired[index].write()
        // What the server said before may still be there to read. While reading is suspended it waits, as long as the link
        // may drain.
        if let failure = result.failure {
            retired[index].link.startLastWords(failure, until: retired[index].deadline)
            retired[index].mayHaveMore = true
            scheduleReading()
        }
        // The last of these may be what the link was still there for: it can be closed when this returns.
        report(wrote: result.wrote, refused: result.refused)
    }

    /// Goes on with what was left over in the last turn.
    func readRetiredOn() {
        let ids = retired.filter { $0.mayHaveMore && $0.link.transport.isReading }.map(\.link.transport.id)
        for id in ids { readRetired(id) }
    }

    private func readRetired(_ id: UInt64) {
        guard let index = indexOfRetired(id) else { return }
        var frames: [Frame] = []
        let (session, positions) = (retired[index].link.session, retired[index].positions)
        let before = retired[index].link.transport.receivedCount
        // What is left over is read in the next turn.
        let step = retired[index].link.readAndDecode(
            into: &frames,
            limit: options.inbound.maximumUndecoded,
            maximumFrames: ReadShare().step
        )
        var mayHaveMore = step.mayHaveMore
        var failure: TransportError?
        if let lastWords = retired[index].link.lastWords {
            // Over TLS a read stops after so many records, and says nothing of those behind them.
            let hasProgress =
                step.count > 0 || !frames.isEmpty || retired[index].link.transport.receivedCount != before
            mayHaveMore = hasProgress && loop.turnTime < lastWords.deadline
            if !mayHaveMore { failure = lastWords.failure }
        }
        retired[index].mayHaveMore = mayHaveMore
        if mayHaveMore { scheduleReading() }
        owner?.connection(did: .receivedOnRetired(frames, session: session, positions))
        for frame in frames where frame.kind == .ping { answerRetired(frame, id) }
        if let ending = step.ending ?? failure { loseRetired(id, ending) }
    }

    private func answerRetired(_ ping: Frame, _ id: UInt64) {
        guard let index = indexOfRetired(id), retired[index].outbound.level.linkFrameCount < 1024,
            retired[index].isToBeAnswered(ping, at: loop.now), let pong = codec.pong(answering: ping)
        else { return }
        retired[index].outbound.append(OutboundQueue.Item(pong, ticket: 0))
        flushAtEndOfTurn()
    }

    /// A link that was left is gone before everything on it was answered.
    private func loseRetired(_ id: UInt64, _ cause: any Error) {
        guard let index = indexOfRetired(id) else { return }
        let old = retired.remove(at: index)
        old.link.transport.close()
        let lost = tellOwner(of: old, cause)
        report(old, DisconnectCause(cause), cause, requestsLost: lost)
    }

    /// Tells the owner that a link that was left is gone. Returns how many requests were lost with it.
    private func tellOwner(of old: RetiredLink, _ cause: any Error) -> Int {
        var outbound = old.outbound
        let unsent = outbound.linkLost()
        return owner?.retiredLinkLost(
            old.link.session,
            old.positions,
            cause,
            to: old.link.endpoint,
            unsent: unsent
        ) ?? 0
    }

    private func report(_ old: RetiredLink, _ cause: DisconnectCause, _ error: (any Error)?, requestsLost: Int) {
        report(
            .draining,
            cause,
            error,
            (old.link.endpoint, old.link.session, old.link.attempt),
            lifetime: old.readySince.map { loop.now.since($0) } ?? .zero,
            requestsLost: requestsLost,
            bytesUnsent: old.outbound.unwrittenCount
        )
    }
}

extension RetiredLink {
    /// Writes as much as the socket takes.
    mutating func write() -> Link.WriteResult { link.write(from: &outbound) }

    /// Nothing is under way any more: tells the server, once, if the protocol has words for it. Returns them if they cannot
    /// be encoded.
    mutating func takeLeave() -> [(item: OutboundQueue.Item, error: FrameError)] {
        guard !hasTakenLeave else { return [] }
        hasTakenLeave = true
        guard let farewell = link.codec.closingFrame() else { return [] }
        outbound.append(OutboundQueue.Item(farewell, ticket: 0))
        let result = write()
        if result.failure != nil || link.lastWords != nil { outbound = OutboundQueue() }  // the peer is gone
        return result.refused
    }

    /// Whether `ping` is not the answer to one of ours.
    mutating func isToBeAnswered(_ ping: Frame, at now: Instant) -> Bool {
        !link.codec.pongsLookLikePings || liveness.heartbeatReceived(serial: ping.serial, at: now) == .question
    }
}
