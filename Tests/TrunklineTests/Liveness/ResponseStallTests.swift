import Synchronization
import Testing
import Trunkline
import TrunklineTesting

@testable import TrunklineLoopback

/// Links matched in order whose responses are missing or late: when they are replaced, and when not.
@Suite(.simulated, .timeLimit(.minutes(5)))
struct ResponseStallTests {}

extension ResponseStallTests {
    private static func options(_ maximumStalls: Int? = 3) -> ClientOptions {
        ClientOptions {
            $0.requests.timeout = .seconds(1)
            $0.liveness.maximumStalls = maximumStalls
            $0.failover.errorRate = nil
        }
    }

    /// Does not answer "lost".
    private static let handler: LoopbackServer.Handler = { $0.body == "lost" ? .noReply : .echo }

    /// Regression: every later request timed out, without end. Its response was taken for the late response to
    /// the one before.
    @Test func aLinkWhoseResponsesStayLateIsReplaced() throws {
        try simulate(speaking: PartsCodec.inOrder, options: Self.options(), handler: Self.handler) { service, client in
            var reports = client.disconnects.makeAsyncIterator()
            try await expectEcho("a", by: client)
            for body in ["lost", "b", "c"] as [Bytes] {
                #expect(await failure { () throws(ClientError) in try await client.send(ask(body)) }?.code == .timedOut)
            }
            try await expectEcho("d", by: client)
            let report = await reports.next()
            #expect(report?.cause == .unanswered && report?.endedBy == .client && report?.requestsLost == 0)
            let metrics = await client.metrics
            #expect(metrics.connection.links == 2 && metrics.lateResponses == 2)
            #expect(await service.server.received.map(\.body) == ["a", "lost", "b", "c", "d"])
        }
    }

    /// Requests in bursts get responses in time that belong to others, so responses in time prove nothing.
    @Test func responsesInTimeDoNotHideAShiftedOrder() throws {
        try simulate(speaking: PartsCodec.inOrder, options: Self.options(), handler: Self.handler) { _, client in
            _ = await client.send(all: [ask("a"), ask("lost")])
            for _ in 0..<2 { _ = await client.send(all: (0..<5).map { ask($0) }) }
            for (index, result) in await client.send(all: (0..<5).map { ask($0) }).enumerated() {
                #expect((try? result.get())?.body == Bytes("\(index)"))
            }
            #expect(await client.metrics.connection.links == 2)
        }
    }

    @Test func aSlowServerKeepsItsLinkIfItsResponsesArrive() throws {
        let handler: LoopbackServer.Handler = { _ in .after(.milliseconds(1500), .echo) }
        try simulate(speaking: PartsCodec.inOrder, options: Self.options(1), handler: handler) { service, client in
            let first = await failure { () throws(ClientError) in try await client.send(ask("a")) }
            #expect(first?.code == .timedOut)
            // With a limit of 1 the first stall is enough. With more, the count restarts whenever all
            // responses have arrived.
            #expect(await client.metrics.connection.disconnects == [.unanswered: 1])
        }
        try simulate(speaking: PartsCodec.inOrder, options: Self.options(2), handler: handler) { service, client in
            for index in 0..<20 {
                let error = await failure { () throws(ClientError) in try await client.send(ask(index)) }
                #expect(error?.code == .timedOut)
                try await service.pass(.seconds(1))
            }
            let metrics = await client.metrics
            #expect(metrics.connection.links == 1 && metrics.lateResponses == 20)
        }
    }

    @Test func requestsInFlightKeepTheLink() throws {
        let handler: LoopbackServer.Handler = { $0.body == "slow" ? .after(.seconds(20), .echo) : .echo }
        try simulate(speaking: PartsCodec.inOrder, options: Self.options(1), handler: handler) { service, client in
            let slow = client.start(ask("slow"), timeout: .seconds(60))
            for _ in 0..<5 { _ = try? await client.send(ask("x")) }
            try await expectBody("slow", of: slow)
            try await expectEcho("a", by: client)
            #expect(await client.metrics.connection.links == 1)
        }
    }

    @Test func cancelledRequestsAreNotStalls() throws {
        let handler: LoopbackServer.Handler = { $0.body == "slow" ? .after(.seconds(20), .echo) : .echo }
        try simulate(speaking: PartsCodec.inOrder, options: Self.options(1), handler: handler) { service, client in
            for _ in 0..<5 {
                let handle = client.start(ask("slow"))
                try await service.pass(.milliseconds(100))
                handle.cancel()
            }
            try await service.pass(.seconds(200))
            try await expectEcho("a", by: client)
            let metrics = await client.metrics
            #expect(metrics.connection.links == 1 && metrics.lateResponses == 5)
        }
    }

    @Test func withoutALimitOfStallsTheLinkIsKept() throws {
        try simulate(speaking: PartsCodec.inOrder, options: Self.options(nil), handler: Self.handler) { _, client in
            for body in ["lost", "b", "c", "d", "e", "f"] as [Bytes] {
                #expect(await failure { () throws(ClientError) in try await client.send(ask(body)) }?.code == .timedOut)
            }
            #expect(await client.metrics.connection.links == 1)
        }
    }

    /// With serials, a missing response does not shift the others.
    @Test func linksWithSerialsDoNotStall() throws {
        try simulate(speaking: PartsCodec.standard, options: Self.options(1), handler: Self.handler) { _, client in
            for _ in 0..<5 {
                let error = await failure { () throws(ClientError) in try await client.send(ask("lost")) }
                #expect(error?.code == .timedOut)
                try await expectEcho("a", by: client)
            }
            #expect(await client.metrics.connection.links == 1)
        }
    }
}
