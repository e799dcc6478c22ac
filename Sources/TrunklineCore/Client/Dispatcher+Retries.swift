/// Failures on the event loop: which of them end a request, and which are followed by a retry.
extension Dispatcher {
    /// Handles a request that left its link or the table because of a failure: retries it, or ends it with `error`.
    ///
    /// - Parameter onLink: What is known about the try, if it was on a link.
    mutating func fail(_ id: RequestID, _ error: ClientError, _ onLink: TryOnLink? = nil) {
        if !retry(id, after: error, onLink) { end(id, error, onLink) }
    }

    /// Puts a request into back-off before a retry. Returns false if it is not retried.
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
        let failed = ledger.lastTry(request, waiter, onLink, Client.Metrics.Failure(error.code, error.fate), at: now)
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

    /// Queues the requests whose back-off is over.
    mutating func endRests(at now: Instant) {
        while let id = requests.queue.nextRested(at: now) {
            guard let extras = requests.waiter(of: id)?.extras, let call = extras.call else { continue }
            if call.options.waitsForReady || isReady {
                extras.call = call.awake
                requests.wake(id)
                ledger.waits(id, for: isReady ? .turn : .link)
            } else {
                cancel(id, .unavailable, ClientError.mayNotWaitMessage)
                connection.inCallOfOwner { $0.connectIfNeeded() }
            }
        }
    }

    /// Ends the requests that wait for a link that was lost or drains and that may not wait for the next one.
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

    /// Ends the requests on no link that were made for a session that is lost.
    ///
    /// Those on an earlier link end like this when they would be tried again.
    ///
    /// - Parameters:
    ///   - endpoint: The server that does not know the session.
    ///   - session: The link on which it has said so.
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
    /// Whether the latest link exchanges datagrams, and whether any link has.
    var usesDatagrams = false
    var hasUsedDatagrams = false
    /// Whether any request has ever had options that end it together with its link.
    var hasLinkbound = false
}
