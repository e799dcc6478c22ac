/// The loop's side of calls with a `CachePolicy`: who begins a coalesced request, who joins one, and who leaves.
extension Client {
    func coalesce(_ call: CoalescedCall, _ continuation: Continuation<Outcome>) {
        guard lifecycle == .open else {
            return continuation.resume(returning: .failure(ClientError(.closed, .notSent, "the client is closed")))
        }
        switch responseCache.meet(call) {
        case .response(let response): continuation.resume(returning: .success(Response(response)))
        case .request(let coalesced) where call.policy.joins || !hasStarted(coalesced):
            responseCache.noteCoalesced()
            if let deadline = coalesced.add(call, continuation) { queue.watch(coalesced.requestID, deadline) }
        case .request, .nothing: begin(call, continuation)
        }
    }

    private func begin(_ call: CoalescedCall, _ continuation: Continuation<Outcome>) {
        let coalesced = CoalescedRequest(for: call, in: responseCache)
        _ = coalesced.add(call, continuation)  // its deadline is registered with the request
        responseCache.begin(coalesced, for: call)
        var options = call.options
        options.deadline = nil  // it changes: `CoalescedRequest.end`
        let waiter = Waiter.coalesced(coalesced).under(options, call.frame, keepsFrame: checksResponses)
        register(call.requestID, call.frame, waiter, call.options.deadline, true)
    }

    /// Whether the server may have begun to answer.
    private func hasStarted(_ coalesced: CoalescedRequest) -> Bool {
        switch queue[coalesced.requestID] {
        case .onLink(let session, let place)?:
            connection.inCallOfOwner { $0.hasStarted(coalesced.requestID, session, place) }
        case .waiting?, .resting?: false
        case nil: true
        }
    }

    func leave(_ call: CoalescedCall) {
        guard let coalesced = call.request else { return }  // it has ended, or has not begun
        let message = "cancelled by the caller"
        if !coalesced.leave([call.requestID], .leftBehind(.cancelled, message)) {
            cancel(coalesced.requestID, .cancelled, message)
        }
    }

    /// Cancels the requests up to `last`; of coalesced ones, the calls up to there.
    func cancelAll(upTo last: RequestID) {
        let message = "cancelled with all others"
        for requestID in queue.ids {
            if let coalesced = waiter(of: requestID)?.coalesced {
                if coalesced.leave(coalesced.requestIDs(upTo: last), .leftBehind(.cancelled, message)) { continue }
            } else if requestID > last {
                continue
            }
            cancel(requestID, .cancelled, message)
        }
    }
}
