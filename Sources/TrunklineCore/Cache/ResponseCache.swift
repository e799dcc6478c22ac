/// The cached responses of a client, and the coalesced requests that calls may join.
///
/// Protected by a lock, so that a cache hit needs no hop to the event loop and `removeCachedResponses` takes effect as
/// soon as it returns. Continuations are not resumed here: the results are returned, and the event loop, where
/// coalesced requests begin, are joined and end, does the rest. Large responses and requests are neither read nor freed
/// while the lock is held, because the event loop waits for the lock: removed values are returned to the caller.
final class ResponseCache: Sendable {
    private struct State {
        var store: ResponseStore
        /// The requests whose response will be cached and that other calls may join, by key and in the order in which
        /// they began. There are several for a key if their call options differ. A request that was overtaken by a
        /// newer one is not in here.
        var loading: [CacheKey: [CoalescedRequest]] = [:]
        var metrics = Client.CacheMetrics()
        var isClosed = false
    }

    /// The result of looking up a call in the cache.
    enum Encounter {
        case response(Frame)
        case request(CoalescedRequest)
        case nothing
    }

    private let state: Lock<State>
    private let codec: ProtocolCodec
    private let loop: any EventLoop

    init(_ options: ClientOptions.Cache, speaking codec: ProtocolCodec, loop: any EventLoop) {
        self.codec = codec
        self.loop = loop
        let store = ResponseStore(maximumCount: options.maximumCount, maximumBytes: options.maximumBytes)
        state = Lock(State(store: store))
    }

    var metrics: Client.CacheMetrics {
        state.withLock { state in
            var metrics = state.metrics
            (metrics.count, metrics.byteCount) = (state.store.count, state.store.byteCount)
            return metrics
        }
    }

    // MARK: From any thread

    /// Returns a response that `policy` accepts without a request.
    func response(for key: CacheKey, _ policy: CachePolicy) -> Frame? {
        let now = loop.now
        return state.withLock { state in
            let response = state.store.response(for: key, policy.fresh, at: now)
            if response != nil { state.metrics.hits += 1 }
            if response == nil, !policy.asks, !state.isClosed { state.metrics.misses += 1 }
            return response
        }
    }

    /// Returns a response that `policy` accepts if the server cannot be reached.
    func staleResponse(for key: CacheKey, _ policy: CachePolicy) -> Frame? {
        guard policy.stale != .none else { return nil }
        let now = loop.now
        return state.withLock { state in
            let response = state.store.response(for: key, policy.stale, at: now)
            if response != nil { state.metrics.staleHits += 1 }
            return response
        }
    }

    /// The error of a call that may not send a request and has no response.
    var absence: ClientError {
        if state.withLock({ $0.isClosed }) { return .clientIsClosed }
        return ClientError(.notCached, .notSent, "no response is cached, and the cache policy does not allow a request")
    }

    /// Removes the response for `key`. The response of a request in progress goes only to the calls that already wait
    /// for it.
    func remove(_ key: CacheKey) {
        _ = state.withLock { state in (state.store.remove(key), state.loading.removeValue(forKey: key)) }
    }

    func removeAll() {
        _ = state.withLock { state in (state.store.removeAll(), exchange(&state.loading, with: [:])) }
    }

    /// Removes `response`, which its caller could not decode.
    func remove(_ response: Frame, for key: CacheKey) {
        _ = state.withLock { $0.store.remove(key) { $0 == response } }
    }

    /// Removes everything permanently, because the client accepts no more calls.
    func close() {
        _ = state.withLock { state in
            state.isClosed = true
            return (state.store.removeAll(), exchange(&state.loading, with: [:]))
        }
    }

    // MARK: On the loop

    /// Returns the cached response or the coalesced request for `call`. A response may have arrived while the call was
    /// on its way to the event loop.
    func meet(_ call: CoalescedCall) -> Encounter {
        let now = loop.now
        return state.withLock { state in
            if let response = state.store.response(for: call.key, call.policy.fresh, at: now) {
                state.metrics.hits += 1
                return .response(response)
            }
            let request = state.loading[call.key]?.last { $0.hasSameOptions(of: call) }
            return request.map { .request($0) } ?? .nothing
        }
    }

    func noteCoalesced() { state.withLock { $0.metrics.shares += 1 } }

    /// Registers that `call` has begun `request`. If the call's policy does not allow it to join older requests, their
    /// responses must not be cached either.
    func begin(_ request: CoalescedRequest, for call: CoalescedCall) {
        state.withLock { state in
            state.metrics.misses += 1
            if state.isClosed { return }
            if call.policy.joins {
                state.loading[call.key, default: []].append(request)
            } else {
                state.loading[call.key] = [request]
            }
        }
    }

    /// Ends `request` and caches its response, unless it was overtaken. Returns the outcome for its calls.
    func end(_ request: CoalescedRequest, _ outcome: Outcome) -> Outcome {
        var response: Frame?
        // The callers and the cache share the memory of the response.
        if case .success(let received) = outcome, codec.mayCache(received.frame) {
            response = received.frame.compacted
        }
        let (kept, key, now) = (response, request.key.compacted, loop.now)
        _ = state.withLock { state -> [ResponseStore.Slot] in
            guard var loading = state.loading[key], let place = loading.firstIndex(where: { $0 === request }) else {
                return []
            }
            var dropped: [ResponseStore.Slot] = []
            if let kept {
                dropped = state.store.insert(kept, for: key, at: now)
                loading.removeFirst(place)  // these began earlier
                loading.removeFirst()
            } else {
                loading.remove(at: place)
            }
            state.loading[key] = loading.isEmpty ? nil : loading
            if state.loading.isEmpty, state.loading.capacity > 1024 { state.loading = [:] }
            return dropped
        }
        return response.map { .success(Response($0)) } ?? outcome
    }
}
