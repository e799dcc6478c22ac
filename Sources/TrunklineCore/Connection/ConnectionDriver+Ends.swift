/// The ends of links: of a ready link in `end`, of a handshaking one with its attempt or the connection.
extension ConnectionDriver {
    /// A handshake that has heard something may still report why: see `Handshakes.linkLost`.
    func lose(_ session: SessionID, _ cause: any Error) {
        if let link = links[session] { io.deliverHeld(link, isLast: true) }
        // A held frame may have ended the link, or made it drain.
        guard let link = links[session] else { return }
        let cause = link.explained(cause, through: options.connecting.proxy(for: link.endpoint))
        switch link.phase {
        case .handshaking: handshakes.linkLost(session, cause)
        case .ready where lifecycle == .closing && ending.awaitsAnswer && link.isWritten: closingIsAnswered()
        case .ready: loseReady(link, cause)
        case .draining where link.draining?.awaitsAnswer == true && link.isWritten: end(link, .drained)
        case .draining: end(link, .lost(cause))
        case .closed: break
        }
    }

    private func loseReady(_ link: Link, _ error: any Error) {
        let cause = DisconnectCause(error)
        let isClosedLocally = (error as? TransportError)?.code == .closedLocally
        // A server may accept links and never answer on any of them.
        let wasNeverHeard = cause == .halfOpen && !link.state.machine.liveness.rules.hasHeard
        let hasUnanswered =
            rules.deliversAll ? link.state.machine.hasStartedMessage : link.state.machine.hasUnanswered
        let wasQuiet = !hasUnanswered && link.state.machine.requests.abandonedCount == 0
        let isTruncated = (error as? TransportError)?.code == .tls(.truncated)
        let isOrderly =
            isTruncated
            ? wasQuiet && link.isCutShort(by: error)
            : cause == .closedByServer || (error as? TransportError)?.exit == .status(0)
        liveness.noteLoss(of: link, cause)
        liveness.stop()
        history.lastCause = error
        let remains = end(link, .lost(error))
        requests.judge.linkEnded(byClient: isClosedLocally, lostCount: remains.lost.count)
        let action = machine.linkLost(
            link.session,
            cause,
            isOrderly: isOrderly,
            wasQuiet: wasQuiet,
            demand: remains.unsent.isEmpty ? demand : .request,
            countsAgainstEndpoint: wasNeverHeard,
            isOurNetwork: cause == .pathLost || cause.mayBeOurNetwork && !hasRoute,
            at: loop.now
        )
        if lifecycle == .closing { finishClosing() } else { perform(action) }
        publishState()
    }

    @discardableResult
    func end(_ link: Link, _ end: Link.End) -> LinkMachine.Remains {
        let (draining, wasReady) = (link.draining, link.isReady)
        let hasSpoken = link.state.machine.outbound.firstUnstarted > .first
        links.remove(link)
        if link.mayLinger(after: end) {
            Lingering.close(link.transport, on: loop)
        } else {
            link.transport.close()
        }
        let remains = link.close()
        let lostCount = remains.lost.count
        var error: any Error = TransportError.closedByUs("the client closed the link")
        let departure = draining?.departure
        switch end {
        case .lost(let failure):
            error = failure
            let phase: DisconnectReport.Phase = draining == nil && lifecycle == .open ? .ready : .draining
            report(
                link,
                DisconnectCause(error),
                error,
                remains,
                requestsLost: lostCount,
                departure: departure,
                phase: phase,
                hasSpoken: hasSpoken
            )
        case .endedByServer:
            error = TransportError.endedByServer(link.farewell)
            report(
                link,
                draining?.cause ?? .closedByServer,
                link.farewell == nil ? nil : error,
                remains,
                requestsLost: lostCount,
                departure: departure
            )
        case .drained:
            let farewell = link.farewell.map { TransportError.endedByServer($0) }
            report(link, draining?.cause ?? .closedLocally, farewell, remains, requestsLost: 0, departure: departure)
        case .closed:
            // Others have been reported already.
            if draining != nil { report(link, .closedLocally, nil, remains, requestsLost: 0, departure: departure) }
        }
        if case .drained = end {
            port.append(.drained(session: link.session))
        } else {
            port.append(.lost(LinkLoss(link, remains, error, wasReady: wasReady, at: loop.now)))
        }
        if draining != nil { armDraining() }
        return remains
    }

    private func report(
        _ link: Link,
        _ cause: DisconnectCause,
        _ error: (any Error)?,
        _ remains: LinkMachine.Remains,
        requestsLost: Int,
        departure: String? = nil,
        phase: DisconnectReport.Phase = .draining,
        hasSpoken: Bool = true
    ) {
        var subject = LinkReports.Subject(link, paths.pathsAtEnd(of: link), at: loop.now)
        (subject.departure, subject.requestsLost) = (departure, requestsLost)
        subject.bytesUnsent = remains.unwrittenBytes
        subject.wasSilent = options.handshake.perform == nil && !link.state.machine.liveness.rules.hasHeard
        subject.hasSpoken = hasSpoken
        subject.lateSince = link.state.machine.liveness.rules.lastHeard
        subject.details = details(of: link, cause)
        report(phase, cause, error, subject)
    }
}

extension Link {
    enum End {
        case lost(any Error)
        /// It drains, and the server answers nothing more on it.
        case endedByServer
        case drained
        case closed
    }

    /// Whether the socket stays until the peer has read everything, or closed its side.
    fileprivate func mayLinger(after end: End) -> Bool {
        return switch end {
        // What TLS holds counts as written.
        case .lost(let error): isReady && isHoldingBytes && (error as? TransportError)?.code == .closedLocally
        // The server does not read what TLS holds.
        case .drained: !(isHoldingBytes && draining?.isStalled == true)
        case .endedByServer, .closed: true
        }
    }
}
