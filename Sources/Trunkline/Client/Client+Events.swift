/// Events out: what the connection reports about frames and links. Callers of requests are resumed here and nowhere
/// else.
///
/// A caller is resumed when the queue forgets its request (`forget`), which happens once, or when the request is
/// refused.
extension Client: ConnectionOwner {
    nonisolated func handle(_ events: inout [ConnectionEvent]) {
        onItsLoop(&events) { client, events in
            client.perform(&events)
            client.finish()
        }
    }

    func perform(_ events: inout [ConnectionEvent]) {
        let now = loop.now
        for index in events.indices {
            // Taken apart like a command: see `perform` of commands.
            if case .answered = events[index] {
                guard case .answered(let id, let waiter, let frame) = exchange(&events[index], with: .taken) else {
                    continue
                }
                answered(id, waiter, frame, at: now)
            } else {
                perform(exchange(&events[index], with: .taken), at: now)
            }
        }
        channels.yieldMalformed()
    }

    private func perform(_ event: consuming ConnectionEvent, at now: Instant) {
        switch consume event {
        case .answered(let id, let waiter, let frame): answered(id, waiter, frame, at: now)
        case .room, .taken: break
        case .pushes(let frames):
            counters.pushes += frames.count
            if channels.offer(frames, speaking: codec) { updateReading() }
        case .part(let id, let waiter, let frame): take(frame, of: id, waiter)
        case .failed(let id, let waiter, let error): if queue[id] != nil { end(id, waiter, error) }
        case .wrote(let id, let waiter):
            guard let accepted = queue.forget(id) else { return }
            counters.written += 1
            callDurations.record(from: accepted, to: now)
            waiter.resume(.success(.none))
        case .wrotePart(let id):
            if id >= RequestPart.firstID { parts.written(id) } else { waiter(of: id)?.handle?.noteWritten() }
        case .refusedPart(let id, let cause):
            let error = ClientError(.invalidRequest, .notSent, "the frame cannot be encoded", cause: cause)
            parts.takeQueued(id)?.fail(error, isSent: false)
        case .admitted(let waiter, let serial):
            waiter.accept()
            waiter.handle?.admitted(as: serial)
        case .late(let isPart): if !isPart { counters.lateResponses += 1 }
        case .unknownResponse: counters.unknownResponses += 1
        case .unexpected: counters.unexpectedFrames += 1
        case .ready(let session):
            self.session = session
            notePushes(from: session)
            resumeConnectWaiters(nil)
        case .pushesBegin(let session): notePushes(from: session)
        case .returned(let requests):
            session = 0
            queue.giveBack(requests)
            endLinkbound(nil, TransportError.closedByUs) { $0.session != nil }
        case .lost(let loss): take(loss)
        case .unavailable(let error):
            for request in queue.removeAll(includingDelayed: false) { fail(request.id, request.waiter, error) }
            resumeConnectWaiters(error)
        case .closed: closed()
        }
    }

    /// Ends a request with its response. Not inlined, like `register`.
    @inline(never)
    private func answered(_ id: RequestID, _ waiter: consuming Waiter, _ frame: consuming Frame, at now: Instant) {
        if parts.hasTargets { return answeredInParts(id, waiter, frame, at: now) }
        guard let accepted = queue.forget(id) else { return counters.lateResponses += 1 }
        count(frame, from: accepted, to: now)
        waiter.resume(Outcome(of: frame))
    }

    /// Counts a response that reached its request.
    @inline(__always)
    private func count(_ response: borrowing Frame, from accepted: Instant, to now: Instant) {
        counters.responses += 1
        callDurations.record(from: accepted, to: now)
        if response.isErrorResponse || response.malformedReason != nil { countFailed(response) }
    }

    @inline(never)
    private func countFailed(_ response: borrowing Frame) {
        let code: ClientError.Code = response.malformedReason != nil ? .protocolViolation : .rejected
        failures[Metrics.Failure(code, .answered), default: 0] += 1
    }

    /// Handles a response while some requests are being sent in parts.
    private func answeredInParts(_ id: RequestID, _ waiter: Waiter, _ frame: Frame, at now: Instant) {
        let place = queue[id]
        guard let accepted = queue.forget(id) else { return counters.lateResponses += 1 }
        count(frame, from: accepted, to: now)
        waiter.resume(Outcome(of: frame))
        // A cancel frame tells a server that answered before it received the whole request that no more parts follow.
        // Otherwise it could read the next request with this serial as the rest.
        guard let target = endParts(of: id, .replyEnded), case .onLink(let session, _)? = place,
            let cancel = codec._cancelFrame(for: frame.serial, type: target.type)
        else { return }
        connection.inCallOfOwner { $0.send(cancel, on: session) }
    }

    /// Handles a part of a response.
    private func take(_ part: Frame, of id: RequestID, _ waiter: Waiter) {
        guard queue[id] != nil else { return }  // cancelled because of an earlier part
        counters.parts += 1
        switch waiter.take(part) {
        case .taken: break
        case .full(let channel):
            fullReplies.append(channel)
            updateReading()
        case .exceeds(let message):
            cancel(id, .overloaded, message)
            // The events may already contain its response.
            if queue[id] != nil { end(id, waiter, ClientError(.overloaded, .unknown, message)) }
        }
    }

    // MARK: Links

    /// Tells every stream, once, that pushes come from the link of `session` from now on.
    private func notePushes(from session: UInt64) {
        guard session != pushSession else { return }
        if pushSession != nil {
            for channel in channels.all { channel.noteReconnected() }
        }
        pushSession = session
    }

    /// Handles the end of a link. Requests that had started on it fail; the others go out on the next link.
    private func take(_ loss: LinkLoss) {
        if loss.wasReady { session = 0 }
        parts.noteDropped(loss.remains.unsentParts)
        queue.giveBack(loss.remains.unsent)
        let error =
            lifecycle >= .closing
            ? ClientError(.closed, .unknown, "the client was closed")
            : ClientError.lost(with: loss.endpoint, loss.cause)
        for (id, waiter) in loss.remains.lost where queue[id] != nil { fail(id, waiter, error) }
        if loss.wasReady { endLinkbound(loss.endpoint, loss.cause) }
    }

    /// Ends every request that is on no link.
    func failWaiting(_ error: ClientError) {
        for request in queue.removeAll() { end(request.id, request.waiter, error) }
    }

    /// Ends the request of `id` with a final error.
    func end(_ id: RequestID, _ waiter: Waiter, _ error: ClientError) {
        if let accepted = queue.forget(id) {
            counters.failed += 1
            let error = waiter.tracked?.amended(error) ?? error
            failures[Metrics.Failure(error.code, error.fate), default: 0] += 1
            callDurations.record(from: accepted, to: loop.now)
        }
        endParts(of: id, error)
        waiter.resume(.failure(error))
    }

    /// Ends a request that was not accepted.
    func refuse(_ waiter: Waiter, _ error: ClientError) {
        refusals[error.code, default: 0] += 1
        waiter.resume(.failure(error))
    }

    // MARK: Reading

    /// Suspends or resumes reading, depending on the buffers of the push and reply streams.
    func updateReading() {
        fullReplies.removeAll { !$0.suspendsReading }
        let isPaused = channels.suspendReading() || !fullReplies.isEmpty
        connection.inCallOfOwner { $0.setPaused(isPaused) }
    }
}

extension ClientError {
    /// Returns the error for requests that had started on a link that ended because of `cause`.
    fileprivate static func lost(with endpoint: Endpoint, _ cause: any Error) -> ClientError {
        let isViolation = cause is FrameError
        // With TLS 1.3, a server verifies the client's certificate after the client has finished the TLS handshake (RFC
        // 8446 §4.4.2).
        let isRefusal = DisconnectCause(cause) == .tls && (cause as? TransportError)?.isPermanent == true
        return ClientError(
            isViolation ? .protocolViolation : isRefusal ? .tlsFailed : .connectionLost,
            .unknown,
            isViolation ? "the server violated the protocol" : "the link was lost before the response arrived",
            endpoint: endpoint,
            cause: cause
        )
    }
}
