import Testing
import TrunklineCache
import TrunklineTesting

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts
@testable import TrunklineLoopback

extension Client {
    /// The number of watched deadlines, including those of requests that have ended.
    fileprivate var watchedDeadlines: Int { dispatcher.requests.watchedCount }
}

/// Calls that are coalesced into one request, in virtual time: which calls join, when they leave, and how each ends.
@Suite(.simulated, .timeLimit(.minutes(5)))
struct CoalescingTests {}

extension CoalescingTests {
    @Test func identicalCallsShareAnExchange() throws {
        try simulate(handler: { _ in .after(.seconds(1), .echo) }) { service, client in
            let cached = CachingSender(client)
            let ends = await withTaskGroup(of: String.self) { group in
                for number in 0..<100 {
                    group.addTask { await cached.text(Bytes("\(number % 2)"), .for(.seconds(60))) }
                }
                return await group.reduce(into: [:]) { $0[$1, default: 0] += 1 }
            }
            #expect(ends == ["0": 50, "1": 50])
            #expect(await service.server.journal.requestCount == 2)
            #expect(await service.server.journal.cancelCount == 0)
            #expect(cached.metrics.misses == 2)
            #expect(cached.metrics.shares == 98)
            #expect(cached.metrics.hits == 0)
            #expect(await client.metrics.requests == 2)
        }
    }

    @Test func theRequestIsCancelledWhenItsLastCallerCancels() throws {
        try simulate(handler: { _ in .noReply }) { service, client in
            let cached = CachingSender(client)
            try await client.connect()
            let calls = (0..<3).map { _ in
                Task(executorPreference: service.network.executor) { await cached.text("a", .for(.seconds(60))) }
            }
            try await service.pass(.seconds(1))
            for call in calls {
                #expect(await service.server.journal.cancelCount == 0)
                call.cancel()
                #expect(await call.value == "cancelled unknown")
                try await service.pass(.seconds(1))
            }
            let journal = await service.server.journal
            #expect(journal.requestCount == 1)
            #expect(journal.cancels.map(\.serial) == journal.requests.map(\.serial))
        }
    }

    @Test func theRemainingCallerGetsTheResponse() throws {
        try simulate(handler: { _ in .after(.seconds(5), .echo) }) { service, client in
            let cached = CachingSender(client)
            try await client.connect()
            let first = Task(executorPreference: service.network.executor) {
                await cached.text("a", .for(.seconds(60)))
            }
            try await service.pass(.seconds(1))
            async let second = cached.text("a", .for(.seconds(60)))
            try await service.pass(.seconds(1))
            first.cancel()
            #expect(await first.value == "cancelled unknown")
            let end = await second
            #expect(end == "a")
            #expect(await service.server.journal.requestCount == 1)
            #expect(await service.server.journal.cancelCount == 0)
        }
    }

    @Test func everyCallKeepsItsOwnTimeout() throws {
        try simulate(handler: { _ in .after(.seconds(6), .echo) }) { service, client in
            let cached = CachingSender(client)
            try await client.connect()
            let began = service.now
            @Sendable func call(_ timeout: Timeout) async -> (String, Duration) {
                let end = await cached.text("a", .for(.seconds(60)), timeout: timeout)
                return (end, service.now - began)
            }
            async let first = call(.seconds(4))
            async let hasty = call(.milliseconds(500))
            try await service.pass(.seconds(3))
            async let late = call(.seconds(4))
            async let lateAndHasty = call(.milliseconds(1500))
            let ends = await [hasty, first, lateAndHasty, late]
            #expect(ends[0] == ("timedOut unknown", .milliseconds(500)))
            #expect(ends[1] == ("timedOut unknown", .seconds(4)))
            #expect(ends[2] == ("timedOut unknown", .milliseconds(4500)))
            #expect(ends[3].0 == "a")
            #expect(ends[3].1 < .milliseconds(6500))
            #expect(await service.server.journal.requestCount == 1)
            #expect(await service.server.journal.cancelCount == 0)
        }
    }

    @Test func theRequestEndsAtTheDeadlineOfItsLastCall() throws {
        let options = ClientOptions { $0.requests.timeout = nil }
        try simulate(options: options, handler: { _ in .noReply }) { service, client in
            let cached = CachingSender(client)
            try await client.connect()
            async let first = cached.result("a", .for(.seconds(60)), timeout: .seconds(2))
            async let second = cached.result("a", .for(.seconds(60)), timeout: .seconds(5))
            try await service.pass(.seconds(4))
            #expect(await service.server.journal.cancelCount == 0)
            async let third = cached.result("a", .for(.seconds(60)), timeout: .seconds(3))
            try await service.pass(.seconds(2))
            #expect(await service.server.journal.cancelCount == 0)
            let ends = await [first, second, third]
            #expect(ends.map(\.text) == Array(repeating: "timedOut unknown", count: 3))
            // Only the error of the last call is that of the request itself, and names the endpoint.
            #expect(ends.map { $0.error?.endpoint != nil } == [false, false, true])
            try await service.pass(.seconds(1))
            #expect(await service.server.journal.cancelCount == 1)
            // A call without a timeout keeps the request in flight.
            let patient = Task(executorPreference: service.network.executor) {
                await cached.text("b", .for(.seconds(60)))
            }
            #expect(await cached.text("b", .for(.seconds(60)), timeout: .seconds(10)) == "timedOut unknown")
            try await service.pass(.seconds(10_000))
            #expect(await service.server.journal.cancelCount == 1)
            patient.cancel()
            #expect(await patient.value == "cancelled unknown")
        }
    }

    /// The cache watches the deadlines of its calls: the client knows none of the request.
    @Test func callsThatComeAndLeaveDoNotDelayTheLastOne() throws {
        try simulate(handler: { _ in .noReply }) { service, client in
            let cached = CachingSender(client)
            try await client.connect()
            let began = service.now
            async let patient = cached.text("a", .for(.seconds(60)), timeout: .seconds(3600))
            try await service.server.waitForRequests(1)
            for _ in 0..<1000 {
                let end = await cached.text("a", .for(.seconds(60)), timeout: .milliseconds(100))
                #expect(end == "timedOut unknown")
            }
            // Several calls at a time, some of them with the same deadline.
            await withTaskGroup { group in
                for caller in 0..<20 {
                    group.addTask {
                        for _ in 0..<20 {
                            let timeout = Duration.milliseconds(100 + caller / 2)
                            _ = await cached.text("a", .for(.seconds(60)), timeout: .after(timeout))
                        }
                    }
                }
            }
            #expect(await client.watchedDeadlines == 0)
            #expect(await service.server.journal.cancelCount == 0)
            let end = await patient
            #expect(end == "timedOut unknown")
            #expect(service.now - began == .seconds(3600))
            try await service.pass(.seconds(1))
            #expect(await service.server.journal.requestCount == 1)
            #expect(await service.server.journal.cancelCount == 1)
        }
    }

    /// When a call with a late deadline leaves, the request ends at the deadline of those that remain.
    @Test func theDeadlineOfTheRequestMovesBackWhenACallLeaves() throws {
        try simulate(handler: { _ in .noReply }) { service, client in
            let cached = CachingSender(client)
            try await client.connect()
            let began = service.now
            let patient = Task(executorPreference: service.network.executor) {
                await cached.text("a", .for(.seconds(60)), timeout: .seconds(3600))
            }
            async let hasty = cached.result("a", .for(.seconds(60)), timeout: .seconds(2))
            try await service.pass(.seconds(1))
            patient.cancel()
            #expect(await patient.value == "cancelled unknown")
            let error = await hasty.error
            #expect(error?.code == .timedOut && error?.fate == .unknown && error?.endpoint != nil)
            #expect(service.now - began == .seconds(2))
            try await service.server.wait { $0.cancelCount == 1 }
        }
    }

    /// For the client and its link, a request that all its calls leave at their deadlines has timed out: it used to count
    /// as cancelled, which says nothing about the server.
    @Test func aRequestThatAllCallsLeaveHasTimedOut() throws {
        try simulate(handler: { _ in .noReply }) { service, client in
            let cached = CachingSender(client)
            try await client.connect()
            for number in 0..<3 {
                let end = await cached.text(Bytes("\(number)"), .for(.seconds(60)), timeout: .seconds(1))
                #expect(end == "timedOut unknown")
            }
            #expect(await client.metrics.failures[.init(.timedOut, .unknown)] == 3)
        }
    }

    @Test func anUnwrittenRequestIsNotSentAfterItsLastCallTimedOut() throws {
        try simulate { service, client in
            let cached = CachingSender(client)
            service.network.refuseConnections(to: "db")
            async let first = cached.text("a", .for(.seconds(60)), timeout: .seconds(1))
            async let second = cached.text("a", .for(.seconds(60)), timeout: .seconds(2))
            let ends = await [first, second]
            #expect(ends == ["timedOut unknown", "timedOut notSent"])
            service.network.acceptConnections(to: "db")
            try await service.pass(.seconds(60))
            #expect(await service.server.journal.requestCount == 0)
        }
    }

    @Test func everyCallGetsTheSameError() throws {
        try simulate(
            speaking: FrameLayout.checked,
            handler: { request in
                switch request.body {
                case "reject": .after(.seconds(1), .status(5, "no"))
                case "reset": .after(.seconds(1), .reset)
                default: .noReply
                }
            }
        ) { service, client in
            let cached = CachingSender(client)
            for (body, end) in [
                ("reject", "rejected answered"), ("reset", "connectionLost unknown"), ("close", "closed unknown"),
            ] {
                try await client.connect()
                async let first = cached.text(Bytes(body), .for(.seconds(60)))
                async let second = cached.text(Bytes(body), .for(.seconds(60)))
                async let third = cached.text(Bytes(body), .for(.seconds(60)), waitsForReady: false)
                if body == "close" {
                    try await service.pass(.milliseconds(100))
                    await client.closeNow()
                }
                let ends = await [first, second, third]
                #expect(ends == [end, end, end])
                #expect(cached.metrics.count == 0)
            }
            // Calls with other options have their own request.
            #expect(await service.server.journal.requestCount == 6)
        }
    }

    @Test func aReloadJoinsOnlyARequestThatTheClientDoesNotHave() throws {
        let generations = Generations()
        try simulate(handler: { .after(.seconds(1), generations.reply(to: $0)) }) { service, client in
            let cached = CachingSender(client)
            try await client.connect()
            async let early = cached.text("a", .for(.seconds(60)))
            try await service.server.waitForRequests(1)
            async let reload = cached.text("a", .reloadIgnoringCache)
            try await service.server.waitForRequests(2)
            async let late = cached.text("a", .for(.seconds(60)))
            let ends = await [early, reload, late]
            #expect(ends == ["a 1", "a 2", "a 2"])
            #expect(await cached.text("a", .returnCacheElseFail) == "a 2")
            // Those that come at once share a request, and a later one has its own.
            async let first = cached.text("a", .reloadIgnoringCache)
            async let second = cached.text("a", .reloadIgnoringCache)
            try await service.pass(.milliseconds(500))
            async let third = cached.text("a", .reloadIgnoringCache)
            let reloads = await [first, second, third]
            #expect(reloads == ["a 3", "a 3", "a 4"])
            #expect(await cached.text("a", .returnCacheElseFail) == "a 4")
        }
    }

    /// The exchange that begins first ends last. Its response must not replace the response to the later request.
    @Test func aResponseOvertakenByANewerOneIsNotCached() throws {
        try simulate { service, client in
            let cached = CachingSender(client)
            try await client.connect()
            await service.server.script(.after(.seconds(5), .reply("old")), .after(.seconds(1), .reply("new")))
            async let old = cached.text("a", .for(.seconds(60)))
            try await service.server.waitForRequests(1)
            async let new = cached.text("a", .for(.seconds(60)), waitsForReady: false)
            let ends = await [new, old]
            #expect(ends == ["new", "old"])
            #expect(await cached.text("a", .returnCacheElseFail) == "new")
        }
    }

    @Test func aCoalescedRequestIsRetriedForAllCalls() throws {
        try simulate(handler: { _ in .echo }) { service, client in
            let cached = CachingSender(client)
            try await client.connect()
            await service.server.script(.reset)
            async let first = cached.result("a", .for(.seconds(60)), retry: .idempotent())
            async let second = cached.result("a", .for(.seconds(60)), retry: .idempotent())
            let ends = await [first, second].map(\.text)
            #expect(ends == ["a", "a"])
            #expect(await client.metrics.retries == 1)
            // No retry begins after the deadlines of all calls.
            await service.server.script(.reset)
            let retry = RetryPolicy.idempotent(backoff: Backoff(base: .seconds(1000), cap: .seconds(1000)))
            let end = await cached.result("b", .for(.seconds(60)), timeout: .milliseconds(10), retry: retry)
            #expect(end.text == "connectionLost unknown")
        }
    }

    @Test func cancelAllEndsAllEarlierCalls() throws {
        try simulate(handler: { _ in .noReply }) { service, client in
            let cached = CachingSender(client)
            try await client.connect()
            async let first = cached.text("a", .for(.seconds(60)))
            async let second = cached.text("a", .for(.seconds(60)))
            async let other = cached.text("b", .for(.seconds(60)))
            try await service.server.waitForRequests(2)
            client.cancelAll()
            let ends = await [first, second, other]
            #expect(ends == Array(repeating: "cancelled unknown", count: 3))
            try await service.server.wait { $0.cancelCount == 2 }
        }
    }

    @Test func anOrderlyCloseLetsWaitingCallsFinish() throws {
        try simulate(handler: { _ in .after(.seconds(5), .echo) }) { service, client in
            let cached = CachingSender(client)
            try await client.connect()
            async let first = cached.text("a", .for(.seconds(60)))
            async let hasty = cached.text("a", .for(.seconds(60)), timeout: .seconds(2))
            try await service.server.waitForRequests(1)
            async let closed: Void = client.close()
            try await service.pass(.seconds(1))
            #expect(await cached.text("b", .for(.seconds(60))) == "closed notSent")
            // The request is under way.
            async let late = cached.text("a", .for(.seconds(60)))
            let ends = await [first, hasty, late]
            #expect(ends == ["a", "timedOut unknown", "a"])
            await closed
        }
    }

    @Test func anOverloadedCallLeavesNothingToJoin() throws {
        let options = ClientOptions { $0.requests.maximumWaiting = 1 }
        try simulate(options: options) { service, client in
            let cached = CachingSender(client)
            service.network.refuseConnections(to: "db")
            let waiting = client.start(ask("waits"))
            #expect(await cached.text("a", .for(.seconds(60))) == "overloaded notSent")
            // No request is left that later calls could join.
            waiting.cancel()
            service.network.acceptConnections(to: "db")
            #expect(await cached.text("a", .for(.seconds(60)), timeout: .seconds(60)) == "a")
        }
    }

    @Test func aReplyInPartsIsSharedAndCachedAsAWhole() throws {
        try simulate(
            speaking: PartsCodec(),
            handler: { _ in .parts(["a", "b"], every: .seconds(1), then: .reply("c")) }
        ) {
            service,
            client in
            let cached = CachingSender(client)
            async let first = cached.text("x", .for(.seconds(60)))
            async let hasty = cached.text("x", .for(.seconds(60)), timeout: .milliseconds(1500))
            let ends = await [first, hasty]
            #expect(ends == ["abc", "timedOut unknown"])
            #expect(await cached.text("x", .returnCacheElseFail) == "abc")
        }
    }
}
