import TrunklineCache
import TrunklineTesting

@testable import TrunklineCluster
@testable import TrunklineCore
@testable import TrunklineIO

/// The callers of a simulated life of a cluster.
struct ClusterCalls: Sendable {
    enum Way: String, CaseIterable { case send, key, hedge, all, post, messages, start, cached, stream, upload }

    /// The outcome of a request.
    struct Outcome: Sendable {
        var body: Bytes
        var isOneWay = false
        /// Whether it is a further piece of an upload, which is no call.
        var isPiece = false
        /// Whether the request waits for a server until its time is over, whatever its retry policy.
        var mayWait = false
        /// How often servers may receive the request.
        let mostTries: Int
        var result: Result<Response, ClientError>
    }

    /// The message of a stream that is not read to its end.
    static let abandoned = "read no further"

    /// The longest pause of a caller that has started a request.
    private static let longestPause = Duration.milliseconds(10)

    let world: ClusterWorld
    let cluster: Cluster
    let cached: CachingSender

    private var plan: ClusterPlan { world.plan }

    /// One caller, which makes several calls, one after the other.
    func calls(of caller: UInt64, _ count: Int, within time: Duration) async -> [Outcome] {
        var random = plan.random(500_000 + caller)
        var outcomes: [Outcome] = []
        for index in 0..<count {
            try? await world.pass(upTo: time * 2 / count, &random)
            outcomes += await call(caller * 1000 + UInt64(index))
        }
        return outcomes
    }

    /// A call that begins with the cluster, and has time to wait.
    func call(ofCrowd number: UInt64) async -> [Outcome] {
        let number = 1_000_000 + number
        world.callBegan(number)
        let body = Bytes("\(number) ")
        let result = await result { () throws(ClientError) in
            try await cluster.send(ask(body), timeout: .seconds(4))
        }
        return [Outcome(body: body, mayWait: true, mostTries: 1, result: result)]
    }

    private func call(_ number: UInt64) async -> [Outcome] {
        var random = plan.random(10_000_000 + number)
        let way = Way.allCases[Int.random(in: 0..<Way.allCases.count, using: &random)]
        var timeout = timeout(&random)
        // Without time, a call does not reach the cluster, which does not count it.
        if way == .cached, timeout == .after(.zero) { timeout = .milliseconds(1) }
        let (retry, tries) = retry(&random)
        let options = CallOptions(
            timeout: timeout,
            retry: retry,
            waitsForReady: Int.random(in: 0..<6, using: &random) != 0,
            isLarge: Int.random(in: 0..<6, using: &random) == 0
        )
        // Without options a call has a path of its own.
        let isPlain = way == .send && Bool.random(using: &random)
        let mostTries = isPlain ? 1 : way == .hedge ? 2 * tries : tries
        let limit = timeout.duration(orByDefault: ClusterPlan.requestTimeout) ?? .zero
        let patience: Duration? =
            Int.random(in: 0..<5, using: &random) == 0
            ? .microseconds(Int.random(in: 0...20_000, using: &random)) : nil
        let partTimeout = partTimeout(&random)
        let salt = random.next()
        let began = world.now
        world.callBegan(number)
        world.count("call \(way)")
        world.note("call \(number): \(way), \(limit), \(retry), plain \(isPlain), cancelled after \(patience as Any)")
        let task = Task(executorPreference: world.network.executor) {
            await perform(way, number, timeout, partTimeout, options, isPlain: isPlain, salt, mostTries)
        }
        async let watch: Void = cancel(task, after: patience)
        let outcomes = await task.value
        let took = world.now - began
        _ = await watch
        for outcome in outcomes { world.note("request \(String(outcome.body)): \(outcome.result.summary)") }
        // In virtual time no call is late, not even by a nanosecond, unless its caller pauses.
        let rest = way == .upload ? Self.longestPause : .zero
        if took > max(.zero, limit, way == .start ? Self.longestPause : .zero) + rest {
            world.violated("call \(number), \(way), took \(took) of \(limit)")
        }
        if let patience, took > patience {
            world.violated("call \(number), \(way), was cancelled after \(patience) and took \(took)")
        }
        return outcomes
    }

    private func timeout(_ random: inout SeededGenerator) -> Timeout {
        switch Int.random(in: 0..<10, using: &random) {
        case 0: .after(.microseconds(Int.random(in: 1...20_000, using: &random)))
        case 1: .after(.milliseconds(Int.random(in: 100...6000, using: &random)))
        case 2: .after(Bool.random(using: &random) ? .zero : .milliseconds(50))
        default: .default
        }
    }

    /// The longest wait for a part of a reply, often so short that it ends before a server has the request.
    private func partTimeout(_ random: inout SeededGenerator) -> Timeout {
        switch Int.random(in: 0..<4, using: &random) {
        case 0: .after(.microseconds(Int.random(in: 1...200, using: &random)))
        case 1: .after(.microseconds(Int.random(in: 1...20_000, using: &random)))
        default: .default
        }
    }

    private func retry(_ random: inout SeededGenerator) -> (RetryPolicy, tries: Int) {
        switch Int.random(in: 0..<5, using: &random) {
        case 0: return (.never, 1)
        case 1:
            let backoff = Backoff(base: .milliseconds(5), cap: .milliseconds(100))
            return (.idempotent(tries: ClusterPlan.idempotentTries, backoff: backoff), ClusterPlan.idempotentTries)
        case 2: return (.default, 1)
        default: return (.ifUnsent, 1)
        }
    }

    private func cancel(_ task: Task<[Outcome], Never>, after patience: Duration?) async {
        guard let patience else { return }
        try? await world.pass(patience)
        task.cancel()
    }

    private func perform(
        _ way: Way,
        _ number: UInt64,
        _ timeout: Timeout,
        _ partTimeout: Timeout,
        _ options: CallOptions,
        isPlain: Bool,
        _ salt: UInt64,
        _ mostTries: Int
    ) async -> [Outcome] {
        var random = SeededGenerator(seed: salt)
        let body = Bytes("\(number) ")
        func outcome(_ result: Result<Response, ClientError>) -> [Outcome] {
            let mayWait = options.waitsForReady && way != .hedge  // the second copy does not wait
            return [Outcome(body: body, mayWait: mayWait, mostTries: mostTries, result: result)]
        }
        switch way {
        case .send:
            return outcome(
                await result { () throws(ClientError) in
                    guard isPlain else { return try await cluster.send(ask(body), options: options) }
                    return try await cluster.send(ask(body), timeout: timeout)
                }
            )
        case .key:
            let key = Int.random(in: 0..<10, using: &random)
            return outcome(
                await result { () throws(ClientError) in
                    try await cluster.send(ask(body), key: key, timeout: timeout, options: options)
                }
            )
        case .hedge:
            let delay = Duration.milliseconds(Int.random(in: 0...15, using: &random))
            let hedge = Bool.random(using: &random) ? Hedge.after(delay) : .after(percentile: 0.5)
            return outcome(
                await result { () throws(ClientError) in
                    try await cluster.send(ask(body), hedge: hedge, options: options)
                }
            )
        case .all:
            let bodies = (0..<Int.random(in: 1...50, using: &random)).map { Bytes("\(number) \($0)") }
            let results = await cluster.send(all: bodies.map { ask($0) }, timeout: timeout, options: options)
            if results.count != bodies.count { world.violated("\(bodies.count) requests had \(results.count) results") }
            return zip(bodies, results).map {
                Outcome(body: $0, mayWait: options.waitsForReady, mostTries: mostTries, result: $1)
            }
        case .post:
            let request = Request(type: SeedCalls.oneWayType, body: body)
            let result = await result { () throws(ClientError) in
                try await cluster.post(request, timeout: timeout, options: options)
                return Response()
            }
            return [
                Outcome(
                    body: body,
                    isOneWay: true,
                    mayWait: options.waitsForReady,
                    mostTries: mostTries,
                    result: result
                )
            ]
        case .messages:
            let bodies = (0..<Int.random(in: 1...30, using: &random)).map { Bytes("\(number) \($0)") }
            let requests = bodies.map { Request(type: SeedCalls.oneWayType, body: $0) }
            let results = await cluster.post(all: requests, timeout: timeout, options: options)
            if results.count != bodies.count { world.violated("\(bodies.count) messages had \(results.count) results") }
            return zip(bodies, results).map { body, result in
                Outcome(
                    body: body,
                    isOneWay: true,
                    mayWait: options.waitsForReady,
                    mostTries: 1,
                    result: result.map { Response() }
                )
            }
        case .cached:
            return outcome(
                await result { () throws(ClientError) in
                    let policy = CachePolicy.for(.seconds(1))
                    return try await cached.send(ask(body), cache: policy, timeout: timeout, options: options)
                }
            )
        case .start:
            let handle = cluster.start(ask(body), timeout: timeout, options: options)
            if Int.random(in: 0..<3, using: &random) == 0 {
                try? await world.pass(upTo: Self.longestPause, &random)
                handle.cancel()
            }
            return outcome(await result { () throws(ClientError) in try await handle.value })
        case .stream:
            let isAbandoned = Int.random(in: 0..<4, using: &random) == 0
            let stream = cluster.stream(
                ask(body),
                timeout: timeout.or(.after(ClusterPlan.requestTimeout)),
                partTimeout: partTimeout,
                options: options
            )
            return outcome(await reply(of: stream, partTimeout, isAbandoned: isAbandoned))
        case .upload:
            let upload = cluster.open(
                Request(type: 0, body: body),
                timeout: timeout.or(.after(ClusterPlan.requestTimeout)),
                partTimeout: partTimeout,
                options: options
            )
            let count = Int.random(in: 0...3, using: &random)
            async let pieces = send(count, piecesOf: number, in: upload, salt)
            return outcome(await reply(of: upload.responses, partTimeout, isAbandoned: false)) + (await pieces)
        }
    }

    /// Sends the further pieces of an upload, some of them after a pause, until one fails.
    private func send(
        _ count: Int,
        piecesOf number: UInt64,
        in upload: OpenRequest,
        _ salt: UInt64
    ) async -> [Outcome] {
        var random = SeededGenerator(seed: salt &+ 1)
        var outcomes: [Outcome] = []
        for index in 0...count {
            if Int.random(in: 0..<3, using: &random) == 0 { try? await world.pass(upTo: Self.longestPause, &random) }
            let body = Bytes("piece \(index) of \(number)")
            let result = await result { () throws(ClientError) in
                if index < count {
                    try await upload.send(Request(type: 0, body: body))
                } else {
                    try await upload.finish(ask(body))
                }
                return Response()
            }
            outcomes.append(Outcome(body: body, isOneWay: true, isPiece: true, mostTries: .max, result: result))
            guard case .failure(let error) = result else { continue }
            world.count("piece \(error.code) \(error.fate)")
            if error.fate == .answered || error.code == .rejected {
                world.violated("a piece failed with the error of its request: \(error)")
            }
            break
        }
        return outcomes
    }

    /// Reads a reply part by part, sometimes not to its end.
    private func reply(
        of stream: ReplyStream<Response>,
        _ partTimeout: Timeout,
        isAbandoned: Bool
    ) async -> Result<Response, ClientError> {
        let limit = partTimeout.duration(orByDefault: ClusterPlan.requestTimeout) ?? .zero
        var bodies: [UInt8] = []
        var reader = stream.makeAsyncIterator()
        var began = world.now
        defer {
            if world.now - began > limit { world.violated("a part took \(world.now - began) of \(limit)") }
        }
        do throws(ClientError) {
            while let part = try await reader.next() {
                if world.now - began > limit { world.violated("a part took \(world.now - began) of \(limit)") }
                began = world.now
                bodies += part.body
                if !part.isPart { return .success(Response(body: Bytes(bodies))) }
                if isAbandoned { break }
            }
            if !isAbandoned, !Task.isCancelled { world.violated("a stream ended without its last part") }
            return .failure(ClientError(.cancelled, .unknown, Self.abandoned))
        } catch {
            return .failure(error)
        }
    }

    private func result(
        _ body: nonisolated(nonsending) () async throws(ClientError) -> Response
    ) async -> Result<Response, ClientError> {
        do throws(ClientError) { return .success(try await body()) } catch { return .failure(error) }
    }
}

extension Result where Success == Response, Failure == ClientError {
    fileprivate var summary: String {
        switch self {
        case .success: "answered"
        case .failure(let error): "\(error.code), \(error.fate): \(error.message)"
        }
    }
}
