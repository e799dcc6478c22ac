import Testing
import Trunkline
import TrunklineTesting

@testable import TrunklineCore
@testable import TrunklineLoopback

/// Servers that accept and send nothing, and servers that stop in the middle of a frame.
@Suite(.tags(.realThreads), .timeLimit(.minutes(5)))
struct SilentServerLoopbackTests {}

extension SilentServerLoopbackTests {
    /// The server is alive and does not answer requests. The link works.
    @Test(arguments: Mechanism.allCases)
    func aServerThatNeverAnswersFailsTheRequestsNotTheLink(_ mechanism: Mechanism) async throws {
        let options = quickOptions {
            $0.liveness.interval = .milliseconds(20)
            $0.liveness.probeAfter = .milliseconds(20)
            $0.liveness.deadline = .seconds(100)
        }
        // Decided by the request, not by a script: a busy server may read the first requests after their deadline.
        try await withServerAndClient(
            by: mechanism,
            clientOptions: options,
            handler: { $0.body == "a" ? .echo : .noReply }
        ) { server, client in
            for _ in 0..<3 {
                let handles = (0..<20).map { client.start(ask($0), timeout: .milliseconds(200)) }
                for handle in handles {
                    let error = await failure(of: handle)
                    #expect(error?.code == .timedOut)
                    #expect(error?.fate == .unknown || error?.fate == .notSent)
                }
            }
            try await server.wait(within: patience) { $0.pingCount > 0 }
            try await expectEcho("a", by: client)
            #expect(await client.metrics.connection.links == 1)
            #expect(await client.metrics.connection.disconnects.isEmpty)
            #expect(await server.totalConnections == 1)
        }
    }

    /// The kernel accepts the connection, but no program does. Only the heartbeat can notice this.
    @Test(arguments: Mechanism.allCases)
    func anEndpointWhereNoProgramAcceptsIsReplaced(_ mechanism: Mechanism) async throws {
        let mute = try RawListener()
        let options = quickOptions {
            $0.liveness.interval = .seconds(100)
            $0.liveness.probeAfter = .milliseconds(50)
            $0.liveness.deadline = .seconds(2)
        }
        try await withServer(speaking: .standard) { server in
            let endpoints = [.host("127.0.0.1", port: mute.port), server.endpoint]
            try await withClient(to: endpoints, speaking: .standard, options: options, on: mechanism.loops) { client in
                var reports = client.disconnects.makeAsyncIterator()
                try await client.connect()
                let lost = client.start(ask("lost"))
                let kept = client.start(ask("kept"), options: CallOptions(retry: .idempotent(tries: 1000)))
                let error = await failure(of: lost)
                #expect(error?.code == .connectionLost && error?.fate == .unknown)
                #expect((error?.cause as? TransportError)?.code == .halfOpen)
                try await expectBody("kept", of: kept)
                let report = await reports.next()
                #expect(report?.endpoint == endpoints[0] && report?.phase == .ready)
                #expect(report?.cause == .halfOpen && report?.requestsLost == 2)
                // At most once for each link: on a busy machine this server, too, may be silent for two seconds.
                let received = await server.received.map(\.body)
                #expect(!received.isEmpty && received.allSatisfy { $0 == "kept" })
                let connections = await server.totalConnections
                #expect(received.count <= connections)
            }
        }
        withExtendedLifetime(mute) {}
    }

    /// A login that is not answered: the waiting requests go to the next endpoint.
    @Test(arguments: Mechanism.allCases)
    func afterAHandshakeWithoutAnAnswerTheNextEndpointIsTried(_ mechanism: Mechanism) async throws {
        let mute = try RawListener()
        let options = quickOptions { options in
            options.connecting.timeout = .seconds(60)
            // Long enough for a busy machine. With less, logins over TLS timed out again and again, until
            // the requests did.
            options.handshake.timeout = .seconds(1)
            options.requests.timeout = nil
            options.handshake.perform = { handshaker in
                _ = try await handshaker.send(Request(type: 0x411, body: "login"), timeout: .seconds(60))
            }
        }
        try await withServer(speaking: .standard) { server in
            let endpoints = [.host("127.0.0.1", port: mute.port), server.endpoint]
            let client = Client(to: endpoints, speaking: .standard, options: options, on: mechanism.loops)
            let reports = reports(of: client)
            let handles = (0..<20).map { client.start(ask($0)) }
            for (number, handle) in handles.enumerated() { try await expectBody(Bytes("\(number)"), of: handle) }
            // On a busy machine the login at the other server may time out as well.
            #expect(await server.received.prefix(1).map(\.body) == ["login"])
            #expect(await server.received.suffix(20).map(\.body) == (0..<20).map { Bytes("\($0)") })
            await client.close()
            let first = try #require(await reports.value.first)
            #expect(first.endpoint == endpoints[0] && first.phase == .handshaking)
            #expect(first.cause == .timedOut && first.lifetime == .zero && first.requestsLost == 0)
        }
        withExtendedLifetime(mute) {}
    }

    // MARK: Partial frames

    /// Where a response is cut off.
    enum Cut: CaseIterable {
        case inTheHeader, afterTheHeader, inTheBody

        /// The beginning of a response to the first request.
        var bytes: Bytes {
            let header: [UInt8] = [0, 0, 4, 0x10, 0, 0, 0, 50, 0, 0, 0, 200]
            return switch self {
            case .inTheHeader: Bytes(header.prefix(6))
            case .afterTheHeader: Bytes(header)
            case .inTheBody: Bytes(header + [UInt8](repeating: 7, count: 100))
            }
        }
    }

    /// The server ends in the middle of a response. The client neither takes the part for a whole response, nor
    /// completes it with bytes of the next link.
    @Test(arguments: Mechanism.allCases, Cut.allCases)
    func aPartialResponseIsDiscarded(_ mechanism: Mechanism, _ cut: Cut) async throws {
        let handler: LoopbackServer.Handler = { request in
            switch request.body {
            case "reset": .sequence([.garbage(cut.bytes), .after(.milliseconds(20), .reset)])
            case "close": .sequence([.garbage(cut.bytes), .close])
            case "silence": .noReply
            default: .echo
            }
        }
        try await withServerAndClient(by: mechanism, handler: handler) { server, client in
            let reports = reports(of: client)
            for ending in ["reset", "close"] as [Bytes] {
                try await expectEcho("before", by: client)
                let handles = client.startAll(["silence", "silence", ending])
                for handle in handles {
                    let error = await failure(of: handle)
                    #expect(error?.code == .connectionLost && error?.fate == .unknown)
                    #expect(error?.endpoint == server.endpoint)
                    let code: TransportError.Code = ending == "reset" ? .reset : .closedByPeer
                    #expect((error?.cause as? TransportError)?.code == code)
                }
                try await expectEcho(filled(300), by: client)
            }
            #expect(await client.metrics.unknownResponses == 0)
            await client.close()
            let all = await reports.value
            #expect(all.map(\.cause) == [.reset, .closedByServer])
            #expect(all.map(\.endedBy) == [.network, .server])
            #expect(all.map(\.requestsLost) == [3, 3])
            #expect(all.allSatisfy { $0.phase == .ready && $0.bytesUnsent == 0 && $0.lifetime > .zero })
            #expect(all.map { $0.errno != 0 } == [true, false])
        }
    }
}

extension Client {
    /// Starts requests with these bodies, in this order.
    fileprivate nonisolated func startAll(_ bodies: [Bytes]) -> [PendingRequest<Response>] {
        bodies.map { start(ask($0)) }
    }
}
