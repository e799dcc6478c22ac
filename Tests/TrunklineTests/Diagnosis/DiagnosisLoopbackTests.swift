import Testing
import Trunkline
import TrunklineTesting

@testable import TrunklineCore
@testable import TrunklineLoopback

/// Reports of links that end, on real sockets.
@Suite(.tags(.realThreads), .timeLimit(.minutes(5)))
struct DiagnosisLoopbackTests {}

extension DiagnosisLoopbackTests {
    /// Regression: the reset came while nothing was read. A write noticed it, and reading the rest then ended as if the
    /// server had closed the link cleanly. The report said so, and the probe did not run.
    @Test(arguments: Mechanism.allCases)
    func aResetThatAWriteNoticesFirstIsReportedAsAReset(_ mechanism: Mechanism) async throws {
        let handler: LoopbackServer.Handler = { _ in .echo }
        try await withServer(speaking: .standard, handler: handler) { server in
            let connection = Connection(
                to: server.endpoint,
                speaking: .standard,
                options: ConnectionOptions(quickOptions()),
                on: mechanism.loops
            )
            var reports = connection.disconnects.makeAsyncIterator()
            try await connection.write(Frame(.request, type: 0x410, serial: 1))
            try await server.wait(within: patience) { $0.replyCount == 1 }
            // No task requests frames, so nothing is read.
            await server.disconnectAll(reset: true)
            // No byte of it was written to the old link, so it goes out on the next one.
            try await connection.write(Frame(.request, type: 0x410, serial: 2))
            try await server.wait(within: patience) { $0.totalConnections == 2 && $0.requestCount == 2 }
            let report = await reports.next()
            #expect(report?.cause == .reset && report?.endedBy == .network && report?.errno != 0)
            await connection.closeNow()
        }
    }

    /// The user's probe connects to another server over a separate link. If that works, the network is up.
    @Test(arguments: Mechanism.allCases)
    func theProbeShowsWhetherTheNetworkIsUp(_ mechanism: Mechanism) async throws {
        try await withServer(speaking: .standard) { other in
            let options = quickOptions { options in
                options.reconnecting.keepsLinkWarm = true
                options.diagnosis.probeTimeout = .seconds(60)
                options.diagnosis.probe = { report in
                    guard report.cause == .reset else { return false }
                    let probing = quickOptions { $0.reconnecting.maximumAttempts = 1 }
                    return
                        (try? await withClient(to: other.endpoint, speaking: .standard, options: probing) { client in
                            try await client.send(ask("are you there?"))
                        }) != nil
                }
            }
            try await withServerAndClient(by: mechanism, clientOptions: options) { server, client in
                let reports = reports(of: client)
                var disconnects = client.disconnects.makeAsyncIterator()
                try await expectEcho("a", by: client)
                await server.disconnectAll()
                try await expectEcho("b", by: client, retry: .idempotent(tries: 9))
                var first = await disconnects.next()
                #expect(first?.cause == .closedByServer && first?.isNetworkUp == nil)
                await server.disconnectAll(reset: true)
                first = await disconnects.next()
                #expect(first?.cause == .reset && first?.isNetworkUp == true)
                #expect(await other.received.map(\.body) == ["are you there?"])
                try await expectEcho("c", by: client, retry: .idempotent(tries: 9))
                await server.stopAccepting()
                await server.disconnectAll()
                while let report = await disconnects.next(), report.cause != .refused {}
                let metrics = await client.metrics
                await client.close()
                let all = await reports.value
                #expect(all.count { $0.phase == .ready } == 3)
                #expect(all.allSatisfy { $0.endpoint == server.endpoint && $0.session > 0 && $0.attempt > 0 })
                // The probes of the last reports may have been cancelled.
                #expect(all.allSatisfy { $0.cause != .refused || $0.isNetworkUp != true })
                #expect(metrics.connection.disconnects[.closedByServer] == 2)
                #expect(metrics.connection.disconnects[.reset] == 1)
                #expect(metrics.connection.share(of: .reset) < 0.5)
            }
        }
    }

    /// Regression: a report waited for its probe when the client was closed, and was never published. A task that
    /// waited for the end of the stream waited as long as the client existed.
    @Test(arguments: Mechanism.allCases)
    func closingPublishesTheReportsThatWaitForTheirProbe(_ mechanism: Mechanism) async throws {
        let cancelled = Lock(0)
        let options = quickOptions { options in
            options.diagnosis.probeTimeout = .seconds(3600)
            options.diagnosis.probe = { _ in
                try? await Task.sleep(for: .seconds(3600))
                cancelled.withLock { $0 += 1 }
                return true
            }
        }
        try await withServerAndClient(by: mechanism, clientOptions: options) { server, client in
            let reports = reports(of: client)
            try await expectEcho("a", by: client)
            await server.disconnectAll(reset: true)
            while await client.metrics.connection.disconnects.isEmpty { await moment() }
            // Reconnecting does not wait for the probe.
            try await expectEcho("b", by: client)
            await client.close()
            let all = await reports.value
            #expect(all.map(\.cause) == [.reset])
            #expect(all.allSatisfy { $0.isNetworkUp == nil })
            while cancelled.withLock({ $0 }) == 0 { await moment() }
            #expect(await client.disconnects.first { _ in true } == nil)
        }
    }
}
