import Testing
import Trunkline
import TrunklineTesting

@testable import TrunklineCore

extension HeavyTests {
    /// Servers that stop and restart while many callers use them.
    @Suite(.timeLimit(.minutes(10)))
    struct ServerRestartLoopbackTests {
        /// Each policy in turn. Callers that may repeat a request do so more often than there can be a reason to.
        private static func policy(_ caller: Int) -> RetryPolicy {
            switch caller % 4 {
            case 0: .never
            case 1: .idempotent(tries: 10_000, backoff: Backoff(base: .milliseconds(1), cap: .milliseconds(10)))
            default: .ifUnsent
            }
        }

        /// The server is killed at any moment, half of the times with a reset, and restarted at once or after a while.
        @Test(arguments: Mechanism.allCases)
        func everyCallHasTheRightOutcomeWhileTheServerRestarts(_ mechanism: Mechanism) async throws {
            await aside {
                await #expect(processExitsWith: .success) { [mechanism] in
                    try await Self.expectRightOutcomes(mechanism, restarts: 2)
                    let before = Usage()
                    try await Self.expectRightOutcomes(mechanism, restarts: restartCount)
                    await before.expectNoLeak(ofKilobytes: 64_000)
                }
            }
        }

        private static func expectRightOutcomes(_ mechanism: Mechanism, restarts: Int) async throws {
            let ledger = Ledger()
            let server = try await RestartableServer(at: mechanism == .epoll ? 1 : 2, ledger)
            let options = quickOptions { $0.requests.retryBudget = nil }
            let client = Client(to: server.endpoint, speaking: .standard, options: options, on: mechanism.loops)
            let reports = reports(of: client)
            let crowd = Crowd(on: client, isImpatient: true, policy: policy)
            let ends = try await crowd.ask {
                for round in 0..<restarts {
                    try await ledger.wait(forMore: crowdSize)
                    await server.kill(reset: round % 2 == 0)
                    if round % 4 > 1 { try await Task.sleep(for: .milliseconds(20)) }
                    try await server.start()
                }
                try await ledger.wait(forMore: crowdSize)
            }
            // The server also answers cancelled requests, so every serial becomes free before its quarantine ends.
            var metrics = await client.metrics
            while metrics.heldSerials > 0 {
                await Task.yield()
                metrics = await client.metrics
            }
            await client.close()
            await server.kill(reset: false)
            check(crowd.check(ends, against: ledger), metrics, await reports.value, restarts)
        }

        /// Checks that the outcomes of calls, the metrics and the reports agree.
        private static func check(
            _ ends: [Crowd.End: Int],
            _ metrics: ClientMetrics,
            _ reports: [DisconnectReport],
            _ restarts: Int
        ) {
            let links = metrics.connection
            let codes = Set(ends.keys.compactMap { if case .failure(let code, _) = $0 { code } else { nil } })
            #expect(codes.isSubset(of: [.cancelled, .timedOut, .connectionLost]))
            #expect(metrics.pending == 0)
            #expect(metrics.responses == ends[.success])
            #expect(metrics.unknownResponses == 0)
            // A call that is cancelled very early is not counted.
            #expect(metrics.requests <= ends.values.reduce(0, +))
            #expect(metrics.retriesRefused == 0)
            #expect(links.reconnects >= restarts)
            #expect(links.attempts == links.links + links.failedAttempts)
            // The client closed the last link itself, which is not a loss.
            #expect(reports.count == links.failedAttempts + links.reconnects)
            #expect(reports.count { $0.phase == .ready } == links.reconnects)
            let causes = reports.reduce(into: [:]) { $0[$1.cause, default: 0] += 1 }
            #expect(causes == links.disconnects)
            #expect(Set(causes.keys).isSubset(of: [.reset, .closedByServer, .refused]))
            #expect(causes[.reset, default: 0] >= restarts / 2)
            let lost = reports.reduce(0) { $0 + $1.requestsLost }
            #expect(lost == ends[.failure(.connectionLost, .unknown), default: 0] + metrics.retries)
            #expect(zip(reports, reports.dropFirst()).allSatisfy { $0.session < $1.session })
        }

        /// The servers are killed and restarted in turn. With a policy that allows retries, no call fails.
        @Test(arguments: Mechanism.allCases)
        func noRequestIsLostWhileServersRestartInTurn(_ mechanism: Mechanism) async throws {
            let ledger = Ledger()
            var servers: [RestartableServer] = []
            for last in 0..<3 as Range<UInt8> { servers.append(try await RestartableServer(at: 10 + last, ledger)) }
            let options = quickOptions { $0.requests.retryBudget = nil }
            let endpoints = servers.map(\.endpoint)
            let client = Client(to: endpoints, speaking: .standard, options: options, on: mechanism.loops)
            let crowd = Crowd(of: max(20, crowdSize / 4), on: client) { _ in
                .idempotent(tries: 10_000, backoff: Backoff(base: .milliseconds(1), cap: .milliseconds(10)))
            }
            let reports = reports(of: client)
            let ends = try await crowd.ask {
                for round in 0..<max(6, restartCount / 2) {
                    try await ledger.wait(forMore: crowd.count)
                    // The server that has the link, but in every third round the first server.
                    var victim = servers[round % 3]
                    if round % 3 != 0 {
                        for server in servers where await server.connectionCount > 0 { victim = server }
                    }
                    await victim.kill(reset: round % 2 == 0)
                    try await ledger.wait(forMore: crowd.count)
                    try await victim.start()
                }
            }
            let metrics = await client.metrics
            await client.close()
            let all = crowd.check(ends, against: ledger)
            print(
                "\(all[.success, default: 0]) requests, \(metrics.retries) retries, \(metrics.connection.links) links"
            )
            #expect(Array(all.keys) == [.success], "\(all)")
            #expect(metrics.connection.links > 2)
            #expect(Set(await reports.value.map(\.endpoint)).count > 1)
            for server in servers { await server.kill(reset: false) }
        }
    }
}
