import Synchronization

/// Requests whose responses are kept for later callers.
extension Client {
    /// Returns the cached response to `request`, or sends it and returns the server's, as `policy` says.
    ///
    /// ```swift
    /// let rates = try await client.send(getRates, cache: .for(.seconds(60)))
    /// ```
    ///
    /// For requests that may be asked twice, or once for several callers: reads. Equal is what has the same type, body and
    /// fields, or the same key of its own (`CachePolicy.keyed(by:)`). What `options.cache` has room for is kept.
    ///
    /// **Coalescing.** Calls that ask the server for the same at the same time are coalesced into one request if their
    /// `retry` and `waitsForReady` options are the same, too. It is that of the first call. It ends in the same way for all of them, with
    /// the same error and the same fate. It goes on as long as somebody waits for it: a call that is cancelled or out
    /// of time leaves alone, fate `unknown`, and the request is given up as by `send` with the last one who leaves.
    ///
    /// A response that was cached, or is that of a coalesced request, is the very frame that was received, with the
    /// serial of its request.
    ///
    /// - Throws: What `send` without a policy throws, and `notCached`, fate `notSent`, with `.returnCacheElseFail`. A call
    ///   that is cancelled, or has no time left, when it is made fails even if a response is cached.
    ///
    /// - Parameters:
    ///   - policy: Which response will do.
    ///   - timeout: As in `send`; each call has its own, counted from the call, also when it joins a coalesced request
    ///     late.
    ///   - options: As in `send`. A response that is cached needs no link.
    public nonisolated func send(
        _ request: Request,
        cache policy: CachePolicy,
        timeout: Timeout = .default,
        options: CallOptions = CallOptions()
    ) async throws(ClientError) -> Response {
        try await outcome(of: request, policy, timeout, options).get()
    }

    /// Returns the cached response to `request` as the request reads it, or sends it and returns the server's, as `policy`
    /// says.
    ///
    /// It is the server's frame that is cached: it is read anew for every call. One that cannot be read is not kept.
    public nonisolated func send<Typed: TypedRequest>(
        _ request: Typed,
        cache policy: CachePolicy,
        timeout: Timeout = .default,
        options: CallOptions = CallOptions()
    ) async throws(ClientError) -> Typed.Reply {
        let untyped = try Request(request)
        let response = try await outcome(of: untyped, policy, timeout, options.retrying(Typed.retry)).get()
        do throws(ClientError) {
            return try request.read(response)
        } catch {
            responseCache.remove(response.frame, for: policy.key ?? CacheKey(untyped))
            throw error
        }
    }

    /// Forgets all cached responses and gives their memory back.
    ///
    /// From its return on, no call gets a response that was received, or asked for, before: what is on its way goes to
    /// those who wait for it already, and is not kept. So it may follow a request that changes something.
    public nonisolated func removeCachedResponses() { responseCache.removeAll() }

    /// Forgets the cached response that has this key: a name of your own, or `CacheKey(request)`. As
    /// `removeCachedResponses()`.
    public nonisolated func removeCachedResponse(for key: CacheKey) { responseCache.remove(key) }

    /// What came of calls with a `CachePolicy`, since the client was made. Each that was taken on is counted as one of `hits`,
    /// `misses` and `shares`.
    public struct CacheStatistics: Sendable, Hashable {
        /// Calls that were answered by a cached response, the server not being asked.
        public var hits = 0
        /// Calls that began a coalesced request, and those with `.returnCacheElseFail` that found no response.
        public var misses = 0
        /// Calls that joined a coalesced request which another had begun.
        public var shares = 0
        /// Calls, of those that asked, that were answered by a cached response because the server could not be reached.
        public var staleHits = 0
        /// Responses that are cached.
        public var count = 0
        /// Bytes that they hold, as `options.cache.maximumBytes` counts them.
        public var byteCount = 0

        init() {}
    }

    // MARK: The way of a call

    private nonisolated func outcome(
        of request: Request,
        _ policy: CachePolicy,
        _ timeout: Timeout,
        _ callOptions: CallOptions
    ) async -> Outcome {
        if Task.isCancelled { return .failure(.cancelledUnsent) }
        let options: ResolvedOptions
        do throws(ClientError) {
            options = try resolved(callOptions, timeout)
        } catch {
            return .failure(error)
        }
        let key = policy.key ?? CacheKey(request)
        if let response = responseCache.response(for: key, policy) { return .success(Response(response)) }
        guard policy.asks else { return .failure(responseCache.absence) }
        let call = CoalescedCall(nextRequestID(), request.frame, key, policy, options)
        let outcome = await coalesced(call)
        guard case .failure(let error) = outcome, error.isUnreachability,
            let response = responseCache.staleResponse(for: key, policy)
        else { return outcome }
        return .success(Response(response))
    }

    private nonisolated func coalesced(_ call: CoalescedCall) async -> Outcome {
        await withTaskCancellationHandler {
            await withContinuation { continuation in
                commandQueue.postRequest(.coalesce(call, continuation))
                // As in `send`: a cancellation before found nothing to leave.
                if Task.isCancelled { commandQueue.post(.leave(call)) }
            }
        } onCancel: {
            commandQueue.post(.leave(call))
        }
    }
}

extension ClientError {
    /// Whether the server cannot be reached, as far as this side can tell.
    fileprivate var isUnreachability: Bool {
        switch code {
        case .unavailable, .timedOut, .connectionLost, .tlsFailed: true
        case .cancelled, .closed, .rejected, .protocolViolation, .invalidRequest, .invalidResponse, .invalidArgument,
            .overloaded, .notCached:
            false
        }
    }
}
