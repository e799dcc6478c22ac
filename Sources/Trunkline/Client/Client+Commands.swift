/// Commands in: how the event loop performs a batch of what callers submitted.
extension Client: LoopActor, CommandQueueOwner {
    nonisolated func take(_ commands: inout [Command]) { onItsLoop(&commands) { $0.perform(&$1) } }

    private func perform(_ commands: inout [Command]) {
        ledger.beginBatch()
        directRoom = isReady ? connection.roomNow : 0
        for index in commands.indices {
            // The usual command is taken apart alone and without a variable: otherwise its frame would be copied, which
            // costs two retains of memory that its caller's thread has just touched.
            if case .send = commands[index] {
                guard
                    case .send(let id, let frame, let waiter, let accepted, let deadline, let expectsResponse) =
                        exchange(&commands[index], with: .taken)
                else { continue }
                register(id, frame, waiter, accepted, deadline, expectsResponse)
            } else {
                perform(exchange(&commands[index], with: .taken))
            }
        }
        directRoom = 0
        ledger.tellCollected()
        finish()
    }

    /// Ends a batch: puts requests on the link, performs the resulting events, and arms the timer.
    func finish() {
        while true {
            placeParts()
            var (events, look) = connection.work(
                on: &requests.queue,
                &parts,
                demand: demand,
                watchesErrors: lifecycle == .open,
                for: self
            )
            requests.noteAdmissions(at: loop.now)
            let hasRefused = !impatient.isEmpty && failImpatient()
            clock.linkLook = look
            if !events.isEmpty || hasRefused {
                perform(&events)
            } else if lifecycle == .draining, requests.count == 0 {
                endDraining()
            } else {
                break
            }
        }
        requests.giveBackMemory()
        if lifecycle == .draining { connection.inCallOfOwner { $0.ownerDrains() } }
        armTimer()
        if let observation = ledger.observation {
            noteLimit()
            observation.deliver()
        }
    }

    /// Why the client needs a link, apart from the requests that wait for one.
    private var demand: ReconnectMachine.Demand {
        if requests.queue.delayedCount > 0 || !life.connectWaiters.isEmpty { return .request }
        return streams.channels.isEmpty ? .none : .pushes
    }

    private func perform(_ command: consuming Command) {
        switch consume command {
        case .send(let id, let frame, let waiter, let accepted, let deadline, let expectsResponse):
            register(id, frame, waiter, accepted, deadline, expectsResponse)
        case .sendAll(let first, let batched, let batch):
            register(batched, first: first, batch)
        case .addPart(let part, let channel): follow(part, channel)
        case .cancel(let ids):
            // A message that has been accepted in the meantime stays: its caller has already returned.
            for id in ids where requests.waiter(of: id)?.isAccepted == false {
                cancel(id, .cancelled, "cancelled by the caller")
            }
            if ids.lowerBound >= RequestPart.firstID { cancelPart(ids.lowerBound) }
        case .coalesce(let call, let continuation): coalesce(call, continuation)
        case .leave(let call): leave(call)
        case .cancelAll(let last): cancelAll(upTo: last)
        case .listen(let channel):
            guard lifecycle < .closing else { return channel.finish() }
            streams.channels.insert(channel)
            if lifecycle == .open { connection.inCallOfOwner { $0.connectIfNeeded() } }
        case .stopListening(let channel):
            streams.channels.remove(channel)
            updateReading()
        case .resumeReading: updateReading()
        case .connect(let id, let continuation): connect(id, continuation)
        case .cancelConnect(let id):
            life.connectWaiters.removeValue(forKey: id)?.resume(
                returning: unsentError(.cancelled, "cancelled while connecting")
            )
        case .close: beginDraining()
        case .closeNow: closeAtOnce()
        case .awaitClosed(let continuation):
            if lifecycle == .closed { resumeClosed([continuation]) } else { life.closeWaiters.append(continuation) }
        case .taken: break
        }
    }

    // MARK: Accepting requests

    /// Accepts a request, or ends it with an error. If it need not wait, it goes to the link at once.
    ///
    /// Not inlined: inlined, the frame would be copied on its way from the command.
    @inline(never)
    func register(
        _ id: RequestID,
        _ frame: consuming Frame,
        _ waiter: consuming Waiter,
        _ accepted: Instant,
        _ deadline: Instant?,
        _ expectsResponse: Bool
    ) {
        guard lifecycle == .open else { return refuse(waiter, .clientIsClosed) }
        if let options = waiter.tracked?.options {
            if let error = refusal(options) { return refuse(waiter, error) }
            if !options.waitsForReady { impatient.append(id) }
        }
        // The usual case need not wait.
        if directRoom > 0, !requests.queue.hasWaiting, parts.heldCount == 0 {
            let (isPart, type, bodyCount) = (frame.kind == .part, frame.type, frame.body.count)
            let reports = waiter.reports
            if let (session, place) = connection.admitNow(
                id,
                &frame,
                expectsResponse: expectsResponse,
                reports: reports
            ) {
                directRoom -= 1
                ledger.accepted(id, type, bodyCount, expectsResponse, isOpen: isPart, deadline, on: session)
                if expectsResponse, isPart { parts.begin(id, type: type) }
                return requests.register(
                    id,
                    type,
                    waiter,
                    at: place,
                    on: session,
                    deadline: deadline,
                    accepted: accepted,
                    now: ledger.batchTime
                )
            }
        }
        // A message that `enqueue` accepted already has room.
        let cost = OutboundQueue.cost(of: frame)
        if requests.queue.refusal(for: cost) != nil, !waiter.hasRoom, let refusal = refusalAfterAdmission(cost) {
            return refuse(waiter, ClientError(.overloaded, .notSent, refusal))
        }
        let (isPart, type, bodyCount) = (frame.kind == .part, frame.type, frame.body.count)
        let latest = deadline ?? waiter.batch?.options.deadline
        ledger.accepted(
            id,
            type,
            bodyCount,
            expectsResponse,
            isOpen: isPart,
            latest,
            on: nil,
            orWaitsFor: isReady ? .turn : .link
        )
        if expectsResponse, isPart { parts.begin(id, type: type) }
        let request = QueuedRequest(
            id: id,
            frame: consume frame,
            expectsResponse: expectsResponse,
            reports: waiter.reports
        )
        requests.append(consume request, consume waiter, deadline: deadline, accepted: accepted)
    }

    /// Accepts the requests of a batch. The first ones go to the link at once, as far as there is room.
    private func register(_ batched: [Request], first: RequestID, _ batch: Batch) {
        let options = batch.options
        var admitted = 0
        if lifecycle == .open, directRoom > 0, !requests.queue.hasWaiting, parts.heldCount == 0, !options.areTracked {
            admitted = admitNow(batched, first: first, batch)
            if let session { ledger.accepted(batched, admitted, first: first, options, on: session) }
        }
        for index in admitted..<batched.count {
            let frame = batched[index].frame
            let waiter = Waiter(.batch(batch, index: index), options, frame)
            register(first.advanced(by: index), frame, waiter, options.accepted, nil, options.expectsResponse)
        }
        if lifecycle == .open, let deadline = options.deadline {
            requests.watch(first...first.advanced(by: batched.count - 1), deadline)
        }
    }

    /// Puts the first requests of a batch on the link, as far as there is room. Returns their number.
    private func admitNow(_ batched: [Request], first: RequestID, _ batch: Batch) -> Int {
        let options = batch.options
        let admitted = connection.admitNow(
            batched,
            first: first,
            atMost: directRoom,
            expectsResponse: options.expectsResponse,
            &requests.queue
        )
        directRoom -= admitted
        requests.registerAdmissions(accepted: options.accepted, at: ledger.batchTime) { id in
            let index = first.distance(to: id)
            return (batched[index].type, Waiter(.batch(batch, index: index)))
        }
        return admitted
    }

    /// Puts requests on the link. If another request would still have to wait, returns why it may not; otherwise `nil`.
    private func refusalAfterAdmission(_ cost: Int) -> String? {
        guard isReady else { return requests.queue.refusal(for: cost) }
        placeParts()
        let mayAdmit = connection.admitEarly(from: &requests.queue, &parts)
        requests.noteAdmissions(at: loop.now)
        let mayGo = mayAdmit && !requests.queue.hasWaiting
        directRoom = connection.roomNow
        return mayGo ? nil : requests.queue.refusal(for: cost)
    }

    /// Returns why a request with these call options cannot be accepted; `nil` if it can.
    private func refusal(_ options: ResolvedOptions) -> ClientError? {
        if options.endsWithItsLink { retries.hasLinkbound = true }
        if let session = options.session, session != self.session {
            return ClientError(.connectionLost, .notSent, "the only link for this message is closed or draining")
        }
        guard !options.waitsForReady, !isReady else { return nil }
        ledger.tellCollected()
        // This call does not wait for the link, but later calls can use it.
        connection.inCallOfOwner { $0.connectIfNeeded() }
        return unsentError(.unavailable, ClientError.mayNotWaitMessage)
    }

    /// Fails requests that may not wait for a link if they would have to wait for a serial. Returns whether any failed.
    private func failImpatient() -> Bool {
        let shortage = connection.inCallOfOwner { $0.serialShortage }
        var isRefused = false
        for id in impatient {
            guard let shortage, requests.request(id)?.expectsResponse == true, requests.remove(id) != nil else {
                continue
            }
            isRefused = true
            end(id, ClientError(.overloaded, .notSent, shortage))
        }
        impatient.removeAll(keepingCapacity: impatient.count <= 8192)
        if isRefused { connection.inCallOfOwner { $0.endpointJudge.replacement.hasRefused = true } }
        return isRefused
    }

    // MARK: Cancellation

    /// Cancels a request wherever it is, and ends it with `code` and the fate that follows from its place.
    func cancel(_ id: RequestID, _ code: ClientError.Code, _ message: String, cause: FrameError? = nil) {
        guard let place = requests[id]?.place else { return }  // it has already ended
        // Before the cancel frame, after which no part of the request may be sent.
        let unfinished = endParts(of: id, ClientError(code, .unknown, message, cause: cause))
        let isTimeout = code == .timedOut
        guard case .onLink(let session, let linkPlace) = place else {
            guard requests.remove(id) != nil else { return }
            var message = message
            let isDelayed = requests.waiter(of: id)?.tracked?.delayedUntil != nil
            if isTimeout, let what = connection.inCallOfOwner({ $0.timedOutWaiting(isDelayed: isDelayed) }) {
                message += "; \(what)"
            }
            return end(id, unsentError(code, message))
        }
        let now = loop.now
        let onLink = connection.inCallOfOwner { $0.tryOnLink(id, session, linkPlace, at: now) }
        switch connection.inCallOfOwner({ $0.cancel(id, session, linkPlace, isTimeout: isTimeout) }) {
        case .none:
            // The events contain its end. If that is a response, the server must be told that no more parts follow.
            if let unfinished { parts.resume(id, unfinished) }
        case .notSent: end(id, unsentError(code, message), onLink)
        case .sent(let endpoint):
            end(id, ClientError(code, .unknown, message, endpoint: endpoint, cause: cause), onLink)
        }
    }

    /// Returns an error for a request that was not sent. Without a link, its message and cause say why there is none.
    func unsentError(_ code: ClientError.Code, _ message: String) -> ClientError {
        connection.inCallOfOwner { connection in
            ClientError(
                code,
                .notSent,
                connection.ready != nil ? message : "\(message); \(connection.whyThereIsNoLink)",
                endpoint: connection.history.failures.last?.endpoint,
                attempts: connection.history.failures,
                cause: connection.history.lastCause
            )
        }
    }

    // MARK: Time

    private func armTimer() {
        var next = requests.nextDeadline
        if let look = clock.linkLook { next = min(next ?? look, look) }
        if let deadline = life.drainDeadline { next = min(next ?? deadline, deadline) }
        clock.arm(at: next, for: self)
    }

    private func endExpired(at now: Instant) {
        while let id = requests.nextExpired(at: now) {
            guard let later = requests.waiter(of: id)?.nextLook(at: now) else {
                cancel(id, .timedOut, "deadline exceeded")
                continue
            }
            if later < .distantFuture { requests.watch(id, later) }
        }
    }
}

extension Client: TimerTarget {
    package nonisolated func timerFired() { onItsLoop { $0.takeTime() } }

    private func takeTime() {
        clock.fired()
        if connection.inCallOfOwner({ $0.mustReadFirst() }) { return clock.arm(at: loop.nextTurn, for: self) }
        let now = loop.turnTime
        connection.inCallOfOwner { $0.endQuarantines() }
        endExpired(at: now)
        endRests(at: now)
        if let deadline = life.drainDeadline, deadline <= now {
            life.drainDeadline = nil
            closeAtOnce()
        }
        finish()
    }
}
