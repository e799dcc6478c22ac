import Testing
import TrunklineCluster

@testable import TrunklineCache
@testable import TrunklineCore
@testable import TrunklineLayouts
@testable import TrunklineTesting

/// A caching sender with senders other than one client, in virtual time, and every promise of its documentation for random
/// calls.
@Suite(.simulated, .timeLimit(.seeded))
struct CachingSenderTests {}

extension CachingSenderTests {
    private func cached(_ sender: LateSender, in network: SimulatedNetwork) -> CachingSender {
        CachingSender(sender, CachingSender.Options(), speaking: nil, on: network.loops)
    }

    /// Each client of a cluster had a cache of its own.
    @Test func aClusterHasOneCache() async throws {
        let generations = Generations()
        let network = SimulatedNetwork(seed: 1)
        try await network.run {
            var servers: [LoopbackServer] = []
            for host in ["a:1", "b:1", "c:1"] as [Endpoint] {
                servers.append(
                    try await network.startServer(at: host, speaking: .standard, handler: generations.reply)
                )
            }
            let endpoints = ["a:1", "b:1", "c:1"].map { ClusterEndpoint(Endpoint(stringLiteral: $0)) }
            let cluster = Cluster(discovering: .static(endpoints), speaking: .standard, on: network.loops)
            let cached = CachingSender(cluster)
            for number in 0..<30 {
                let body = Bytes("\(number % 10)")
                #expect(await cached.text(body, .for(.seconds(60))) == "\(number % 10) \(number % 10 + 1)")
            }
            // Misses are balanced as any request: the key of the response does not decide the server.
            for server in servers { #expect(await server.journal.requestCount > 0) }
            #expect(cached.metrics.hits == 20 && cached.metrics.misses == 10 && cached.metrics.count == 10)
            await cluster.close()
            for server in servers { await server.stop() }
        }
    }

    /// Calls that no server takes before their deadlines time out, and say why.
    @Test func aClusterWithoutServersTimesOut() async throws {
        let network = SimulatedNetwork(seed: 1)
        try await network.run {
            let endpoints = [ClusterEndpoint("nowhere:1")]
            let cluster = Cluster(discovering: .static(endpoints), speaking: .standard, on: network.loops)
            let cached = CachingSender(cluster)
            async let first = cached.result("a", .for(.seconds(60)), timeout: .seconds(2))
            async let second = cached.result("a", .for(.seconds(60)), timeout: .seconds(3))
            #expect(await first.text == "timedOut unknown")
            let last = try #require(await second.error)
            #expect(last.code == .timedOut && last.fate == .notSent && !last.attempts.isEmpty)
            #expect(network.clock.now.offset == .seconds(3))
            await cluster.close()
        }
    }

    @Test func requestsOfALinkAreCachedToo() throws {
        let generations = Generations()
        try simulate(handler: generations.reply) { _, client in
            try await client.withLink { link in
                let cached = CachingSender(link)
                for _ in 0..<3 { #expect(await cached.text("a", .for(.seconds(60))) == "a 1") }
            }
        }
    }

    /// A codec forbids to cache responses of a sender whose codec is not known, if it is passed.
    @Test func aSenderOfYourOwnMayHaveACodec() throws {
        struct Forbidding: CachingCodec {
            var matching: ResponseMatching { .inOrder }
            func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? { nil }
            func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {}
            func mayCache(_ response: Frame) -> Bool { !String(response.body).hasPrefix("secret") }
        }
        try simulate { service, client in
            let sender = LateSender(client, in: service.network) { _ in LateSender.Plan(time: .seconds(1)) }
            let options = CachingSender.Options()
            let cached = CachingSender(sender, options, speaking: Forbidding(), on: service.network.loops)
            #expect(await cached.text("secret", .for(.seconds(60))) == "secret 1")
            #expect(await cached.text("secret", .for(.seconds(60))) == "secret 2")
            #expect(await cached.text("open", .for(.seconds(60))) == "open 3")
            #expect(await cached.text("open", .for(.seconds(60))) == "open 3")
            #expect(cached.metrics.count == 1)
        }
    }

    /// Calls with other options have requests of their own: with another key, a cluster may send them elsewhere.
    @Test func onlyCallsWithEqualOptionsShareARequest() throws {
        try simulate { service, client in
            let sender = LateSender(client, in: service.network) { _ in LateSender.Plan(time: .seconds(1)) }
            let cached = cached(sender, in: service.network)
            let options = [
                CallOptions(), CallOptions(timeout: .seconds(5), recorder: TimelineRecorder()),
                CallOptions(retry: .never), CallOptions(waitsForReady: false), CallOptions(key: RoutingKey("a")),
                CallOptions(key: RoutingKey("b")), CallOptions(isLarge: true), CallOptions(outlivesSession: false),
            ]
            let ends = await withTaskGroup(of: String.self) { group in
                for options in options {
                    group.addTask {
                        let result: Result<Response, ClientError>
                        do throws(ClientError) {
                            result = .success(try await cached.send(ask("x"), cache: .for(.zero), options: options))
                        } catch {
                            result = .failure(error)
                        }
                        return result.text
                    }
                }
                return await group.reduce(into: []) { $0.append($1) }
            }
            #expect(Set(ends) == Set((1...7).map { "x \($0)" }))
            #expect(cached.metrics.shares == 1)
        }
    }

    /// The sender is slow to end: a call whose deadline has passed gets the true fate, and one that is not the last does
    /// not wait for it.
    @Test func onlyTheLastCallWaitsForASenderThatGoesOn() throws {
        try simulate { service, client in
            let sender = LateSender(client, in: service.network) { _ in
                LateSender.Plan(time: .seconds(100), grace: .seconds(5))
            }
            let cached = cached(sender, in: service.network)
            let began = service.now
            async let first = cached.text("a", .for(.seconds(60)), timeout: .seconds(1))
            async let second = cached.text("a", .for(.seconds(60)), timeout: .seconds(2))
            #expect(await first == "timedOut unknown")
            #expect(service.now - began == .seconds(1))
            // A call that comes while the request is being cancelled has a request of its own.
            try await service.pass(.seconds(3))
            async let late = cached.text("a", .for(.seconds(60)), timeout: .seconds(1))
            #expect(await second == "timedOut unknown")
            #expect(service.now - began == .seconds(7))
            #expect(await late == "timedOut unknown")
            #expect(service.now - began == .seconds(10))
            #expect(sender.records.withLock { $0.map(\.ended) }.allSatisfy { $0 != nil })
        }
    }

    // MARK: Random calls

    /// A call and what it has returned.
    private struct Call: Sendable {
        let name: String
        let policy: CachePolicy
        let begun: Instant
        let deadline: Instant
        /// When the call was cancelled; `nil` if it was not.
        var cancelled: Instant?
        var ended: Instant
        var result: Result<Response, ClientError>
        /// The number of removals that had returned before the call.
        let removals: Int
    }

    /// Records the calls and the removals of a run, and checks the promises.
    private final class Judge: Sendable {
        let removals = Lock<[(at: Instant, sentBefore: Int)]>([])
        let sender: LateSender

        init(_ sender: LateSender) { self.sender = sender }

        /// Returns what is wrong with a call.
        func faults(of call: Call) -> [String] {
            var faults: [String] = []
            let records = sender.records.withLock { $0 }
            // At once: but for a request whose sender goes on after its cancellation.
            let end = min(call.deadline, call.cancelled ?? .distantFuture)
            if call.ended > end.advanced(by: CachingSenderTests.grace) { faults.append("it ended too late") }
            switch call.result {
            case .success(let response):
                let words = String(response.body).split(separator: " ")
                guard words.count == 2, words[0] == call.name, let number = Int(words[1]) else {
                    return faults + ["it got the response to another request: \(words)"]
                }
                let record = records[number - 1]
                let received = record.ended ?? .distantPast
                if call.policy.joins == false, record.begun < call.begun {
                    faults.append("a reload got the response to an older request")
                }
                if received < call.begun {
                    let age = call.begun.since(received)
                    if !call.policy.fresh.admits(age), !call.policy.stale.admits(call.ended.since(received)) {
                        faults.append("the response was \(age) old")
                    }
                }
                let before = removals.withLock { $0.prefix(call.removals).map(\.sentBefore).max() ?? 0 }
                if number <= before { faults.append("it got a response that was requested before a removal") }
            case .failure(let error):
                switch error.code {
                case .timedOut where call.ended < call.deadline && error.message != "planned":
                    faults.append("it timed out too early")
                case .cancelled where call.cancelled == nil: faults.append("it was not cancelled")
                case .timedOut, .cancelled, .notCached, .rejected, .connectionLost: break
                default: faults.append("unexpected error \(error)")
                }
                if call.policy.stale == .any, error.code == .connectionLost, error.message != "planned" {
                    faults.append("unexpected \(error)")
                }
            }
            return faults
        }
    }

    private static let grace = Duration.milliseconds(3)

    private static func policy(_ random: inout SeededGenerator) -> CachePolicy {
        switch Int.random(in: 0..<10, using: &random) {
        case 0, 1: .reloadIgnoringCache
        case 2: .returnCacheElseFail
        case 3: .staleIfUnavailable
        case 4: .staleIfUnavailable(freshFor: .milliseconds(5), upTo: .milliseconds(50))
        case 5, 6: .for(.zero)
        default: .for(.milliseconds(Int.random(in: 1...40, using: &random)))
        }
    }

    @Test func everyPromiseIsKeptForRandomCalls() async throws {
        let (hits, shares) = (Lock(0), Lock(0))
        for seed in seeds(200) {
            await Task.yield()
            try simulate(seed: seed, overTLS: false) { service, client in
                let random = Lock(SeededGenerator(seed: seed))
                let sender = LateSender(client, in: service.network) { _ in
                    random.withLock { random in
                        var plan = LateSender.Plan(time: .microseconds(Int.random(in: 0...30_000, using: &random)))
                        if Int.random(in: 0..<3, using: &random) == 0 { plan.grace = Self.grace }
                        switch Int.random(in: 0..<6, using: &random) {
                        case 0: plan.error = ClientError(.connectionLost, .unknown, "planned")
                        case 1: plan.error = ClientError(.rejected, .answered, "planned")
                        default: break
                        }
                        return plan
                    }
                }
                let cached = cached(sender, in: service.network)
                let judge = Judge(sender)
                let loop = service.network.loop
                let calls = await withTaskGroup(of: [Call].self) { group in
                    for caller in 0..<40 as Range<UInt64> {
                        group.addTask {
                            var random = SeededGenerator(seed: seed << 8 | caller)
                            var calls: [Call] = []
                            for _ in 0..<6 {
                                try? await service.pass(.microseconds(Int.random(in: 0...20_000, using: &random)))
                                if Int.random(in: 0..<12, using: &random) == 0 {
                                    let sent = sender.records.withLock(\.count)
                                    cached.removeCachedResponses()
                                    judge.removals.withLock { $0.append((loop.now, sent)) }
                                }
                                calls.append(await Self.call(cached, judge, in: service, &random))
                            }
                            return calls
                        }
                    }
                    return await group.reduce(into: []) { $0 += $1 }
                }
                #expect(calls.count == 240)
                for call in calls {
                    for fault in judge.faults(of: call) { Issue.record("seed \(seed): \(fault): \(call)") }
                }
                // No request outlives its calls, and each is that of a miss.
                let records = sender.records.withLock { $0 }
                #expect(records.allSatisfy { $0.ended != nil }, "seed \(seed)")
                let metrics = cached.metrics
                #expect(records.count <= metrics.misses, "seed \(seed)")
                #expect(metrics.hits + metrics.misses + metrics.shares <= 240, "seed \(seed)")
                #expect(metrics.count <= 3, "seed \(seed)")
                hits.withLock { $0 += metrics.hits }
                shares.withLock { $0 += metrics.shares }
            }
        }
        // On average, five of the calls of each seed.
        let least = 5 * seeds(200).count
        #expect(hits.withLock { $0 } > least && shares.withLock { $0 } > least)
    }

    private static func call(
        _ cached: CachingSender,
        _ judge: Judge,
        in service: SimulatedService,
        _ random: inout SeededGenerator
    ) async -> Call {
        let loop = service.network.loop
        let name = "\(Int.random(in: 0..<3, using: &random))"
        let policy = policy(&random)
        let timeout = Duration.microseconds(Int.random(in: 1...40_000, using: &random))
        let patience = Duration.microseconds(Int.random(in: 0...40_000, using: &random))
        let isCancelled = Int.random(in: 0..<3, using: &random) == 0
        let removals = judge.removals.withLock { $0.count }
        let begun = loop.now
        let task = Task(executorPreference: service.network.executor) {
            (await cached.result(Bytes(name), policy, timeout: .after(timeout)), loop.now)
        }
        if isCancelled { try? await service.pass(patience) }
        let cancelled = isCancelled ? loop.now : nil
        if isCancelled { task.cancel() }
        let (result, ended) = await task.value
        return Call(
            name: name,
            policy: policy,
            begun: begun,
            deadline: begun.advanced(by: timeout),
            cancelled: cancelled,
            ended: ended,
            result: result,
            removals: removals
        )
    }
}
