import TrunklineCore
import TrunklineIO

/// The greeting: from a link that is established to one that is ready.
extension Connection {
    /// Begins the user's greeting on the new link. Returns false when there is nothing to do: the link is ready.
    func beginGreeting(_ endpoint: Endpoint, _ session: UInt64) -> Bool {
        let subscriptions = subscriptions.sorted { $0.key < $1.key }.map(\.value)
        let posted = postedSubscriptions.sorted { $0.key < $1.key }.map(\.value)
        guard options.greeting.perform != nil || !subscriptions.isEmpty || !posted.isEmpty else { return false }
        let deadline = min(attemptDeadline, loop.now.advanced(by: options.greeting.timeout))
        greeting = Greeting(session: session, deadline: deadline, matching: codec.matching, options.requests)
        arm(at: deadline)
        updateReading()
        publishState()
        let greeter = Greeter(endpoint: endpoint, session: session, connection: self)
        // Not structured: it begins on the loop, where nobody can await it, and it ends with the link: `endGreeting`
        // cancels it. What it reports too late carries an old session number.
        greeting?.task = Task(executorPreference: loop.callbackExecutor) { [options] in
            var failure: (any Error)?
            do {
                try await options.greeting.perform?(greeter)
                if !subscriptions.isEmpty || !posted.isEmpty,
                    await greeter.connection.beginRestoring(session, subscriptions.count + posted.count)
                {
                    try await greeter.connection.restore(posting: posted, session)
                    if !subscriptions.isEmpty { try await options.greeting.restore(greeter, subscriptions) }
                }
            } catch {
                failure = error
            }
            await greeter.connection.greetingEnded(session, failure)
        }
        return true
    }

    func keepSubscriptions(_ session: UInt64) {
        if greeting?.session == session { greeting?.keepsSubscriptions = true }
    }

    /// Returns whether `options.greeting.restore` is to be called. From now on every answer gives it more time.
    private func beginRestoring(_ session: UInt64, _ count: Int) -> Bool {
        guard greeting?.session == session, greeting?.keepsSubscriptions == false else { return false }
        greeting?.restoring = Greeting.Restoring(count: count)
        extendRestoring()
        return true
    }

    /// The server has restored a subscription, or is about to begin. The timer finds the later deadline when it fires.
    private func extendRestoring() {
        guard greeting?.restoring != nil else { return }
        greeting?.deadline = loop.now.advanced(by: options.greeting.timeout)
    }

    private func greetingEnded(_ session: UInt64, _ failure: (any Error)?) {
        guard greeting?.session == session else { return }
        if let loss = greeting?.loss ?? link?.lastWords?.failure {
            let isVerdict = failure is GreetingRefusal || (failure as? ClientError)?.code == .rejected
            return greetingFailed(session, isVerdict ? failure ?? loss : loss)
        }
        if let failure { return greetingFailed(session, failure) }
        // A link like that is never ready; the next one comes after the wait that keeps us from asking too often.
        guard greeting?.hasLastResponse == false else {
            return greetingFailed(session, TransportError.endedByServer)
        }
        // Requests that it did not wait for could be answered later, when the answer would be another's.
        guard greeting?.requests.isEmpty == true else {
            return greetingFailed(session, GreetingRefusal("it left a request unanswered", isPermanent: false))
        }
        // Nor may requests follow within a frame that is half written.
        guard greeting?.outbound.isEmpty == true else {
            greeting?.isOver = true
            return
        }
        let hasHeard = greeting?.hasHeard == true
        if let learned = greeting?.learned { adopt(learned) }
        let early = endGreeting(ClientError(.closed, .notSent, "the greeting is over"))
        becomeReady(afterHandshake: hasHeard)
        // Those came before anything that is read from now on.
        guard link?.session == session else { return }
        deliver(early)
    }

    /// The link is gone before it was ready. A server that refuses and closes at once has refused: closures that have heard
    /// something say what it was, within their time. Those who wait for more hear that nothing comes.
    func greetingLost(_ session: UInt64, _ cause: any Error) {
        guard greeting?.session == session, greeting?.loss == nil else { return }
        guard greeting?.hasHeard == true, greeting?.isOver == false else { return greetingFailed(session, cause) }
        greeting?.loss = cause
        link?.transport.close()
        let waiters = greeting?.removeWaiters() ?? []
        for (waiter, hasStarted) in waiters {
            waiter.resume(.failure(.lostWhileGreeting(cause, hasStarted ? .unknown : .notSent)))
        }
    }

    /// The greeting has failed, and with it the attempt.
    func greetingFailed(_ session: UInt64, _ cause: any Error) {
        guard greeting?.session == session else { return }
        attemptFailed(session, cause)
    }

    /// Ends the conversation, telling everyone in it of `error`. Returns the frames that nobody asked for.
    @discardableResult
    func endGreeting(_ error: ClientError) -> [Frame] {
        guard var ended = exchange(&greeting, with: nil) else { return [] }
        ended.task?.cancel()
        for (waiter, hasStarted) in ended.removeWaiters() {
            waiter.resume(.failure(hasStarted ? error.withFate(.unknown) : error))
        }
        return (0..<ended.inbox.count).map { ended.inbox[$0] }
    }

    /// The greeting's deadline has come, or that of one of its requests.
    func greetingTimedOut(_ session: UInt64) {
        var expired = false
        while let ticket = greeting?.requests.nextExpired(at: loop.now) {
            expired = true
            let hasStarted = greeting.map { $0.outbound.hasStarted($0.requests[ticket]?.position ?? 0) } ?? false
            let error = ClientError(.timedOut, hasStarted ? .unknown : .notSent, "out of time while greeting")
            greeting?.requests.take(ticket)?.resume(.failure(error))
        }
        guard let greeting else { return }
        if !expired, loop.now < greeting.deadline { return arm(at: greeting.nextDeadline) }
        // No progress was possible while a reader of pushes had reading suspended.
        if !expired, greeting.restoring != nil, greeting.loss == nil, !greeting.mayRead {
            spillInbox()
            guard self.greeting?.session == session else { return }
            if isPaused || self.greeting?.mayRead == true {
                updateReading()
                extendRestoring()
                return arm(at: self.greeting?.nextDeadline)
            }
        }
        if let loss = greeting.loss { return greetingFailed(session, loss) }
        var message =
            expired
            ? "a request of the greeting had no answer in time"
            : greeting.timeoutMessage(options.greeting.timeout)
        if !greeting.mayRead { message += "; \(greeting.inbox.count) frames that it has not asked for came before" }
        greetingFailed(session, TransportError(.timedOut, message))
    }

    // MARK: What the greeter asks for

    func greet(_ frame: Frame, _ session: UInt64, timeout: Duration?, expectsResponse: Bool) async -> Outcome {
        lastTicket += 1
        let ticket = lastTicket
        return await withTaskCancellationHandler {
            await withSuspension { suspension in
                guard greeting?.session == session else { return suspension.resume(returning: .greetingIsOver) }
                guard !Task.isCancelled else { return suspension.resume(returning: .failure(.cancelledUnsent)) }
                if let timeout, timeout <= .zero {
                    return suspension.resume(returning: .failure(.expiredUnsent(timeout)))
                }
                if let loss = greeting?.loss {
                    return suspension.resume(returning: .failure(.lostWhileGreeting(loss, .notSent)))
                }
                let waiter = Waiter.caller(suspension)
                if addToGreeting(frame, ticket, waiter, timeout: timeout, expectsResponse: expectsResponse) {
                    flushGreeting()
                } else {
                    waiter.resume(.failure(.noSerialLeft))
                }
            }
        } onCancel: {
            giveUpGreeting(session)
        }
    }

    func nextInGreeting(_ session: UInt64) async -> Outcome {
        lastTicket += 1
        let id = lastTicket
        return await withTaskCancellationHandler {
            await withSuspension { suspension in
                guard greeting?.session == session else { return suspension.resume(returning: .greetingIsOver) }
                guard !Task.isCancelled else { return suspension.resume(returning: .failure(.cancelledUnsent)) }
                if let frame = greeting?.inbox.popFirst() {
                    greeting?.inboxBytes -= frame.byteCount
                    suspension.resume(returning: .success(frame))
                    updateReading()
                } else if let loss = greeting?.loss {
                    suspension.resume(returning: .failure(.lostWhileGreeting(loss, .notSent)))
                } else {
                    greeting?.readers[id] = suspension
                }
            }
        } onCancel: {
            giveUpGreeting(session)
        }
    }

    nonisolated func giveUpGreeting(_ session: UInt64) {
        loop.schedule(
            Completion { [weak self] in
                self?.assumeIsolated {
                    $0.greetingFailed(session, ClientError(.cancelled, .unknown, "cancelled while greeting"))
                }
            }
        )
    }

    /// Has `frame` go out with the next `flushGreeting()`. Returns false when every serial number is in use.
    func addToGreeting(
        _ frame: Frame,
        _ ticket: Ticket,
        _ waiter: Waiter,
        timeout: Duration?,
        expectsResponse: Bool
    ) -> Bool {
        guard var current = exchange(&greeting, with: nil) else { return false }
        let waiter = waiter.under(
            .ifUnsent,
            waitsForReady: true,
            frame,
            deadline: nil,
            expectsResponse: expectsResponse,
            keepsRequest: codec.checksResponses
        )
        let serial = current.requests.registerAdmitted(
            ticket,
            waiter: waiter,
            type: frame.type,
            expectsResponse: expectsResponse,
            deadline: timeout.map { loop.now.advanced(by: $0) },
            at: current.outbound.nextPosition
        )
        if let serial {
            var frame = frame
            frame.serial = serial
            current.outbound.append(OutboundQueue.Item(frame, ticket: ticket, reportsWritten: !expectsResponse))
        }
        arm(at: current.nextDeadline)
        greeting = current
        return serial != nil
    }

    // MARK: Traffic

    func flushGreeting() {
        isFlushing = false
        guard greeting?.loss == nil, link?.lastWords == nil, var queue = greeting?.outbound, let session = link?.session
        else { return }
        greeting?.outbound = OutboundQueue()
        guard let result = self.link?.write(from: &queue) else { return }
        greeting?.outbound = queue
        if let failure = result.failure { startLastWords(failure) }
        noteUnencodable(result.refused)
        for (item, error) in result.refused {
            let error = ClientError(.invalidRequest, .notSent, "the frame cannot be encoded", cause: error)
            greeting?.requests.take(item.ticket)?.resume(.failure(error))
        }
        for ticket in result.wrote { greeting?.requests.take(ticket)?.resume(.success(Frame(.response))) }
        if result.failure == nil, greeting?.isOver == true { greetingEnded(session, nil) }
    }

    /// What the server says before the link is ready.
    func takeInGreeting(_ frames: [Frame]) {
        greeting?.hasHeard = true
        var hasPongs = false
        for frame in frames {
            // One of them may have ended the attempt: the rest is for nobody.
            guard let pongs = greeting?.outbound.level.linkFrameCount else { return }
            switch frame.kind {
            case .response: answerInGreeting(frame)
            case .ping:
                greeting?.hasStray = true
                if heartbeatReceived(frame) == .question, pongs < 1024, let pong = codec.pong(answering: frame) {
                    greeting?.outbound.append(OutboundQueue.Item(pong, ticket: 0))
                    hasPongs = true
                }
            case .pong: greeting?.hasStray = true
            case .part where takePartInGreeting(frame): break
            case .push, .part, .goAway, .request, .cancel:
                if let id = greeting?.readers.keys.min(), let reader = greeting?.readers.removeValue(forKey: id) {
                    reader.resume(returning: .success(frame))
                } else {
                    greeting?.inbox.append(frame)
                    greeting?.inboxBytes += frame.byteCount
                }
            }
        }
        spillInbox()
        // One write for all of them.
        if hasPongs { flushAtEndOfTurn() }
        updateReading()
    }

    /// While subscriptions are restored, they may bring more pushes than are held before a link is ready: these go to their
    /// readers now, or no answer would be read any more. Not while a reader has reading suspended.
    func spillInbox() {
        guard greeting?.restoring != nil, greeting?.mayRead == false, !isPaused, let owner else { return }
        guard var current = exchange(&greeting, with: nil) else { return }
        let pushes = current.takePushes()
        greeting = current
        owner.connection(did: .pushedInGreeting(pushes, session: current.session))
    }

    /// Keeps a part of a reply for its request; returns false when there is none. One that is too much ends the attempt.
    private func takePartInGreeting(_ frame: Frame) -> Bool {
        guard let session = greeting?.session, let unstarted = greeting?.outbound.level.unstarted else { return false }
        let answer = greeting?.requests.part(frame.serial, unstarted: unstarted, at: loop.now)
        guard case .resume(let ticket, let waiter)? = answer, let room = greeting?.replyRoom else { return false }
        if let mismatch = mismatch(of: frame, waiter) {
            greetingFailed(session, mismatch)
            return true
        }
        guard frame.damage == nil else {
            greetingFailed(session, FrameError(.malformed, "a part of a reply is damaged"))
            return true
        }
        switch waiter.take(frame, joiningIn: room) {
        case .taken, .full: break
        case .joins(let waiter): greeting?.requests.setWaiter(waiter, of: ticket)
        case .exceeds(let message):
            let error = ClientError(.overloaded, .unknown, message)
            greeting?.requests.take(ticket)?.resume(.failure(error))
            greetingFailed(session, error)
        }
        return true
    }

    /// Compares a response, or a part of one, with its request, where the protocol has them agree.
    private func mismatch(of frame: Frame, _ waiter: Waiter) -> FrameError? {
        guard let request = waiter.terms?.frame, frame.damage == nil else { return nil }
        do throws(FrameError) {
            try (link?.codec ?? codec).check(frame, against: request)
            return nil
        } catch {
            return error
        }
    }

    private func answerInGreeting(_ frame: Frame) {
        if frame.endsLink { greeting?.hasLastResponse = true }
        guard let unstarted = greeting?.outbound.level.unstarted else { return }
        if case .resume(_, let waiter)? = greeting?.requests.answer(frame.serial, unstarted: unstarted) {
            greeting?.hasStray = false
            greeting?.restoring?.answered += 1
            extendRestoring()
            guard let mismatch = mismatch(of: frame, waiter), let session = greeting?.session else {
                return waiter.resume(Outcome(of: frame))
            }
            let message = "the response does not belong to the request"
            waiter.resume(.failure(ClientError(.protocolViolation, .unknown, message, cause: mismatch)))
            greetingFailed(session, mismatch)
        } else {
            greeting?.hasStray = true
        }
    }
}

extension ClientError {
    static func lostWhileGreeting(_ cause: any Error, _ fate: Fate) -> ClientError {
        ClientError(.connectionLost, fate, "the link ended while greeting", cause: cause)
    }

    static var noSerialLeft: ClientError { ClientError(.overloaded, .notSent, "every serial number is in use") }
}

extension ClientError {
    static var greetingIsOver: ClientError { ClientError(.closed, .notSent, "the greeting is over") }
}

extension Outcome {
    static var greetingIsOver: Outcome { .failure(.greetingIsOver) }
}
