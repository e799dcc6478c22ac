/// Failures on the loop: which of them end a request, and which only a try.
extension Client {
    /// A request has left its link, or the queue, by a failure: it is tried again, or its caller is told.
    func fail(_ id: RequestID, _ waiter: Waiter, _ error: ClientError) {
        if !retry(id, waiter, after: error) { end(id, waiter, error) }
    }

    /// Lets a request rest before another try. Returns whether it does; it has failed for good if not.
    private func retry(_ id: RequestID, _ waiter: Waiter, after error: ClientError) -> Bool {
        guard case .tracked(let present, let call) = waiter, let plain = present.anew else { return false }
        if parts.targets[id]?.isContinued == true { return false }
        let now = loop.now
        guard let next = call.next(after: error, at: now, using: &generator), let until = next.restsUntil,
            until < plain.coalesced?.end ?? .distantFuture
        else { return false }
        // Of a request that was never written the server has no trouble.
        if error.fate == .unknown, account?.withdraw(at: now, requests: counters.requests) == false {
            counters.retriesRefused += 1
            return false
        }
        counters.retries += 1
        plain.handle?.noteRetry()
        let expectsResponse = call.options.expectsResponse
        let waiter = Waiter.tracked(plain, next)
        let request = QueuedRequest(id: id, frame: call.frame, waiter: waiter, expectsResponse: expectsResponse)
        queue.rest(request, until: until)
        return true
    }

    /// Lets those wait their turn again whose back-off is over.
    func endRests(at now: Instant) {
        while let request = queue.nextRested(at: now) {
            guard case .tracked(let plain, let call) = request.waiter else { continue }
            if call.options.waitsForReady || isReady {
                queue.wake(request.id, as: .tracked(plain, call.awake))
            } else {
                cancel(request.id, .unavailable, "the call does not wait for a link")
                connection.inCallOfOwner { $0.connectIfNeeded() }
            }
        }
    }

    /// A link is gone, or drains: ends those that wait for it and not for the next one.
    func endLinkbound(
        _ endpoint: Endpoint?,
        _ cause: any Error,
        where isMeant: (ResolvedOptions) -> Bool = { _ in true }
    ) {
        guard hasLinkbound else { return }
        let message = "the link was lost before the request was written"
        let error = ClientError(.connectionLost, .notSent, message, endpoint: endpoint, cause: cause)
        for request in queue.waiting {
            guard let options = request.waiter.tracked?.options, options.endsWithItsLink, isMeant(options) else {
                continue
            }
            _ = queue.remove(request.id)
            end(request.id, request.waiter, error)
        }
    }
}
