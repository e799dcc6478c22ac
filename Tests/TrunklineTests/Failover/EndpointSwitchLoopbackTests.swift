import Testing
import TrunklineTesting

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLoopback

extension HeavyTests {
    /// Switching between two real servers, and suspending, with a few hundred callers.
    @Suite(.timeLimit(.minutes(5)))
    struct EndpointSwitchLoopbackTests {
        private typealias PoliteCodec = DrainingTests.PoliteCodec

        /// Enough rounds to meet requests in every state.
        private static let rounds = max(4, min(20, stormRequests / 2000))
        private static let callers = max(20, crowdSize / 4)

        /// Runs `body` while many callers use a client of two servers. Checks the end of every call and
        /// returns a summary.
        private func withCrowd(
            by mechanism: Mechanism,
            policy: RetryPolicy,
            _ body: nonisolated(nonsending) (Client, [LoopbackServer], Ledger) async throws -> Void
        ) async throws -> (ends: [Crowd.End: Int], metrics: ClientMetrics, reports: [DisconnectReport]) {
            let ledger = Ledger()
            var servers: [LoopbackServer] = []
            for _ in 0..<2 {
                let options = LoopbackServer.Options { $0.recordedFrames = 0 }
                let server = try await Wire.startServer(speaking: PoliteCodec(), options: options) { request in
                    ledger.note(request)
                    return (Crowd.number(in: request.body) ?? 0) % 5 == 1 ? .after(.milliseconds(5), .echo) : .echo
                }
                servers.append(server)
            }
            let client = Client(
                to: servers.map(\.endpoint),
                speaking: PoliteCodec(),
                options: quickOptions { $0.requests.retryBudget = nil },
                on: mechanism.loops
            )
            let reports = reports(of: client)
            let crowd = Crowd(of: Self.callers, on: client) { _ in policy }
            let ends = try await crowd.ask {
                try await ledger.wait(forMore: crowd.count)
                try await body(client, servers, ledger)
            }
            let metrics = await client.metrics
            #expect(metrics.pending == 0)
            #expect(metrics.heldSerials == 0)
            #expect(metrics.unknownResponses == 0)
            // Draining links have ended with their requests, long before the client is closed.
            let open = await servers[0].connectionCount + servers[1].connectionCount
            if open > 1 {
                for server in servers where await server.endpoint != client.endpointOfLink {
                    try await server.waitForConnections(0, within: patience)
                }
            }
            await client.close()
            for server in servers { await server.stop() }
            return (crowd.check(ends, against: ledger), metrics, await reports.value)
        }

        @Test(arguments: Mechanism.allCases)
        func switchingUnderLoadLosesNoRequest(_ mechanism: Mechanism) async throws {
            let outcome = try await withCrowd(by: mechanism, policy: .never) { client, servers, ledger in
                for round in 1...Self.rounds {
                    let (next, last) = (servers[round % 2], servers[(round + 1) % 2])
                    try await client.switchEndpoint(to: next.endpoint)
                    try await next.waitForConnections(1, within: patience)
                    // The old link is closed when the last request on it has ended.
                    try await last.waitForConnections(0, within: patience)
                    try await ledger.wait(forMore: Self.callers)
                }
            }
            #expect(Array(outcome.ends.keys) == [.success], "\(outcome.ends)")
            #expect(outcome.metrics.connection.links == Self.rounds + 1)
            #expect(outcome.reports.count == Self.rounds)
            for report in outcome.reports {
                #expect(report.phase == .draining && report.cause == .closedLocally && report.endedBy == .client)
                #expect(report.requestsLost == 0 && report.bytesUnsent == 0)
            }
        }

        /// Does not wait for the end of the previous link, so a link may drain soon after it was established. The
        /// number of draining links is limited here, because a client with too many of them closes the oldest.
        @Test(arguments: Mechanism.allCases)
        func switchingRepeatedlyLosesNoRequest(_ mechanism: Mechanism) async throws {
            let outcome = try await withCrowd(by: mechanism, policy: .never) { client, servers, ledger in
                for round in 1...Self.rounds * 10 {
                    while await client.drainingLinkCount > 6 { await moment() }
                    try await client.switchEndpoint(to: servers[round % 2].endpoint)
                    for _ in 0..<round % 7 * 10 { await Task.yield() }
                }
                try await ledger.wait(forMore: Self.callers)
            }
            #expect(Array(outcome.ends.keys) == [.success], "\(outcome.ends)")
            #expect(outcome.reports.allSatisfy { $0.requestsLost == 0 })
        }

        @Test(arguments: Mechanism.allCases)
        func goAwayUnderLoadLosesNoRequest(_ mechanism: Mechanism) async throws {
            let outcome = try await withCrowd(by: mechanism, policy: .never) { client, servers, ledger in
                for round in 0..<Self.rounds {
                    let (last, next) = (servers[round % 2], servers[(round + 1) % 2])
                    try await last.waitForConnections(1, within: patience)
                    #expect(try await last.push(Frame(.push, type: 2, body: "!0")) == 1)
                    try await next.waitForConnections(1, within: patience)
                    try await last.waitForConnections(0, within: patience)
                    try await ledger.wait(forMore: Self.callers)
                }
            }
            #expect(Array(outcome.ends.keys) == [.success], "\(outcome.ends)")
            #expect(outcome.reports.count == Self.rounds)
            for report in outcome.reports {
                #expect(report.phase == .draining && report.cause == .goAway && report.endedBy == .server)
                #expect(report.requestsLost == 0)
            }
        }

        /// Requests in flight fail or are retried. All others wait.
        @Test(arguments: Mechanism.allCases, [RetryPolicy.ifUnsent, .idempotent(tries: 1000)])
        func suspendingUnderLoadLosesOnlyRequestsInFlight(_ mechanism: Mechanism, _ policy: RetryPolicy) async throws {
            let outcome = try await withCrowd(by: mechanism, policy: policy) { client, servers, ledger in
                for round in 1...Self.rounds {
                    await client.suspend()
                    try await servers[0].waitForConnections(0, within: patience)
                    let before = ledger.total
                    for _ in 0..<round { await Task.yield() }
                    #expect(ledger.total == before)
                    await client.resume()
                    try await ledger.wait(forMore: Self.callers)
                }
            }
            let lost = outcome.ends[.failure(.connectionLost, .unknown), default: 0]
            #expect(outcome.ends[.success, default: 0] + lost == outcome.ends.values.reduce(0, +), "\(outcome.ends)")
            #expect(policy == .ifUnsent || lost == 0)
            #expect(outcome.reports.reduce(0) { $0 + $1.requestsLost } == lost + outcome.metrics.retries)
            #expect(outcome.reports.map(\.cause) == Array(repeating: .closedLocally, count: Self.rounds))
            #expect(outcome.reports.allSatisfy { $0.phase == .ready && $0.endedBy == .client })
        }
    }
}

extension Client {
    /// The endpoint of the link, or `nil` if there is none.
    fileprivate var endpointOfLink: Endpoint? {
        get async {
            for await state in states {
                if case .ready(let endpoint, _) = state { return endpoint } else { return nil }
            }
            return nil
        }
    }
}

extension Client {
    /// The number of draining links.
    fileprivate var drainingLinkCount: Int { driver.links.draining.count }
}
