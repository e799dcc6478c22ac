/// Events out: what the connection reports about frames and links. Callers of requests are resumed here and nowhere
/// else.
///
/// A caller is resumed when the table forgets its request (`forget`), which happens once, or when the request is
/// refused.
extension Client: ConnectionOwner {
    func handle(_ events: inout [ConnectionEvent], of connection: isolated Connection) {
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
                guard
                    case .answered(let id, let frame, let position) = exchange(&events[index], with: .taken)
                else { continue }
                answered(id, frame, position, at: now)
            } else {
                perform(exchange(&events[index], with: .taken), at: now)
                if let excessive = excessiveReply.take() { end(excessive, within: &events, after: index, at: now) }
            }
        }
        channels.yieldMalformed()
        serveReaders()
        tellCollected()
    }

    /// Resumes the readers of reply streams for which parts have arrived. Once for a batch: a reader that is resumed for
    /// each part would take it and wait again, at the price of two switches of threads.
    private func serveReaders() {
        guard !servedReaders.isEmpty else { return }
        for (reader, element) in servedReaders { reader.resume(returning: element) }
        servedReaders.removeAll(keepingCapacity: servedReaders.count <= 64)
    }

    private func perform(_ event: consuming ConnectionEvent, at now: Instant) {
        switch consume event {
        case .answered(let id, let frame, let position): answered(id, frame, position, at: now)
        case .room, .taken: break
        case .pushes(let frames): take(frames, isSurplus: false)
        case .surplusPushes(let frames): take(frames, isSurplus: true)
        case .part(let id, let frame): take(frame, of: id, at: now)
        case .failed(let id, let error, let onLink): end(id, error, onLink)
        case .wrote(let id, let position):
            guard let request = requests[id], let waiter = requests.forget(id) else { return }
            counters.written += 1
            tell(.requests, .messageWritten(id: id, after: now.since(request.accepted)))
            noteSuccess(of: id, request, waiter, position, at: now)
            waiter.resume(.success(.none))
        case .wrotePart(let id):
            if id >= RequestPart.firstID { parts.written(id) } else { requests.waiter(of: id)?.handle?.noteWritten() }
        case .refusedPart(let id, let error): parts.takeQueued(id)?.fail(error, isSent: false)
        case .admitted(let id, let serial):
            let waiter = requests.waiter(of: id)
            waiter?.accept()
            waiter?.handle?.admitted(as: serial)
        case .late(let id, let isPart): if !isPart { noteLate(id) }
        case .unknownResponse: counters.unknownResponses += 1
        case .unexpected: counters.unexpectedFrames += 1
        case .ready(let session, let endpoint):
            self.session = session
            callDurations.begin(session, to: endpoint)
            linkGaps.end(at: now, isOfInterest: requests.queue.hasWaiting || requests.queue.delayedCount > 0)
            notePushes(from: session)
            resumeConnectWaiters(nil)
        case .pushesBegin(let session): notePushes(from: session)
        case .returned(let unsent):
            session = 0
            callDurations.drain()
            linkGaps.begin(at: now)
            giveBack(unsent)
            tellWaiting(unsent)
            endLinkbound(nil, TransportError.closedByUs) { $0.session != nil }
        case .drained(let session):
            callDurations.end(session)
            parts.forgetLink(session)
        case .lost(let loss): take(loss, at: now)
        case .unavailable(let error):
            for request in requests.queue.removeAll(includingDelayed: false) { fail(request.id, error) }
            resumeConnectWaiters(error)
        case .closed: closed()
        }
    }

    /// Hands pushes to the streams.
    private func take(_ pushes: [Frame], isSurplus: Bool) {
        counters.pushes += pushes.count
        let dropped = channels.droppedCount
        if channels.offer(pushes, isSurplus: isSurplus, speaking: codec) { updateReading() }
        if channels.droppedCount > dropped { tell(.pushes, .pushesDropped(channels.droppedCount - dropped)) }
    }

    /// Ends a request with its response. Not inlined, like `register`.
    @inline(never)
    private func answered(
        _ id: RequestID,
        _ frame: consuming Frame,
        _ position: OutboundPosition,
        at now: Instant
    ) {
        guard let request = requests[id], let waiter = requests.forget(id) else { return noteLate(id) }
        counters.responses += 1
        let isError = frame.isErrorResponse || frame.malformedReason != nil
        noteAnswered(id, request, frame.status, isError: isError, at: now)
        if isError {
            return answeredWithError(id, request, waiter, frame, position, at: now)
        }
        noteSuccess(of: id, request, waiter, position, at: now)
        let serial = frame.serial
        waiter.resume(Outcome(of: frame))
        if parts.hasTargets { endParts(of: id, request, serial) }
    }

    /// Ends a request with an error response, or with a response that is malformed.
    @inline(never)
    private func answeredWithError(
        _ id: RequestID,
        _ request: RequestFacts,
        _ waiter: Waiter,
        _ frame: Frame,
        _ position: OutboundPosition,
        at now: Instant
    ) {
        guard case .failure(let error) = Outcome(of: frame) else { return }
        connection.observation?.log?.rejected(type: request.type, status: frame.status)
        fail(id, request, waiter, answeredBy: frame.serial, error, position, at: now)
    }

    /// Ends a request that was answered, but not with a response that its caller can receive.
    private func fail(
        _ id: RequestID,
        _ request: RequestFacts,
        _ waiter: Waiter,
        answeredBy serial: SerialNumber,
        _ error: ClientError,
        _ position: OutboundPosition,
        at now: Instant
    ) {
        let onLink = lastTry(of: request, at: position, now)
        waiter.resume(.failure(noted(error, of: id, request, waiter, onLink, at: now)))
        if parts.hasTargets { endParts(of: id, request, serial) }
    }

    /// Ends the parts of a request that was answered. A cancel frame tells a server that answered before it received the
    /// whole request that no more parts follow. Otherwise it could read the next request with this serial as the rest.
    private func endParts(of id: RequestID, _ request: RequestFacts, _ serial: SerialNumber) {
        guard let target = endParts(of: id, .replyEnded), case .onLink(let session, _) = request.place else { return }
        connection.inCallOfOwner { $0.sendCancelFrame(for: serial, type: target.type, on: session) }
    }

    /// Handles a part of a response.
    private func take(_ part: Frame, of id: RequestID, at now: Instant) {
        guard var waiter = requests.waiter(of: id) else { return }  // cancelled because of an earlier part
        counters.parts += 1
        if connection.observation?.wantsSteps == true, waiter.firstPart == nil {
            tell(.steps, .requestFirstPart(id: id))
        }
        let hadExtras = waiter.extras != nil
        let reception = waiter.take(part, at: now, in: connection.rules.reassemblyBudget)
        if !hadExtras, waiter.extras != nil { requests.setWaiter(waiter, of: id) }
        switch reception {
        case .taken: break
        case .serves(let reader, let element): servedReaders.append((reader, element))
        case .full(let channel):
            fullReplies.append(channel)
            updateReading()
        case .exceeds(let message):
            cancel(id, .overloaded, message)
            // The request has left its link, so the later events contain its end.
            if requests[id] != nil { excessiveReply = (id, message) }
        }
    }

    /// Ends a request whose reply was too large, and whose last frame or whose link's end is among `events`, after
    /// `first`: the caller must not receive the response, and the request must not be sent again.
    private func end(
        _ reply: (id: RequestID, message: String),
        within events: inout [ConnectionEvent],
        after first: Int,
        at now: Instant
    ) {
        var onLink: TryOnLink?
        search: for index in (first + 1)..<events.count {
            switch events[index] {
            case .answered(reply.id, let frame, let position):
                events[index] = .taken
                guard let request = requests[reply.id], let waiter = requests.forget(reply.id) else { return }
                counters.responses += 1
                noteAnswered(reply.id, request, frame.status, isError: true, at: now)
                let error = ClientError(.overloaded, .answered, reply.message)
                return fail(reply.id, request, waiter, answeredBy: frame.serial, error, position, at: now)
            case .lost(let loss):
                guard let lost = loss.remains.lost.first(where: { $0.id == reply.id }) else { continue }
                onLink = TryOnLink(link: loss.link, times: lost.written)
                break search
            default: continue
            }
        }
        end(reply.id, ClientError(.overloaded, .unknown, reply.message), onLink)
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
    private func take(_ loss: LinkLoss, at now: Instant) {
        if loss.wasReady {
            session = 0
            linkGaps.begin(at: now)
        }
        parts.noteDropped(loss.remains.unsentParts)
        giveBack(loss.remains.unsent)
        tellWaiting(loss.remains.unsent)
        let error =
            lifecycle >= .closing
            ? ClientError.clientWasClosed(.unknown)
            : ClientError.lost(with: loss.link.endpoint, loss.cause)
        for (id, times) in loss.remains.lost {
            guard let place = requests[id]?.place else { continue }
            let isInnocent = error.code == .overloaded && !(place.isForResponse && loss.remains.mayReceive(id))
            fail(id, isInnocent ? error.ofOthers : error, TryOnLink(link: loss.link, times: times))
        }
        callDurations.end(loss.link.session)
        parts.forgetLink(loss.link.session)
        if loss.wasReady { endLinkbound(loss.link.endpoint, loss.cause) }
    }

    /// Queues requests whose link was lost, or drains, before any byte of them was written.
    private func giveBack(_ unsent: [QueuedRequest]) {
        requests.giveBack(unsent)
        for request in unsent {
            parts.noteOffLink(request.id)
            if request.reports == .admissionAndWrite { requests.waiter(of: request.id)?.handle?.noteOffLink() }
        }
    }

    /// Ends every request that is on no link.
    func failWaiting(_ error: ClientError) {
        for request in requests.queue.removeAll() { end(request.id, error) }
    }

    /// Ends the request of `id` with a final error, unless it has ended already.
    ///
    /// - Parameter onLink: What is known about its last try, if it was on a link.
    func end(_ id: RequestID, _ error: ClientError, _ onLink: TryOnLink? = nil) {
        guard let request = requests[id], let waiter = requests.forget(id) else { return }
        counters.failed += 1
        let now = loop.now
        let error = noted(waiter.tracked?.amended(error) ?? error, of: id, request, waiter, onLink, at: now)
        tell([.requests, .failures], .requestFailed(id: id, error, after: now.since(request.accepted)))
        endParts(of: id, error)
        waiter.resume(.failure(error))
    }

    /// Ends a request that was not accepted.
    func refuse(_ waiter: Waiter, _ error: ClientError) {
        let error = waiter.tracked?.amended(error) ?? error
        refusals[error.code, default: 0] += 1
        tell([.requests, .failures], .requestRefused(error))
        waiter.resume(.failure(error))
    }

    // MARK: Reading

    /// Suspends or resumes reading, depending on the buffers of the push and reply streams.
    func updateReading() {
        // Removes only from the end, so each stream is checked once.
        while let last = fullReplies.last, !last.suspendsReading { fullReplies.removeLast() }
        let isPaused = channels.suspendReading() || !fullReplies.isEmpty
        connection.inCallOfOwner { $0.setPaused(isPaused) }
    }
}

extension ClientError {
    /// Returns the error for requests that had started on a link that ended because of `cause`.
    fileprivate static func lost(with endpoint: Endpoint, _ cause: any Error) -> ClientError {
        if let violation = cause as? FrameError {
            return ClientError(
                violation.exceedsLimit ? .overloaded : .protocolViolation,
                .unknown,
                violation.exceedsLimit
                    ? "the server sent more than a limit of this client allows" : "the server violated the protocol",
                endpoint: endpoint,
                cause: cause
            )
        }
        // With TLS 1.3, a server verifies the client's certificate after the client has finished the TLS handshake (RFC
        // 8446 §4.4.2).
        let isRefusal = DisconnectCause(cause) == .tls && (cause as? TransportError)?.isPermanent == true
        return .lostBeforeResponse(isRefusal ? .tlsFailed : .connectionLost, .unknown, endpoint, cause)
    }

    /// The same error of a link, for requests whose responses are not the reason. They may be sent again.
    fileprivate var ofOthers: ClientError { .lostBeforeResponse(.connectionLost, fate, endpoint, cause) }
}

extension RequestFacts.Place {
    /// Whether a request on a link waits for a response.
    fileprivate var isForResponse: Bool { if case .onLink(_, .response) = self { true } else { false } }
}
