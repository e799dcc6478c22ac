extension Client {
    /// Sends a request and, once the server has accepted it, repeats it on every new link, before that becomes `ready`
    /// (`options.handshake.restore`). So pushes continue after a reconnect.
    ///
    /// The server may receive the request twice: if a new link becomes ready during this call, the request is sent on
    /// that link too. The call sends it at most twice, however often links change (the first of the two may be retried,
    /// if `options.requests.retry` is `.idempotent`), and no handshake repeats it before the call has returned.
    /// <doc:StayingConnected#Subscriptions> describes when the call succeeds although links change.
    ///
    /// If the call throws, nothing is registered, and its fate is that of both requests: it is `notSent` only if the
    /// server has received neither.
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
        try await subscribe(request, timeout, expectsResponse: true)
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
        guard codec.mayPost(request.frame) else { throw .answeredWhenPosted }
        return try await subscribe(request, timeout, expectsResponse: false)
    }

    private nonisolated func subscribe(
        _ request: Request,
        _ timeout: Timeout,
        expectsResponse: Bool
    ) async throws(ClientError) -> Subscription {
        let first = await connection.entered { $0.memory.firstLinkToBeTold($0.links) }
        let resolved = try resolved(CallOptions(), timeout, expectsResponse: expectsResponse)
        switch passInterceptors(.subscribe, request.frame, resolved) {
        case .ended(let outcome):
            let response = try outcome.get()
            return Subscription(expectsResponse ? response : nil, nil, of: self)
        case .sends(let frame, let options, let completion):
            let (outcome, registered) = await subscribed(Request(frame), options, toldSince: first)
            let response: Response
            do throws(ClientError) {
                response = try (completion?(outcome) ?? outcome).get()
            } catch {
                if let registered { await connection.entered { $0.memory.forget(registered, $0.links) } }
                throw error
            }
            var number = registered
            if number == nil {  // an interceptor has replaced the error
                number = await connection.entered {
                    $0.remember(Request(frame), toldSince: first, expectsResponse, isLast: true).number
                }
            }
            return Subscription(expectsResponse ? response : nil, number, of: self)
        }
    }

    /// Nothing is registered before the second request has ended. Otherwise every link that begins meanwhile would send
    /// the request once more, for a call that may fail.
    private nonisolated func subscribed(
        _ request: Request,
        _ options: ResolvedOptions,
        toldSince first: Int
    ) async -> (outcome: Outcome, number: UInt64?) {
        let (outcome, expectsResponse) = (await plainOutcome(of: request.frame, options), options.expectsResponse)
        guard case .success = outcome else { return (outcome, nil) }
        let (number, untold) = await connection.entered {
            $0.remember(request, toldSince: first, expectsResponse, isLast: false)
        }
        guard let untold else { return (outcome, number) }
        var again = options
        // On this link or not at all: the next one restores the subscription.
        (again.retry, again.session, again.earlierFate) = (.never, untold.session, .answered)
        if case .failure(let error) = await plainOutcome(of: request.frame, again) {
            // If the link has ended, for whatever reason, the next one restores the subscription.
            let isVerdict = [.cancelled, .timedOut, .closed, .rejected, .invalidRequest].contains(error.code)
            let isReady = await connection.entered { $0.ready?.session == untold.session }
            guard error.code == .connectionLost || !isVerdict && !isReady else {
                return (.failure(error.after(.answered)), nil)
            }
        }
        return (
            outcome,
            await connection.entered {
                $0.remember(request, toldSince: untold.number, expectsResponse, isLast: true).number
            }
        )
    }
}

extension Client: SubscriptionOwner {
    package nonisolated func end(_ subscription: UInt64?) async -> (known: [Client], unsure: [Client]) {
        if let subscription { await connection.entered { $0.memory.forget(subscription, $0.links) } }
        return ([self], [])
    }
}

/// For a cluster, which decides which of its clients has a subscription.
extension Client {
    /// Does nothing while a link is ready, which does not know the request.
    package nonisolated func rememberIfNotReady(_ request: Request, expectsResponse: Bool) async -> UInt64? {
        await connection.entered { $0.memory.rememberIfNotReady(request, expectsResponse, $0.links) }
    }

    /// Does nothing while a link is ready, which knows the subscription.
    package nonisolated func endIfNotReady(_ subscription: UInt64) async -> Bool {
        await connection.entered { $0.memory.forgetIfNotReady(subscription, $0.links) }
    }
}

extension ConnectionDriver {
    /// The ready link may be a later one that does not know the request. Then this returns it as `untold` or, if the
    /// caller may not send the request again (`isLast`), registers the request and replaces the link.
    fileprivate func remember(_ request: Request, toldSince first: Int, _ expectsResponse: Bool, isLast: Bool) -> (
        number: UInt64?, untold: (session: SessionID, number: Int)?
    ) {
        var untold: (session: SessionID, number: Int)?
        if let ready, ready.number != first { untold = (ready.session, ready.number) }
        if let untold, !isLast { return (nil, untold) }
        let number = memory.remember(request, expectsResponse)
        // Without a link, nothing else may need the next one.
        guard lifecycle < .closing else { return (number, nil) }
        if untold != nil {
            perform(machine.oweRenewal(at: loop.now))
        } else if ready == nil {
            connectIfNeeded()
        }
        return (number, nil)
    }
}
