import Testing
import TrunklineTesting

@testable import TrunklineCore
@testable import TrunklineIO

/// What only a real system can measure.
@Suite(.tags(.realThreads), .timeLimit(.minutes(5)))
struct MetricsLoopbackTests {}

extension MetricsLoopbackTests {
    @Test(arguments: [true, false])
    func theSystemDescribesTheConnectionOfTheLink(overTLS: Bool) async throws {
        try await withServerAndClient(by: .epoll, overTLS: overTLS) { _, client in
            #expect(await client.metrics.connection.tcp == nil)
            for number in 0..<20 { try await expectEcho(Bytes("\(number)"), by: client) }
            #if os(Linux)
                let tcp = try #require(await client.metrics.connection.tcp)
                #expect(tcp.smoothedRoundTripTime > .zero && tcp.smoothedRoundTripTime < patience)
                #expect(tcp.roundTripTimeVariation >= .zero && tcp.congestionWindow > 0)
                // A busy machine acknowledges late, and the kernel then sends a segment again.
                #expect((0...20).contains(tcp.retransmissions) && tcp.unacknowledgedSegments <= 1)
            #endif
            await client.close()
            #expect(await client.metrics.connection.tcp == nil)
        }
    }

    @Test func aUnixDomainSocketHasNoConnectionOfTCP() async throws {
        let path = "/tmp/trunkline-metrics-\(UInt32.random(in: .min ... .max)).sock"
        let options = LoopbackServer.Options { $0.unixPath = path }
        try await withServerAndClient(by: .epoll, options: options) { _, client in
            try await expectEcho("a", by: client)
            #expect(await client.metrics.connection.tcp == nil)
        }
    }

    /// The turn that is measured has ended when the metrics are read for the second time.
    @Test(arguments: Mechanism.allCases)
    func aTurnIsAsLongAsTheCodeThatBlocksIt(_ mechanism: Mechanism) async throws {
        try await withServerAndClient(by: mechanism) { _, client in
            try await expectEcho("a", by: client)
            await client.block(for: .milliseconds(50))
            try await expectEcho("b", by: client)
            let turns = await client.metrics.connection.turnDurations
            #expect(turns.count > 2)
            #expect(try #require(turns.percentile(100)) >= .milliseconds(50))
        }
    }
}

extension Client {
    /// Keeps the event loop busy.
    fileprivate func block(for duration: Duration) {
        let end = loop.now.advanced(by: duration)
        while loop.now < end {}
    }
}
