public import TrunklineCore

/// Requests whose responses are cached. Each client has its own cache, and calls with the same key go to the same one.
extension Cluster {
    /// Returns a cached response to a request, or sends the request, depending on a cache policy.
    ///
    /// Without a ``CallOptions/key``, the key of the cached response decides the server, so that the response is cached
    /// by one client only. Each client has the limits of ``ClientOptions/cache``. Otherwise the method behaves like
    /// ``Client/send(_:cache:timeout:options:)-(Request,_,_,_)``.
    ///
    /// - Parameters:
    ///   - request: The request.
    ///   - policy: Which responses the call may return.
    ///   - timeout: The timeout of this call.
    ///   - options: Whether the request is sent again when it fails, and whether it waits for a server.
    /// - Returns: The response.
    /// - Throws: A ``ClientError``.
    public nonisolated func send(
        _ request: Request,
        cache policy: CachePolicy,
        timeout: Timeout = .default,
        options: CallOptions = CallOptions()
    ) async throws(ClientError) -> Response {
        let options = options.keyed(by: policy.key ?? CacheKey(request))
        var call = try call(timeout, options, at: loop.now)
        // The response may come from the cache: it tells nothing about the server, and its time even less.
        (call.isMeasured, call.probing) = (false, .never)
        return try await perform(&call) { _ in
            .perhapsCached
        } _: { client, timeout, options throws(ClientError) in
            try await client.send(request, cache: policy, timeout: timeout, options: options)
        }
    }

    /// Returns a cached response to a typed request, or sends the request, depending on a cache policy.
    ///
    /// - Parameters:
    ///   - request: The request.
    ///   - policy: Which responses the call may return.
    ///   - timeout: The timeout of this call.
    ///   - options: Whether the request is sent again when it fails, and whether it waits for a server.
    /// - Returns: The decoded response.
    /// - Throws: A ``ClientError``.
    public nonisolated func send<Typed: TypedRequest>(
        _ request: Typed,
        cache policy: CachePolicy,
        timeout: Timeout = .default,
        options: CallOptions = CallOptions()
    ) async throws(ClientError) -> Typed.Reply {
        let untyped = try Request(request)
        let options = options.retrying(Typed.retry).keyed(by: policy.key ?? CacheKey(untyped))
        var call = try call(timeout, options, at: loop.now)
        // The response may come from the cache: it tells nothing about the server, and its time even less.
        (call.isMeasured, call.probing) = (false, .never)
        return try await perform(&call) { _ in
            .perhapsCached
        } _: { client, timeout, options throws(ClientError) in
            try await client.send(request, cache: policy, timeout: timeout, options: options)
        }
    }

    /// Removes all cached responses of all clients, as ``Client/removeCachedResponses()`` does.
    public func removeCachedResponses() {
        for client in servers.clients { client.removeCachedResponses() }
    }

    /// Removes the cached response with one key from all clients.
    ///
    /// - Parameter key: A custom key, or `CacheKey(request)`.
    public func removeCachedResponse(for key: CacheKey) {
        for client in servers.clients { client.removeCachedResponse(for: key) }
    }
}

extension CallOptions {
    /// Returns the same options, with a key if they have none.
    fileprivate func keyed(by key: CacheKey) -> CallOptions {
        if self.key != nil { return self }
        var options = self
        options.key = RoutingKey(hash: key.stableHash)
        return options
    }
}
