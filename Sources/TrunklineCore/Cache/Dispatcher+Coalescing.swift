/// Calls with a `CachePolicy` on the event loop: beginning, joining and leaving coalesced requests.
extension Dispatcher {
    mutating func coalesce(_ call: CoalescedCall, _ continuation: Continuation<Outcome>) {
        guard lifecycle == .open else {
            return refuse(call.frame, Waiter(.caller(continuation)), .clientIsClosed)
        }
        switch responseCache.meet(call) {
        case .response(let response): continuation.resume(returning: .success(Response(response)))
        case .request(let coalesced) where call.policy.joins || !hasStarted(coalesced):
            responseCache.noteCoalesced()
            if let deadline = coalesced.add(call, continuation) { requests.watch(coalesced.requestID, deadline) }
        case .request, .nothing: begin(call, continuation)
        }
    }

    private mutating func begin(_ call: CoalescedCall, _ continuation: Continuation<Outcome>) {
        let coalesced = CoalescedRequest(for: call, in: responseCache)
        _ = coalesced.add(call, continuation)  // the request is registered with its deadline
        responseCache.begin(coalesced, for: call)
        var options = call.options
        options.deadline = nil  // changes as calls join: `CoalescedRequest.end`
        let waiter = Waiter(.coalesced(coalesced), options, call.frame)
        accept(
            .send(
                call.requestID,
                call.frame,
                waiter,
                accepted: call.options.accepted,
                deadline: call.options.deadline,
                expectsResponse: true
            )
        )
    }

    /// Whether the server may have received the request.
    private func hasStarted(_ coalesced: CoalescedRequest) -> Bool {
        switch requests[coalesced.requestID]?.place {
        case .onLink(let session, let place)?:
            connection.inCallOfOwner { $0.hasStarted(coalesced.requestID, session, place) }
        case .waiting?, .delayed?: false
        case nil: true
        }
    }

    mutating func leave(_ call: CoalescedCall) {
        guard let coalesced = call.request else { return }  // it has ended or not begun
        let message = "cancelled by the caller"
        if !coalesced.leave([call.requestID], .leftBehind(.cancelled, message)) {
            cancel(coalesced.requestID, .cancelled, message)
        }
    }

    /// Cancels the requests up to `last`. Of a coalesced request, only the calls up to `last` are cancelled.
    mutating func cancelAll(upTo last: RequestID) {
        let message = "cancelled by cancelAll()"
        for requestID in requests.ids {
            if let coalesced = requests.waiter(of: requestID)?.coalesced {
                if coalesced.leave(coalesced.requestIDs(upTo: last), .leftBehind(.cancelled, message)) { continue }
            } else if requestID > last {
                continue
            }
            cancel(requestID, .cancelled, message)
        }
    }
}
