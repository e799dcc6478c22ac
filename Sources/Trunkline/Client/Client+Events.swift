import TrunklineCore
import TrunklineIO

/// What the connection tells: frames in, links gained and lost.
extension Client: ConnectionOwner {
    nonisolated func connection(did event: ConnectionEvent) {
        assumeIsolated { $0.handle(event) }
    }

    private func handle(_ event: ConnectionEvent) {
        begin()
        switch event {
        case .received(let frames):
            for frame in frames { receive(frame) }
        case .drained: break  // `finish` admits what waits
        case .wrote(let tickets):
            for ticket in tickets { written(ticket) }
        case .refused(let refusals):
            for (ticket, error) in refusals { refused(ticket, error) }
        case .ready: linkEstablished()
        case .attemptFailed: break
        case .unavailable: giveUp()
        case .lost(let cause): linkLost(cause)
        case .closed: closed()
        }
        finish()
    }

    // MARK: Frames

    private func receive(_ frame: Frame) {
        switch frame.kind {
        case .response: answer(frame)
        case .push:
            counters.pushes += 1
            for channel in channels where channel.wants(frame) { channel.offer(frame) }
            if channels.contains(where: \.suspendsReading) { updateReading() }
        case .ping:
            if let pong = codec.pong(answering: frame) { outgoing.append(OutboundQueue.Item(pong, ticket: 0)) }
        case .pong: break  // a sign of life, which every byte is
        case .goAway, .part, .request, .cancel: counters.unexpectedFrames += 1
        }
    }

    private func answer(_ frame: Frame) {
        switch table.answer(frame.serial, unstarted: unstartedPosition) {
        case .resume(_, let waiter):
            inFlight -= 1
            counters.responses += 1
            if frame.isRejection {
                waiter.resume(.failure(rejection(frame)))
            } else {
                waiter.resume(.success(frame))
            }
        case .late: counters.lateResponses += 1
        case .unknown: counters.unknownResponses += 1
        }
    }

    private func rejection(_ frame: Frame) -> ClientError {
        let endpoint = connection.assumeIsolated { $0.link?.endpoint }
        let message = "the server answered with status \(frame.status)"
        return ClientError(.rejected, .answered, message, endpoint: endpoint, response: frame)
    }

    private func written(_ ticket: Ticket) {
        guard let entry = table[ticket] else { return }
        if entry.expectsResponse {
            if case .handle(let handle) = entry.waiter { handle.noteWritten() }
        } else if let waiter = table.take(ticket) {
            inFlight -= 1
            waiter.resume(.success(Frame(.response)))
        }
    }

    private func refused(_ ticket: Ticket, _ error: FrameError) {
        guard let waiter = table.take(ticket) else { return }
        inFlight -= 1
        waiter.resume(.failure(ClientError(.invalidRequest, .notSent, "the frame cannot be encoded", cause: error)))
    }

    // MARK: Links

    private func linkEstablished() {
        counters.links += 1
        if hadLink {
            for channel in channels { channel.noteReconnected() }
        }
        hadLink = true
        resumeConnectWaiters(nil)
    }

    private func linkLost(_ cause: any Error) {
        let code: ClientError.Code = cause is FrameError ? .protocolViolation : .connectionLost
        let message =
            code == .protocolViolation ? "the server broke the protocol" : "the link was lost before the response"
        let (lost, endpoint) = connection.assumeIsolated { connection in
            (
                self.assumeIsolated { client in client.table.linkLost { connection.outbound.hasStarted($0) } },
                connection.machine.endpoint
            )
        }
        inFlight -= lost.count
        let error = ClientError(code, .unknown, message, endpoint: endpoint, cause: cause)
        for (_, waiter) in lost { waiter.resume(.failure(error)) }
    }

    /// No server could be reached: ends every request and everyone who waits for a link.
    private func giveUp() {
        let error = connection.assumeIsolated { $0.unavailable() }
        failRequests(error)
        resumeConnectWaiters(error)
    }

    /// Ends every request; those that had started with fate `unknown`, whatever `error` says.
    func failRequests(_ error: ClientError) {
        flushOutgoing()
        let all = table.removeAll()
        inFlight = 0
        waiting.removeAll()
        abandoned = 0
        for (_, entry) in all {
            let started = connection.assumeIsolated { connection in
                let started = entry.position != 0 && connection.outbound.hasStarted(entry.position)
                if !started, entry.position != 0 { connection.outbound.remove(entry.position) }
                return started
            }
            let mine = started ? ClientError(error.code, .unknown, error.message, cause: error.cause) : error
            entry.waiter.resume(.failure(mine))
        }
    }

    // MARK: Reading

    /// Suspends or resumes reading, as the subscribers' buffers ask for.
    func updateReading() {
        let isPaused = channels.contains { $0.suspendsReading }
        connection.assumeIsolated { connection in
            guard connection.isPaused != isPaused else { return }
            connection.isPaused = isPaused
            connection.updateReading()
        }
    }
}
