/// Events out: what the connection reports about frames and links. Callers of requests are resumed only here: when the
/// table forgets a request (`forget`), which happens once, or when it is refused.
extension Dispatcher {
    mutating func take(_ events: inout [ConnectionEvent], for owner: any ConnectionOwner) -> BatchEnd {
        perform(&events)
        return finish(for: owner)
    }

    mutating func perform(_ events: inout [ConnectionEvent]) {
        let now = loop.now
        var excesses = Excesses()
        for index in events.indices {
            // Taken apart like a command: see `perform` of commands.
            if case .answered = events[index], excesses.isEmpty {
                guard
                    case .answered(let id, let frame, let position) = exchange(&events[index], with: .taken)
                else { continue }
                answered(id, frame, position, at: now)
            } else {
                switch exchange(&events[index], with: .taken) {
                case .part(let id, let part): take(part, of: id, &excesses, at: now)
                case .sharedPart(let requests, var part):
                    for request in requests {
                        part.serial = request.serial
                        take(part, of: request.id, &excesses, at: now)
                    }
                case let event:
                    if excesses.isEmpty { perform(event, at: now) } else { perform(event, &excesses, at: now) }
                }
            }
        }
        if !excesses.isEmpty { end(excesses) }
        streams.channels.yieldMalformed()
        streams.resumeServed()
        ledger.tellCollected()
    }

    private mutating func perform(_ event: consuming ConnectionEvent, at now: Instant) {
        switch consume event {
        case .answered(let id, let frame, let position): answered(id, frame, position, at: now)
        case .answeredAll(let requests, var frame):
            for request in requests {
                frame.serial = request.serial
                answered(request.id, frame, request.position, at: now)
            }
        case .part, .sharedPart, .room, .taken: break  // parts are handled above
        case .pushes(let frames): take(frames, isSurplus: false)
        case .surplusPushes(let frames): take(frames, isSurplus: true)
        case .failed(let id, let error, let onLink): end(id, error, onLink)
        case .wrote(let id, let position):
            guard let request = requests[id], let waiter = requests.forget(id) else { return }
            ledger.written(id, request, at: now)
            noteSuccess(of: id, request, waiter, position, at: now)
            waiter.resume(.success(.none))
        case .wrotePart(let id):
            guard id >= RequestPart.firstID else {
                requests.waiter(of: id)?.handle?.noteWritten()
                break
            }
            if id >= ServerCalls.firstID { wroteAnswer(id) } else { parts.written(id) }
        case .refusedPart(let id, let error):
            if id >= ServerCalls.firstID { couldNotEncodeAnswer(id) }
            parts.takeQueued(id)?.fail(error, isSent: false)
        case .admitted(let id, let serial):
            let waiter = requests.waiter(of: id)
            waiter?.accept()
            // Events come in order, and only the link that takes requests admits some.
            waiter?.handle?.admitted(as: serial, on: session)
        case .late(let id, let isPart): if !isPart { ledger.late(id) }
        case .lateResponse(let response): options.requests.lateResponse?(response)
        case .unknownResponse(let serial, let type, let session, let reason, let namesNoRequest):
            ledger.unknownResponse(serial, type: type, session, reason, namesNoRequest: namesNoRequest)
        case .requested(let request): requested(request)
        case .requestCancelled(let serial, let session): cancelCall(serial, on: session)
        case .unexpected: ledger.unexpectedFrame()
        case .sessionLost(let endpoint, let session): endSessionbound(endpoint, session)
        case .ready(let session, let endpoint):
            self.session = session
            retries.usesDatagrams = endpoint.usesDatagrams
            if endpoint.usesDatagrams { beginDatagrams() }
            let areWaiting = requests.queue.hasWaiting || requests.queue.delayedCount > 0
            ledger.linkIsReady(session, to: endpoint, areWaiting: areWaiting, at: now)
            streams.notePushes(from: session)
            resumeConnectWaiters(nil)
        case .pushesBegin(let session): streams.notePushes(from: session)
        case .returned(let unsent):
            session = nil
            giveBack(unsent)
            ledger.linkDrains(unsent, at: now)
            endLinkbound(nil, TransportError.closedByUs("the client closed the link")) { $0.session != nil }
        case .drained(let session):
            ledger.linkHasEnded(session)
            parts.forgetLink(session)
            endCalls(of: session)
        case .lost(let loss): take(loss, at: now)
        case .unavailable(let error):
            for request in requests.queue.removeAll(includingDelayed: false) { fail(request.id, error) }
            resumeConnectWaiters(error)
        case .closed: closed()
        }
    }

    private mutating func take(_ pushes: [Frame], isSurplus: Bool) {
        if streams.channels.offer(pushes, isSurplus: isSurplus, speaking: codec) { updateReading() }
        ledger.pushes(pushes.count)
        for (stream, count) in streams.channels.takeDropped() { ledger.dropped(count, by: stream) }
    }

    /// Not inlined, like `register`.
    @inline(never)
    private mutating func answered(
        _ id: RequestID,
        _ frame: consuming Frame,
        _ position: OutboundPosition,
        at now: Instant
    ) {
        if frame.isErrorResponse, frame.isFateUnknown, frame.malformedReason == nil {
            return interrupted(id, frame, position, at: now)
        }
        guard let request = requests[id], let waiter = requests.forget(id) else { return ledger.late(id) }
        let isError = frame.isErrorResponse || frame.malformedReason != nil
        ledger.answered(id, request, frame.status, isError: isError, at: now)
        if isError {
            return answeredWithError(id, request, waiter, frame, position, at: now)
        }
        noteSuccess(of: id, request, waiter, position, at: now)
        waiter.resume(Outcome(of: frame))
        if parts.hasTargets { endParts(of: id, request) }
    }

    @inline(__always)
    private mutating func noteSuccess(
        of id: RequestID,
        _ request: RequestFacts,
        _ waiter: Waiter,
        _ position: OutboundPosition,
        at now: Instant
    ) {
        if ledger.succeeded(request, waiter, at: now) { keepTimeline(of: id, request, waiter, position, at: now) }
        ledger.endName(of: id, request, at: now)
    }

    @inline(never)
    private mutating func keepTimeline(
        of id: RequestID,
        _ request: RequestFacts,
        _ waiter: Waiter,
        _ position: OutboundPosition,
        at now: Instant
    ) {
        let onLink = lastTry(of: request, at: position, now)
        ledger.keep(ledger.timeline(of: id, request, waiter, onLink, nil, at: now), for: waiter, at: now)
    }

    private func lastTry(of request: RequestFacts, at position: OutboundPosition, _ now: Instant) -> TryOnLink? {
        guard case .onLink(let session, _) = request.place else { return nil }
        return driver.links.tryOnLink(session, at: position, now: now)
    }

    @inline(never)
    private mutating func interrupted(_ id: RequestID, _ frame: Frame, _ position: OutboundPosition, at now: Instant) {
        guard let request = requests[id] else { return ledger.late(id) }
        guard case .failure(let error) = Outcome(of: frame) else { return }
        ledger.rejected(id, type: request.type, frame)
        let onLink = lastTry(of: request, at: position, now)
        guard parts.targets[id] != nil else { return fail(id, error, onLink) }
        endParts(of: id, request)
        end(id, error, onLink)
    }

    @inline(never)
    private mutating func answeredWithError(
        _ id: RequestID,
        _ request: RequestFacts,
        _ waiter: Waiter,
        _ frame: Frame,
        _ position: OutboundPosition,
        at now: Instant
    ) {
        guard case .failure(let error) = Outcome(of: frame) else { return }
        if frame.malformedReason == nil {
            ledger.rejected(id, type: request.type, frame)
        } else {
            ledger.invalid(id, type: request.type, error)
        }
        fail(id, request, waiter, error, position, at: now)
    }

    private mutating func fail(
        _ id: RequestID,
        _ request: RequestFacts,
        _ waiter: Waiter,
        _ error: ClientError,
        _ position: OutboundPosition,
        at now: Instant
    ) {
        let onLink = lastTry(of: request, at: position, now)
        waiter.resume(.failure(ledger.failed(error, id, request, waiter, onLink, at: now)))
        if parts.hasTargets { endParts(of: id, request) }
    }

    /// A cancel frame tells a server that answered before it received the whole request that no more parts follow.
    /// Otherwise it could read the next request with this serial as the rest.
    private mutating func endParts(of id: RequestID, _ request: RequestFacts) {
        guard let target = endParts(of: id, .replyEnded),
            case .onLink(let session, .response(let serial)) = request.place
        else { return }
        // In order, a server that answers before the first piece of data expects none.
        if codec.matching.isInOrder, !target.hasWrittenPart { return }
        let number = codec.matching.isInOrder ? 0 : serial
        _ = driver.requests.sendCancelFrame(for: number, type: target.type, on: session)
        endLinkOfUpload(session)
    }

    @inline(__always)
    private mutating func take(_ part: Frame, of id: RequestID, _ excesses: inout Excesses, at now: Instant) {
        if !excesses.isEmpty, excesses[id] != nil { return }
        if let excess = take(part, of: id, at: now) { excesses[id] = excess }
    }

    /// Returns the error's message if the reply is now too large, and the end of its request follows in the batch.
    private mutating func take(_ part: Frame, of id: RequestID, at now: Instant) -> String? {
        guard var waiter = requests.waiter(of: id) else { return nil }  // cancelled because of an earlier part
        ledger.part(of: id, isFirst: waiter.firstPart == nil)
        let hadExtras = waiter.extras != nil
        let reception = waiter.take(part, at: now, in: driver.rules.reassemblyBudget)
        if !hadExtras, waiter.extras != nil { requests.setWaiter(waiter, of: id) }
        switch reception {
        case .taken: break
        case .serves(let reader, let element): streams.serve(reader, with: element)
        case .full(let channel):
            streams.fullReplies.append(channel)
            updateReading()
        case .exceeds(let message):
            cancel(id, .overloaded, message)
            // If it is still there, it has left its link.
            if requests[id] != nil { return message }
        }
        return nil
    }

    // MARK: Replies that are too large

    /// The requests that had left their links when their replies became too large, with error messages. Their last
    /// frames, or the ends of their links, follow in the batch: the callers must not receive the responses, and the
    /// requests must not be sent again.
    private typealias Excesses = [RequestID: String]

    /// Takes the requests that the event ends out of `excesses`.
    @inline(never)
    private mutating func perform(_ event: ConnectionEvent, _ excesses: inout Excesses, at now: Instant) {
        switch event {
        case .answered(let id, let frame, let position):
            guard let message = excesses.removeValue(forKey: id) else { return perform(event, at: now) }
            end(id, message, answeredWith: frame, position, at: now)
        case .answeredAll(let requests, var frame):
            for request in requests {
                frame.serial = request.serial
                if let message = excesses.removeValue(forKey: request.id) {
                    end(request.id, message, answeredWith: frame, request.position, at: now)
                } else {
                    answered(request.id, frame, request.position, at: now)
                }
            }
        case .lost(let loss):
            for (id, times) in loss.remains.lost {
                guard let message = excesses.removeValue(forKey: id) else { continue }
                end(id, ClientError(.overloaded, .unknown, message), TryOnLink(link: loss.link, times: times))
            }
            perform(event, at: now)
        case .failed(let id, _, let onLink):
            guard let message = excesses.removeValue(forKey: id) else { return perform(event, at: now) }
            end(id, ClientError(.overloaded, .unknown, message), onLink)
        case .unavailable, .closed:
            end(excesses)
            excesses = [:]
            perform(event, at: now)
        default: perform(event, at: now)
        }
    }

    private mutating func end(
        _ id: RequestID,
        _ message: String,
        answeredWith frame: Frame,
        _ position: OutboundPosition,
        at now: Instant
    ) {
        guard let request = requests[id], let waiter = requests.forget(id) else { return }
        ledger.answered(id, request, frame.status, isError: true, at: now)
        let error = ClientError(.overloaded, .answered, message)
        ledger.invalid(id, type: request.type, error)
        fail(id, request, waiter, error, position, at: now)
    }

    private mutating func end(_ excesses: Excesses) {
        for (id, message) in excesses.sorted(by: { $0.key < $1.key }) {
            end(id, ClientError(.overloaded, .unknown, message))
        }
    }

    // MARK: Links

    /// Requests that had started on the lost link fail; the others go out on the next link.
    private mutating func take(_ loss: LinkLoss, at now: Instant) {
        if loss.wasReady { session = nil }
        parts.noteDropped(loss.remains.unsentParts)
        giveBack(loss.remains.unsent)
        ledger.linkIsLost(loss.remains.unsent, wasReady: loss.wasReady, at: now)
        let error =
            lifecycle >= .closing
            ? ClientError.clientWasClosed(.unknown)
            : ClientError.lost(with: loss.link.endpoint, loss.cause)
        for (id, times) in loss.remains.lost {
            guard let place = requests[id]?.place else { continue }
            let isInnocent = error.code == .overloaded && !(place.isForResponse && loss.remains.mayReceive(id))
            fail(id, isInnocent ? error.ofOthers : error, TryOnLink(link: loss.link, times: times))
        }
        ledger.linkHasEnded(loss.link.session)
        parts.forgetLink(loss.link.session)
        endCalls(of: loss.link.session)
        if loss.wasReady { endLinkbound(loss.link.endpoint, loss.cause) }
    }

    private mutating func giveBack(_ unsent: [QueuedRequest]) {
        requests.giveBack(unsent)
        for request in unsent {
            parts.noteOffLink(request.id)
            if request.reports == .admissionAndWrite { requests.waiter(of: request.id)?.handle?.noteOffLink() }
        }
    }

    /// Ends the requests whose callers may send them elsewhere. Returns whether there was one.
    mutating func releaseWaiting() -> Bool {
        var hasReleased = false
        for request in requests.queue.waiting where requests.waiter(of: request.id)?.isEnqueued == false {
            guard requests.remove(request.id) != nil else { continue }
            hasReleased = true
            end(request.id, unsentError(.unavailable, "there is no link"))
        }
        return hasReleased
    }

    mutating func failWaiting(_ error: ClientError) {
        for request in requests.queue.removeAll() { end(request.id, error) }
    }

    mutating func end(_ id: RequestID, _ error: ClientError, _ onLink: TryOnLink? = nil) {
        guard let request = requests[id], let waiter = requests.forget(id) else { return }
        let now = loop.now
        let error = ledger.failed(waiter.tracked?.amended(error) ?? error, id, request, waiter, onLink, at: now)
        ledger.ended(id, request, error, at: now)
        endParts(of: id, error)
        waiter.resume(.failure(error))
    }

    mutating func refuse(_ frame: Frame, _ waiter: Waiter, _ error: ClientError) {
        let error = waiter.tracked?.amended(error) ?? error
        ledger.refused(frame, error)
        waiter.resume(.failure(error))
    }

    // MARK: Reading

    mutating func updateReading() {
        let isPaused = streams.suspendReading()
        driver.io.setPaused(isPaused)
    }
}

extension ClientError {
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

    /// For requests whose responses are not the reason. They may be sent again.
    fileprivate var ofOthers: ClientError { .lostBeforeResponse(.connectionLost, fate, endpoint, cause) }
}

extension RequestFacts.Place {
    fileprivate var isForResponse: Bool { if case .onLink(_, .response) = self { true } else { false } }
}
