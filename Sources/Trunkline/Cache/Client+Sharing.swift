/// The loop's side of calls with a `CachePolicy`: who begins an exchange, who joins one, and who leaves.
extension Client {
    func share(_ call: SharedCall, _ suspension: Suspension<Outcome>) {
        guard phase == .open else {
            return suspension.resume(returning: .failure(ClientError(.closed, .notSent, "the client is closed")))
        }
        switch responseCache.meet(call) {
        case .response(let response): suspension.resume(returning: .success(response))
        case .exchange(let shared) where call.policy.joins || !hasStarted(shared):
            responseCache.noteShared()
            if let deadline = shared.add(call, suspension) { queue.watch(shared.ticket, deadline) }
        case .exchange, .nothing: begin(call, suspension)
        }
    }

    private func begin(_ call: SharedCall, _ suspension: Suspension<Outcome>) {
        let shared = SharedExchange(for: call, in: responseCache)
        _ = shared.add(call, suspension)  // its deadline is registered with the request
        responseCache.begin(shared, for: call)
        // Without a deadline in its terms, as it changes: `SharedExchange.end`.
        let waiter = Waiter.shared(shared).under(
            call.retry,
            waitsForReady: call.waitsForReady,
            call.frame,
            deadline: nil,
            expectsResponse: true,
            keepsRequest: checksResponses
        )
        register(call.ticket, call.frame, waiter, call.deadline, true)
    }

    /// Whether the server may have begun to answer.
    private func hasStarted(_ shared: SharedExchange) -> Bool {
        switch queue[shared.ticket] {
        case .onLink(let session, let place)?:
            connection.inCallOfOwner { $0.hasStarted(shared.ticket, session, place) }
        case .waiting?, .resting?: false
        case nil: true
        }
    }

    func leave(_ call: SharedCall) {
        guard let shared = call.exchange else { return }  // it has ended, or has not begun
        let message = "cancelled by the caller"
        if !shared.leave([call.ticket], .leftBehind(.cancelled, message)) {
            cancel(shared.ticket, .cancelled, message)
        }
    }

    /// Cancels the requests up to `last`; of those that are shared, the calls up to there.
    func cancelAll(upTo last: RequestID) {
        let message = "cancelled with all others"
        for ticket in queue.ids {
            if let shared = waiter(of: ticket)?.shared {
                if shared.leave(shared.tickets(upTo: last), .leftBehind(.cancelled, message)) { continue }
            } else if ticket > last {
                continue
            }
            cancel(ticket, .cancelled, message)
        }
    }
}
