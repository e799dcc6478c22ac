/// A request that the client repeats on every new link until ``Subscription/end()``. See
/// ``Client/subscribe(_:timeout:)-(Request,_)``.
public struct Subscription: Sendable {
    /// The server's response to the first request; `nil` for a subscription without a response
    /// (``Client/subscribe(posting:timeout:)``).
    public let response: Response?
    let id: UInt64
    let connection: Connection

    /// Ends the subscription, so that no further link restores it.
    ///
    /// This sends nothing to the server. Call this method first, and then send the protocol's request to unsubscribe.
    /// If a planned change has already restored the subscription on the next link, that link is discarded when its
    /// handshake is complete, and the change starts again. So the request to unsubscribe goes out on a link on which
    /// the server knows the subscription, and no later link restores it.
    public func end() async { await connection.forget(id) }
}

/// Subscriptions: requests that are repeated on every new link before it is ready.
extension Client {
    /// Sends a request and, once the server has accepted it, repeats it on every new link, so that pushes continue
    /// after a reconnect.
    ///
    /// The request is repeated before the new link becomes `ready` (`options.handshake.restore`).
    ///
    /// The server may receive the request twice: if a new link becomes ready during this call, the request is sent on
    /// that link too. If that link is lost before the server answers on it, the subscription is valid nevertheless, and
    /// the next link restores it. The call sends the request at most twice, however often links change. If
    /// `options.requests.retry` is `.idempotent`, each of the two may be retried as that policy says.
    ///
    /// If the call throws, nothing is registered.
    ///
    /// - Parameters:
    ///   - request: The request that subscribes.
    ///   - timeout: The time for the whole call. Default: ``ClientOptions/Requests/timeout`` (8 s).
    /// - Returns: The subscription, with the server's response. Keep it to end the subscription; discarding it does not
    ///   end it.
    /// - Throws: A ``ClientError``, as ``Client/send(_:timeout:options:)-(Request,_,_)`` does.
    public nonisolated func subscribe(
        _ request: Request,
        timeout: Timeout = .default
    ) async throws(ClientError) -> Subscription {
        try await subscribe(request, timeout, expectsResponse: true).subscription
    }

    /// Sends a one-way message that subscribes, and repeats it on every new link, so that pushes continue after a
    /// reconnect.
    ///
    /// Use this method for a protocol whose server does not answer a subscription. The call returns when the kernel has
    /// accepted the message: it is not known whether the server received and accepted it. Otherwise it behaves like
    /// ``Client/subscribe(_:timeout:)-(Request,_)``.
    ///
    /// The message is repeated before a new link becomes `ready`: after `options.handshake.perform` and before
    /// `options.handshake.restore`, which does not receive it. It is not repeated on a link whose handshake calls
    /// ``Handshaker/keepSubscriptions()``.
    ///
    /// If the call throws, nothing is registered.
    ///
    /// - Parameters:
    ///   - request: The message that subscribes.
    ///   - timeout: The time for the whole call. Default: ``ClientOptions/Requests/timeout`` (8 s).
    /// - Returns: The subscription. Keep it to end the subscription; discarding it does not end it.
    /// - Throws: A ``ClientError``, as ``Client/post(_:timeout:options:)`` does.
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
        let resolved = try resolved(CallOptions(), timeout, expectsResponse: expectsResponse)
        switch passInterceptors(.subscribe, request.frame, resolved) {
        case .ended(let outcome):
            let response = try outcome.get()
            return (Subscription(response: expectsResponse ? response : nil, id: 0, connection: connection), response)
        case .sends(let frame, let options, let completion):
            let outcome = await plainOutcome(of: frame, options)
            let response = try (completion?(outcome) ?? outcome).get()
            return try await remember(Request(frame), options, response, toldSince: first)
        }
    }

    /// Lets later links restore a subscription that the server has accepted with `response`.
    private nonisolated func remember(
        _ request: Request,
        _ options: ResolvedOptions,
        _ response: Response,
        toldSince first: Int
    ) async throws(ClientError) -> (subscription: Subscription, response: Response) {
        let (expectsResponse, connection) = (options.expectsResponse, connection)
        let (id, unrestored) = await connection.remember(request, toldSince: first, expectsResponse: expectsResponse)
        let subscription = Subscription(response: expectsResponse ? response : nil, id: id, connection: connection)
        guard unrestored else { return (subscription, response) }
        do throws(ClientError) {
            var options = options
            options.retry = .never
            _ = try await plainOutcome(of: request.frame, options).get()
        } catch {
            // The server has accepted it, and the next link restores it.
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

    /// Registers `request` for every link that is not ready yet. `unrestored` is true if the ready link is not the one
    /// numbered `first`, in which case the request may have gone out on an earlier link.
    fileprivate func remember(_ request: Request, toldSince first: Int, expectsResponse: Bool) -> (
        id: UInt64, unrestored: Bool
    ) {
        lastID += 1
        subscriptions[lastID] = (request, expectsResponse)
        return (lastID, ready.map { links[$0].number != first } ?? false)
    }

    /// Removes a subscription. A planned change whose link has already restored it starts again, so that the caller's
    /// next request goes out on the present link.
    fileprivate func forget(_ id: UInt64) {
        guard subscriptions.removeValue(forKey: id) != nil else { return }
        guard ready != nil, let handshaking, let handshake = links[handshaking].handshake,
            id <= handshake.restoredThrough
        else { return }
        links[handshaking].handshake?.hasRestoredTooMuch = true
    }

    /// Writes `requests`, which have no response, on the link of `session` before it is ready: all together and in
    /// order.
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
                let options = ResolvedOptions(accepted: loop.now, expectsResponse: false)
                let batch = Batch(count: count, options, continuation)
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
