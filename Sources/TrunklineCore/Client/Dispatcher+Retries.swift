/// Failures on the event loop: which of them end a request, and which are followed by a retry.
extension Dispatcher {
    mutating func fail(_ id: RequestID, _ error: ClientError, _ onLink: TryOnLink? = nil) {
        if !retry(id, after: error, onLink) { end(id, error, onLink) }
    }

    private mutating func retry(_ id: RequestID, after error: ClientError, _ onLink: TryOnLink?) -> Bool {
        guard let request = requests[id], let waiter = requests.waiter(of: id), let extras = waiter.extras,
            let call = extras.call, waiter.isRepeatable
        else { return false }
        if parts.targets[id]?.isContinued == true { return false }
        if let loss = retries.sessionLoss, let tried = onLink?.link, tried.session < loss, !outlivesSession(id) {
            end(id, Self.sessionLost(tried.endpoint, error.fate, cause: error), onLink)
            return true
        }
        let now = loop.now
        let until: Instant
        switch retries.rules.decision(after: call.failed(error), at: now, requests: ledger.counters.requests) {
        case .retry(let begin): until = begin
        case .failOverBudget:
            ledger.refusedRetry()
            return false
        case .fail, .goElsewhere: return false
        }
        let failed = ledger.lastTry(request, waiter, onLink, ClientMetrics.Failure(error.code, error.fate), at: now)
        let next = call.next(after: error, failed, at: until)
        ledger.retries(id, request, call, next, until: until, at: now)
        waiter.handle?.noteOffLink()
        let queued = QueuedRequest(
            id: id,
            frame: call.frame,
            expectsResponse: call.options.expectsResponse,
            reports: waiter.reports
        )
        extras.begin(next)
        requests.delay(queued, until: until)
        parts.noteOffLink(id)
        return true
    }

    mutating func endRests(at now: Instant) {
        while let id = requests.queue.nextRested(at: now) {
            guard let extras = requests.waiter(of: id)?.extras, let call = extras.call else { continue }
            if call.options.waitsForReady || isReady {
                extras.call = call.awake
                requests.wake(id)
                ledger.waits(id, for: isReady ? .turn : .link)
            } else {
                cancel(id, .unavailable, ClientError.mayNotWaitMessage)
                driver.connectIfNeeded()
            }
        }
    }

    mutating func endLinkbound(
        _ endpoint: Endpoint?,
        _ cause: any Error,
        where isMeant: (ResolvedOptions) -> Bool = { _ in true }
    ) {
        guard retries.hasLinkbound else { return }
        let message = "the link ended before the request was written; its options do not let it wait for the next link"
        let error = ClientError(.connectionLost, .notSent, message, endpoint: endpoint, cause: cause)
        for request in requests.queue.waiting {
            guard let options = requests.waiter(of: request.id)?.tracked?.options, options.endsWithItsLink,
                isMeant(options)
            else { continue }
            _ = requests.remove(request.id)
            end(request.id, error)
        }
    }

    /// Requests on an earlier link end like this when they would be tried again.
    mutating func endSessionbound(_ endpoint: Endpoint, _ session: SessionID) {
        retries.sessionLoss = session
        for id in requests.ids where requests.request(id) != nil && !outlivesSession(id) {
            _ = requests.remove(id)
            end(id, Self.sessionLost(endpoint, .notSent))
        }
    }

    private func outlivesSession(_ id: RequestID) -> Bool {
        requests.waiter(of: id)?.tracked?.options.outlivesSession ?? options.requests.outlivesSession
    }

    private static func sessionLost(
        _ endpoint: Endpoint,
        _ fate: ClientError.Fate,
        cause: (any Error)? = nil
    ) -> ClientError {
        let message = "the server does not know the session any more, and outlivesSession is false"
        return ClientError(.sessionLost, fate, message, endpoint: endpoint, cause: cause)
    }
}

/// The state on which the retries of a client depend.
struct RetryState {
    var rules: RetryRules
    /// The latest link on which the server has said that it does not know the session of earlier ones any more.
    var sessionLoss: SessionID?
    var usesDatagrams = false
    var hasUsedDatagrams = false
    var hasLinkbound = false
}
