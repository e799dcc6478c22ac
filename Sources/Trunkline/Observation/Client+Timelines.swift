/// Timelines of requests on the event loop.
extension Client {
    /// The slowest requests and one-way messages of the last minutes. See ``ClientDiagnostics/slowestRequests``.
    var slowestRequests: [Timeline] { slowest.all(at: loop.now) }

    /// Notes that a request was answered or, for a one-way message, written.
    @inline(__always)
    func noteSuccess(
        of id: RequestID,
        _ request: RequestFacts,
        _ waiter: Waiter,
        _ position: OutboundPosition,
        at now: Instant
    ) {
        let nanoseconds = now.nanoseconds &- request.accepted.nanoseconds
        callDurations.record(nanoseconds: nanoseconds, on: request.session)
        let isTracked = waiter.extras != nil
        noteTry(of: request, from: isTracked ? waiter.tracked?.rested : nil, at: now)
        let isSlow = slowest.wants(nanoseconds, at: now)
        if isSlow || isTracked { noteTimeline(of: id, request, waiter, position, isSlow: isSlow, at: now) }
    }

    /// Notes that a request has ended with an error. Returns the error with the timeline of the request.
    func noted(
        _ error: ClientError,
        of id: RequestID,
        _ request: RequestFacts,
        _ waiter: Waiter,
        _ onLink: TryOnLink?,
        at now: Instant
    ) -> ClientError {
        let failure = Metrics.Failure(error.code, error.fate)
        let timeline = timeline(of: id, request, waiter, onLink, failure, at: now)
        let nanoseconds = now.nanoseconds &- request.accepted.nanoseconds
        failures[failure, default: 0] += 1
        callDurations.record(nanoseconds: nanoseconds, failure.code, on: request.session)
        noteTry(of: request, from: waiter.tracked?.rested, at: now)
        if slowest.wants(nanoseconds, at: now) { slowest.add(timeline, at: now) }
        waiter.tracked?.options.recorder?.add(timeline)
        return error.with(timeline)
    }

    /// Measures a try that has ended.
    ///
    /// - Parameter rested: The end of the back-off before it; `nil` for the first try.
    @inline(__always)
    func noteTry(of request: RequestFacts, from rested: Instant?, at now: Instant) {
        guard request.admitted < .distantFuture else { return noteTryWithoutLink(of: request, from: rested, at: now) }
        if request.hasWaited { noteWait(of: request, from: rested) }
        tryDurations.record(nanoseconds: now.nanoseconds &- request.admitted.nanoseconds)
    }

    @inline(never)
    private func noteWait(of request: RequestFacts, from rested: Instant?) {
        counters.triesQueued += 1
        queueDurations.record(from: rested ?? request.accepted, to: request.admitted)
    }

    @inline(never)
    private func noteTryWithoutLink(of request: RequestFacts, from rested: Instant?, at now: Instant) {
        counters.triesWithoutLink += 1
        if case .delayed = request.place { return counters.triesInBackOff += 1 }
        queueDurations.record(from: rested ?? request.accepted, to: now)
    }

    @inline(never)
    private func noteTimeline(
        of id: RequestID,
        _ request: RequestFacts,
        _ waiter: Waiter,
        _ position: OutboundPosition,
        isSlow: Bool,
        at now: Instant
    ) {
        let recorder = waiter.tracked?.options.recorder
        guard isSlow || recorder != nil else { return }
        let timeline = timeline(of: id, request, waiter, lastTry(of: request, at: position, now), nil, at: now)
        if isSlow { slowest.add(timeline, at: now) }
        recorder?.add(timeline)
    }

    /// What is known about the last try of a request that was answered.
    func lastTry(
        of request: RequestFacts,
        at position: OutboundPosition,
        _ now: Instant
    ) -> TryOnLink? {
        guard case .onLink(let session, _) = request.place else { return nil }
        return connection.inCallOfOwner { $0.tryOnLink(session, at: position, now: now) }
    }

    /// The timeline of a request that ends at `now`.
    func timeline(
        of id: RequestID,
        _ request: RequestFacts,
        _ waiter: Waiter,
        _ onLink: TryOnLink?,
        _ failure: Metrics.Failure?,
        at now: Instant
    ) -> Timeline {
        let last = lastTry(request, waiter, onLink, failure, at: now)
        let call = waiter.tracked
        return Timeline(
            id: id,
            type: request.type,
            tryCount: call?.tryNumber ?? 1,
            tries: (call?.failedTries ?? []) + [last]
        )
    }

    /// The last try of a request, which ends at `now`.
    func lastTry(
        _ request: RequestFacts,
        _ waiter: Waiter,
        _ onLink: TryOnLink?,
        _ failure: Metrics.Failure?,
        at now: Instant
    ) -> Timeline.Try {
        let call = waiter.tracked
        let started = call?.failedTries.last?.endedAt ?? request.accepted
        let rested = call?.rested.map { min($0, now) }
        return Timeline.Try(
            request.accepted,
            started: started,
            rested: rested,
            withoutLink: linkGaps.overlap(from: rested ?? started, to: min(request.admitted, now)),
            admitted: request.admitted == .distantFuture ? nil : request.admitted,
            onLink,
            firstPart: waiter.firstPart,
            ended: now,
            failure
        )
    }
}

extension RequestFacts {
    /// The session of the link that the request is on; 0 if it is on no link.
    fileprivate var session: UInt64 { if case .onLink(let session, _) = place { session } else { 0 } }
}
