import TrunklineCore
import TrunklineIO

/// What the connection tells: frames in, links gained and lost.
extension Client: @preconcurrency ConnectionOwner {
    func connection(did event: ConnectionEvent) {
        begin()
        switch event {
        case .received(let frames):
            exchange.silence.end()
            let answers = exchange.answers
            var farewell: Frame?
            var isLast = false
            var shift: FrameError?
            for frame in frames {
                if checksResponses, let mismatch = mismatch(of: frame) {
                    shift = fail(mismatch)
                    if shift != nil { break }
                } else if frame.kind == .response {
                    if frame.endsLink { (farewell, isLast) = (farewell ?? frame, true) }
                    exchange.answer(frame)
                } else if frame.kind == .goAway {
                    farewell = frame
                } else {
                    receive(frame, in: session)
                }
            }
            channels.tellOfDamage()
            if workedSession != session, exchange.answers != answers { noteAnswered() }
            endAnswered()
            // After the frames that came with it, which belong to the link that is left now.
            if let farewell { leave(farewell) }
            // Left because of a goAway that came along, it would wait for answers that do not come.
            if isLast, farewell?.kind == .goAway { connection.assumeIsolated { [session] in $0.endRetired(session) } }
            if let shift { connection.assumeIsolated { [session] in $0.lose(shift, of: session) } }
            // Fewer are not worth the loop's time, and more take it so long that the first are heard anyway.
            if (8..<64).contains(frames.count) { loop.expectNews() }
        case .receivedOnRetired(let frames, let session, let positions):
            var isLast = false
            var shift: FrameError?
            for frame in frames {
                if checksResponses, let mismatch = mismatch(of: frame, on: session, positions) {
                    shift = fail(mismatch)
                    if shift != nil { break }
                } else if frame.kind == .response {
                    if frame.endsLink { isLast = true }
                    exchange.answer(frame, on: session, positions)
                } else if frame.kind == .part {
                    take(exchange.take(frame, on: session, positions, at: loop.turnTime))
                } else if frame.kind != .ping, frame.kind != .pong, frame.kind != .goAway {
                    receive(frame, in: session)
                }
            }
            channels.tellOfDamage()
            endAnswered()
            if isLast { connection.assumeIsolated { $0.endRetired(session) } }
            if let shift { connection.assumeIsolated { $0.lose(shift, of: session) } }
        case .pushedInGreeting(let pushes, let session):
            notePushes(from: session)
            for push in pushes { receive(push, in: session) }
        case .drained: break  // `finish` lets go out what waits
        case .wrote(let tickets):
            for ticket in tickets { exchange.written(ticket) }
        case .refused(let refusals):
            for (ticket, error) in refusals { refused(ticket, error) }
        case .ready(let session):
            self.session = session
            linkEstablished()
        case .unavailable: giveUp()
        case .closed: closed()
        }
        finish()
    }

    func hasUnanswered(at positions: Range<OutboundPosition>) -> Bool { exchange.table.hasUnanswered(at: positions) }

    var hasAbandoned: Bool { exchange.table.abandonedCount > 0 }

    func demand(from unstarted: OutboundPosition) -> ReconnectMachine.Demand {
        if exchange.table.hasUnstarted(from: unstarted) || !connectWaiters.isEmpty { return .request }
        return channels.isEmpty ? .none : .subscription
    }

    /// A frame that is no response.
    private func receive(_ frame: Frame, in session: UInt64) {
        switch frame.kind {
        case .push:
            exchange.count(\.pushes)
            var frame = frame
            frame.session = session
            if channels.offer(frame, speaking: codec) { updateReading() }
        case .ping, .pong:
            let meaning = connection.assumeIsolated { $0.heartbeatReceived(frame) }
            if meaning == .question, let pong = codec.pong(answering: frame) { exchange.answerPing(with: pong) }
        case .part: take(exchange.take(frame, at: loop.turnTime))
        case .response: break  // handled before
        case .request, .cancel, .goAway: exchange.count(\.unexpectedFrames)
        }
    }

    /// Compares a frame with the request that it would be given to, if it is a response or a part of one.
    private func mismatch(
        of frame: Frame,
        on retired: UInt64? = nil,
        _ positions: Range<OutboundPosition> = 0..<0
    ) -> Exchange.Mismatch? {
        guard frame.kind == .response || frame.kind == .part, frame.damage == nil else { return nil }
        // That of the link knows the defaults that the greeting has set.
        let codec = connection.assumeIsolated { [session] in $0.codec(of: retired ?? session) }
        guard let retired else { return exchange.mismatch(of: frame, by: codec, at: loop.turnTime) }
        return exchange.mismatch(of: frame, on: retired, positions, by: codec, at: loop.turnTime)
    }

    /// A response is not that of the request that it would be given to. Returns why the link ends with it, if it does.
    private func fail(_ mismatch: Exchange.Mismatch) -> FrameError? {
        guard !mismatch.endsLink else { return mismatch.error }
        // It may be another request's, and its own may come yet: the serial is quarantined.
        let message = "the response does not belong to the request"
        cancel(mismatch.ticket, .protocolViolation, message, cause: mismatch.error)
        return nil
    }

    /// A part of a reply has been handed over, or found no room.
    private func take(_ consequence: Exchange.Consequence) {
        switch consequence {
        case .none: break
        case .suspendsReading(let channel):
            fullReplies.append(channel)
            updateReading()
        case .fails(let ticket, let code, let message, let cause): cancel(ticket, code, message, cause: cause)
        }
    }

    /// The server is about to go: what is out finishes there, the rest goes elsewhere.
    private func leave(_ farewell: Frame) {
        flushOutgoing()
        let hint = codec.retryAfter(in: farewell)
        connection.assumeIsolated { connection in
            guard farewell.kind == .response else {
                return connection.leaveEndpoint(because: .goAway, retryAfter: hint)
            }
            connection.leaveLink(retryAfter: hint)
        }
    }

    // MARK: Links

    /// The link has answered a request, for the first time.
    private func noteAnswered() {
        workedSession = session
        connection.assumeIsolated { $0.machine.linkAnswered() }
    }

    private func linkEstablished() {
        notePushes(from: session)
        let endpoint = connection.assumeIsolated { $0.link?.endpoint }
        if endpoint != lastEndpoint { exchange.forgetErrors() }
        lastEndpoint = endpoint
        resumeConnectWaiters(nil)
    }

    /// From now on pushes are those of the link of `session`: says so to every stream, once.
    private func notePushes(from session: UInt64) {
        guard session != pushSession else { return }
        if pushSession != nil {
            for channel in channels.all { channel.noteReconnected() }
        }
        pushSession = session
    }

    func connectionLost(_ cause: any Error, to endpoint: Endpoint, unsent: [Ticket]) -> Int {
        begin()
        defer { finish() }
        exchange.followUps.noteDropped(unsent)
        let unstarted = connection.assumeIsolated { $0.outbound.level.unstarted }
        let lost = exchange.linkLost(isOurDoing: (cause as? TransportError)?.code == .closedLocally) { $0 < unstarted }
        let error = ClientError.lost(with: endpoint, cause)
        for (ticket, waiter) in lost { fail(ticket, waiter, error) }
        endLinkbound(endpoint, cause)
        return lost.count
    }

    func connectionRetired(_ session: UInt64, before unstarted: OutboundPosition) -> Int {
        let left = exchange.retire(session, before: unstarted)
        endLinkbound(nil, TransportError.closedByUs) { $0.session != nil }
        return left
    }

    func retiredLinkLost(
        _ session: UInt64,
        _ positions: Range<OutboundPosition>,
        _ cause: any Error,
        to endpoint: Endpoint,
        unsent: [Ticket]
    ) -> Int {
        begin()
        defer { finish() }
        exchange.followUps.noteDropped(unsent)
        let lost = exchange.retiredLinkLost(session, positions)
        let error = ClientError.lost(with: endpoint, cause)
        for (ticket, waiter) in lost { fail(ticket, waiter, error) }
        return lost.count
    }

    /// No server could be reached: ends every request that needs a link, and everyone who waits for one. Those under way
    /// on a link that was left have theirs, and finish there.
    private func giveUp() {
        let error = connection.assumeIsolated { $0.unavailable() }
        failRequests(error, includingRetired: false)
        resumeConnectWaiters(error)
    }

    /// Ends every request; those that had started with fate `unknown`, whatever `error` says.
    func failRequests(_ error: ClientError, includingRetired: Bool = true) {
        flushOutgoing()
        let all = exchange.removeAll(includingRetired: includingRetired)
        for (ticket, entry) in all {
            let started = connection.assumeIsolated { connection in
                let started = entry.position != 0 && connection.outbound.hasStarted(entry.position)
                if !started, entry.position != 0 { connection.outbound.remove(entry.position) }
                return started
            }
            let mine = started ? ClientError(error.code, .unknown, error.message, cause: error.cause) : error
            fail(ticket, entry.waiter, mine)
        }
    }

    // MARK: Reading

    /// Suspends or resumes reading, as the buffers of subscribers and of streamed replies ask for.
    func updateReading() {
        fullReplies.removeAll { !$0.suspendsReading }
        let isPaused = channels.suspendReading() || !fullReplies.isEmpty
        connection.assumeIsolated { $0.setPaused(isPaused) }
    }
}

extension ClientError {
    /// What becomes of requests that had started on a link that is gone.
    fileprivate static func lost(with endpoint: Endpoint, _ cause: any Error) -> ClientError {
        let isViolation = cause is FrameError
        // With TLS 1.3 a server looks at the client's certificate when the client is done (RFC 8446 §4.4.2).
        let isRefusal = DisconnectCause(cause) == .tls && (cause as? TransportError)?.isPermanent == true
        return ClientError(
            isViolation ? .protocolViolation : isRefusal ? .tlsFailed : .connectionLost,
            .unknown,
            isViolation ? "the server broke the protocol" : "the link was lost before the response",
            endpoint: endpoint,
            cause: cause
        )
    }
}
