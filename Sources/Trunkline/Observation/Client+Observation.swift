/// What the client tells its observers.
///
/// Requests that are accepted or answered are collected, because they are frequent, and told together: before anything
/// else is told, and at the end of each batch.
extension Client {
    /// Tells the observers that this has happened, if they want such events.
    func tell(_ kind: ClientEvent.Kinds, _ content: @autoclosure () -> ClientEvent.Content) {
        guard let observation = connection.observation, observation.wants(kind) else { return }
        tellCollected()
        observation.add(content(), at: loop.now)
    }

    /// Tells the observers of the requests that were collected.
    func tellCollected() {
        guard tellsRequests, let observation = connection.observation else { return }
        if !accepted.isEmpty { observation.add(accepted: &accepted, at: batchTime) }
        if !answered.isEmpty { observation.add(answered: &answered) }
    }

    /// Notes that a request was accepted: counts it, and tells the observers and the recorder. It is on the link of
    /// `session` or, if that is 0, waits.
    @inline(__always)
    func noteAccepted(
        _ id: RequestID,
        _ type: UInt32,
        _ bodyCount: Int,
        _ expectsResponse: Bool,
        isOpen: Bool,
        _ deadline: Instant?,
        on session: UInt64
    ) {
        counters.requests += 1
        connection.recorder?.call(id, type, bodyCount, expectsResponse, isOpen: isOpen, deadline, at: batchTime)
        if tellsRequests { tellAccepted(id, type, expectsResponse, on: session) }
        if session == 0 { tell(.steps, .requestWaiting(id: id, for: isReady ? .turn : .link)) }
    }

    /// Notes that the first `count` requests of a batch were accepted and are on the ready link.
    func noteAccepted(
        _ batched: borrowing [Request],
        _ count: Int,
        first: RequestID,
        _ options: borrowing ResolvedOptions
    ) {
        counters.requests += count
        connection.recorder?.calls(batched, count, first: first, options, at: batchTime)
        guard tellsRequests else { return }
        for index in 0..<count {
            tellAccepted(first + RequestID(index), batched[index].type, options.expectsResponse, on: session)
        }
    }

    private func tellAccepted(_ id: RequestID, _ type: UInt32, _ expectsResponse: Bool, on session: UInt64) {
        accepted.append(ClientEvent.AcceptedRequest(id: id, session: session, type: type, isOneWay: !expectsResponse))
    }

    /// Notes that a request was answered.
    @inline(__always)
    func noteAnswered(
        _ id: RequestID,
        _ request: RequestFacts,
        _ status: UInt32,
        isError: Bool,
        at now: Instant
    ) {
        guard tellsRequests else { return }
        let nanoseconds = now.nanoseconds &- request.accepted.nanoseconds
        answered.append(
            ClientEvent.AnsweredRequest(
                id: id,
                nanoseconds: nanoseconds,
                type: request.type,
                status: status,
                isError: isError
            )
        )
    }

    /// Tells that requests wait again because their link takes no requests any more.
    func tellWaiting(_ unsent: [QueuedRequest]) {
        for request in unsent { tell(.steps, .requestWaiting(id: request.id, for: .link)) }
    }

    /// Counts a response to an abandoned request.
    func noteLate(_ id: RequestID) {
        counters.lateResponses += 1
        tell(.steps, .lateResponse(id: id))
    }

    /// Tells the observers if requests have begun or ceased to wait because of a limit.
    func tellLimit() {
        guard connection.observation?.wants(.limits) == true, requests.queue.hasWaiting || notedLimit != nil else {
            return
        }
        let limit = !requests.queue.hasWaiting || !isReady ? nil : connection.inCallOfOwner { $0.limitReached }
        guard limit != notedLimit else { return }
        if let notedLimit { tell(.limits, .limitCleared(notedLimit)) }
        if let limit { tell(.limits, .limitReached(limit)) }
        notedLimit = limit
    }
}

extension Client {
    /// What the log says about the requests when a limit is reached. Call this on the event loop.
    nonisolated func load(at now: Instant) -> LogRules.Load {
        onItsLoop { client in
            var load = LogRules.Load()
            load.waiting = client.requests.queue.waitingCount
            if client.requests.count <= 100_000 { load.oldest = client.requests.oldestOnLink.map { now.since($0) } }
            client.connection.inCallOfOwner { $0.note(in: &load, at: now) }
            return load
        }
    }
}

extension Connection {
    fileprivate func note(in load: inout LogRules.Load, at now: Instant) {
        (load.inFlight, load.abandoned) = (requestCount, held.0)
        load.silence = ready.flatMap { $0.state.described(at: now, inFlight: 0, hasFailed: true).condition?.silence }
    }

    /// The limit because of which a request must wait; `nil` if there is none.
    fileprivate var limitReached: ClientEvent.Limit? {
        guard let ready else { return nil }
        if room <= 0 { return .maximumInFlight }
        if ready.state.machine.requests.isExhausted { return .serials }
        return ready.state.isAboveWatermark ? .highWatermark : nil
    }
}
