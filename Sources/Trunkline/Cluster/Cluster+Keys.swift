/// Requests that go to a certain server, or to two.
extension Cluster {
    /// Sends a request to the server of a key. See ``RoutingKey``.
    ///
    /// Other calls take a key in their ``CallOptions/key``. If the server of the key is not ready, or already has more than
    /// its share, the next server on the ring takes the request.
    ///
    /// - Parameters:
    ///   - request: The request.
    ///   - key: A value whose description is the key.
    ///   - timeout: The time from this call to the response, retries included.
    ///   - options: Whether the request is sent again when it fails, and whether it waits for a server.
    /// - Returns: The response.
    /// - Throws: A ``ClientError``, as ``send(_:timeout:options:)`` does.
    public nonisolated func send(
        _ request: Request,
        key: some CustomStringConvertible,
        timeout: Timeout = .default,
        options: CallOptions = CallOptions()
    ) async throws(ClientError) -> Response {
        var options = options
        options.key = RoutingKey(key)
        return try await send(request, timeout: timeout, options: options)
    }

    /// Sends a typed request to the server of a key.
    ///
    /// - Parameters:
    ///   - request: The request.
    ///   - key: A value whose description is the key.
    ///   - timeout: The time from this call to the response, retries included.
    ///   - options: Whether the request is sent again when it fails, and whether it waits for a server.
    /// - Returns: The decoded response.
    /// - Throws: A ``ClientError``, as ``RequestSender/send(_:timeout:options:)-(Typed,_,_)`` does.
    public nonisolated func send<Typed: TypedRequest>(
        _ request: Typed,
        key: some CustomStringConvertible,
        timeout: Timeout = .default,
        options: CallOptions = CallOptions()
    ) async throws(ClientError) -> Typed.Reply {
        var options = options
        options.key = RoutingKey(key)
        return try await send(request, timeout: timeout, options: options)
    }

    /// Sends a request, and a second copy of it to another server if the first takes too long. See ``Hedge``.
    ///
    /// - Parameters:
    ///   - request: The request. It may be performed twice.
    ///   - hedge: When the second copy is sent.
    ///   - timeout: The time from this call to the response, retries included.
    ///   - options: Whether each copy is sent again when it fails, and whether the first one waits for a server.
    /// - Returns: The first response.
    /// - Throws: A ``ClientError``. If both copies have failed, it is the error of the one with the worse fate.
    public nonisolated func send(
        _ request: Request,
        hedge: Hedge,
        timeout: Timeout = .default,
        options: CallOptions = CallOptions()
    ) async throws(ClientError) -> Response {
        var call = try call(timeout, options, at: loop.now)
        call.isPart = true
        let trace = Lock<UInt64?>(nil)
        do throws(ClientError) {
            return try await HedgedCall(request, call, on: self).outcome(hedge, trace).get()
        } catch {
            callFailed(error, wasPlaced: trace.withLock { $0 != nil })
            throw error
        }
    }

    /// Sends a typed request, and a second copy of it to another server if the first takes too long.
    ///
    /// - Parameters:
    ///   - request: The request. It may be performed twice.
    ///   - hedge: When the second copy is sent.
    ///   - timeout: The time from this call to the response, retries included.
    ///   - options: Whether each copy is sent again when it fails, and whether the first one waits for a server.
    /// - Returns: The first response, decoded.
    /// - Throws: A ``ClientError``, as for an untyped request, and those of encoding and decoding.
    public nonisolated func send<Typed: TypedRequest>(
        _ request: Typed,
        hedge: Hedge,
        timeout: Timeout = .default,
        options: CallOptions = CallOptions()
    ) async throws(ClientError) -> Typed.Reply {
        let untyped = try Request(request)
        return try request.read(
            try await send(untyped, hedge: hedge, timeout: timeout, options: options.retrying(Typed.retry))
        )
    }
}

/// What the hedged requests of a cluster share.
struct Hedging: Sendable {
    private var account: RetryAccount
    private var latencies = RecentLatencies()
    /// The number of hedged requests.
    private(set) var requests = 0
    /// The number of second copies.
    private(set) var copies = 0

    /// - Parameter share: The largest share of requests with a second copy.
    init(share: Double) {
        var budget = RetryBudget()
        (budget.share, budget.perSecond, budget.maximumSaved) = (min(max(0, share), 1), 0, 100)
        budget.initial = budget.share > 0 ? 10 : 0
        account = RetryAccount(budget)
    }

    /// Counts a request. Returns when its second copy is due; `nil` for never.
    mutating func begin(_ hedge: Hedge, at now: Instant) -> Duration? {
        requests += 1
        switch hedge.delay {
        case .fixed(let delay): return delay
        case .percentile(let share): return latencies.percentile(share, at: now)
        }
    }

    /// Returns whether the budget allows a second copy.
    mutating func mayCopy(at now: Instant) -> Bool {
        guard account.withdraw(at: now, requests: requests) else { return false }
        copies += 1
        return true
    }

    /// A second copy was not sent.
    mutating func uncount() { copies -= 1 }

    /// Records how long the first copy took, at least.
    mutating func record(_ latency: Duration, at now: Instant) { latencies.record(latency, at: now) }
}

/// A request of which two copies may be under way.
private struct HedgedCall: Sendable {
    private let request: Request
    private let call: ClusterCall
    private let cluster: Cluster

    private enum Event: Sendable {
        case copyIsDue
        case ended(Outcome)
    }

    init(_ request: Request, _ call: ClusterCall, on cluster: Cluster) {
        (self.request, self.call, self.cluster) = (request, call, cluster)
    }

    /// - Parameter trace: Receives the server of the first copy.
    func outcome(_ hedge: Hedge, _ trace: Lock<UInt64?>) async -> Outcome {
        let (cluster, loop, begun) = (cluster, cluster.loop, call.begun)
        guard let delay = cluster.hedging.withLock({ $0.begin(hedge, at: begun) }) else { return await first(trace) }
        return await withTaskGroup(of: Event.self) { group in
            group.addTask { .ended(await first(trace)) }
            group.addTask {
                await loop.sleep(until: begun.advanced(by: delay))
                return .copyIsDue
            }
            var (inFlight, failure) = (1, ClientError?.none)
            while let event = await group.next() {
                switch event {
                case .copyIsDue:
                    guard failure == nil, !Task.isCancelled, let used = trace.withLock({ $0 }),
                        cluster.hedging.withLock({ $0.mayCopy(at: loop.now) })
                    else { continue }
                    inFlight += 1
                    group.addTask { .ended(await second(besides: used)) }
                case .ended(let outcome):
                    inFlight -= 1
                    guard case .failure(let error) = outcome, error.code != .rejected else {
                        group.cancelAll()
                        return outcome
                    }
                    var worse = error
                    if let failure {
                        let isFirstWorse = failure.fate.isWorse(than: error.fate)
                        let other = isFirstWorse ? error : failure
                        worse = (isFirstWorse ? failure : error).changed {
                            $0.message += "; the other copy failed with \(other.code), too"
                        }
                    }
                    failure = worse
                    if inFlight == 0 {
                        group.cancelAll()
                        return .failure(worse)
                    }
                }
            }
            return .failure(failure ?? .cancelledUnsent)
        }
    }

    /// Performs the first copy.
    private func first(_ trace: Lock<UInt64?>) async -> Outcome {
        var call = call
        call.trace = trace
        let outcome = await perform(call)
        let now = cluster.loop.now
        // The time until an answer, or at least that until another copy was answered. A failure may be fast.
        let isAnswer: Bool
        switch outcome {
        case .success: isAnswer = true
        case .failure(let error): isAnswer = error.fate == .answered || error.code == .cancelled
        }
        if isAnswer { cluster.hedging.withLock { $0.record(now.since(call.begun), at: now) } }
        return outcome
    }

    /// Performs the second copy. It waits for nothing.
    private func second(besides member: UInt64) async -> Outcome {
        var call = call
        (call.avoided, call.isExtra, call.isPlaced) = ([member], true, true)
        call.rested = cluster.loop.now
        let outcome = await perform(call)
        if case .failure(let error) = outcome, error.fate == .notSent { cluster.hedging.withLock { $0.uncount() } }
        return outcome
    }

    private func perform(_ call: ClusterCall) async -> Outcome {
        var call = call
        do throws(ClientError) {
            let response = try await cluster.perform(&call) { client, timeout, options throws(ClientError) in
                try await client.send(request, timeout: timeout, options: options)
            }
            return .success(response)
        } catch {
            return .failure(error)
        }
    }
}

extension ClientError.Fate {
    /// Whether a caller knows less about the request than with another fate.
    fileprivate func isWorse(than other: ClientError.Fate) -> Bool { rank > other.rank }

    private var rank: Int {
        switch self {
        case .notSent: 0
        case .answered: 1
        case .unknown: 2
        }
    }
}
