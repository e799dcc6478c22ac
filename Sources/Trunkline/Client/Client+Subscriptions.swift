public import TrunklineCore
import TrunklineIO

/// Something that the server was told and is told again on every new link, until `end()`.
public struct Subscription: Sendable {
    /// How the server answered when it was first told; `nil` where it does not answer: `Client.subscribe(posting:timeout:)`.
    public let response: Frame?
    let id: UInt64
    let connection: Connection

    /// No new link restores it any more. What the server has to hear now is yours to send.
    public func end() async { await connection.forget(id) }
}

/// Subscriptions: what every new link is told before it is ready.
extension Client {
    /// Sends `request`, and once the server has accepted it, sends it again on every new link before that is `ready`
    /// (`options.greeting.restore`), so that pushes go on.
    ///
    /// The server may hear it twice when a link is lost in just that moment. Parameters and errors are those of `send`;
    /// when it throws, nothing is registered.
    public nonisolated func subscribe(
        _ request: Request,
        timeout: Duration? = nil
    ) async throws(ClientError) -> Subscription {
        try await subscribe(request, timeout, expectsResponse: true).subscription
    }

    /// Posts `request`, which the server does not answer, and posts it again on every new link before that is `ready`, so
    /// that pushes go on: after `options.greeting.perform`, before `options.greeting.restore`, which is not given it. Not
    /// for a link whose greeting calls `Greeter.keepSubscriptions()`.
    ///
    /// As `subscribe(_:timeout:)`, but returns when the kernel has the request: whether the server has heard it, and
    /// accepts it, is not known. Parameters and errors are those of `post`; when it throws, nothing is registered.
    public nonisolated func subscribe(
        posting request: Request,
        timeout: Duration? = nil
    ) async throws(ClientError) -> Subscription {
        guard codec.mayPost(request.frame) else { throw .answeredWhenPosted }
        return try await subscribe(request, timeout, expectsResponse: false).subscription
    }

    nonisolated func subscribe(
        _ request: Request,
        _ timeout: Duration?,
        expectsResponse: Bool
    ) async throws(ClientError) -> (subscription: Subscription, response: Frame) {
        var links = await connection.linksBegun
        let limit = timeout ?? options.requests.timeout
        let deadline = limit.map { loop.now.advanced(by: $0) }
        while true {
            let rest = deadline?.since(loop.now)
            let outcome = await outcome(of: request.frame, rest, nil, true, expectsResponse: expectsResponse)
            let response = try outcome.get()
            let (id, linksNow) = await connection.remember(request, expectsResponse: expectsResponse)
            // A link that began since may not have been told: the answer may be of the one before.
            if linksNow == max(1, links) {
                let answer = expectsResponse ? response : nil
                return (Subscription(response: answer, id: id, connection: connection), response)
            }
            await connection.forget(id)
            links = linksNow
        }
    }
}

extension Connection {
    fileprivate func remember(_ request: Request, expectsResponse: Bool) -> (id: UInt64, links: Int) {
        lastTicket += 1
        if expectsResponse { subscriptions[lastTicket] = request } else { postedSubscriptions[lastTicket] = request }
        return (lastTicket, linksBegun)
    }

    fileprivate func forget(_ id: UInt64) {
        subscriptions[id] = nil
        postedSubscriptions[id] = nil
    }

    /// Writes `requests`, which have no answer, on the link of this session before it is ready: together, in order.
    func restore(posting requests: [Request], _ session: UInt64) async throws(ClientError) {
        guard !requests.isEmpty else { return }
        let first = lastTicket + 1
        lastTicket += UInt64(requests.count)
        let outcomes: [Outcome] = await withTaskCancellationHandler {
            await withSuspension { suspension in
                let count = requests.count
                func fail(_ error: ClientError) {
                    suspension.resume(returning: Array(repeating: .failure(error), count: count))
                }
                guard greeting?.session == session else { return fail(.greetingIsOver) }
                guard !Task.isCancelled else { return fail(.cancelledUnsent) }
                if let loss = greeting?.loss { return fail(.lostWhileGreeting(loss, .notSent)) }
                let batch = Batch(
                    count: count,
                    suspension,
                    .ifUnsent,
                    waitsForReady: true,
                    expectsResponse: false
                )
                for (index, request) in requests.enumerated() {
                    let waiter = Waiter.batch(batch, index: index)
                    add(request.frame, first + UInt64(index), waiter, timeout: nil, expectsResponse: false)
                }
                flushGreeting()
            }
        } onCancel: {
            giveUpGreeting(session)
        }
        for outcome in outcomes { _ = try outcome.get() }
    }
}
