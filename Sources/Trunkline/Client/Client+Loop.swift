import TrunklineCore
import TrunklineIO

/// Submissions in: what the loop does with a batch of what callers said.
extension Client: @preconcurrency MailboxOwner {
    func take(_ submissions: inout [Submission?]) {
        begin()
        // Moved from place to place, not copied: every copy of a frame costs two retains, of memory that its caller's
        // thread has just touched.
        for index in submissions.indices {
            if let submission = submissions[index].take() { take(submission) }
        }
        finish()
    }

    /// Starts a batch: looks once at the outbound queue for all of it.
    func begin() {
        exchange.begin(ownedConnection.beginBatch(of: self))
    }

    /// Ends a batch: lets go out what may, hands it to the connection and looks after the deadlines.
    func finish() {
        exchange.admitWaiting()
        flushOutgoing()
        if watchesErrors, exchange.hasTooManyErrors(at: loop.now) {
            connection.assumeIsolated { $0.leaveEndpoint(because: .errorRate) }
        }
        if exchange.hasGivenUp { judgeLink() }
        exchange.replacement.lookAgainAt = nil
        if exchange.mayNeedAnotherLink { replaceLinkIfNeeded() } else { exchange.noteNoneWaits(at: loop.now) }
        let drained = exchange.drainedSessions
        if !drained.isEmpty { endRetired(drained) }
        exchange.dropDead()
        if phase == .draining {
            if exchange.table.isEmpty { endDraining() } else { connection.assumeIsolated { $0.ownerDrains() } }
        }
        armTimer()
    }

    /// Replaces the link if requests wait for what others hold that were given up.
    private func replaceLinkIfNeeded() {
        guard let departure = exchange.needForAnotherLink(at: loop.now), connection.assumeIsolated({ $0.isReady })
        else {
            return
        }
        connection.assumeIsolated { $0.leaveEndpoint(because: departure) }
        exchange.noteReplaced(at: loop.now)
        exchange.admitWaiting()
        flushOutgoing()
    }

    /// Closes links that take no new requests and have none left.
    private func endRetired(_ sessions: [UInt64]) {
        let closed = connection.assumeIsolated { $0.endRetired(sessions) }
        guard !closed.isEmpty else { return }
        for session in closed { exchange.forgetRetired(session) }
        // Those that were given up there count no more.
        exchange.admitWaiting()
        flushOutgoing()
    }

    /// Requests that had started on the link were given up: leaves it, and its endpoint, if there is reason to.
    ///
    /// What we do not read ourselves is not the server's silence.
    private func judgeLink() {
        let now = loop.now
        let isPaused = connection.assumeIsolated { $0.isPaused }
        let timedOut = exchange.silence.take(counts: !isPaused && !exchange.isHeadAwaited, at: now)
        let isUnasked = timedOut > 0 && connection.assumeIsolated { $0.requestsTimedOut(timedOut) }
        let isSpent = exchange.isLinkSpent(countsStalls: !isPaused)
        guard isSpent || isUnasked else { return }
        if exchange.silence.isTooLong(at: now) {
            exchange.silence.end()
            connection.assumeIsolated { $0.leaveEndpoint(because: .silence) }
        } else if isSpent {
            connection.assumeIsolated { $0.leaveEndpoint(because: .unanswered) }
        }
    }

    /// Hands the batch to the connection. Must come before anything that asks whether a frame has started.
    func flushOutgoing() {
        for (item, position) in exchange.takeOutgoingRetired() {
            connection.assumeIsolated { $0.enqueueRetired(item, for: position) }
        }
        // Taken out first: the connection may tell of its failure before `enqueue` returns.
        guard exchange.hasOutgoing else { return }
        var items = exchange.takeOutgoing()
        ownedConnection.enqueue(&items)
        exchange.recycle(&items)
    }

    private func take(_ submission: consuming Submission) {
        switch submission {
        case .send(let ticket, let frame, let waiter, let deadline, let expectsResponse):
            register(ticket, frame, waiter, deadline, expectsResponse)
        case .sendAll(let first, let frames, let batch, let deadline):
            for (index, frame) in frames.enumerated() {
                register(
                    first + Ticket(index),
                    frame,
                    batch.waiter(index, frame, deadline),
                    deadline,
                    batch.expectsResponse
                )
            }
        case .follow(let followUp, let channel): follow(followUp, channel)
        case .cancel(let tickets):
            // A message that was accepted meanwhile stays: its caller has been told so.
            for ticket in tickets where exchange.table[ticket]?.waiter.isAccepted != true {
                cancel(ticket, .cancelled, "cancelled by the caller")
            }
        case .share(let call, let suspension): share(call, suspension)
        case .leave(let call): leave(call)
        case .cancelAll(let last): cancelAll(upTo: last)
        case .subscribe(let channel):
            guard phase != .closed else { return channel.finish() }
            channels.insert(channel)
            if phase == .open { ownedConnection.want() }
        case .unsubscribe(let channel):
            channels.remove(channel)
            updateReading()
        case .resumeReading: updateReading()
        case .connect(let id, let suspension): connect(id, suspension)
        case .cancelConnect(let id):
            connectWaiters.removeValue(forKey: id)?.resume(
                returning: unsentError(.cancelled, "cancelled while connecting")
            )
        case .close: drain()
        case .closeNow: closeAtOnce()
        case .awaitClosed(let suspension):
            if isClosed { suspension.resume() } else { closeWaiters.append(suspension) }
        }
    }

    @inline(__always)
    func register(
        _ ticket: Ticket,
        _ frame: consuming Frame,
        _ waiter: consuming Waiter,
        _ deadline: Instant?,
        _ expectsResponse: Bool
    ) {
        guard phase == .open else {
            return waiter.resume(.failure(ClientError(.closed, .notSent, "the client is closed")))
        }
        if let terms = waiter.terms, let error = refusal(terms) { return waiter.resume(.failure(error)) }
        if exchange.register(ticket, frame, waiter, deadline, expectsResponse: expectsResponse) {
            // Demand drives the connection, even while nothing may be queued on it.
            ownedConnection.want()
        }
    }

    // MARK: Giving up

    /// Ends a request that is not wanted any more, by whatever of the three ways is right.
    func cancel(_ ticket: Ticket, _ code: ClientError.Code, _ message: String, cause: FrameError? = nil) {
        if ticket >= FollowUp.firstTicket { return cancelFollowUp(ticket) }
        guard let entry = exchange.table[ticket] else { return }  // it has ended already
        flushOutgoing()
        // Before the cancel frame, behind which nothing of it may go out.
        endFollowUps(of: ticket, ClientError(code, .unknown, message, cause: cause))
        let started = connection.assumeIsolated { $0.outbound.hasStarted(entry.position) }
        var message = message
        var isCounted = false
        if code == .timedOut, entry.position == 0, exchange.isReady {
            if let obstacle = exchange.whatHoldsOthersBack { message += "; \(obstacle)" }
            isCounted = exchange.noteExpiredUnsent()
        }
        switch exchange.cancel(ticket, now: loop.now, hasStarted: { _ in started }) {
        case .none: return
        case .notSent(let waiter, let position):
            // A request that rests between two tries waits for no response.
            let rests = waiter.terms?.restsUntil != nil
            if code == .timedOut, !isCounted, !rests { exchange.noteTimedOutUnsent() }
            if position != 0 { connection.assumeIsolated { _ = $0.outbound.remove(position) } }
            waiter.resume(.failure(unsentError(code, message)))
        case .sent(let waiter, let serial, let type):
            // Those of a link that was left say nothing about the endpoint of today.
            if entry.position >= exchange.table.retiredEnd, entry.expectsResponse {
                // What we do not read ourselves is no failure of the endpoint's.
                if code == .timedOut, !connection.assumeIsolated({ $0.isPaused }) { exchange.countTimedOut() }
                exchange.noteGivenUp(code)
            }
            if entry.expectsResponse, let frame = codec.cancelFrame(for: serial, type: type) {
                if entry.position < exchange.table.retiredEnd {
                    let item = OutboundQueue.Item(frame, ticket: 0)
                    connection.assumeIsolated { $0.enqueueRetired(item, for: entry.position) }
                } else {
                    exchange.send(frame)
                }
            }
            let endpoint = connection.assumeIsolated { $0.endpoint(of: entry.position) }
            waiter.resume(.failure(ClientError(code, .unknown, message, endpoint: endpoint, cause: cause)))
        }
    }

    /// An error of a request that was not sent says why there was no link, if there was none.
    func unsentError(_ code: ClientError.Code, _ message: String) -> ClientError {
        connection.assumeIsolated { connection in
            ClientError(
                code,
                .notSent,
                connection.isReady ? message : "\(message); \(connection.whyThereIsNoLink)",
                endpoint: connection.attempts.last?.endpoint,
                attempts: connection.attempts,
                cause: connection.lastCause
            )
        }
    }

    // MARK: Time

    private func armTimer() {
        let next =
            switch (exchange.nextDeadline, drainDeadline) {
            case (let a?, let b?): min(a, b)
            case (let a, let b): a ?? b
            }
        guard next != armed else { return }
        armed = next
        let timer = timer ?? LoopTimer(target: self)
        self.timer = timer
        loop.arm(timer, at: next)
    }
}

extension Client: @preconcurrency TimerTarget {
    package func timerFired() {
        armed = nil
        begin()
        let now = loop.now
        while let ticket = exchange.nextExpired(at: now) { cancel(ticket, .timedOut, "out of time") }
        endRests(at: now)
        if let drainDeadline, drainDeadline <= now {
            self.drainDeadline = nil
            closeAtOnce()
        }
        finish()
    }
}
