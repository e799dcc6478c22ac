import TrunklineCore
import TrunklineIO

/// Submissions in: what the loop does with a batch of what callers said.
extension Client {
    func take(_ submissions: [Submission]) {
        begin()
        for submission in submissions { take(submission) }
        finish()
    }

    /// As `take`, for what a caller on the loop says directly.
    func takeOne(_ body: (isolated Client) -> Void) {
        begin()
        body(self)
        finish()
    }

    /// Looks once at the outbound queue for a whole batch.
    func begin() {
        (unstartedPosition, outgoingPosition, outboundBytes) = connection.assumeIsolated { connection in
            if connection.owner == nil { connection.owner = self }
            return (
                connection.outbound.unstartedPosition, connection.outbound.nextPosition, connection.outbound.byteCount
            )
        }
        // Nothing is below zero: a watermark of zero counts as one.
        if outboundBytes < max(1, min(options.outbound.lowWatermark, options.outbound.highWatermark)) {
            isAboveWatermark = false
        }
    }

    /// Admits what may go, hands it to the connection and looks after the deadlines.
    func finish() {
        admitWaiting()
        flushOutgoing()
        if phase == .draining, table.isEmpty { endDraining() }
        armTimer()
    }

    /// Hands the batch to the connection. Must come before anything that asks whether a frame has started.
    func flushOutgoing() {
        guard !outgoing.isEmpty else { return }
        // Taken out first: the connection may tell of its failure before `enqueue` returns.
        var items = exchange(&outgoing, with: [])
        outgoingPosition += UInt64(items.count)
        connection.assumeIsolated { [items] in $0.enqueue(items) }
        items.removeAll(keepingCapacity: true)
        if outgoing.isEmpty { outgoing = items }
    }

    private func take(_ submission: Submission) {
        switch submission {
        case .send(let ticket, let frame, let waiter, let deadline, let expectsResponse):
            register(ticket, frame, waiter, deadline, expectsResponse)
        case .sendAll(let first, let frames, let batch, let deadline):
            for (index, frame) in frames.enumerated() {
                register(first + Ticket(index), frame, .batch(batch, index: index), deadline, true)
            }
        case .cancel(let tickets):
            for ticket in tickets { cancel(ticket, .cancelled, "cancelled by the caller") }
        case .cancelAll:
            for ticket in table.tickets { cancel(ticket, .cancelled, "cancelled with all others") }
        case .subscribe(let channel):
            if phase == .closed { channel.finish() } else { channels.append(channel) }
        case .unsubscribe(let channel):
            channels.removeAll { $0 === channel }
            updateReading()
        case .resumeReading: updateReading()
        case .connect(let id, let suspension): connect(id, suspension)
        case .cancelConnect(let id):
            connectWaiters.removeValue(forKey: id)?.resume(
                returning: ClientError(.cancelled, .notSent, "cancelled while connecting")
            )
        case .close: drain()
        case .closeNow: closeAtOnce()
        case .awaitClosed(let suspension):
            if isClosed { suspension.resume() } else { closeWaiters.append(suspension) }
        }
    }

    // MARK: In

    func register(
        _ ticket: Ticket,
        _ frame: Frame,
        _ waiter: Waiter,
        _ deadline: Instant?,
        _ expectsResponse: Bool
    ) {
        guard phase == .open else {
            return waiter.resume(.failure(ClientError(.closed, .notSent, "the client is closed")))
        }
        counters.requests += 1
        if waiting.isEmpty, mayAdmit {
            table.register(
                ticket,
                waiter: waiter,
                type: frame.type,
                expectsResponse: expectsResponse,
                deadline: deadline
            )
            if admit(ticket, frame) { return }
        } else if waiting.count - abandoned >= options.requests.maximumWaiting {
            let message = "\(waiting.count - abandoned) requests are waiting already"
            return waiter.resume(.failure(ClientError(.overloaded, .notSent, message)))
        } else {
            table.register(
                ticket,
                waiter: waiter,
                type: frame.type,
                expectsResponse: expectsResponse,
                deadline: deadline
            )
        }
        waiting.append((ticket, frame))
        // Demand drives the connection, even while nothing may be queued on it.
        connection.assumeIsolated { $0.want() }
    }

    private var mayAdmit: Bool {
        guard inFlight < max(1, options.requests.maximumInFlight) else { return false }
        if outboundBytes >= max(1, options.outbound.highWatermark) { isAboveWatermark = true }
        return !isAboveWatermark
    }

    /// Gives a registered request its serial and its place; `false` when every serial is held.
    private func admit(_ ticket: Ticket, _ frame: Frame) -> Bool {
        let position = outgoingPosition + UInt64(outgoing.count)
        guard let serial = table.admit(ticket, at: position) else { return false }
        var frame = frame
        frame.serial = serial
        var item = OutboundQueue.Item(frame, ticket: ticket)
        if let entry = table[ticket] {
            item.reportsWritten = !entry.expectsResponse
            if case .handle(let handle) = entry.waiter {
                handle.admitted(as: serial)
                item.reportsWritten = true
            }
        }
        inFlight += 1
        outboundBytes += frame.body.count + 32
        outgoing.append(item)
        return true
    }

    func admitWaiting() {
        if abandoned > 64, abandoned > waiting.count / 2 {
            waiting.removeAll { table[$0.ticket] == nil }
            abandoned = 0
        }
        while let next = waiting.first {
            if table[next.ticket] == nil {  // given up while it waited
                _ = waiting.popFirst()
                abandoned -= 1
            } else {
                guard mayAdmit, admit(next.ticket, next.frame) else { return }
                _ = waiting.popFirst()
            }
        }
    }

    // MARK: Giving up

    /// Ends a request that is not wanted any more, by whatever of the three ways is right.
    func cancel(_ ticket: Ticket, _ code: ClientError.Code, _ message: String) {
        guard let entry = table[ticket] else { return }  // it has ended already
        flushOutgoing()
        let started = connection.assumeIsolated { $0.outbound.hasStarted(entry.position) }
        if entry.position != 0 { inFlight -= 1 } else { abandoned += 1 }
        switch table.cancel(ticket, now: loop.now, hasStarted: { _ in started }) {
        case .none: return
        case .notSent(let waiter, let position):
            if position != 0 { connection.assumeIsolated { _ = $0.outbound.remove(position) } }
            waiter.resume(.failure(unsentError(code, message)))
        case .sent(let waiter, let serial, let type):
            if entry.expectsResponse, let frame = codec.cancelFrame(for: serial, type: type) {
                outgoing.append(OutboundQueue.Item(frame, ticket: 0))
            }
            let endpoint = connection.assumeIsolated { $0.link?.endpoint }
            waiter.resume(.failure(ClientError(code, .unknown, message, endpoint: endpoint)))
        }
    }

    /// An error of a request that was not sent says why there was no link, if there was none.
    private func unsentError(_ code: ClientError.Code, _ message: String) -> ClientError {
        connection.assumeIsolated { connection in
            ClientError(
                code,
                .notSent,
                message,
                endpoint: connection.attempts.last?.endpoint,
                attempts: connection.attempts,
                cause: connection.lastCause
            )
        }
    }

    // MARK: Time

    private func armTimer() {
        let next =
            switch (table.nextDeadline, drainDeadline) {
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

extension Client: TimerTarget {
    package nonisolated func timerFired() {
        assumeIsolated { $0.expire() }
    }

    private func expire() {
        armed = nil
        begin()
        let now = loop.now
        while let ticket = table.nextExpired(at: now) { cancel(ticket, .timedOut, "no response in time") }
        if let drainDeadline, drainDeadline <= now {
            self.drainDeadline = nil
            closeAtOnce()
        }
        finish()
    }
}
