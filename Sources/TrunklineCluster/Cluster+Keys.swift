public import TrunklineCore

extension Cluster {
    /// Sends a request to the server of a key. See ``RoutingKey``.
    ///
    /// Other calls take a key in their ``CallOptions/key``. If the server of the key is not ready, or already has more
    /// than its share, the next server on the ring takes the request.
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
        // Both copies may be performed twice.
        call.probing = .first
        let copies = HedgedCopies(on: loop)
        do throws(ClientError) {
            return try await HedgedCall(request, call, copies, on: self).outcome(hedge).get()
        } catch {
            callFailed(error, wasPlaced: copies.server(ofSecond: false) != nil)
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
        do throws(ClientError) {
            let untyped = try Request(request)
            let options = options.retrying(Typed.retry)
            let response = try await send(untyped, hedge: hedge, timeout: timeout, options: options)
            return try request.read(response, for: self)
        } catch {
            throw error.named(Typed.errorName)
        }
    }
}

/// What the hedged requests of a cluster share.
struct Hedging: Sendable {
    private var account: RetryAccount
    private var latencies = RecentLatencies()
    private(set) var requests = 0
    private(set) var copies = 0

    init(share: Double) {
        var budget = RetryBudget()
        (budget.share, budget.perSecond, budget.maximumSaved) = (min(max(0, share), 1), 0, 100)
        budget.initial = budget.share > 0 ? 10 : 0
        account = RetryAccount(budget)
    }

    mutating func begin(_ hedge: Hedge, at now: Instant) -> Duration? {
        requests += 1
        switch hedge.delay {
        case .fixed(let delay): return delay
        case .percentile(let share): return latencies.percentile(share, at: now)
        }
    }

    mutating func mayCopy(at now: Instant) -> Bool {
        guard account.withdraw(at: now, requests: requests) else { return false }
        copies += 1
        return true
    }

    /// The second copy was not sent, for example because there was no second server.
    mutating func uncount() {
        copies -= 1
        account.deposit()
    }

    mutating func record(_ latency: Duration, at now: Instant) { latencies.record(latency, at: now) }
}

/// The servers of the two copies of a hedged request.
final class HedgedCopies: Sendable {
    private struct State {
        var (first, second): (UInt64?, UInt64?)
        var begun: Instant?
    }

    private let state = Lock(State())
    private let whenBegun: Alarm

    init(on loop: any EventLoop) { whenBegun = Alarm(on: loop) }

    func server(ofSecond isSecond: Bool) -> UInt64? { state.withLock { isSecond ? $0.second : $0.first } }

    var begun: Instant? { state.withLock(\.begun) }

    /// Returns false if the other copy has that server.
    func begin(on server: UInt64, ofSecond isSecond: Bool, at now: Instant) -> Bool {
        let (isPossible, isBegin) = state.withLock { state in
            if server == (isSecond ? state.first : state.second) { return (false, false) }
            if isSecond {
                state.second = server
                return (true, false)
            }
            state.first = server
            guard state.begun == nil else { return (true, false) }
            state.begun = now
            return (true, true)
        }
        if isBegin { whenBegun.ring() }
        return isPossible
    }

    func endSecond() { state.withLock { $0.second = nil } }

    func waitForBegin() async -> Instant? {
        while !Task.isCancelled {
            if let begun { return begun }
            await whenBegun.wait(until: .distantFuture)
        }
        return begun
    }
}

/// A request of which two copies may be under way.
private struct HedgedCall: Sendable {
    private let request: Request
    private let call: ClusterCall
    private let copies: HedgedCopies
    private let cluster: Cluster

    private static let longestPause = Duration.seconds(1)

    private enum Event: Sendable {
        case copyIsDue
        case ended(Outcome, isSecond: Bool)
    }

    init(_ request: Request, _ call: ClusterCall, _ copies: HedgedCopies, on cluster: Cluster) {
        (self.request, self.call, self.copies, self.cluster) = (request, call, copies, cluster)
    }

    func outcome(_ hedge: Hedge) async -> Outcome {
        let (cluster, loop) = (cluster, cluster.loop)
        guard let delay = cluster.hedging.withLock({ $0.begin(hedge, at: call.begun) }) else { return await first() }
        return await withTaskGroup(of: Event.self) { group in
            group.addTask { .ended(await first(), isSecond: false) }
            group.addTask {
                // Not from the call: the first copy may wait for a server, and the second cannot help then.
                if let begun = await copies.waitForBegin() { await loop.sleep(until: begun.advanced(by: delay)) }
                return .copyIsDue
            }
            var (inFlight, failure) = (1, ClientError?.none)
            var pause = min(max(delay, .milliseconds(10)), Self.longestPause)
            while let event = await group.next() {
                switch event {
                case .copyIsDue:
                    guard failure == nil, !Task.isCancelled, cluster.hedging.withLock({ $0.mayCopy(at: loop.now) })
                    else { continue }
                    inFlight += 1
                    group.addTask { .ended(await second(), isSecond: true) }
                case .ended(.failure(let error), isSecond: true) where error.fate == .notSent:
                    // It was no copy: there was no other server, or that did not take it. There may be one later.
                    inFlight -= 1
                    if let failure {
                        group.cancelAll()
                        return .failure(failure)
                    }
                    let until = loop.now.advanced(by: pause)
                    pause = min(pause * 2, Self.longestPause)
                    group.addTask {
                        await loop.sleep(until: until)
                        return .copyIsDue
                    }
                case .ended(let outcome, _):
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

    private func first() async -> Outcome {
        var call = call
        call.hedge = (copies, isSecond: false)
        let outcome = await perform(call)
        let now = cluster.loop.now
        // The time until an answer, or at least that until another copy was answered. A failure may be fast. Not the
        // wait for a server: the second copy is due that much later, too.
        let isAnswer: Bool
        switch outcome {
        case .success: isAnswer = true
        case .failure(let error): isAnswer = error.fate == .answered || error.code == .cancelled
        }
        if isAnswer, let begun = copies.begun { cluster.hedging.withLock { $0.record(now.since(begun), at: now) } }
        return outcome
    }

    /// On another server than the first. Waits for nothing.
    private func second() async -> Outcome {
        var call = call
        (call.hedge, call.isPlaced) = ((copies, isSecond: true), true)
        call.rested = cluster.loop.now
        let outcome = await perform(call)
        copies.endSecond()
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
    fileprivate func isWorse(than other: ClientError.Fate) -> Bool { rank > other.rank }

    private var rank: Int {
        switch self {
        case .notSent: 0
        case .answered: 1
        case .unknown: 2
        }
    }
}
