/// Holds every request of a client from its call to its end: accepts it, puts it on a link, and ends it with a response
/// or an error.
///
///     commands ──► perform ──┐
///     events ────► take ─────┼──► finish ──► LinkRequests.work
///     timer ─────► takeTime ─┘
///
/// All that a batch changes is in this value, so that the runtime checks exclusive access once for each batch. The
/// program ends if code of the user that runs meanwhile (a task executor, an interceptor's completion) enters the
/// client with `assumeIsolated` and uses this value.
struct Dispatcher {
    let loop: any EventLoop
    let codec: ProtocolCodec
    let driver: ConnectionDriver
    let messageRoom: MessageRoom
    var options: ClientOptions { driver.options }

    /// Holds the frames of requests on no link, and knows the link of the others.
    var requests: RequestTable<Waiter>
    var parts = RequestParts()
    var ledger: RequestLedger
    var retries: RetryState
    var streams = ClientStreams()
    var serving: Serving {
        get { rareServing.value }
        _modify { yield &rareServing.value }
    }
    private var rareServing = Rare<Serving>()
    var isWithoutServing: Bool { rareServing.isInitial }

    var lifecycle = Lifecycle.open
    var drainDeadline: Instant?
    var connectWaiters: [RequestID: Continuation<ClientError?>] = [:]
    var closeWaiters: [Continuation<Void>] = []

    /// The session of the link that takes requests.
    var session: SessionID?
    var linkLook: Instant?
    /// Whether the client belongs to a cluster, which sends requests elsewhere that have no link.
    let isMember: Bool
    /// The requests of this batch that may wait neither for a link nor for a serial.
    var impatient: [RequestID] = []
    /// While commands are performed: how many more requests may go to the link without waiting.
    var directRoom = 0

    var isReady: Bool { session != nil }

    struct BatchEnd {
        let nextTime: Instant?
        let closeWaiters: [Continuation<Void>]
    }

    init(
        _ driver: ConnectionDriver,
        _ codec: ProtocolCodec,
        _ messageRoom: MessageRoom,
        on loop: any EventLoop
    ) {
        (self.driver, self.codec, self.messageRoom, self.loop) = (driver, codec, messageRoom, loop)
        isMember = driver.options.membership != nil
        let options = driver.options.requests
        requests = RequestTable(maximumWaiting: options.maximumWaiting, maximumBytes: options.maximumWaitingBytes)
        ledger = RequestLedger(
            driver.observation,
            driver.context.recorder,
            codec,
            measuresByName: options.measuresByName,
            on: loop
        )
        retries = RetryState(rules: RetryRules(options.retryBudget, seed: loop.randomSeed()))
    }
}

/// Commands in: how the event loop performs a batch of what callers submitted.
extension Dispatcher {
    mutating func perform(_ commands: inout [Command], for owner: any ConnectionOwner) -> BatchEnd {
        ledger.beginBatch()
        directRoom = isReady ? driver.links.room : 0
        perform(&commands)
        directRoom = 0
        ledger.tellCollected()
        return finish(for: owner)
    }

    private mutating func perform(_ commands: inout [Command]) {
        var index = 0
        while index < commands.count {
            guard case .send = commands[index] else {
                perform(exchange(&commands[index], with: .taken))
                index += 1
                continue
            }
            let begin = index
            if mayGoDirectly {
                sendDirectly(&commands, &index)
            }
            if index > begin { continue }
            // The usual command is taken apart alone and without a variable. Otherwise its frame would be copied, which
            // costs two retains of memory that its caller's thread has just touched.
            index += 1
            guard
                case .send(let id, let frame, let waiter, let accepted, let deadline, let expectsResponse) =
                    exchange(&commands[begin], with: .taken)
            else { continue }
            register(id, frame, waiter, accepted, deadline, expectsResponse)
        }
    }

    mutating func finish(for owner: any ConnectionOwner) -> BatchEnd {
        while true {
            placeParts()
            var (events, look) = driver.requests.work(
                on: &requests.queue,
                &parts,
                demand: demand,
                watchesErrors: lifecycle == .open,
                for: owner
            )
            requests.noteAdmissions(at: loop.now)
            let hasRefused = !impatient.isEmpty && failImpatient()
            linkLook = look
            if !events.isEmpty || hasRefused {
                perform(&events)
            } else if lifecycle == .draining, requests.count == 0, isWithoutServing || serving.calls.isIdle {
                endDraining()
            } else if isMember, !isReady, requests.queue.hasWaiting, releaseWaiting() {
                continue
            } else {
                break
            }
        }
        requests.giveBackMemory()
        if !isWithoutServing, serving.hasUntold { tellUnserved() }
        if lifecycle == .draining { driver.ownerDrains() }
        if ledger.observation != nil { noteLimit() }
        return BatchEnd(nextTime: nextTime(), closeWaiters: lifecycle == .closed ? takeCloseWaiters() : [])
    }

    private mutating func takeCloseWaiters() -> [Continuation<Void>] { exchange(&closeWaiters, with: []) }

    private var demand: ReconnectMachine.Demand {
        if requests.queue.delayedCount > 0 || !connectWaiters.isEmpty { return .request }
        return streams.channels.isEmpty && (isWithoutServing || serving.port == nil) ? .none : .pushes
    }

    private mutating func perform(_ command: consuming Command) {
        switch consume command {
        case .send(let id, let frame, let waiter, let accepted, let deadline, let expectsResponse):
            register(id, frame, waiter, accepted, deadline, expectsResponse)
        case .sendAll(let first, let batched, let batch):
            register(batched, first: first, batch)
        case .addPart(let part, let channel): follow(part, channel)
        case .cancel(let ids):
            // A message that has been accepted in the meantime stays: its caller has already returned.
            for id in ids {
                guard let waiter = requests.waiter(of: id), !waiter.isAccepted else { continue }
                if waiter.hasExpired {
                    cancel(id, .timedOut, "deadline exceeded")
                } else {
                    cancel(id, .cancelled, "cancelled by the caller")
                }
            }
            if ids.lowerBound >= RequestPart.firstID { cancelPart(ids.lowerBound) }
        case .cancelAll(let last):
            for id in requests.ids where id <= last { cancel(id, .cancelled, "cancelled by cancelAll()") }
        case .listen(let channel):
            guard lifecycle < .closing else { return channel.clientEnded() }
            streams.channels.insert(channel)
            if lifecycle == .open { driver.connectIfNeeded() }
        case .stopListening(let channel):
            streams.channels.remove(channel)
            updateReading()
        case .serve(let port, let limits): serve(port, limits)
        case .stopServing(let port): stopServing(port)
        case .served(let call, let outcome): served(call, outcome)
        case .resumeReading: updateReading()
        case .connect(let id, let continuation): connect(id, continuation)
        case .cancelConnect(let id):
            connectWaiters.removeValue(forKey: id)?.resume(
                returning: unsentError(.cancelled, "cancelled while connecting")
            )
        case .needLink: if lifecycle == .open, !isReady { driver.connectIfNeeded() }
        case .close: beginDraining()
        case .closeNow: closeAtOnce()
        case .awaitClosed(let continuation): closeWaiters.append(continuation)
        case .noteUndecodable(let error): ledger.undecodable(error)
        case .taken: break
        }
    }

    // MARK: Accepting requests

    private var mayGoDirectly: Bool {
        lifecycle == .open && directRoom > 0 && !requests.queue.hasWaiting && parts.heldCount == 0
    }

    /// There is room for `directRoom` requests.
    private mutating func sendDirectly(_ commands: inout [Command], _ index: inout Int) {
        guard let ready = driver.ready else { return }
        var events = driver.port.takeEvents()
        sendDirectly(&commands, &index, on: &ready.state, by: driver.rules, into: &events)
        driver.port.giveBack(events)
        driver.io.scheduleFlushUnlessFull(ready)
    }

    private mutating func sendDirectly(
        _ commands: inout [Command],
        _ index: inout Int,
        on link: inout Link.State,
        by rules: LinkRules,
        into events: inout [ConnectionEvent]
    ) {
        while index < commands.count, directRoom > 0, link.takesAny(rules), case .send = commands[index] {
            guard
                case .send(let id, let frame, let waiter, let accepted, let deadline, let expectsResponse) =
                    exchange(&commands[index], with: .taken)
            else { return }
            index += 1
            if let options = waiter.tracked?.options {
                // It waits in the queue until nothing is in flight.
                if options.marks.contains(.isExclusive) {
                    index -= 1
                    commands[index] = .send(
                        id,
                        frame,
                        waiter,
                        accepted: accepted,
                        deadline: deadline,
                        expectsResponse: expectsResponse
                    )
                    return
                }
                if let error = refusal(options) {
                    refuse(frame, waiter, error)
                    continue
                }
                if !options.waitsForReady { impatient.append(id) }
            }
            if let extras = waiter.extras, retries.usesDatagrams { awaitAnswer(id, extras) }
            let (isPart, type, bodyCount) = (frame.kind == .part, frame.type, frame.body.count)
            if ledger.keepsNames { ledger.keepName(of: frame, id) }
            let place = link.admit(
                id,
                frame,
                expectsResponse: expectsResponse,
                reports: waiter.reports,
                by: rules,
                into: &events
            )
            directRoom -= 1
            let session = link.machine.session
            ledger.accepted(id, type, bodyCount, expectsResponse, isOpen: isPart, deadline, on: session)
            if expectsResponse, isPart { parts.begin(id, type: type) }
            requests.register(
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

    mutating func accept(_ command: consuming Command) {
        var commands = [command]
        perform(&commands)
    }

    /// Not inlined: inlined, the frame would be copied on its way from the command.
    @inline(never)
    private mutating func register(
        _ id: RequestID,
        _ frame: consuming Frame,
        _ waiter: consuming Waiter,
        _ accepted: Instant,
        _ deadline: Instant?,
        _ expectsResponse: Bool
    ) {
        guard lifecycle == .open else { return refuse(frame, waiter, .clientIsClosed) }
        var isAnswer = false
        if let options = waiter.tracked?.options {
            isAnswer = options.marks.contains(.isAnswer)
            if let error = refusal(options) { return refuse(frame, waiter, error) }
            if !options.waitsForReady { impatient.append(id) }
            if options.marks.contains(.isExclusive) { requests.queue.makeExclusive(id) }
        }
        // A message that `enqueue` accepted already has room.
        let cost = frame.queueCost
        if requests.queue.refusal(for: cost) != nil, !waiter.hasRoom,
            let refusal = refusalAfterAdmission(cost, isAnswer: isAnswer)
        {
            return refuse(frame, waiter, ClientError(.overloaded, .notSent, refusal))
        }
        let (isPart, type, bodyCount) = (frame.kind == .part, frame.type, frame.body.count)
        if ledger.keepsNames { ledger.keepName(of: frame, id) }
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
        if let extras = waiter.extras, retries.usesDatagrams { awaitAnswer(id, extras) }
        requests.append(consume request, consume waiter, deadline: deadline, accepted: accepted)
        if isAnswer { requests.noteAnswer(id) }
    }

    private mutating func register(_ batched: [Request], first: RequestID, _ batch: Batch) {
        let options = batch.options
        var admitted = 0
        if mayGoDirectly, !options.areTracked {
            admitted = admitNow(batched, first: first, batch)
            if let session { ledger.accepted(batched, admitted, first: first, options, on: session) }
        }
        guard admitted < batched.count else { return watch(first, batched.count, options) }
        var rest = batched.indices[admitted...].map { index in
            let frame = batched[index].frame
            let waiter = Waiter(.batch(batch, index: index), options, frame)
            return Command.send(
                first.advanced(by: index),
                frame,
                waiter,
                accepted: options.accepted,
                deadline: nil,
                expectsResponse: options.expectsResponse
            )
        }
        perform(&rest)
        watch(first, batched.count, options)
    }

    private mutating func watch(_ first: RequestID, _ count: Int, _ options: ResolvedOptions) {
        if lifecycle == .open, let deadline = options.deadline {
            requests.watch(first...first.advanced(by: count - 1), deadline)
        }
    }

    private mutating func admitNow(_ batched: [Request], first: RequestID, _ batch: Batch) -> Int {
        let options = batch.options
        let admitted = driver.requests.admitNow(
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

    /// Returns why another request, or answer to the server, may not wait, if it would have to.
    private mutating func refusalAfterAdmission(_ cost: Int, isAnswer: Bool) -> String? {
        guard isReady else { return requests.queue.refusal(for: cost) }
        placeParts()
        let mayAdmit = driver.requests.admitEarly(from: &requests.queue, &parts)
        requests.noteAdmissions(at: loop.now)
        let mayGo = mayAdmit && !requests.queue.hasWaiting
        directRoom = driver.links.room
        if isAnswer, driver.requests.mayAdmitAnswer { return nil }
        return mayGo ? nil : requests.queue.refusal(for: cost)
    }

    private mutating func refusal(_ options: ResolvedOptions) -> ClientError? {
        if options.endsWithItsLink { retries.hasLinkbound = true }
        if let session = options.session, session != self.session {
            return ClientError(.connectionLost, .notSent, "the only link for this call is closed or draining")
        }
        guard !options.waitsForReady, !isReady else { return nil }
        ledger.tellCollected()
        // This call does not wait for the link, but later calls can use it.
        driver.connectIfNeeded()
        return unsentError(.unavailable, ClientError.mayNotWaitMessage)
    }

    private mutating func failImpatient() -> Bool {
        let shortage = driver.links.serialShortage
        var isRefused = false
        for id in impatient {
            guard let shortage, requests.request(id)?.expectsResponse == true, requests.remove(id) != nil else {
                continue
            }
            isRefused = true
            end(id, ClientError(.overloaded, .notSent, shortage))
        }
        impatient.removeAll(keepingCapacity: impatient.count <= 8192)
        if isRefused { driver.requests.judge.replacement.hasRefused = true }
        return isRefused
    }

    // MARK: Cancellation

    mutating func cancel(_ id: RequestID, _ code: ClientError.Code, _ message: String, cause: FrameError? = nil) {
        guard let place = requests[id]?.place else { return }  // it has already ended
        // Before the cancel frame, after which no part of the request may be sent.
        let unfinished = endParts(of: id, ClientError(code, .unknown, message, cause: cause))
        let isTimeout = code == .timedOut
        guard case .onLink(let session, let linkPlace) = place else {
            guard requests.remove(id) != nil else { return }
            var message = message
            let isDelayed = requests.waiter(of: id)?.tracked?.delayedUntil != nil
            if isTimeout, let what = driver.requests.timedOutWaiting(isDelayed: isDelayed) {
                message += "; \(what)"
            }
            return end(id, unsentError(code, message))
        }
        let now = loop.now
        let onLink = driver.links.tryOnLink(id, session, linkPlace, at: now)
        switch driver.requests.cancel(id, session, linkPlace, isTimeout: isTimeout) {
        case .none:
            // The events contain its end. If that is a response, the server must be told that no more parts follow.
            if let unfinished { parts.resume(id, unfinished) }
        case .notSent: end(id, unsentError(code, message), onLink)
        case .sent(let endpoint):
            end(id, ClientError(code, .unknown, message, endpoint: endpoint, cause: cause), onLink)
            if unfinished != nil { endLinkOfUpload(session) }
        }
    }

    func endLinkOfUpload(_ session: SessionID) {
        guard codec.abandoningEndsLink else { return }
        driver.lose(
            session,
            TransportError.closedByUs("a request was abandoned before its last piece was sent")
        )
    }

    /// Without a link, the message and the cause say why there is none.
    func unsentError(_ code: ClientError.Code, _ message: String) -> ClientError {
        let (obstacle, history) = (driver.linkObstacle, driver.history)
        let error = ClientError(
            code,
            .notSent,
            obstacle.map { "\(message); \($0.text)" } ?? message,
            endpoint: history.failures.last?.endpoint,
            attempts: history.failures,
            cause: history.lastCause
        )
        return obstacle == nil ? error : error.changed { $0.linkObstacle = obstacle }
    }

    // MARK: Time

    /// Mutating, because a call with the dispatcher as its argument would copy it, for every batch.
    private mutating func nextTime() -> Instant? {
        var next = requests.nextDeadline
        if let linkLook { next = min(next ?? linkLook, linkLook) }
        if let drainDeadline { next = min(next ?? drainDeadline, drainDeadline) }
        return next
    }

    private mutating func endExpired(at now: Instant) {
        while let id = requests.nextExpired(at: now) {
            if retries.hasUsedDatagrams, repeatIfDue(id, at: now) { continue }
            guard let later = requests.waiter(of: id)?.nextLook(at: now) else {
                cancel(id, .timedOut, "deadline exceeded")
                continue
            }
            if later < .distantFuture { requests.watch(id, later) }
        }
    }

    mutating func takeTime(for owner: any ConnectionOwner) -> BatchEnd {
        if driver.io.mustReadFirst() {
            return BatchEnd(nextTime: loop.nextTurn, closeWaiters: [])
        }
        let now = loop.turnTime
        driver.links.endQuarantines(at: now)
        endExpired(at: now)
        endRests(at: now)
        if let deadline = drainDeadline, deadline <= now {
            drainDeadline = nil
            closeAtOnce()
        }
        return finish(for: owner)
    }
}
