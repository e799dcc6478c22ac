import Testing

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLoopback
@testable import TrunklineTesting

/// Requests that were abandoned after they had started. They count against the limit as long as the server may work on
/// them. If they hold too many serials or places, the link is replaced.
@Suite(.simulated, .timeLimit(.minutes(5)))
struct CancelledInFlightTests {}

extension CancelledInFlightTests {
    private static let answersCancelled = LoopbackServer.Options { $0.answersCancelled = true }

    /// "slow" is answered after 10 s, "lost" never.
    private static let handler: LoopbackServer.Handler = { request in
        switch request.body {
        case "slow": .after(.seconds(10), .echo)
        case "lost": .noReply
        default: .echo
        }
    }

    private static func oneAtATime(_ change: (inout ClientOptions) -> Void = { _ in }) -> ClientOptions {
        ClientOptions {
            $0.requests.maximumInFlight = 1
            $0.requests.timeout = .seconds(600)
            change(&$0)
        }
    }

    /// Starts a request and cancels it when the server has received it.
    private func abandon(_ body: Bytes, _ service: SimulatedService, _ client: Client) async throws {
        let handle = client.start(ask(body))
        try await service.pass(.milliseconds(100))
        handle.cancel()
        #expect(await failure(of: handle)?.code == .cancelled)
    }

    // MARK: One at a time

    /// Regression: with a limit of one, ten cancellations let eleven requests run at once.
    @Test(arguments: [PartsCodec.standard, .inOrder])
    func anAbandonedRequestCountsAgainstTheLimitUntilItsLateResponse(_ codec: PartsCodec) throws {
        try simulate(
            speaking: codec,
            server: Self.answersCancelled,
            options: Self.oneAtATime(),
            handler: Self.handler
        ) { service, client in
            for _ in 0..<10 { try await abandon("slow", service, client) }
            #expect(await service.server.received.count { $0.kind == .request } == 1)
            #expect(await client.metrics.abandoned == 1)
            try await expectEcho("next", by: client)
            #expect(service.now >= .seconds(10) && service.now < .seconds(11))
            let metrics = await client.metrics
            #expect(metrics.abandoned == 0 && metrics.lateResponses == 1 && metrics.connection.links == 1)
        }
    }

    @Test func aRequestThatIsNeverAnsweredCountsUntilItsQuarantineEnds() throws {
        try simulate(options: Self.oneAtATime(), handler: Self.handler) { service, client in
            try await abandon("lost", service, client)
            let began = service.now
            try await expectEcho("next", by: client)
            #expect(service.now - began >= .seconds(59) && service.now - began <= .seconds(61))
            #expect(await client.metrics.connection.links == 1)
        }
    }

    /// Matched in order, the next response could belong to the lost request. The link ends when the quarantine would.
    @Test func matchedInOrderTheLinkEndsWhenTheQuarantineWould() throws {
        let options = Self.oneAtATime { $0.liveness.maximumStalls = nil }
        try simulate(speaking: PartsCodec.inOrder, options: options, handler: Self.handler) { service, client in
            try await abandon("lost", service, client)
            let began = service.now
            try await expectEcho("next", by: client)
            #expect(service.now - began >= .seconds(59) && service.now - began <= .seconds(61))
            #expect(await client.metrics.connection.disconnects == [.unanswered: 1])
        }
    }

    /// Requests whose deadline passes before they can be written are stalls too.
    @Test func matchedInOrderStallsEndTheLinkBeforeTheQuarantineDoes() throws {
        let options = Self.oneAtATime { $0.requests.timeout = .seconds(1) }
        try simulate(speaking: PartsCodec.inOrder, options: options, handler: Self.handler) { service, client in
            for (body, fate) in [("lost", .unknown), ("a", .notSent), ("b", .notSent)] as [(Bytes, ClientError.Fate)] {
                let error = await failure { () throws(ClientError) in try await client.send(ask(body)) }
                #expect(error?.code == .timedOut && error?.fate == fate)
            }
            try await expectEcho("c", by: client)
            #expect(await client.metrics.connection.disconnects == [.unanswered: 1])
            #expect(await service.server.received.map(\.body) == ["lost", "c"])
        }
    }

    @Test(arguments: [PartsCodec.standard, .inOrder])
    func abandonedRequestsNoLongerCountWhenTheirLinkIsLost(_ codec: PartsCodec) throws {
        try simulate(speaking: codec, options: Self.oneAtATime(), handler: Self.handler) { service, client in
            try await abandon("lost", service, client)
            let next = client.start(ask("next"))
            try await service.pass(.seconds(5))
            #expect(next.state == .queued)
            service.network.reset("db")
            try await expectBody("next", of: next)
            #expect(service.now < .seconds(7))
            #expect(await client.metrics.abandoned == 0)
        }
    }

    /// Parts that keep coming show that the server still works on the request, however long that takes.
    @Test(arguments: [PartsCodec.standard, .inOrder])
    func anAbandonedStreamCountsUntilItsReplyEnds(_ codec: PartsCodec) throws {
        let options = Self.oneAtATime {
            $0.requests.quarantine = .seconds(3)
            $0.liveness.maximumStalls = nil
        }
        let handler: LoopbackServer.Handler = { request in
            guard request.body == "stream" else { return .echo }
            return .parts((0..<10).map { Bytes("\($0)") }, every: .seconds(2), then: .reply("end"))
        }
        try simulate(speaking: codec, server: Self.answersCancelled, options: options, handler: handler) {
            service,
            client in
            let stream = client.stream(ask("stream"))
            for try await _ in stream { break }
            stream.cancel()
            let began = service.now
            try await expectEcho("next", by: client)
            #expect(service.now - began >= .seconds(17) && service.now - began < .seconds(23))
            #expect(await client.metrics.connection.links == 1)
        }
    }

    @Test func oneWayMessagesCountUntilTheyAreWritten() throws {
        try simulate(options: Self.oneAtATime(), handler: { _ in .noReply }) { service, client in
            for number in 0..<10 { try await client.post(ask(number)) }
            try await service.server.waitForRequests(10)
            #expect(await client.metrics.abandoned == 0)
        }
    }

    /// A limit below 1,024 holds across links: the same server may be behind both.
    @Test func aStrictLimitCountsRequestsOnADrainingLink() throws {
        try simulate(
            speaking: PartsCodec.standard,
            options: Self.oneAtATime { $0.requests.maximumInFlight = 2 },
            handler: Self.handler
        ) { service, client in
            let slow = client.start(ask("slow"))
            try await abandon("lost", service, client)
            let next = client.start(ask("next"))
            try await service.server.push(Frame(.push, type: 3))
            try await service.pass(.seconds(5))
            #expect(next.state == .queued)
            try await expectBody("slow", of: slow)
            try await expectBody("next", of: next)
            #expect(service.now >= .seconds(10) && service.now < .seconds(12))
            #expect(await client.metrics.connection.links == 2)
        }
    }

    /// A limit of 1,024 or more only bounds memory. It does not make callers wait for lost requests.
    @Test func aLargeLimitReplacesTheLinkInsteadOfWaiting() throws {
        let options = ClientOptions {
            $0.requests.maximumInFlight = 1024
            $0.requests.timeout = .seconds(1)
            $0.failover.errorRate = nil
        }
        try simulate(options: options, handler: Self.handler) { service, client in
            let results = await client.send(all: (0..<1024).map { _ in ask("lost") })
            #expect(results.allSatisfy { $0.error?.code == .timedOut })
            try await expectEcho("next", by: client)
            #expect(service.now < .seconds(2))
            let metrics = await client.metrics
            #expect(metrics.connection.disconnects == [.exhausted: 1] && metrics.abandoned == 0)
        }
    }

    // MARK: Running out of serials

    private static let four = standardLayout(serials: 50...53)

    private static func patient(_ change: (inout ClientOptions) -> Void = { _ in }) -> ClientOptions {
        ClientOptions {
            $0.requests.timeout = .seconds(60)
            $0.failover.errorRate = nil
            change(&$0)
        }
    }

    /// Regression: 65,536 unanswered queries made every caller wait for a minute.
    @Test func aLinkWithoutAFreeSerialIsReplacedAndDrains() throws {
        try simulate(speaking: Self.four, options: Self.patient(), handler: Self.handler) { service, client in
            let slow = client.start(ask("slow"))
            for _ in 0..<3 { try await abandon("lost", service, client) }
            #expect(await client.metrics.heldSerials == 4)
            // Uses every serial of the new link five times, while one of them is held on the old link.
            for number in 0..<20 { try await expectEcho(Bytes("\(number)"), by: client) }
            let others = (0..<4).map { _ in client.start(ask("slow")) }
            try await service.pass(.milliseconds(100))
            #expect(others.contains { $0.serial == slow.serial })
            #expect(service.now < .seconds(2))
            let held = await client.metrics
            // Of two links with four serials each.
            #expect(held.heldSerials == 8 && held.limits.serials == 8)
            try await expectBody("slow", of: slow)
            #expect(service.now >= .seconds(10) && service.now < .seconds(11))
            for other in others { try await expectBody("slow", of: other) }
            let metrics = await client.metrics
            #expect(metrics.connection.disconnects == [.exhausted: 1])
            #expect(metrics.heldSerials == 0 && metrics.unknownResponses == 0)
        }
    }

    /// Late responses that are on their way free the serials sooner than another link would.
    @Test func aTemporaryShortageOfSerialsKeepsTheLink() throws {
        let handler: LoopbackServer.Handler = { $0.body == "late" ? .after(.milliseconds(200), .echo) : .echo }
        try simulate(
            speaking: Self.four,
            server: Self.answersCancelled,
            options: Self.patient(),
            handler: handler
        ) { service, client in
            for _ in 0..<20 {
                let late = (0..<4).map { _ in client.start(ask("late")) }
                try await service.pass(.milliseconds(100))
                for handle in late { handle.cancel() }
                try await expectEcho("next", by: client)
            }
            #expect(await client.metrics.connection.links == 1)
        }
    }

    @Test func requestsWaitForSerialsThatAreInUse() throws {
        try simulate(speaking: Self.four, options: Self.patient(), handler: Self.handler) { service, client in
            let slow = (0..<3).map { _ in client.start(ask("slow")) }
            try await abandon("lost", service, client)
            let next = client.start(ask("next"))
            let hasty = client.start(ask("hasty"), timeout: .seconds(1))
            let error = await failure(of: hasty)
            #expect(error?.code == .timedOut && error?.fate == .notSent)
            #expect(error?.message == "deadline exceeded; all 4 serial numbers are in use, 1 by abandoned requests")
            #expect(next.state == .queued)
            for handle in slow { try await expectBody("slow", of: handle) }
            try await expectBody("next", of: next)
            #expect(await client.metrics.connection.links == 1)
        }
    }

    @Test func aCallThatDoesNotWaitFailsWithTheNumberOfHeldSerials() throws {
        try simulate(speaking: Self.four, options: Self.patient(), handler: Self.handler) { service, client in
            let slow = client.start(ask("slow"))
            for _ in 0..<3 { try await abandon("lost", service, client) }
            let error = await failure { () throws(ClientError) in
                try await client.send(ask("a"), options: CallOptions(waitsForReady: false))
            }
            #expect(error?.code == .overloaded && error?.fate == .notSent)
            #expect(error?.message == "all 4 serial numbers are in use, 3 by abandoned requests")
            // Later calls find a link.
            try await service.pass(.milliseconds(500))
            #expect(try await client.send(ask("b"), options: CallOptions(waitsForReady: false)).body == "b")
            try await expectBody("slow", of: slow)
            // With all serials in use, the call fails likewise, but the link is not replaced.
            let others = (0..<4).map { _ in client.start(ask("slow")) }
            try await service.pass(.milliseconds(100))
            let other = await failure { () throws(ClientError) in
                try await client.send(ask("c"), options: CallOptions(waitsForReady: false))
            }
            #expect(other?.message == "all 4 serial numbers are in use, 0 by abandoned requests")
            for handle in others { try await expectBody("slow", of: handle) }
            #expect(await client.metrics.connection.links == 2)
        }
    }

    /// The rejected call has ended before the shortage has lasted long enough. It still counts.
    @Test func oneOverloadedCallIsEnoughToReplaceTheLink() throws {
        try simulate(speaking: Self.four, options: Self.patient(), handler: Self.handler) { service, client in
            for _ in 0..<4 { try await abandon("lost", service, client) }
            let error = await failure { () throws(ClientError) in
                try await client.send(ask("a"), options: CallOptions(waitsForReady: false))
            }
            #expect(error?.code == .overloaded)
            try await service.pass(.milliseconds(240))
            #expect(await client.metrics.connection.links == 1)
            try await service.pass(.milliseconds(100))
            #expect(await client.metrics.connection.links == 2)
            #expect(try await client.send(ask("b"), options: CallOptions(waitsForReady: false)).body == "b")
        }
    }

    /// Each link has serials for four requests. Without a back-off there would be ten links a second.
    @Test func linksToAServerThatNeverAnswersAreReplacedWithBackoff() throws {
        let options = Self.patient { $0.requests.timeout = .milliseconds(100) }
        try simulate(speaking: Self.four, options: options, handler: { _ in .noReply }) { service, client in
            while service.now < .seconds(120) { _ = await client.send(all: (0..<4).map { ask($0) }) }
            // The back-off grows to 30 s: ten waits take 75 s on average.
            let links = await client.metrics.connection.links
            #expect((5...25).contains(links), "\(links) links")
            #expect(await service.server.connectionCount <= 2)
        }
    }

    /// Links on which responses arrive are replaced without delay.
    @Test func linksToAServerThatAnswersSomeRequestsAreReplacedAtOnce() throws {
        try simulate(speaking: Self.four, options: Self.patient(), handler: Self.handler) { service, client in
            for round in 0..<20 {
                try await expectEcho("a", by: client)
                for _ in 0..<4 { try await abandon("lost", service, client) }
                try await expectEcho("b", by: client)
                #expect(service.now < .seconds(2 * (round + 1)))
            }
            #expect(await client.metrics.connection.links > 10)
        }
    }

    /// A request that was admitted to the link and has not started keeps its serial and goes out on the next link.
    @Test func requestsThatHaveNotStartedMoveToTheNextLink() throws {
        var conditions = NetworkConditions()
        conditions.sendBuffer = 4096
        conditions.receiveWindow = 4096
        conditions.fragmentation = 0
        try simulate(conditions: conditions, speaking: Self.four, options: Self.patient(), handler: Self.handler) {
            service,
            client in
            for _ in 0..<2 { try await abandon("lost", service, client) }
            await service.server.pauseReading()
            let large = client.start(ask(filled(100_000)))
            try await service.pass(.milliseconds(100))
            let behind = client.start(ask("behind"))
            try await service.pass(.milliseconds(100))
            large.cancel()
            #expect(behind.state == .queued && behind.serial != nil)
            let next = client.start(ask("next"))
            try await service.pass(.milliseconds(500))
            #expect(await client.metrics.connection.links == 2)
            await service.server.resumeReading()
            try await expectBody("behind", of: behind)
            try await expectBody("next", of: next)
            #expect(service.now < .seconds(2))
        }
    }

    // MARK: Memory

    /// Regression: a burst left several hundred bytes per request allocated as long as the client lived.
    @Test func aBurstLeavesNoMemoryBehind() throws {
        let options = ClientOptions { $0.requests.timeout = nil }
        try simulate(options: options, handler: Self.handler) { service, client in
            let subscription = client.start(ask("lost"))  // a client is rarely idle
            try await service.pass(.milliseconds(100))
            service.network.refuseConnections(to: "db")
            service.network.reset("db")
            _ = await failure(of: subscription)
            let pending = client.start(ask("lost"))
            let burst = (0..<60_000).map { client.start(ask($0), timeout: .seconds(3600)) }
            try await service.pass(.milliseconds(100))
            #expect(await client.memory >= 60_000)
            for handle in burst.dropFirst(30_000) { handle.cancel() }
            service.network.acceptConnections(to: "db")
            for handle in burst.prefix(30_000) { _ = try await handle.value }
            #expect(await client.metrics.pending == 1)
            #expect(await client.memory <= 4096)
            pending.cancel()
        }
    }
}

extension Client {
    /// The largest number of requests for which one of the tables has memory.
    fileprivate var memory: Int { dispatcher.requests.capacity }
}
