import TrunklineCore
import TrunklineIO

/// Leaving a link without losing what is under way on it.
extension Connection {
    /// The link takes no new requests from now on: those that have started on it finish there, or meet their deadline;
    /// the others go out on the next one.
    func retire(_ cause: DisconnectCause) {
        guard let current = link, greeting == nil else { return }
        guard let owner else { return lose(LocalClosure()) }
        link = nil
        let unstarted = outbound.level.unstarted
        let retiring = RetiredLink(
            link: current,
            liveness: heartbeat.machine,
            outbound: outbound.splitOff(),
            positions: current.firstPosition..<max(unstarted, current.firstPosition),
            readySince: readySince,
            cause: cause
        )
        readySince = nil
        stopLiveness()
        retired.append(retiring)
        let left = owner.connectionRetired(before: unstarted)
        if left == 0 && retiring.outbound.isEmpty { return endRetired() }
        let timeout = retiredTimeout ?? ConnectionTimer(self) { $0.retiredTimedOut() }
        retiredTimeout = timeout
        loop.arm(timeout.timer, at: loop.now.advanced(by: options.requests.drainTimeout))
        writeRetired(retired.count - 1)
    }

    /// Nothing is under way any more on any link that was left, or their time is over: closes them.
    func endRetired() {
        if let retiredTimeout { loop.arm(retiredTimeout.timer, at: nil) }
        for old in exchange(&retired, with: []) {
            Lingering.close(old.link.transport, on: loop)
            report(old, old.cause, nil, requestsLost: 0)
        }
    }

    /// The time of the links that were left is over: what is still under way on them is lost.
    func retiredTimedOut() {
        while let old = retired.first {
            loseRetired(old.link.transport.id, TransportError(.timedOut, "the link was left, and its time was over"))
        }
    }

    /// Sends a frame that belongs to the link on which the request at `position` started.
    func enqueueRetired(_ frame: Frame, for position: OutboundPosition) {
        guard let index = retired.firstIndex(where: { $0.positions.contains(position) }) else { return }
        retired[index].outbound.append(OutboundQueue.Item(frame, ticket: 0))
        writeRetired(index)
    }

    // MARK: Traffic

    /// What happens on a link that was left.
    func retiredTransport(_ id: UInt64, did event: TransportEvent) {
        guard let index = retired.firstIndex(where: { $0.link.transport.id == id }) else { return }
        switch event {
        case .readable: readRetired(index)
        case .writable: writeRetired(index)
        case .connected, .connectFailed: break
        }
    }

    private func writeRetired(_ index: Int) {
        let id = retired[index].link.transport.id
        let result = retired[index].write()
        // The last of these may be what the link was still there for: it can be closed when this returns.
        report(wrote: result.wrote, refused: result.refused)
        if let failure = result.failure { loseRetired(id, failure) }
    }

    private func readRetired(_ index: Int) {
        let (id, end) = (retired[index].link.transport.id, retired[index].positions.upperBound)
        var frames: [Frame] = []
        let step = retired[index].link.readAndDecode(into: &frames, limit: options.inbound.maximumUndecoded)
        // What is left over is read in the next turn: the socket is still readable.
        for frame in frames where frame.kind == .ping {
            // Writing the answer to the one before may have found the link gone.
            guard let index = retired.firstIndex(where: { $0.link.transport.id == id }) else { break }
            if retired[index].isToBeAnswered(frame, at: loop.now), let pong = codec.pong(answering: frame) {
                retired[index].outbound.append(OutboundQueue.Item(pong, ticket: 0))
                writeRetired(index)
            }
        }
        owner?.connection(did: .receivedOnRetired(frames, before: end))
        if let ending = step.ending { loseRetired(id, ending) }
    }

    /// A link that was left is gone before everything on it was answered.
    private func loseRetired(_ id: UInt64, _ cause: any Error) {
        guard let index = retired.firstIndex(where: { $0.link.transport.id == id }) else { return }
        let old = retired.remove(at: index)
        old.link.transport.close()
        let requestsLost = owner?.retiredLinkLost(old.positions, cause) ?? 0
        report(old, DisconnectCause(cause), cause, requestsLost: requestsLost)
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

    /// Whether `ping` is not the answer to one of ours.
    mutating func isToBeAnswered(_ ping: Frame, at now: Instant) -> Bool {
        !link.codec.pongsLookLikePings || liveness.heartbeatReceived(serial: ping.serial, at: now) == .question
    }
}
