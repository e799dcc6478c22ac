/// What a handshake asks of the driver of its connection.
protocol HandshakeHost: AnyObject {
    /// The end of the time that the attempt has.
    var attemptDeadline: Instant? { get }
    /// For the closures of a handshake, which run on other executors.
    func makeGate() -> any HandshakeLink
    func attemptFailed(_ id: SessionID, _ error: any Error, isPermanent: Bool?)
    /// The link becomes ready. It has received `early` before everything that is read from now on.
    func handshakeIsComplete(_ link: Link, afterHearing: Bool, _ early: inout [Frame])
    func restartAttempt()
    /// Those of an earlier handshake are replaced.
    func extendEndpoints(with added: [Endpoint])
    func publishState()
    func arm(at deadline: Instant?)
}

extension HandshakeHost {
    func attemptFailed(_ id: SessionID, _ error: any Error) { attemptFailed(id, error, isPermanent: nil) }
}

/// The handshakes of a connection: each leads from an established link to a ready one. Confined to its event loop.
final class Handshakes {
    let io: LinkIO
    let memory: LinkMemory
    /// It owns this object.
    unowned let host: any HandshakeHost

    init(_ io: LinkIO, _ memory: LinkMemory, host: any HandshakeHost) {
        (self.io, self.memory, self.host) = (io, memory, host)
    }

    private var context: ConnectionContext { io.context }
    var links: Links { io.links }
    private var port: OwnerPort { io.port }
    var loop: any EventLoop { context.loop }
    var options: ClientOptions { context.options }
    private var rules: LinkRules { context.rules }
    var codec: ProtocolCodec { context.codec }

    /// Returns false if there is nothing to do: then the link is ready.
    func begin(_ link: Link) -> Bool {
        host.arm(at: link.handshake?.deadline)
        io.updateReading()
        host.publishState()
        guard let perform = options.handshake.perform else { return restoreNewSubscriptions(link.session) }
        run(link.session, perform)
        return true
    }

    private func run(_ session: SessionID, _ closure: @escaping @Sendable (Handshaker) async throws -> Void) {
        guard let link = links.handshaking(session) else { return }
        let gate = host.makeGate()
        let handshaker = Handshaker(endpoint: link.endpoint, session: session, link: gate)
        // Unstructured: it begins on the loop, which cannot await it. `end` cancels it when the link ends.
        // What it reports after that has an old session number and is ignored.
        link.handshake?.task = Task(executorPreference: loop.callbackExecutor) {
            var failure: (any Error)?
            do { try await closure(handshaker) } catch { failure = error }
            await gate.closureReturned(session, failure)
        }
    }

    /// Includes subscriptions made while others were being restored. Returns whether there were any.
    private func restoreNewSubscriptions(_ session: SessionID) -> Bool {
        guard let link = links.handshaking(session), let handshake = link.handshake,
            !handshake.keepsSubscriptions
        else { return false }
        let unrestored = memory.subscriptions.filter { $0.key > handshake.restoredThrough }.sorted { $0.key < $1.key }
        guard let last = unrestored.last else { return false }
        link.handshake?.restoredThrough = last.key
        link.handshake?.isOver = false
        link.handshake?.restoring = HandshakeUse.Restoring(count: unrestored.count)
        extendRestoring(link)
        let posted = unrestored.map(\.value).filter { !$0.expectsResponse }.map(\.request)
        let requests = unrestored.map(\.value).filter(\.expectsResponse).map(\.request)
        run(session) { [options] handshaker in
            try await handshaker.post(all: posted)
            if !requests.isEmpty { try await options.handshake.restore(handshaker, requests) }
        }
        return true
    }

    /// The timer is not armed anew: it checks the deadline when it fires.
    private func extendRestoring(_ link: Link) {
        guard link.handshake?.restoring != nil else { return }
        link.handshake?.deadline = loop.now.advanced(by: options.handshake.timeout)
    }

    /// The server does not lose time in which the loop was late.
    func giveBack(_ delay: LoopDelay) {
        guard let handshake = links.handshaking?.handshake else { return }
        let end = delay.prolonging(handshake.deadline, of: options.handshake.timeout)
        let isRestoring = handshake.restoring != nil
        let endOfAttempt = isRestoring ? nil : host.attemptDeadline
        handshake.deadline = min(endOfAttempt ?? end, end)
        handshake.limit = options.handshakeLimit(isAttempt: endOfAttempt.map { $0 < end } ?? false)
    }

    func closureReturned(_ session: SessionID, _ failure: (any Error)?) {
        guard let link = links.handshaking(session), let handshake = link.handshake else { return }
        if let loss = handshake.loss ?? link.finalReads?.failure {
            let isVerdict = failure is HandshakeRefusal || (failure as? ClientError)?.code == .rejected
            return host.attemptFailed(
                session,
                isVerdict
                    ? failure ?? loss : link.explained(loss, through: options.connecting.proxy(for: link.endpoint))
            )
        }
        if let failure { return host.attemptFailed(session, failure) }
        // The server answers nothing more on this link. The attempt fails, so that the back-off applies.
        guard !handshake.hasLastFrame else {
            return host.attemptFailed(session, TransportError.endedByServer(link.farewell))
        }
        if restoreNewSubscriptions(session) { return }
        // A response to a request in flight could come later and be matched with another request.
        guard handshake.requests.count == 0, !handshake.hasDropped else {
            return host.attemptFailed(
                session,
                HandshakeRefusal("handshake returned with a request still in flight", isPermanent: false)
            )
        }
        // A frame that is half written must be completed before a request follows.
        guard link.state.machine.outbound.isEmpty else {
            link.handshake?.isOver = true
            return io.scheduleFlush()
        }
        guard !handshake.hasRestoredTooMuch else { return host.restartAttempt() }
        adopt(handshake.learned, from: link)
        var early = end(.handshakeIsOver)
        host.handshakeIsComplete(link, afterHearing: handshake.hasHeard, &early)
    }

    /// A server that rejects a login often closes at once. Closures that have received a frame may still return or
    /// throw, within their deadline: their error says more than the loss.
    func linkLost(_ session: SessionID, _ cause: any Error) {
        guard let link = links.handshaking(session), let handshake = link.handshake, handshake.loss == nil else {
            return
        }
        let cause = link.explained(cause, through: options.connecting.proxy(for: link.endpoint))
        guard handshake.hasHeard, !handshake.isOver else { return host.attemptFailed(session, cause) }
        link.handshake?.loss = cause
        link.transport.close()
        failWaiters(link) { .lostDuringHandshake(cause, $0) }
    }

    /// Returns the frames that were not requested. The link must then become ready, or be removed.
    @discardableResult
    func end(_ error: ClientError) -> [Frame] {
        guard let link = links.handshaking else { return [] }
        link.handshake?.task?.cancel()
        failWaiters(link) { $0 == .unknown ? error.withFate(.unknown) : error }
        return link.handshake?.takeAll() ?? []
    }

    private func failWaiters(_ link: Link, _ error: (ClientError.Fate) -> ClientError) {
        guard let handshake = link.handshake else { return }
        if link.state.machine.count > 0 {
            let remains = link.state.machine.close()
            for (id, _) in remains.lost { handshake.end(id, .failure(error(.unknown))) }
            for request in remains.unsent { handshake.end(request.id, .failure(error(.notSent))) }
        }
        for request in handshake.requests.queue.removeAll() { handshake.end(request.id, .failure(error(.notSent))) }
        handshake.failReaders(error(.notSent))
    }

    func timedOut(_ session: SessionID) {
        guard let link = links.handshaking(session), let handshake = link.handshake else { return }
        var expired = false
        while let id = handshake.requests.nextExpired(at: loop.turnTime) {
            guard let fate = cancel(id, link) else { continue }
            expired = true
            handshake.end(id, .failure(ClientError(.timedOut, fate, "deadline exceeded during the handshake")))
        }
        // In datagrams the request may be lost, and the closure may send it again.
        if !expired || link.exchangesDatagrams && handshake.loss == nil, loop.turnTime < handshake.deadline {
            return host.arm(at: handshake.nextDeadline)
        }
        let (isFull, unaskedCount) = (!handshake.mayRead, handshake.inbox.count)
        // No progress was possible while the reader of a push stream kept reading suspended.
        if !expired, handshake.restoring != nil, handshake.loss == nil, isFull {
            spillInbox()
            if port.isPaused || handshake.mayRead {
                io.updateReading()
                extendRestoring(link)
                return host.arm(at: handshake.nextDeadline)
            }
        }
        if let loss = handshake.loss { return host.attemptFailed(session, loss) }
        var message =
            expired
            ? "deadline exceeded for a request of the handshake"
            : handshake.timeoutMessage(options.handshake.timeout)
        if isFull {
            let frames = unaskedCount == 1 ? "1 frame arrived that was" : "\(unaskedCount) frames arrived that were"
            message += "; before that, \(frames) not requested"
        }
        if let farewell = link.farewell { message += "; before that, the server said: \(farewell)" }
        host.attemptFailed(session, TransportError(.timedOut, message))
    }

    /// `nil` if the request has left its link already.
    private func cancel(_ id: RequestID, _ link: Link) -> ClientError.Fate? {
        guard case .onLink(_, let place)? = link.handshake?.requests[id]?.place else {
            return link.handshake?.requests.remove(id) == nil ? nil : .notSent
        }
        return switch link.state.machine.cancel(id, at: place, isTimeout: true, now: loop.now) {
        case .none: nil
        case .notSent: .notSent
        case .sent, .awaited: .unknown
        }
    }

    func send(
        _ frame: Frame,
        _ link: Link,
        timeout: Duration?,
        expectsResponse: Bool,
        _ continuation: Continuation<Outcome>
    ) {
        if let timeout, timeout <= .zero { return continuation.resume(returning: .failure(.expiredUnsent(timeout))) }
        if let loss = link.handshake?.loss {
            return continuation.resume(returning: .failure(.lostDuringHandshake(loss, .notSent)))
        }
        let deadline = timeout.map { loop.now.advanced(by: $0) }
        add(frame, Waiter(.caller(continuation)), link, deadline, expectsResponse: expectsResponse)
        admit(link)
    }

    func send(_ requests: [Request], _ link: Link, expectsResponse: Bool, _ batch: Batch) {
        for (index, request) in requests.enumerated() {
            add(request.frame, Waiter(.batch(batch, index: index)), link, nil, expectsResponse: expectsResponse)
        }
        admit(link)
    }

    private func add(_ frame: Frame, _ waiter: Waiter, _ link: Link, _ deadline: Instant?, expectsResponse: Bool) {
        let request = QueuedRequest(id: memory.nextID(), frame: frame, expectsResponse: expectsResponse)
        link.handshake?.requests.append(request, waiter, deadline: deadline, accepted: loop.now)
        if deadline != nil { host.arm(at: link.handshake?.nextDeadline) }
    }

    private func admit(_ link: Link) {
        guard let handshake = link.handshake, handshake.loss == nil else { return }
        if handshake.admit(to: link, window: options.handshakeWindow, at: loop.now, by: rules) { io.scheduleFlush() }
    }

    func read(_ link: Link, _ continuation: Continuation<Outcome>) {
        if let frame = link.handshake?.popFirst() {
            continuation.resume(returning: .success(Response(frame)))
            io.updateReading()
        } else if let loss = link.handshake?.loss {
            continuation.resume(returning: .failure(.lostDuringHandshake(loss, .notSent)))
        } else {
            link.handshake?.readers[memory.nextNumber()] = continuation
        }
    }

    func giveUp(_ session: SessionID) {
        guard links.handshaking(session) != nil else { return }
        host.attemptFailed(session, ClientError(.cancelled, .unknown, "cancelled during the handshake"))
    }

    func take(_ frames: [Frame], _ link: Link) {
        let session = link.session
        link.handshake?.hasHeard = true
        for frame in frames {
            // A frame may have ended the attempt. The rest is discarded.
            guard links.handshaking(session) != nil else { return }
            if frame.linkEnding == .now, !link.exchangesDatagrams { link.handshake?.hasLastFrame = true }
            if frame.isFarewell { io.reports.noteFarewell(frame.reason, link) }
            switch frame.kind {
            case .response: takeReply(frame, link)
            case .ping:
                link.handshake?.hasStray = true
                // Not at once, but at the end of the turn: if a write fails, what is left to read is read first.
                if link.state.takeHeartbeat(frame, rules, at: loop.now).hasToWrite { io.scheduleFlush() }
            case .pong: link.handshake?.hasStray = true
            case .ignored: break
            case .part where link.state.isExpected(part: frame, rules, at: loop.now): takeReply(frame, link)
            case .push, .part, .goAway, .request, .cancel:
                if let id = link.handshake?.readers.keys.min(),
                    let reader = link.handshake?.readers.removeValue(forKey: id)
                {
                    reader.resume(returning: .success(Response(frame)))
                } else {
                    link.handshake?.append(frame)
                }
            }
        }
        if let link = links.handshaking(session) { admit(link) }
        spillInbox()
        io.updateReading()
    }

    /// Restoring may bring more pushes than are held before a link is ready. They go to their readers now, because
    /// otherwise no response could be read. Not while a reader keeps reading suspended.
    func spillInbox() {
        guard let link = links.handshaking, let handshake = link.handshake, handshake.restoring != nil,
            !handshake.mayRead, !port.isPaused
        else { return }
        var pushes = handshake.takePushes()
        let session = link.session
        port.append(.pushesBegin(session: session))
        for place in pushes.indices { pushes[place].session = session }
        port.append(.pushes(pushes))
    }

    private func takeReply(_ frame: Frame, _ link: Link) {
        guard let handshake = link.handshake else { return }
        var (taken, frames, events) = (Link.Taken(at: loop.now), [frame], [ConnectionEvent]())
        let expected = link.state.expectedID(for: frame, rules, at: loop.now)
        link.state.take(&frames, &taken, isDraining: false, by: rules, into: &events)
        for event in events {
            switch event {
            case .answered(let id, let frame, _): takeReply(frame, to: id, link)
            case .answeredAll(let requests, var frame):
                for request in requests {
                    frame.serial = request.serial
                    takeReply(frame, to: request.id, link)
                }
            case .part(let id, let part): takePart(part, of: id, link)
            case .sharedPart(let requests, var part):
                for request in requests {
                    part.serial = request.serial
                    takePart(part, of: request.id, link)
                }
            case .failed(let id, let error, _): failReply(id, error, error.cause ?? error, link)
            default: handshake.hasStray = true
            }
        }
        if let dropped = taken.dropped { io.reports.note(dropped, link) }
        guard let violation = taken.violation else { return }
        // Which requests it answers is not known.
        guard let expected else { return host.attemptFailed(link.session, violation) }
        let message =
            violation.exceedsLimit ? "the response exceeds a limit" : "the response does not belong to the request"
        failReply(expected, ClientError(.protocolViolation, .unknown, message, cause: violation), violation, link)
    }

    private func takeReply(_ frame: Frame, to id: RequestID, _ link: Link) {
        link.handshake?.hasStray = false
        link.handshake?.restoring?.answered += 1
        extendRestoring(link)
        link.handshake?.end(id, Outcome(of: frame))
    }

    private func takePart(_ part: Frame, of id: RequestID, _ link: Link) {
        guard let handshake = link.handshake, var waiter = handshake.requests.waiter(of: id) else { return }
        guard case .exceeds(let message) = waiter.take(part, at: loop.now, in: rules.reassemblyBudget) else {
            return handshake.requests.setWaiter(waiter, of: id)
        }
        let error = ClientError(.overloaded, .unknown, message)
        failReply(id, error, error, link)
    }

    /// The attempt fails with `cause`, the caller with `error`.
    private func failReply(_ id: RequestID, _ error: ClientError, _ cause: any Error, _ link: Link) {
        let waiter = link.handshake?.requests.forget(id)
        host.attemptFailed(link.session, cause)
        waiter?.resume(.failure(error))
    }

    func take(_ result: Link.WriteResult, _ link: Link) {
        guard let handshake = link.handshake else { return }
        for refusal in result.refused where link.state.machine.refused(refusal) {
            if let id = refusal.item.id { handshake.end(id, .failure(.unencodable(refusal))) }
        }
        for id in result.wrote where link.state.machine.written(id) != nil { handshake.end(id, .success(.none)) }
        admit(link)
    }
}

extension ClientOptions {
    /// A limit that protects the server applies to handshakes, too.
    fileprivate var handshakeWindow: Int {
        let limit = requests.maximumInFlight
        let window = limit < Links.strictLimit ? min(limit, handshake.maximumInFlight) : handshake.maximumInFlight
        return max(1, window)
    }
}

extension ClientError {
    static func unencodable(_ refusal: OutboundQueue.Refusal) -> ClientError {
        let (kind, type, serial) = (refusal.item.frame.kind, refusal.item.frame.type, refusal.item.frame.serial)
        let name = "the \(kind) of type \(hexadecimal(type))" + (serial == 0 ? "" : " with serial \(serial)")
        return ClientError(.invalidRequest, .notSent, "\(name) cannot be encoded", cause: refusal.error)
    }
}

extension Outcome {
    static var handshakeIsOver: Outcome { .failure(.handshakeIsOver) }
}
