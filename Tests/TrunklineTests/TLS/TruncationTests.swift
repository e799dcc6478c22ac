import Testing

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts
@testable import TrunklineLoopback
@testable import TrunklineTesting

/// Servers that close TLS links without close_notify. The report says that the stream was truncated. If nothing can be
/// missing, because no frame has begun and no request is in flight, this counts as an orderly close, after which a
/// request does not wait for the back-off.
@Suite(.simulated, .timeLimit(.minutes(5)))
struct TruncationTests {}

extension TruncationTests {
    enum Moment: CaseIterable { case idle, withinAFrame, withARequestInFlight }

    @Test(arguments: Moment.allCases)
    func anEndWithoutCloseNotifyIsOrderlyOnlyIfNothingIsMissing(_ moment: Moment) throws {
        let authority = try TestAuthority()
        let network = SimulatedNetwork(seed: 1)
        let server = TestServer(on: network.loop, tls: try authority.serverContext())
        try network.runBlocking {
            try await server.listen(on: network.address("db"))
            let options = ClientOptions { options in
                options.tls.roots = .only(authority.root)
                options.reconnecting.policy = Backoff(minimum: .seconds(30), cap: .seconds(30))
                options.requests.timeout = .seconds(60)
            }
            let endpoint = Endpoint.host("db", port: 7000).secured()
            let client = Client(to: endpoint, speaking: .standard, options: options, on: network.loops)
            var reports = client.disconnects.makeAsyncIterator()
            try await expectEcho("first", by: client)
            let peer = await server.peers[0]
            var lost: PendingRequest<Response>?
            switch moment {
            case .idle: break
            case .withinAFrame: await peer.write([0])
            case .withARequestInFlight:
                await peer.setReading(false)
                lost = client.start(ask("lost"))
                try await network.clock.sleep(for: .seconds(1))
            }
            await peer.cutShort()
            let report = await reports.next()
            #expect((report?.error as? TransportError)?.code == .tls(.truncated))
            #expect(report?.cause == .closedByServer && report?.endedBy == .server)
            #expect(report?.requestsLost == (moment == .withARequestInFlight ? 1 : 0))
            if let lost { #expect(await failure(of: lost)?.fate == .unknown) }
            let began = network.clock.now.offset
            try await expectEcho("second", by: client)
            let took = network.clock.now.offset - began
            #expect(moment == .idle ? took < .milliseconds(200) : took > .seconds(29), "\(took)")
            await client.closeNow()
            for peer in await server.peers { await peer.close() }
            await server.stop()
        }
    }
}
