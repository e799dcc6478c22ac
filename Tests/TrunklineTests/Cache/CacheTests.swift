import Testing
import Trunkline
import TrunklineTesting

@testable import TrunklineLoopback

/// Cached responses in virtual time: each policy, and what is cached.
@Suite(.simulated, .timeLimit(.minutes(5)))
struct CacheTests {
    private let generations = Generations()

    @Test func aCachedResponseIsReturnedUntilItIsTooOld() throws {
        try simulate(handler: generations.reply) { service, client in
            let cached = CachingSender(client)
            #expect(await cached.text("a", .for(.seconds(60))) == "a 1")
            try await service.pass(.seconds(59))
            #expect(await cached.text("a", .for(.seconds(60))) == "a 1")
            // Each caller decides how old a response may be. A cache hit does not reset its age.
            #expect(await cached.text("b", .for(.seconds(60))) == "b 2")
            try await service.pass(.seconds(2))
            #expect(await cached.text("a", .for(.seconds(120))) == "a 1")
            #expect(await cached.text("a", .for(.seconds(60))) == "a 3")
            #expect(await cached.text("a", .for(.seconds(60))) == "a 3")
            #expect(await cached.text("a", .for(.zero)) == "a 4")
            #expect(await cached.text("a", .for(.seconds(-1))) == "a 5")
            let metrics = cached.metrics
            #expect(metrics.hits == 3)
            #expect(metrics.misses == 5)
            #expect(metrics.shares == 0)
            #expect(metrics.count == 2)
            #expect(await client.metrics.requests == 5)
        }
    }

    @Test func aReloadSendsTheRequestAndCachesTheResponse() throws {
        try simulate(handler: generations.reply) { service, client in
            let cached = CachingSender(client)
            #expect(await cached.text("a", .for(.seconds(60))) == "a 1")
            #expect(await cached.text("a", .reloadIgnoringCache) == "a 2")
            #expect(await cached.text("a", .for(.seconds(60))) == "a 2")
        }
    }

    @Test func returnCacheElseFailNeverSendsARequest() throws {
        try simulate(handler: generations.reply) { service, client in
            let cached = CachingSender(client)
            let error = await cached.result("a", .returnCacheElseFail).error
            #expect(error?.code == .notCached)
            #expect(error?.fate == .notSent)
            #expect(await service.server.totalConnections == 0)  // no link is established either
            #expect(await cached.text("a", .for(.seconds(1))) == "a 1")
            try await service.pass(.seconds(50_000))
            #expect(await cached.text("a", .returnCacheElseFail) == "a 1")
            #expect(await service.server.journal.requestCount == 1)
            let metrics = cached.metrics
            #expect(metrics.hits == 1)
            #expect(metrics.misses == 2)
        }
    }

    @Test func aStaleResponseIsReturnedWhenTheServerCannotBeReached() throws {
        let options = ClientOptions { $0.requests.timeout = .seconds(5) }
        try simulate(options: options, handler: generations.reply) { service, client in
            let cached = CachingSender(client)
            #expect(await cached.text("a", .staleIfUnavailable) == "a 1")
            #expect(await cached.text("a", .staleIfUnavailable) == "a 2")
            #expect(await cached.text("a", .staleIfUnavailable(freshFor: .seconds(60))) == "a 2")
            try await service.pass(.seconds(100))
            service.network.refuseConnections(to: "db")
            await service.server.disconnectAll()
            try await service.pass(.milliseconds(10))
            let began = service.now
            // Without a link, the call waits until its deadline.
            #expect(await cached.text("a", .staleIfUnavailable) == "a 2")
            #expect(service.now - began == .seconds(5))
            #expect(await cached.text("a", .staleIfUnavailable, waitsForReady: false) == "a 2")
            #expect(service.now - began == .seconds(5))
            // Other policies return the error.
            #expect(await cached.text("a", .for(.seconds(60)), waitsForReady: false) == "unavailable notSent")
            #expect(await cached.text("b", .staleIfUnavailable, waitsForReady: false) == "unavailable notSent")
            let limited = CachePolicy.staleIfUnavailable(freshFor: .seconds(1), upTo: .seconds(100))
            #expect(await cached.text("a", limited, waitsForReady: false) == "unavailable notSent")
            let patient = CachePolicy.staleIfUnavailable(freshFor: .seconds(1), upTo: .seconds(200))
            #expect(await cached.text("a", patient, waitsForReady: false) == "a 2")
            #expect(cached.metrics.staleHits == 3)
        }
    }

    @Test func aStaleResponseDoesNotReplaceARejectionOrACancellation() throws {
        let codec = FrameLayout.checked
        try simulate(
            speaking: codec,
            handler: { request in
                switch request.body {
                case "a": .echo
                default: .noReply
                }
            }
        ) { service, client in
            let cached = CachingSender(client)
            let key = CachePolicy.staleIfUnavailable.keyed(by: "one")
            #expect(await cached.text("a", key) == "a")
            await service.server.script(.status(5, "no"))
            #expect(await cached.text("b", key) == "rejected answered")
            // A server that does not answer in time counts as unreachable. A cancelled call does not get a
            // stale response.
            #expect(await cached.text("b", key, timeout: .seconds(1)) == "a")
            async let cancelled = cached.text("b", key)
            try await service.server.waitForRequests(4)
            client.cancelAll()
            let end = await cancelled
            #expect(end == "cancelled unknown")
            await service.server.script(.reset)
            #expect(await cached.text("b", key) == "a")
            await service.server.script(.garbage(filled(64, with: 0xFF)))
            #expect(await cached.text("b", key).hasPrefix("protocolViolation"))
        }
    }

    @Test func errorsAreNeverCached() throws {
        try simulate(speaking: FrameLayout.checked) { service, client in
            let cached = CachingSender(client)
            await service.server.script(.status(5, "no"), .reset, .garbage(filled(64, with: 0xFF)), .noReply)
            var ends: [String] = []
            for _ in 0..<5 { ends.append(await cached.text("a", .for(.seconds(60)), timeout: .seconds(3))) }
            #expect(
                ends == [
                    "rejected answered", "connectionLost unknown", "protocolViolation unknown", "timedOut unknown", "a",
                ]
            )
            #expect(await cached.text("a", .returnCacheElseFail) == "a")
        }
    }

    @Test func aCustomKeyReplacesTheWholeRequest() throws {
        try simulate(handler: generations.reply) { service, client in
            let cached = CachingSender(client)
            #expect(await cached.text("a", .for(.seconds(60)).keyed(by: "user \(7)")) == "a 1")
            #expect(await cached.text("b", .for(.seconds(60)).keyed(by: "user 7")) == "a 1")
            #expect(await cached.text("a", .for(.seconds(60))) == "a 2")
            cached.removeCachedResponse(for: "user 7")
            #expect(await cached.text("b", .for(.seconds(60)).keyed(by: "user 7")) == "b 3")
            cached.removeCachedResponse(for: CacheKey(ask("a")))
            #expect(await cached.text("a", .for(.seconds(60))) == "a 4")
            cached.removeCachedResponses()
            #expect(await cached.text("b", .returnCacheElseFail.keyed(by: "user 7")) == "notCached notSent")
            #expect(cached.metrics.byteCount == 0)
        }
    }

    /// A caller that changes something and then clears the cache must not find an earlier response there.
    @Test func aResponseRequestedBeforeTheCacheWasClearedIsNotCached() throws {
        try simulate(handler: { _ in .after(.seconds(1), .echo) }) { service, client in
            let cached = CachingSender(client)
            for isOne in [true, false] {
                async let before = cached.text("a", .for(.seconds(60)))
                try await service.server.waitForRequests(isOne ? 1 : 3)
                if isOne {
                    cached.removeCachedResponse(for: CacheKey(ask("a")))
                } else {
                    cached.removeCachedResponses()
                }
                try await service.pass(.milliseconds(500))
                async let after = cached.text("a", .for(.seconds(60)))
                try await service.server.waitForRequests(isOne ? 2 : 4)
                var end = await before
                #expect(end == "a")
                #expect(await cached.text("a", .returnCacheElseFail) == "notCached notSent")
                end = await after
                #expect(end == "a")
                #expect(await cached.text("a", .returnCacheElseFail) == "a")
                cached.removeCachedResponses()
            }
        }
    }

    @Test func aResponseThatCannotBeDecodedIsNotCached() throws {
        struct Number: TypedRequest {
            struct None: Error {}
            static let type: UInt32 = 0x410
            func encode() -> Bytes { "number" }
            static func decode(_ response: Response) throws -> Int {
                guard let number = Int(String(response.body)) else { throw None() }
                return number
            }
        }
        try simulate(handler: { _ in .reply("7") }) { service, client in
            let cached = CachingSender(client)
            await service.server.script(.reply("seven"))
            let error = await failure { () throws(ClientError) in
                try await cached.send(Number(), cache: .for(.seconds(60)))
            }
            #expect(error?.code == .invalidResponse)
            #expect(error?.fate == .answered)
            for _ in 0..<2 {
                let number = try await cached.send(Number(), cache: .for(.seconds(60)))
                #expect(number == 7)
            }
            #expect(await service.server.journal.requestCount == 2)
        }
    }

    @Test func theCacheIsBoundedByCountAndBytes() throws {
        let options = CachingSender.Options {
            $0.maximumCount = 10
            $0.maximumBytes = 100_000
        }
        try simulate(handler: { .reply(filled($0.body.count, with: 1)) }) { service, client in
            let cached = CachingSender(client, options: options)
            for number in 0..<30 {
                _ = await cached.result(Bytes("\(number)"), .for(.seconds(60)))
                let cache = cached.metrics
                #expect(cache.count == min(number + 1, 10))
            }
            for number in 0..<10 {
                _ = await cached.result(filled(10_000, with: UInt8(number)), .for(.seconds(60)))
                let cache = cached.metrics
                #expect(cache.byteCount <= 100_000)
                #expect(cache.byteCount >= 20_000)
            }
            let cache = cached.metrics
            #expect((3...4).contains(cache.count))
            #expect(await cached.result(filled(10_000, with: 9), .returnCacheElseFail).error == nil)
            #expect(await cached.result(filled(10_000, with: 1), .returnCacheElseFail).error?.code == .notCached)
        }
    }

    @Test func aClosedClientSendsNothingAndTheCacheRemains() throws {
        try simulate(handler: generations.reply) { service, client in
            let cached = CachingSender(client)
            #expect(await cached.text("a", .for(.seconds(60))) == "a 1")
            await client.close()
            #expect(await cached.text("a", .for(.seconds(60))) == "a 1")
            #expect(await cached.text("a", .returnCacheElseFail) == "a 1")
            // The client is closed, and not the server unreachable.
            #expect(await cached.text("a", .staleIfUnavailable) == "closed notSent")
            #expect(await cached.text("b", .for(.seconds(60))) == "closed notSent")
            cached.removeCachedResponses()
            #expect(await cached.text("a", .for(.seconds(60))) == "closed notSent")
            #expect(cached.metrics.byteCount == 0)
        }
    }

    @Test func anExpiredOrCancelledCallFailsDespiteACachedResponse() throws {
        try simulate(handler: generations.reply) { service, client in
            let cached = CachingSender(client)
            #expect(await cached.text("a", .for(.seconds(60))) == "a 1")
            #expect(await cached.text("a", .for(.seconds(60)), timeout: .seconds(0)) == "timedOut notSent")
            let task = Task(executorPreference: service.network.executor) {
                unsafe withUnsafeCurrentTask { unsafe $0?.cancel() }
                return await cached.text("a", .for(.seconds(60)))
            }
            #expect(await task.value == "cancelled notSent")
        }
    }
}
