/// The handshake: from an established link to a ready one.
extension Connection {
    /// Begins the handshake on the new link. Returns false if there is nothing to do: then the link is ready.
    func beginHandshake(_ attempt: ReconnectMachine.Attempt) -> Bool {
        guard options.handshake.perform != nil || !subscriptions.isEmpty else { return false }
        let session = attempt.id
        guard let index = index(of: session) else { return false }
        let end = loop.now.advanced(by: options.handshake.timeout)
        let deadline = min(self.attempt?.deadline ?? end, end)
        links[index].handshake = HandshakeState(deadline: deadline, handshakeLimit(isAttempt: deadline < end))
        arm(at: deadline)
        updateReading()
        publishState()
        guard let perform = options.handshake.perform else { return restoreNewSubscriptions(session) }
        run(session, perform)
        return true
    }

    /// Runs the caller's `closure` for the handshake of `session`, and continues the handshake when it returns.
    private func run(_ session: UInt64, _ closure: @escaping @Sendable (Handshaker) async throws -> Void) {
        guard let index = handshaking(session) else { return }
        let handshaker = Handshaker(endpoint: links[index].endpoint, session: session, connection: self)
        // Unstructured: it begins on the loop, which cannot await it. `endHandshake` cancels it when the link ends.
        // What it reports after that has an old session number and is ignored.
        links[index].handshake?.task = Task(executorPreference: loop.callbackExecutor) {
            var failure: (any Error)?
            do { try await closure(handshaker) } catch { failure = error }
            await handshaker.connection.closureReturned(session, failure)
        }
    }

    /// The index of the link of `session`, if it is handshaking.
    func handshaking(_ session: UInt64) -> Int? {
        handshaking.flatMap { links[$0].session == session ? $0 : nil }
    }

    func keepSubscriptions(_ session: UInt64) {
        if let index = handshaking(session) { links[index].handshake?.keepsSubscriptions = true }
    }

    /// Sends the subscriptions that were not yet sent on the link of `session`, including those that were made while
    /// others were being restored. From now on every response extends the deadline. Returns whether there were any.
    private func restoreNewSubscriptions(_ session: UInt64) -> Bool {
        guard let index = handshaking(session), let handshake = links[index].handshake,
            !handshake.keepsSubscriptions
        else { return false }
        let unrestored = subscriptions.filter { $0.key > handshake.restoredThrough }.sorted { $0.key < $1.key }
        guard let last = unrestored.last else { return false }
        links[index].handshake?.restoredThrough = last.key
        links[index].handshake?.isOver = false
        links[index].handshake?.restoring = HandshakeState.Restoring(count: unrestored.count)
        extendRestoring(index)
        let posted = unrestored.map(\.value).filter { !$0.expectsResponse }.map(\.request)
        let requests = unrestored.map(\.value).filter(\.expectsResponse).map(\.request)
        run(session) { [options] handshaker in
            try await handshaker.connection.restore(posting: posted, session)
            if !requests.isEmpty { try await options.handshake.restore(handshaker, requests) }
        }
        return true
    }

    /// Extends the deadline: the server has restored a subscription, or restoring begins. The timer is not armed anew:
    /// it checks the deadline when it fires.
    private func extendRestoring(_ index: Int) {
        guard links[index].handshake?.restoring != nil else { return }
        links[index].handshake?.deadline = loop.now.advanced(by: options.handshake.timeout)
    }

    /// The option that sets the deadline of the handshake.
    func handshakeLimit(isAttempt: Bool) -> HandshakeState.Limit {
        isAttempt ? .attempt(options.connecting.timeout) : .handshake(options.handshake.timeout)
    }

    private func closureReturned(_ session: UInt64, _ failure: (any Error)?) {
        entered { $0.handshakeEnded(session, failure) }
    }

    func handshakeEnded(_ session: UInt64, _ failure: (any Error)?) {
        guard let index = handshaking(session), let handshake = links[index].handshake else { return }
        if let loss = handshake.loss ?? links[index].finalReads?.failure {
            let isVerdict = failure is HandshakeRefusal || (failure as? ClientError)?.code == .rejected
            return attemptFailed(session, isVerdict ? failure ?? loss : loss)
        }
        if let failure { return attemptFailed(session, failure) }
        // The server answers nothing more on this link, so it never becomes ready. The attempt fails, so that the
        // back-off applies.
        guard !handshake.hasLastResponse else { return attemptFailed(session, TransportError.endedByServer) }
        if restoreNewSubscriptions(session) { return }
        // A response to a request in flight could come later and be matched with another request.
        guard links[index].machine.count == 0 else {
            return attemptFailed(
                session,
                HandshakeRefusal("handshake returned with a request still in flight", isPermanent: false)
            )
        }
        // A frame that is half written must be completed before a request follows.
        guard links[index].machine.outbound.isEmpty else {
            links[index].handshake?.isOver = true
            return scheduleFlush()
        }
        guard !handshake.hasRestoredTooMuch else { return perform(machine.restartAttempt(at: loop.now)) }
        adopt(handshake.learned)
        var early = endHandshake(.handshakeIsOver)
        if let index = self.index(of: session) {
            counts.handshakeDurations.record(from: links[index].establishedAt, to: loop.now)
        }
        becomeReady(session, afterHandshake: handshake.hasHeard)
        // These frames were received before everything that is read from now on.
        if let ready, links[ready].session == session { deliver(&early, ready) }
    }

    /// The link was lost before it was ready. A server that rejects a login often closes at once, so closures that have
    /// received a frame may still return or throw, within their deadline: their error says more than the loss.
    /// Everything that waits fails.
    func handshakeLost(_ session: UInt64, _ cause: any Error) {
        guard let index = handshaking(session), let handshake = links[index].handshake, handshake.loss == nil else {
            return
        }
        guard handshake.hasHeard, !handshake.isOver else { return attemptFailed(session, cause) }
        links[index].handshake?.loss = cause
        links[index].transport.close()
        failWaiters(index) { .lostDuringHandshake(cause, $0) }
    }

    /// Ends the handshake: everything that waits fails with `error`. Returns the frames that were not requested.
    @discardableResult
    func endHandshake(_ error: ClientError) -> [Frame] {
        guard let index = handshaking else { return [] }
        links[index].handshake?.task?.cancel()
        failWaiters(index) { $0 == .unknown ? error.withFate(.unknown) : error }
        defer { links[index].handshake = nil }
        return links[index].handshake?.takeAll() ?? []
    }

    private func failWaiters(_ index: Int, _ error: (ClientError.Fate) -> ClientError) {
        if links[index].machine.count > 0 {
            let remains = links[index].machine.close()
            for (id, _) in remains.lost { takeWaiter(of: id, index)?.resume(.failure(error(.unknown))) }
            for request in remains.unsent { takeWaiter(of: request.id, index)?.resume(.failure(error(.notSent))) }
        }
        links[index].handshake?.failReaders(error(.notSent))
    }

    /// Removes the caller of a request of the handshake, and returns it.
    private func takeWaiter(of id: RequestID, _ index: Int) -> Waiter? {
        links[index].handshake?.waiters.removeValue(forKey: id)
    }

    /// The deadline of the handshake, or of one of its requests, has come.
    func handshakeTimedOut(_ session: UInt64) {
        guard let index = handshaking(session) else { return }
        var expired = false
        while let id = links[index].handshake?.deadlines.popDue(at: loop.turnTime) {
            guard let place = links[index].handshake?.places[id] else { continue }
            let fate: ClientError.Fate
            switch links[index].machine.cancel(id, at: place, isTimeout: true, now: loop.now) {
            case .none: continue
            case .notSent: fate = .notSent
            case .sent, .awaited: fate = .unknown
            }
            expired = true
            let error = ClientError(.timedOut, fate, "deadline exceeded during the handshake")
            takeWaiter(of: id, index)?.resume(.failure(error))
        }
        guard let handshake = links[index].handshake else { return }
        if !expired, loop.turnTime < handshake.deadline { return arm(at: handshake.nextDeadline) }
        // No progress was possible while the reader of a push stream kept reading suspended.
        if !expired, handshake.restoring != nil, handshake.loss == nil, !handshake.mayRead {
            spillInbox()
            if isPaused || links[index].handshake?.mayRead == true {
                updateReading()
                extendRestoring(index)
                return arm(at: links[index].handshake?.nextDeadline)
            }
        }
        if let loss = handshake.loss { return attemptFailed(session, loss) }
        var message =
            expired
            ? "deadline exceeded for a request of the handshake"
            : handshake.timeoutMessage(options.handshake.timeout)
        if !handshake.mayRead {
            message += "; before that, \(handshake.inbox.count) frames arrived that were not requested"
        }
        attemptFailed(session, TransportError(.timedOut, message))
    }

    // MARK: Calls of the closures

    /// Runs `body` in the closure's task, which waits until the continuation is resumed. Cancelling the task ends the
    /// attempt.
    func inHandshake(
        _ session: UInt64,
        _ body: (isolated Connection, Int, Continuation<Outcome>) -> Void
    ) async -> Outcome {
        await withTaskCancellationHandler {
            await withContinuation { continuation in
                guard let index = handshaking(session) else { return continuation.resume(returning: .handshakeIsOver) }
                guard !Task.isCancelled else { return continuation.resume(returning: .failure(.cancelledUnsent)) }
                body(self, index, continuation)
                entered { _ in }
            }
        } onCancel: {
            giveUpHandshake(session)
        }
    }

    /// Sends a request or a one-way message of the handshake.
    func sendInHandshake(_ frame: Frame, _ session: UInt64, timeout: Duration?, expectsResponse: Bool) async -> Outcome
    {
        await inHandshake(session) { connection, index, continuation in
            if let timeout, timeout <= .zero {
                return continuation.resume(returning: .failure(.expiredUnsent(timeout)))
            }
            if let loss = connection.links[index].handshake?.loss {
                return continuation.resume(returning: .failure(.lostDuringHandshake(loss, .notSent)))
            }
            let waiter = Waiter(.caller(continuation))
            if !connection.addToHandshake(frame, index, waiter, timeout: timeout, expectsResponse: expectsResponse) {
                waiter.resume(.failure(.noSerialLeft))
            }
        }
    }

    func nextInHandshake(_ session: UInt64) async -> Outcome {
        lastID += 1
        let id = lastID
        return await inHandshake(session) { connection, index, continuation in
            if let frame = connection.links[index].handshake?.popFirst() {
                continuation.resume(returning: .success(Response(frame)))
                connection.updateReading()
            } else if let loss = connection.links[index].handshake?.loss {
                continuation.resume(returning: .failure(.lostDuringHandshake(loss, .notSent)))
            } else {
                connection.links[index].handshake?.readers[id] = continuation
            }
        }
    }

    nonisolated func giveUpHandshake(_ session: UInt64) {
        schedule {
            if $0.handshaking(session) != nil {
                $0.attemptFailed(session, ClientError(.cancelled, .unknown, "cancelled during the handshake"))
            }
        }
    }

    /// Queues `frame` to be written at the end of the turn. Returns false if every serial number is in use.
    func addToHandshake(
        _ frame: Frame,
        _ index: Int,
        _ waiter: Waiter,
        timeout: Duration? = nil,
        expectsResponse: Bool
    ) -> Bool {
        lastID += 1
        let request = QueuedRequest(id: lastID, frame: frame, expectsResponse: expectsResponse)
        guard let place = links[index].machine.send(request, keepsRequest: rules.checksResponses) else { return false }
        links[index].handshake?.waiters[lastID] = waiter
        if let timeout {
            links[index].handshake?.places[lastID] = place
            links[index].handshake?.deadlines.insert(lastID, deadline: loop.now.advanced(by: timeout))
            arm(at: links[index].handshake?.nextDeadline)
        }
        scheduleFlush()
        return true
    }

    // MARK: Frames

    /// Handles frames that are received before the link is ready.
    func takeInHandshake(_ frames: [Frame], _ index: Int) {
        let session = links[index].session
        links[index].handshake?.hasHeard = true
        for frame in frames {
            // A frame may have ended the attempt. The rest is discarded.
            guard handshaking(session) != nil else { return }
            switch frame.kind {
            case .response: answerInHandshake(frame, index)
            case .ping:
                links[index].handshake?.hasStray = true
                // Not at once, but at the end of the turn: if a write fails, what is left to read is read first.
                if links[index].takeHeartbeat(frame, rules, at: loop.now).hasToWrite { scheduleFlush() }
            case .pong: links[index].handshake?.hasStray = true
            case .part where takePartInHandshake(frame, index): break
            case .push, .part, .goAway, .request, .cancel:
                if let id = links[index].handshake?.readers.keys.min(),
                    let reader = links[index].handshake?.readers.removeValue(forKey: id)
                {
                    reader.resume(returning: .success(Response(frame)))
                } else {
                    links[index].handshake?.append(frame)
                }
            }
        }
        spillInbox()
        updateReading()
    }

    /// Restoring subscriptions may bring more pushes than are held before a link is ready. These go to their readers
    /// now, because otherwise no response could be read. Not while a reader keeps reading suspended.
    func spillInbox() {
        guard let index = handshaking, let handshake = links[index].handshake, handshake.restoring != nil,
            !handshake.mayRead, !isPaused, isOwned, var pushes = links[index].handshake?.takePushes()
        else { return }
        let session = links[index].session
        events.append(.pushesBegin(session: session))
        for place in pushes.indices { pushes[place].session = session }
        events.append(.pushes(pushes))
    }

    /// Keeps a part of a response for its request. Returns false if no request matches. Exceeding a limit ends the
    /// attempt.
    private func takePartInHandshake(_ frame: Frame, _ index: Int) -> Bool {
        guard case .request(let entry, let number) = links[index].machine.match(frame.serial, at: loop.now) else {
            return false
        }
        let session = links[index].session
        if let mismatch = links[index].mismatch(of: frame, with: number) {
            attemptFailed(session, mismatch)
            return true
        }
        guard frame.malformedReason == nil else {
            attemptFailed(session, FrameError(.malformed, "a part of a reply is malformed"))
            return true
        }
        guard var waiter = links[index].handshake?.waiters[entry.id] else { return true }
        if case .exceeds(let message) = waiter.take(frame, at: loop.now, in: rules.reassemblyBudget) {
            let error = ClientError(.overloaded, .unknown, message)
            _ = links[index].machine.cancel(entry.id, at: .response(number), isTimeout: false, now: loop.now)
            links[index].handshake?.waiters[entry.id] = nil
            attemptFailed(session, error)
            waiter.resume(.failure(error))
        } else {
            links[index].handshake?.waiters[entry.id] = waiter
        }
        return true
    }

    private func answerInHandshake(_ frame: Frame, _ index: Int) {
        if frame.endsLink { links[index].handshake?.hasLastResponse = true }
        var mismatch: FrameError?
        if rules.checksResponses,
            case .request(_, let number) = links[index].machine.match(frame.serial, at: loop.now)
        {
            mismatch = links[index].mismatch(of: frame, with: number)
        }
        guard case .request(let id, _) = links[index].machine.answer(frame.serial) else {
            links[index].handshake?.hasStray = true
            return
        }
        links[index].handshake?.hasStray = false
        links[index].handshake?.restoring?.answered += 1
        extendRestoring(index)
        let waiter = takeWaiter(of: id, index)
        guard let mismatch else {
            waiter?.resume(Outcome(of: frame))
            return
        }
        let message = "the response does not belong to the request"
        attemptFailed(links[index].session, mismatch)
        waiter?.resume(.failure(ClientError(.protocolViolation, .unknown, message, cause: mismatch)))
    }

    /// Resumes the callers whose frames were written or could not be encoded.
    func takeInHandshake(_ result: Link.WriteResult, _ index: Int) {
        for refusal in result.refused where links[index].machine.refused(refusal) {
            takeWaiter(of: refusal.item.id, index)?.resume(.failure(.unencodable(refusal)))
        }
        for id in result.wrote where links[index].machine.written(id) != nil {
            takeWaiter(of: id, index)?.resume(.success(.none))
        }
    }
}

extension ClientError {
    /// The error of a frame that was not sent because the codec cannot encode it.
    static func unencodable(_ refusal: OutboundQueue.Refusal) -> ClientError {
        let (kind, type, serial) = (refusal.item.frame.kind, refusal.item.frame.type, refusal.item.frame.serial)
        let name = "the \(kind) of type \(hexadecimal(type))" + (serial == 0 ? "" : " with serial \(serial)")
        return ClientError(.invalidRequest, .notSent, "\(name) cannot be encoded", cause: refusal.error)
    }

    static var noSerialLeft: ClientError {
        ClientError(.overloaded, .notSent, "all serial numbers of the link are in use")
    }
}

extension Outcome {
    static var handshakeIsOver: Outcome { .failure(.handshakeIsOver) }
}
