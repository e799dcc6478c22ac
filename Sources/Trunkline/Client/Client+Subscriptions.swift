/// Something that the server was told and is told again on every new link, until `end()`.
public struct Subscription: Sendable {
    /// How the server answered when it was first told; `nil` where it does not answer: `Client.subscribe(posting:timeout:)`.
    public let response: Response?
    let id: UInt64
    let connection: Connection

    /// Ends the subscription: no further link restores it. Nothing is sent: unsubscribe with a request of your own.
    ///
    /// Call this method first, and then tell the server. If a planned change has told the next link of the subscription
    /// already, that link is given up when its handshake is over and the change begins anew, so the request goes out on a link
    /// that knows of the subscription, and no later link does.
    public func end() async { await connection.forget(id) }
}

/// Subscriptions: what every new link is told before it is ready.
extension Client {
    /// Sends `request`, and once the server has accepted it, sends it again on every new link before that is `ready`
    /// (`options.handshake.restore`), so that pushes go on.
    ///
    /// The server may receive it twice: if a link began between the call and the registration, it may not have been told,
    /// and the request is sent on it once more. If that link is lost before it answers, the subscription is valid all the
    /// same, and the next link restores it. However often links come and go, this method sends the request at most twice.
    /// If `options.requests.retry` is `.idempotent`, each of these two may be repeated as that says.
    ///
    /// Parameters and errors are those of `send`; `timeout` covers the whole call. When it throws, nothing is registered.
    public nonisolated func subscribe(
        _ request: Request,
        timeout: Timeout = .default
    ) async throws(ClientError) -> Subscription {
        try await subscribe(request, timeout, expectsResponse: true).subscription
    }

    /// Posts `request`, which the server does not answer, and posts it again on every new link before that is `ready`, so
    /// that pushes go on: after `options.handshake.perform`, before `options.handshake.restore`, which is not given it.
    /// Not for a link whose handshake calls `Handshaker.keepSubscriptions()`.
    ///
    /// As `subscribe(_:timeout:)`, but returns when the kernel has the request: whether the server has heard it, and
    /// accepts it, is not known. Parameters and errors are those of `post`; when it throws, nothing is registered.
    public nonisolated func subscribe(
        posting request: Request,
        timeout: Timeout = .default
    ) async throws(ClientError) -> Subscription {
        guard codec._mayPost(request.frame) else { throw .answeredWhenPosted }
        return try await subscribe(request, timeout, expectsResponse: false).subscription
    }

    nonisolated func subscribe(
        _ request: Request,
        _ timeout: Timeout,
        expectsResponse: Bool
    ) async throws(ClientError) -> (subscription: Subscription, response: Response) {
        let first = await connection.firstLinkToBeTold
        var options = try resolved(CallOptions(), timeout, expectsResponse: expectsResponse)
        let response = try await outcome(of: request.frame, options).get()
        let (id, untold) = await connection.remember(request, toldSince: first, expectsResponse: expectsResponse)
        let subscription = Subscription(response: expectsResponse ? response : nil, id: id, connection: connection)
        guard untold else { return (subscription, response) }
        do throws(ClientError) {
            options.retry = .never
            _ = try await outcome(of: request.frame, options).get()
        } catch {
            // The server has accepted it, and what is registered is restored on the next link.
            if error.code == .connectionLost { return (subscription, response) }
            await subscription.end()
            throw error
        }
        return (subscription, response)
    }
}

extension Connection {
    /// The number of the earliest link on which a request made now can go out.
    fileprivate var firstLinkToBeTold: Int { (ready ?? handshaking).map { links[$0].number } ?? linksBegun + 1 }

    /// Registers `request` for every link that is not ready yet. `untold` is true if the one that is ready is not the one
    /// numbered `first`, so that the request may have gone out on an earlier one.
    fileprivate func remember(_ request: Request, toldSince first: Int, expectsResponse: Bool) -> (
        id: UInt64, untold: Bool
    ) {
        lastID += 1
        subscriptions[lastID] = (request, expectsResponse)
        return (lastID, ready.map { links[$0].number != first } ?? false)
    }

    /// No further link restores it. A planned change whose link has restored it begins anew: what the caller tells the
    /// server now goes out on the present link.
    fileprivate func forget(_ id: UInt64) {
        subscriptions[id] = nil
        guard ready != nil, let handshaking, let handshake = links[handshaking].handshake, id <= handshake.toldThrough
        else { return }
        links[handshaking].handshake?.hasToldTooMuch = true
    }

    /// Writes `requests`, which have no answer, on the link of this session before it is ready: together, in order.
    func restore(posting requests: [Request], _ session: UInt64) async throws(ClientError) {
        guard !requests.isEmpty else { return }
        let outcomes: [Outcome] = await withTaskCancellationHandler {
            await withContinuation { continuation in
                let count = requests.count
                func fail(_ error: ClientError) {
                    continuation.resume(returning: Array(repeating: .failure(error), count: count))
                }
                guard let index = handshaking(session) else { return fail(.handshakeIsOver) }
                guard !Task.isCancelled else { return fail(.cancelledUnsent) }
                if let loss = links[index].handshake?.loss { return fail(.lostDuringHandshake(loss, .notSent)) }
                let batch = Batch(count: count, ResolvedOptions(expectsResponse: false), continuation)
                for (number, request) in requests.enumerated() {
                    _ = addToHandshake(request.frame, index, .batch(batch, index: number), expectsResponse: false)
                }
            }
        } onCancel: {
            giveUpHandshake(session)
        }
        for outcome in outcomes { _ = try outcome.get() }
    }
}
