import Testing
import Trunkline
import TrunklineTesting

@testable import TrunklineLoopback

/// Very many calls with few keys: in virtual time with many seeds, and on real threads.
enum CoalescingStorm {
    /// Some responses come at once, some late, some never.
    static func react(_ request: Frame) -> Reaction {
        switch String(request.body).last {
        case "0": .echo
        case "1": .after(.milliseconds(5), .echo)
        case "2": .after(.milliseconds(40), .echo)
        default: .noReply
        }
    }

    static func policy(_ random: inout SeededGenerator) -> CachePolicy {
        switch Int.random(in: 0..<8, using: &random) {
        case 0: .reloadIgnoringCache
        case 1: .returnCacheElseFail
        case 2: .staleIfUnavailable
        case 3: .for(.milliseconds(10))
        default: .for(.zero)
        }
    }

    /// The outcome of a call, as the key under which it is counted; "crossed" for the response to another request.
    static func note(_ body: Bytes, _ result: Result<Response, ClientError>) -> String {
        switch result {
        case .success(let frame): frame.body == body ? "success" : "crossed"
        case .failure(let error): "\(error.code)"
        }
    }

    /// Checks, once all calls have ended, that each request was either answered or cancelled. Valid only if no
    /// link was lost.
    static func check(
        _ client: Client,
        _ server: LoopbackServer,
        sourceLocation: SourceLocation = #_sourceLocation
    ) async throws {
        let metrics = await client.metrics
        #expect(metrics.pending == 0, sourceLocation: sourceLocation)
        // One cancel frame for each request that was written and then abandoned by all its callers.
        try await server.wait(within: patience) { $0.cancelCount == $0.requestCount - metrics.responses }
        let journal = await server.journal
        #expect(journal.requestCount <= metrics.requests, sourceLocation: sourceLocation)
        #expect(Set(journal.cancels.map(\.serial)).count == journal.cancels.count, sourceLocation: sourceLocation)
    }
}

@Suite(.simulated, .timeLimit(.seeded))
struct CoalescingSeedTests {}

extension CoalescingSeedTests {
    @Test func everyCallEndsExactlyOnceInAStorm() async throws {
        let seeds = UInt64(max(50, min(400, stormRequests / 250)))
        for seed in 0..<seeds {
            await Task.yield()
            let hasFaults = seed % 4 == 3
            try simulate(seed: seed, overTLS: false, handler: CoalescingStorm.react) { service, client in
                let cached = CachingSender(client)
                let ends = await withTaskGroup(of: (Bytes, Result<Response, ClientError>).self) { group in
                    for caller in 0..<60 as Range<UInt64> {
                        group.addTask {
                            var random = SeededGenerator(seed: seed << 8 | caller)
                            let body = Bytes("\(Int.random(in: 0..<4, using: &random))")
                            let policy = CoalescingStorm.policy(&random)
                            let timeout = Duration.microseconds(Int.random(in: 1...60_000, using: &random))
                            let pause = Duration.microseconds(Int.random(in: 0...30_000, using: &random))
                            try? await service.pass(pause)
                            guard caller % 3 == 0 else {
                                return (body, await cached.result(body, policy, timeout: .after(timeout)))
                            }
                            let patience = Duration.microseconds(Int.random(in: 0...40_000, using: &random))
                            let call = Task(executorPreference: service.network.executor) {
                                await cached.result(body, policy)
                            }
                            try? await service.pass(patience)
                            call.cancel()
                            return (body, await call.value)
                        }
                    }
                    if hasFaults {
                        for _ in 0..<3 {
                            try? await service.pass(.milliseconds(11))
                            await service.server.disconnectAll(reset: true)
                        }
                    }
                    return await group.reduce(into: [String: Int]()) {
                        $0[CoalescingStorm.note($1.0, $1.1), default: 0] += 1
                    }
                }
                #expect(ends.values.reduce(0, +) == 60, "seed \(seed)")
                #expect(ends["crossed"] == nil, "seed \(seed)")
                let possible: Set = ["success", "timedOut", "cancelled", "notCached", "connectionLost"]
                #expect(possible.isSuperset(of: ends.keys), "seed \(seed): \(ends)")
                let cache = cached.metrics
                #expect(await client.metrics.requests <= cache.misses, "seed \(seed)")
                #expect(cache.hits + cache.misses + cache.shares <= 60, "seed \(seed)")
                if !hasFaults { try await CoalescingStorm.check(client, service.server) }
                // The serials of abandoned requests are free when their quarantine is over.
                try await service.pass(.seconds(70))
                #expect(await client.metrics.heldSerials == 0, "seed \(seed)")
            }
        }
    }

    /// The server receives one request per generation, in whatever order the calls come.
    @Test func oneRequestIsSentPerGeneration() async throws {
        for seed in seeds(100) {
            await Task.yield()
            try simulate(seed: seed, overTLS: false, handler: { _ in .after(.milliseconds(10), .echo) }) {
                service,
                client in
                let cached = CachingSender(client)
                for generation in 1...5 {
                    let successes = await withTaskGroup(of: String.self) { group in
                        for caller in 0..<50 as Range<UInt64> {
                            group.addTask {
                                var random = SeededGenerator(seed: seed << 8 | caller)
                                try? await service.pass(.microseconds(Int.random(in: 0...30_000, using: &random)))
                                return await cached.text("0", .for(.seconds(60)))
                            }
                        }
                        return await group.reduce(into: 0) { $0 += $1 == "0" ? 1 : 0 }
                    }
                    #expect(successes == 50)
                    #expect(await service.server.journal.requestCount == generation)
                    let cache = cached.metrics
                    #expect(cache.misses == generation)
                    #expect(cache.hits + cache.shares == generation * 49)
                    try await service.pass(.seconds(60))
                }
            }
        }
    }
}

extension HeavyTests {
    @Suite(.timeLimit(.minutes(10)))
    struct CoalescingStressLoopbackTests {
        @Test(arguments: Mechanism.allCases)
        func everyCallEndsExactlyOnceInAStorm(_ mechanism: Mechanism) async throws {
            let (workers, rounds) = (64, max(20, stormRequests / 400))
            let options = LoopbackServer.Options { $0.recordedFrames = 0 }
            try await withServerAndClient(
                by: mechanism,
                options: options,
                clientOptions: quickOptions { $0.requests.quarantine = .milliseconds(300) },
                handler: CoalescingStorm.react
            ) { server, client in
                let cached = CachingSender(client)
                try await client.connect()
                let ends = await withTaskGroup(of: [String: Int].self) { group in
                    for worker in 0..<workers {
                        group.addTask { await Self.ask(cached, rounds, seed: UInt64(worker)) }
                    }
                    return await group.reduce(into: [:]) { $0.merge($1, uniquingKeysWith: +) }
                }
                #expect(ends.values.reduce(0, +) == workers * rounds)
                let possible: Set = ["success", "timedOut", "cancelled", "notCached"]
                #expect(possible.isSuperset(of: ends.keys), "\(ends)")
                #expect(ends["success", default: 0] > 0)
                let cache = cached.metrics
                #expect(cache.shares > 0)
                #expect(cache.hits + cache.misses + cache.shares <= workers * rounds)
                try await CoalescingStorm.check(client, server)
            }
        }

        private static func ask(_ cached: CachingSender, _ rounds: Int, seed: UInt64) async -> [String: Int] {
            var random = SeededGenerator(seed: seed)
            var ends: [String: Int] = [:]
            for round in 0..<rounds {
                let body = Bytes("\(Int.random(in: 0..<4, using: &random))")
                let policy = CoalescingStorm.policy(&random)
                let timeout = Duration.microseconds(Int.random(in: 1...60_000, using: &random))
                if round % 64 == 0 { cached.removeCachedResponses() }
                if Bool.random(using: &random) {
                    let call = Task { await cached.result(body, policy, timeout: .after(timeout)) }
                    for _ in 0..<Int.random(in: 0...8, using: &random) { await Task.yield() }
                    call.cancel()
                    ends[CoalescingStorm.note(body, await call.value), default: 0] += 1
                } else {
                    let result = await cached.result(body, policy, timeout: .after(timeout))
                    ends[CoalescingStorm.note(body, result), default: 0] += 1
                }
            }
            return ends
        }
    }
}
