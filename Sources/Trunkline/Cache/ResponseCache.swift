/// A client's cached responses, and the coalesced requests that others may join.
///
/// Behind a lock, so that a response that is there costs its caller no way to the loop and back, and that
/// `removeCachedResponses` holds as soon as it has returned. Nobody is resumed here: what is found is handed out, and the
/// loop, where alone coalesced requests are begun, joined, left and ended, does the rest. Nor is much read or freed
/// here, however large responses and requests are, as the loop waits for the lock: what is dropped is handed out, too.
final class ResponseCache: Sendable {
    private struct State {
        var store: ResponseStore
        /// Requests whose response is to be kept, and which others may join, by their keys, in the order in which they
        /// began: more than one where their call options differ. What is not in here any more has been overtaken.
        var loading: [CacheKey: [CoalescedRequest]] = [:]
        var statistics = Client.CacheStatistics()
        var isClosed = false
    }

    /// What a call meets.
    enum Encounter {
        case response(Frame)
        case request(CoalescedRequest)
        case nothing
    }

    private let state: Lock<State>
    private let codec: any FrameCodec
    private let loop: any EventLoop

    init(_ options: ClientOptions.Cache, speaking codec: any FrameCodec, loop: any EventLoop) {
        self.codec = codec
        self.loop = loop
        let store = ResponseStore(maximumCount: options.maximumCount, maximumBytes: options.maximumBytes)
        state = Lock(State(store: store))
    }

    var statistics: Client.CacheStatistics {
        state.withLock { state in
            var statistics = state.statistics
            (statistics.count, statistics.byteCount) = (state.store.count, state.store.byteCount)
            return statistics
        }
    }

    // MARK: From any thread

    /// A response that will do for `policy` without asking.
    func response(for key: CacheKey, _ policy: CachePolicy) -> Frame? {
        let now = loop.now
        return state.withLock { state in
            let response = state.store.response(for: key, policy.fresh, at: now)
            if response != nil { state.statistics.hits += 1 }
            if response == nil, !policy.asks, !state.isClosed { state.statistics.misses += 1 }
            return response
        }
    }

    /// A response that will do for `policy` when the server cannot be reached.
    func staleResponse(for key: CacheKey, _ policy: CachePolicy) -> Frame? {
        guard policy.stale != .none else { return nil }
        let now = loop.now
        return state.withLock { state in
            let response = state.store.response(for: key, policy.stale, at: now)
            if response != nil { state.statistics.staleHits += 1 }
            return response
        }
    }

    /// Why a call that may not ask has no response.
    var absence: ClientError {
        if state.withLock({ $0.isClosed }) { return ClientError(.closed, .notSent, "the client is closed") }
        return ClientError(.notCached, .notSent, "no response is cached, and the call does not ask the server")
    }

    /// Forgets what is there for `key`, and lets nobody have what is on its way but those who wait for it already.
    func remove(_ key: CacheKey) {
        _ = state.withLock { state in (state.store.remove(key), state.loading.removeValue(forKey: key)) }
    }

    func removeAll() {
        _ = state.withLock { state in (state.store.removeAll(), exchange(&state.loading, with: [:])) }
    }

    /// Forgets `response`, which its caller could not read.
    func remove(_ response: Frame, for key: CacheKey) {
        _ = state.withLock { $0.store.remove(key) { $0 == response } }
    }

    /// The client takes nothing on any more: forgets everything for good.
    func close() {
        _ = state.withLock { state in
            state.isClosed = true
            return (state.store.removeAll(), exchange(&state.loading, with: [:]))
        }
    }

    // MARK: On the loop

    /// What `call` meets: its response may have come on its way to the loop.
    func meet(_ call: CoalescedCall) -> Encounter {
        let now = loop.now
        return state.withLock { state in
            if let response = state.store.response(for: call.key, call.policy.fresh, at: now) {
                state.statistics.hits += 1
                return .response(response)
            }
            let request = state.loading[call.key]?.last { $0.hasSameOptions(of: call) }
            return request.map { .request($0) } ?? .nothing
        }
    }

    func noteCoalesced() { state.withLock { $0.statistics.shares += 1 } }

    /// `call` has begun `request`. What others asked for before is not good enough for it if it does not join them, and
    /// so not to be kept either.
    func begin(_ request: CoalescedRequest, for call: CoalescedCall) {
        state.withLock { state in
            state.statistics.misses += 1
            if state.isClosed { return }
            if call.policy.joins {
                state.loading[call.key, default: []].append(request)
            } else {
                state.loading[call.key] = [request]
            }
        }
    }

    /// `request` has ended: keeps what it brought, unless it was overtaken. Returns what its callers are told.
    func end(_ request: CoalescedRequest, _ outcome: Outcome) -> Outcome {
        var response: Frame?
        // The callers get the same memory as the cache.
        if case .success(let received) = outcome, codec._mayCache(received.frame) {
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
                loading.removeFirst(place)  // they began before
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
