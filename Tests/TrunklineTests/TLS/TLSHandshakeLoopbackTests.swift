import Testing
import Trunkline
import TrunklineTesting

@testable import TrunklineLoopback

/// TLS handshakes that fail because of the other side.
@Suite(.tags(.realThreads)) struct TLSHandshakeLoopbackTests {}

extension TLSHandshakeLoopbackTests {
    /// Makes one attempt to connect over TLS to a plaintext server. Returns its error and its report.
    private func attempt(on server: LoopbackServer) async throws -> (error: ClientError?, report: DisconnectReport?) {
        let options = ClientOptions { options in
            options.reconnecting.maximumAttempts = 1
            options.connecting.timeout = .seconds(50)
            options.requests.timeout = nil
        }
        let client = Client(to: server.endpoint.secured(), speaking: .standard, options: options)
        var reports = client.disconnects.makeAsyncIterator()
        let error = await failure { () throws(ClientError) in try await client.send(ask("secret")) }
        let report = await reports.next()
        await client.closeNow()
        await server.stop()
        return (error, report)
    }

    @Test("a server that sends something else first", .timeLimit(.minutes(5)))
    func notTLS() async throws {
        let server = try await LoopbackServer.start(
            speaking: .standard,
            options: LoopbackServer.Options { $0.onConnect = .garbage("220 smtp.example ESMTP ready\r\n") }
        )
        let (error, report) = try await attempt(on: server)
        #expect(error?.code == .tlsFailed && error?.fate == .notSent)
        #expect((report?.error as? TransportError)?.code == .tls(.notTLS))
        #expect(report?.phase == .securing)
    }

    @Test("a server that resets the connection during the TLS handshake", .timeLimit(.minutes(5)))
    func reset() async throws {
        let server = try await LoopbackServer.start(
            speaking: .standard,
            options: LoopbackServer.Options { $0.onConnect = .reset }
        )
        let (error, report) = try await attempt(on: server)
        #expect(error?.code == .unavailable && error?.fate == .notSent)
        // How far the handshake had come depends on timing. The failure is not permanent: the server may have been
        // shutting down.
        #expect(report?.cause == .reset || report?.cause == .closedByServer)
    }

    @Test("a plaintext client gets nothing from a server with TLS", .timeLimit(.minutes(5)))
    func plaintextClient() async throws {
        let authority = try TestAuthority()
        let identity = try authority.identity(for: "127.0.0.1")
        let server = try await LoopbackServer.start(
            speaking: .standard,
            options: LoopbackServer.Options { $0.tls = .init(identity) }
        )
        guard let port = server.endpoint.description.split(separator: ":").last.flatMap({ UInt16($0) }) else { return }
        let client = Client(to: .host("127.0.0.1", port: port), speaking: .standard)
        let error = await failure { () throws(ClientError) in try await client.send(ask("in the clear")) }
        #expect(error?.code == .connectionLost || error?.code == .protocolViolation)
        let journal = try await server.wait(within: .seconds(30)) { $0.handshakeFailureCount == 1 }
        #expect(journal.requestCount == 0 && journal.bytesReceived == 0)
        await client.closeNow()
        await server.stop()
    }

    @Test("attempts after a permanent failure are limited", .timeLimit(.minutes(5)))
    func limitedAttempts() throws {
        let authority = try TestAuthority()
        let identity = try authority.identity(for: "elsewhere")
        let network = SimulatedNetwork(seed: 3)
        try network.runBlocking {
            let server = try await network.startServer(
                at: "db:7443",
                speaking: .standard,
                options: LoopbackServer.Options { $0.tls = .init(identity) }
            )
            let options = ClientOptions { $0.tls.roots = .only(authority.root) }
            let client = Client(to: "tls://db:7443", speaking: .standard, options: options, on: network.loops)
            // A caller sends a request every 10 ms for a minute.
            for _ in 0..<6000 {
                let error = await failure { () throws(ClientError) in
                    try await client.send(ask("secret"), options: CallOptions(waitsForReady: false))
                }
                #expect(error?.fate == .notSent)
                try await network.clock.sleep(for: .milliseconds(10))
            }
            #expect(await server.journal.totalConnections < 30)
            #expect(await server.journal.bytesReceived == 0)
            await client.closeNow()
            await server.stop()
        }
    }
}
