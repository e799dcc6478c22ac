/// A request that is repeated on every new link until ``end()``, so that pushes continue. See
/// ``Client/subscribe(_:timeout:)-(Request,_)`` and ``Cluster/subscribe(_:on:timeout:)-(Request,_,_)``.
///
/// It keeps the client or the cluster alive.
public struct Subscription: Sendable {
    /// The server's response to the first request; `nil` for a subscription without a response
    /// (``Client/subscribe(posting:timeout:)``).
    public let response: Response?
    /// The servers that had not answered the request when the call returned, of a subscription on all servers of a
    /// cluster (``Cluster/SubscriptionScope/all``). Each of them receives it again. ``Cluster/changes`` tells when it
    /// has accepted (``ClusterChange/subscriptionAccepted(_:)``).
    public let pendingServers: [Endpoint]
    package let number: UInt64?
    private let owner: any SubscriptionOwner

    package init(
        _ response: Response?,
        _ number: UInt64?,
        of owner: any SubscriptionOwner,
        pending pendingServers: [Endpoint] = []
    ) {
        (self.response, self.number, self.owner) = (response, number, owner)
        self.pendingServers = pendingServers
    }

    /// Ends the subscription, so that no further link restores it.
    ///
    /// In a cluster, a move to another server that is under way is cancelled. The call sends nothing to the server;
    /// ``end(sending:timeout:)`` does.
    ///
    /// If a planned change has already restored the subscription on the next link, that link is discarded when its
    /// handshake is complete, and the change starts again. So a request to unsubscribe that follows goes out on a link
    /// on which the server knows the subscription, and no later link restores it.
    public func end() async { _ = await owner.end(number) }

    /// Ends the subscription and sends the protocol's request to unsubscribe to the server that knows it, or to all of
    /// them.
    ///
    /// The subscription has ended even if this throws: no further link restores it. If no server knows it, because the
    /// cluster had just lost its link, nothing is sent. A server that has not answered the request that subscribes, and
    /// may know the subscription, receives the request to unsubscribe too, but the call does not wait for its response.
    ///
    /// - Parameters:
    ///   - request: The request to unsubscribe.
    ///   - timeout: The time for the request. Default: ``ClientOptions/Requests/timeout`` (8 s).
    /// - Throws: A ``ClientError``, as ``Client/send(_:timeout:options:)-(Request,_,_)`` does. If several servers know
    ///   the subscription, the request goes to all of them, and the error is the first one.
    public func end(sending request: Request, timeout: Timeout = .default) async throws(ClientError) {
        try await end { client in
            do throws(ClientError) {
                _ = try await client.send(request, timeout: timeout)
                return nil
            } catch {
                return error
            }
        } orTelling: { client in
            _ = client.start(request, timeout: timeout)
        }
    }

    /// Ends the subscription and sends the protocol's one-way message to unsubscribe to the server that knows it, or to
    /// all of them.
    ///
    /// Otherwise the method behaves like ``end(sending:timeout:)``.
    ///
    /// - Parameters:
    ///   - request: The message to unsubscribe.
    ///   - timeout: The time until the message is written. Default: ``ClientOptions/Requests/timeout`` (8 s).
    /// - Throws: A ``ClientError``, as ``Client/post(_:timeout:options:)`` does.
    public func end(posting request: Request, timeout: Timeout = .default) async throws(ClientError) {
        try await end { client in
            do throws(ClientError) {
                try await client.post(request, timeout: timeout)
                return nil
            } catch {
                return error
            }
        } orTelling: { client in
            try? client.tryEnqueue(request, timeout: timeout)
        }
    }

    /// `tell` is for servers that may know the subscription. It does not wait.
    private func end(
        _ unsubscribe: @escaping @Sendable (Client) async -> ClientError?,
        orTelling tell: (Client) -> Void
    ) async throws(ClientError) {
        let (clients, others) = await owner.end(number)
        for client in others { tell(client) }
        let errors = await withTaskGroup { group in
            for client in clients { group.addTask { await unsubscribe(client) } }
            return await group.reduce(into: [ClientError]()) { errors, error in
                if let error { errors.append(error) }
            }
        }
        if let error = errors.first { throw error }
    }
}

/// What repeats subscriptions: a client or a cluster.
package protocol SubscriptionOwner: AnyObject, Sendable {
    /// Returns the clients whose servers know the subscription, and those whose servers have not answered yet.
    nonisolated func end(_ subscription: UInt64?) async -> (known: [Client], unsure: [Client])
}
