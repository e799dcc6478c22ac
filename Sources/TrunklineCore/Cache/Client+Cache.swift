import Synchronization

/// Requests whose responses are cached.
extension Client {
    /// Returns a cached response to a request, or sends the request, depending on a cache policy.
    ///
    /// ```swift
    /// let rates = try await client.send(getRates, cache: .for(.seconds(60)))
    /// ```
    ///
    /// Use it for requests that may be sent twice, or once for several callers: reads. Requests are the same if they
    /// have the same type, body and fields, or the same custom key (``CachePolicy/keyed(by:)``). Responses are kept
    /// within the limits of `options.cache`.
    ///
    /// **Coalescing.** Calls that send the same request at the same time, with the same `retry` and `waitsForReady`
    /// options, are coalesced into one request, that of the first call. All calls end with the same response, or with
    /// the same error and the same fate. If a call is cancelled or its deadline passes, it ends alone, with the fate
    /// `unknown`, and the request continues for the other calls. When the last call ends in this way, the request is
    /// cancelled as in `send`.
    ///
    /// A response from the cache or from a coalesced request has the serial number of the request that was sent.
    ///
    /// - Parameters:
    ///   - request: The request.
    ///   - policy: Which responses the call may return.
    ///   - timeout: The timeout of this call, counted from the call, even if it joins a coalesced request later.
    ///     Default: the timeout of `options`, or else ``ClientOptions/Requests/timeout`` (8 s).
    ///   - options: Whether the request is sent again when it fails, and whether it waits for a link. A cached response
    ///     needs no link.
    /// - Returns: The response.
    /// - Throws: A ``ClientError``, as ``Client/send(_:timeout:options:)-(Request,_,_)`` does, and `notCached`, fate
    ///   `notSent`, with the policy `.returnCacheElseFail`. If the task is already cancelled or the timeout is not
    ///   positive, the call fails even if a response is cached.
    public nonisolated func send(
        _ request: Request,
        cache policy: CachePolicy,
        timeout: Timeout = .default,
        options: CallOptions = CallOptions()
    ) async throws(ClientError) -> Response {
        try await outcome(of: request, policy, timeout, options).outcome.get()
    }

    /// Returns a cached response to a typed request, or sends the request, depending on a cache policy. The request
    /// decodes the response.
    ///
    /// The frame of the server is cached, and each call decodes it again. A frame that cannot be decoded is removed
    /// from the cache. Otherwise the method behaves like ``Client/send(_:cache:timeout:options:)-(Request,_,_,_)``.
    ///
    /// - Parameters:
    ///   - request: The request.
    ///   - policy: Which responses the call may return.
    ///   - timeout: The timeout of this call. Default: the timeout of `options`, or else
    ///     ``ClientOptions/Requests/timeout`` (8 s).
    ///   - options: Whether the request is sent again when it fails, and whether it waits for a link.
    /// - Returns: The decoded response.
    /// - Throws: A ``ClientError``. An error thrown by the request when it encodes or decodes becomes `invalidRequest`,
    ///   `invalidResponse` or `protocolViolation`, as for ``Client/send(_:timeout:options:)-(Typed,_,_)``.
    public nonisolated func send<Typed: TypedRequest>(
        _ request: Typed,
        cache policy: CachePolicy,
        timeout: Timeout = .default,
        options: CallOptions = CallOptions()
    ) async throws(ClientError) -> Typed.Reply {
        let untyped = try Request(request)
        let (outcome, key) = await outcome(of: untyped, policy, timeout, options.retrying(Typed.retry))
        let response = try outcome.get()
        do throws(ClientError) {
            return try request.read(response, for: self)
        } catch {
            responseCache.remove(response.frame, for: key)
            throw error
        }
    }

    /// Removes all cached responses and frees their memory.
    ///
    /// After this method has returned, no later call gets a response to a request that was sent before. If such a
    /// request is still in flight, its callers get the response, and it is not cached. Call this method after a request
    /// that changes data on the server.
    public nonisolated func removeCachedResponses() { responseCache.removeAll() }

    /// Removes the cached response with one key, with the same guarantee as ``Client/removeCachedResponses()``.
    ///
    /// - Parameter key: A custom key, or `CacheKey(request)`.
    public nonisolated func removeCachedResponse(for key: CacheKey) { responseCache.remove(key) }

    /// Counts of the calls with a ``CachePolicy`` since the creation of the client.
    ///
    /// Each accepted call counts once as one of `hits`, `misses` and `shares`.
    public struct CacheMetrics: Sendable, Hashable {
        /// The number of calls that returned a cached response without a request.
        public var hits = 0
        /// The number of calls that sent a request, and of calls with `.returnCacheElseFail` that found no response.
        public var misses = 0
        /// The number of calls that joined a coalesced request of another call.
        public var shares = 0
        /// The number of calls that returned a cached response because the server could not be reached. They also count
        /// as misses or shares.
        public var staleHits = 0
        /// The number of cached responses.
        public var count = 0
        /// The size of the cached responses in bytes, as `options.cache.maximumBytes` counts them.
        public var byteCount = 0

        init() {}

        mutating func merge(_ other: CacheMetrics) {
            hits.addClamped(other.hits)
            misses.addClamped(other.misses)
            shares.addClamped(other.shares)
            staleHits.addClamped(other.staleHits)
            count.addClamped(other.count)
            byteCount.addClamped(other.byteCount)
        }
    }

    // MARK: Performing a call

    /// Returns the outcome of a call, and the key under which its response is cached.
    private nonisolated func outcome(
        of request: Request,
        _ policy: CachePolicy,
        _ timeout: Timeout,
        _ callOptions: CallOptions
    ) async -> (outcome: Outcome, key: CacheKey) {
        var key = policy.key ?? CacheKey(request)
        if Task.isCancelled { return (.failure(.cancelledUnsent), key) }
        do throws(ClientError) {
            let options = try resolved(callOptions, timeout)
            guard isIntercepted || options.recorder != nil else {
                return (await outcome(of: request.frame, key, policy, options), key)
            }
            let intercepted = await interceptedOutcome(.send, of: request.frame, options) { frame, options in
                if policy.key == nil { key = CacheKey(Request(frame)) }
                return await outcome(of: frame, key, policy, options)
            }
            return (intercepted, key)
        } catch {
            return (.failure(error), key)
        }
    }

    /// Answers a call, which has passed the interceptors, from the cache or by a request.
    private nonisolated func outcome(
        of frame: Frame,
        _ key: CacheKey,
        _ policy: CachePolicy,
        _ options: ResolvedOptions
    ) async -> Outcome {
        if let response = responseCache.response(for: key, policy) { return .success(Response(response)) }
        guard policy.asks else { return .failure(responseCache.absence) }
        let call = CoalescedCall(nextRequestID(), frame, key, policy, options)
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
                // As in `plainOutcome(of:_:isEnqueued:)`: a command that came before the call had no effect.
                if Task.isCancelled { commandQueue.post(.leave(call)) }
            }
        } onCancel: {
            commandQueue.post(.leave(call))
        }
    }
}

extension ClientError {
    /// Whether the error means that the server cannot be reached.
    fileprivate var isUnreachability: Bool {
        switch code {
        case .unavailable, .timedOut, .connectionLost, .tlsFailed: true
        case .cancelled, .closed, .rejected, .interrupted, .sessionLost, .protocolViolation, .invalidRequest,
            .invalidResponse, .invalidArgument, .overloaded, .notCached:
            false
        }
    }
}
