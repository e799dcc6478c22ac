public import TrunklineCore

/// Sends requests with a ``RequestSender``, caches the responses, and lets callers that need the same response share
/// one request.
///
/// ```swift
/// let cached = CachingSender(client)
/// let rates = try await cached.send(getRates, cache: .for(.seconds(60)))
/// ```
///
/// The sender is a ``Client``, a ``Cluster``, the sender of a link, or one of your own. Create one caching sender and
/// use it for all calls that are to share responses: each has a cache of its own. It keeps its sender alive. Requests
/// that are not to be cached are sent with the sender itself. See <doc:Caching>.
public final class CachingSender: Sendable {
    private struct State {
        var store: ResponseStore
        /// Requests that other calls may join, in the order in which they began; several for a key if their call
        /// options differ. Not those that were overtaken or began before their response was removed.
        var loading: [CacheKey: [SharedRequest]] = [:]
        var metrics = Metrics()

        mutating func keep(_ requests: [SharedRequest], for key: CacheKey) {
            loading[key] = requests.isEmpty ? nil : requests
            if loading.isEmpty, loading.capacity > 1024 { loading = [:] }
        }
    }

    private enum Step {
        case finish(Outcome)
        case join(SharedRequest, SharedRequest.Call)
        case begin(SharedRequest, SharedRequest.Call)
    }

    /// The sender of the requests.
    public let sender: any RequestSender
    /// Protected by a lock, so that a cache hit needs no other thread and `removeCachedResponses` takes effect at once.
    /// While it is held, no caller is resumed, and large responses and requests are neither read nor freed.
    private let state: Lock<State>
    private let codec: ProtocolCodec?
    private let loop: any EventLoop
    private let executor: (any TaskExecutor)?
    private let defaultTimeout: Duration?

    /// Creates a caching sender.
    ///
    /// - Parameters:
    ///   - sender: The sender of the requests. If it is a type of your own, the default timeout of its calls is 8 s.
    ///   - options: The limits of the cache.
    ///   - codec: The wire format of a sender of your own, which may forbid to cache a response
    ///     (``CachingCodec/mayCache(_:)``). With `nil`, every response of such a sender may be cached. Ignored for a
    ///     client, a cluster and the sender of a link, which have a codec.
    public convenience init(
        _ sender: some RequestSender,
        options: Options = Options(),
        speaking codec: (any FrameCodec)? = nil
    ) {
        self.init(sender, options, speaking: codec, on: EventLoops.shared)
    }

    init(
        _ sender: some RequestSender,
        _ options: Options,
        speaking codec: (any FrameCodec)?,
        on loops: @autoclosure () -> EventLoops
    ) {
        let known = sender as? any RoutingSender
        self.sender = sender
        self.codec = known?.codec ?? codec.map { ProtocolCodec($0) }
        loop = known?.loop ?? loops().next()
        executor = known.map { $0.callExecutor } ?? loop.callbackExecutor
        defaultTimeout = known.map { $0.defaultTimeout } ?? ClientOptions.Requests().timeout
        let store = ResponseStore(maximumCount: options.maximumCount, maximumBytes: options.maximumBytes)
        state = Lock(State(store: store))
    }

    /// Returns a cached response to a request, or sends the request, depending on a cache policy.
    ///
    /// Use it for requests that may be sent twice, or once for several callers: reads. Requests are the same if they
    /// have the same type, body and fields, or the same custom key (``CachePolicy/keyed(by:)``).
    ///
    /// **Coalescing.** Calls that send the same request at the same time, with the same call options, are coalesced
    /// into one request, that of the first call. The timeout and the recorder of the options may differ. All calls end
    /// with the same response, or with the same error and the same fate. If a call is cancelled or its deadline passes,
    /// it ends alone and at once, with the fate `unknown`, and the request continues for the other calls. When the last
    /// call ends in this way, the request is cancelled as in `send`.
    ///
    /// A response from the cache or from a coalesced request has the serial number of the request that was sent.
    ///
    /// - Parameters:
    ///   - request: The request.
    ///   - policy: Which responses the call may return.
    ///   - timeout: The timeout of this call, counted from the call, even if it joins a coalesced request later.
    ///     Default: the timeout of `options`, or else that of the sender (``ClientOptions/Requests/timeout``, 8 s).
    ///   - options: Whether the request is sent again when it fails, and whether it waits for a link. A cached response
    ///     needs no link. The recorder receives the timelines of the requests that the call sends.
    /// - Returns: The response.
    /// - Throws: A ``ClientError``, as the sender does, and `notCached`, fate `notSent`, with the policy
    ///   `.returnCacheElseFail`. If the task is already cancelled or the timeout is not positive, the call fails even
    ///   if a response is cached.
    public func send(
        _ request: Request,
        cache policy: CachePolicy,
        timeout: Timeout = .default,
        options: CallOptions = CallOptions()
    ) async throws(ClientError) -> Response {
        let key = policy.key ?? CacheKey(request)
        return try await outcome(of: request, key, policy, timeout, options).get()
    }

    /// Returns a cached response to a typed request, or sends the request, depending on a cache policy. The request
    /// decodes the response.
    ///
    /// The frame of the server is cached, and each call decodes it again. A frame that cannot be decoded is removed
    /// from the cache. Otherwise the method behaves like
    /// ``CachingSender/send(_:cache:timeout:options:)-(Request,_,_,_)``.
    ///
    /// - Parameters:
    ///   - request: The request.
    ///   - policy: Which responses the call may return.
    ///   - timeout: The timeout of this call. Default: the timeout of `options`, or else that of the sender.
    ///   - options: Whether the request is sent again when it fails, and whether it waits for a link.
    /// - Returns: The decoded response.
    /// - Throws: A ``ClientError``. An error thrown by the request when it encodes or decodes becomes `invalidRequest`,
    ///   `invalidResponse` or `protocolViolation`, as for ``Client/send(_:timeout:options:)-(Typed,_,_)``.
    public func send<Typed: TypedRequest>(
        _ request: Typed,
        cache policy: CachePolicy,
        timeout: Timeout = .default,
        options: CallOptions = CallOptions()
    ) async throws(ClientError) -> Typed.Reply {
        do throws(ClientError) {
            let untyped = try Request(request)
            let key = policy.key ?? CacheKey(untyped)
            let options = options.retrying(Typed.retry)
            let response = try await outcome(of: untyped, key, policy, timeout, options).get()
            do throws(ClientError) {
                return try request.read(response, for: sender)
            } catch {
                remove(response.frame, for: key)
                throw error
            }
        } catch {
            throw error.named(Typed.errorName)
        }
    }

    /// Removes all cached responses and frees their memory.
    ///
    /// After this method has returned, no later call gets a response to a request that was sent before. If such a
    /// request is still in flight, its callers get the response, and it is not cached. Call this method after a request
    /// that changes data on the server.
    public func removeCachedResponses() {
        _ = state.withLock { state in (state.store.removeAll(), exchange(&state.loading, with: [:])) }
    }

    /// Removes the cached response with one key, with the same guarantee as ``CachingSender/removeCachedResponses()``.
    ///
    /// - Parameter key: A custom key, or `CacheKey(request)`.
    public func removeCachedResponse(for key: CacheKey) {
        _ = state.withLock { state in (state.store.remove(key), state.loading.removeValue(forKey: key)) }
    }

    private func remove(_ response: Frame, for key: CacheKey) {
        _ = state.withLock { $0.store.remove(key) { $0 == response } }
    }

    /// The metrics at present.
    public var metrics: Metrics {
        state.withLock { state in
            var metrics = state.metrics
            (metrics.count, metrics.byteCount) = (state.store.count, state.store.byteCount)
            return metrics
        }
    }

    private func outcome(
        of request: Request,
        _ key: CacheKey,
        _ policy: CachePolicy,
        _ timeout: Timeout,
        _ options: CallOptions
    ) async -> Outcome {
        if Task.isCancelled { return .failure(.cancelledUnsent) }
        let timeout = timeout.or(options.timeout).duration(orByDefault: defaultTimeout)
        if let timeout, timeout <= .zero { return .failure(.expiredUnsent(timeout)) }
        let now = loop.now
        let deadline = timeout.map { now.advanced(by: $0) } ?? .distantFuture
        let outcome: Outcome
        switch step(key, policy, options, deadline, at: now) {
        case .finish(let known): return known
        case .join(let shared, let call): outcome = await shared.outcome(of: call)
        case .begin(let shared, let call):
            shared.begin(on: executor) { await self.perform(shared, request, options) }
            outcome = await shared.outcome(of: call)
        }
        guard case .failure(let error) = outcome, error.isUnreachability,
            let response = staleResponse(for: key, policy.stale)
        else { return outcome }
        return .success(Response(response))
    }

    private func step(
        _ key: CacheKey,
        _ policy: CachePolicy,
        _ options: CallOptions,
        _ deadline: Instant,
        at now: Instant
    ) -> Step {
        state.withLock { state in
            if let response = state.store.response(for: key, policy.fresh, at: now) {
                state.metrics.hits += 1
                return .finish(.success(Response(response)))
            }
            let options = options.withoutCaller
            let latest = state.loading[key]?.last { $0.options == options }
            if policy.asks, let latest, let call = latest.join(until: deadline, mayHaveBegun: policy.joins) {
                state.metrics.shares += 1
                if !policy.joins { state.loading[key] = [latest] }
                return .join(latest, call)
            }
            state.metrics.misses += 1
            guard policy.asks else { return .finish(.failure(.notCached)) }
            let (shared, call) = SharedRequest.create(key, options, until: deadline, on: loop)
            // Of the requests that a call may not join, the responses are too old to be cached, too.
            if policy.joins { state.loading[key, default: []].append(shared) } else { state.loading[key] = [shared] }
            return .begin(shared, call)
        }
    }

    private func staleResponse(for key: CacheKey, _ age: CachePolicy.Age) -> Frame? {
        let now = loop.now
        return state.withLock { state in
            let response = state.store.response(for: key, age, at: now)
            if response != nil { state.metrics.staleHits += 1 }
            return response
        }
    }

    private func perform(_ shared: SharedRequest, _ request: Request, _ options: CallOptions) async -> Outcome {
        var options = options
        options.movableDeadline = shared.deadline
        do throws(ClientError) {
            guard shared.beginSending() else { throw .cancelledUnsent }
            let response = try await sender.send(request, timeout: .never, options: options).frame
            return end(shared, response)
        } catch {
            end(shared)
            return .failure(error)
        }
    }

    /// The outcome shares the memory of the response with the cache.
    private func end(_ shared: SharedRequest, _ response: Frame) -> Outcome {
        guard codec?.mayCache(response) ?? true else {
            end(shared)
            return .success(Response(response))
        }
        let (response, key, now) = (response.compacted, shared.key.compacted, loop.now)
        _ = state.withLock { state -> [ResponseStore.Slot] in
            guard let loading = state.loading[shared.key], let place = loading.firstIndex(where: { $0 === shared })
            else { return [] }
            // The others in front of it began earlier.
            state.keep(Array(loading[(place + 1)...]), for: shared.key)
            return state.store.insert(response, for: key, at: now)
        }
        return .success(Response(response))
    }

    private func end(_ shared: SharedRequest) {
        state.withLock { state in
            guard let loading = state.loading[shared.key] else { return }
            state.keep(loading.filter { $0 !== shared }, for: shared.key)
        }
    }
}
