import Synchronization
import Testing
import Trunkline

@testable import TrunklineLoopback
@testable import TrunklineTesting

/// TLS in a simulated network. The engine has no socket, so handshakes take virtual time only.
@Suite(.simulated) struct TLSLinkTests {}

extension TLSLinkTests {
    private static let authority = Result { () throws(TransportError) in try TestAuthority() }

    private func run(
        seed: UInt64,
        conditions: NetworkConditions = NetworkConditions(),
        options change: (inout ClientOptions) -> Void = { _ in },
        server changeServer: @Sendable @escaping (inout LoopbackServer.TLS) -> Void = { _ in },
        handler: @escaping LoopbackServer.Handler = { _ in .echo },
        _ body: @escaping @Sendable (SimulatedNetwork, LoopbackServer, Client) async throws -> Void
    ) throws {
        let authority = try Self.authority.get()
        let identity = try authority.identity(for: "db")
        var options = ClientOptions()
        options.tls.roots = .only(authority.root)
        change(&options)
        let network = SimulatedNetwork(seed: seed, conditions: conditions)
        try network.runBlocking { [options] in
            let server = try await network.startServer(
                at: "db:7443",
                speaking: .standard,
                options: LoopbackServer.Options { $0.tls = .init(identity, changeServer) },
                handler: handler
            )
            let client = Client(to: "tls://db:7443", speaking: .standard, options: options, on: network.loops)
            do { try await body(network, server, client) } catch {
                await client.closeNow()
                await server.stop()
                throw error
            }
            await client.close()
            await server.stop()
        }
        #expect(network.openLinks == 0)
    }

    @Test("requests are answered, however the network splits the bytes", arguments: 0..<UInt64(20))
    func cut(seed: UInt64) throws {
        var conditions = NetworkConditions()
        conditions.fragmentation = 1
        conditions.sendBuffer = [100, 1000, 65_536][Int(seed % 3)]
        conditions.receiveWindow = [333, 65_536][Int(seed % 2)]
        try run(seed: seed, conditions: conditions, options: { $0.connecting.timeout = .seconds(60) }) { _, _, client in
            for size in [0, 1, 100, 20_000] {
                let body = Bytes([UInt8](repeating: UInt8(seed), count: size))
                let reply = try await client.send(Request(type: 0x410, body: body), timeout: .seconds(600))
                #expect(reply.body == body)
            }
        }
    }

    @Test("a link that is reset is replaced, and its TLS session is resumed")
    func resets() throws {
        try run(seed: 1) { _, server, client in
            for _ in 0..<5 {
                _ = try await client.send(Request(type: 0x410), options: CallOptions(retry: .idempotent()))
                await server.disconnectAll(reset: true)
            }
            #expect(await server.journal.resumptionCount >= 3)
        }
    }

    @Test("a server that stalls during the TLS handshake ends the attempt at its timeout")
    func stalls() throws {
        let network = SimulatedNetwork(seed: 1)
        try network.runBlocking {
            let server = try await network.startServer(at: "db:7443", speaking: .standard)
            await server.pauseReading()
            let options = ClientOptions { $0.reconnecting.maximumAttempts = 1 }
            let client = Client(to: "tls://db:7443", speaking: .standard, options: options, on: network.loops)
            var reports = client.disconnects.makeAsyncIterator()
            let error = await #expect(throws: ClientError.self) { try await client.send(Request(type: 0x410)) }
            #expect(error?.code == .unavailable)
            #expect(network.clock.now.offset == .seconds(3))
            let report = await reports.next()
            #expect(report?.phase == .securing)
            #expect(report?.cause == .timedOut)
            await client.close()
            await server.stop()
        }
    }

    /// Regression: everything was encrypted, so nothing seemed to be left to write, and closing did not wait
    /// for the socket.
    @Test func closingWaitsForEncryptedBytesThatAreNotSentYet() throws {
        var conditions = NetworkConditions()
        (conditions.sendBuffer, conditions.receiveWindow) = (1000, 1000)
        try run(seed: 1, conditions: conditions) { network, server, client in
            try await client.connect()
            await server.pauseReading()
            // The message times out when all of it is encrypted, so there is no request that closing would wait for.
            let error = await #expect(throws: ClientError.self) {
                try await client.post(Request(type: 0x410, body: filled(40_000)), timeout: .milliseconds(100))
            }
            #expect(error?.code == .timedOut && error?.fate == .unknown)
            let began = network.clock.now.offset
            async let closing: Void = client.close()
            try await network.clock.sleep(for: .seconds(4))
            await server.resumeReading()
            await closing
            let took = network.clock.now.offset - began
            #expect(took >= .seconds(4))
            try await server.waitForRequests(1)
        }
    }

    // MARK: Client certificates

    private static let clients = Result { () throws(TransportError) in try TestAuthority(named: "clients") }

    /// Regression: the client had completed the handshake and sent its request. This caused a reset, which
    /// discarded the alert.
    @Test func nothingIsSentBeforeTheServerRejectsTheClient() throws {
        let root = try Self.clients.get().root
        var conditions = NetworkConditions()
        conditions.latency = .milliseconds(50)...(.milliseconds(50))
        try run(seed: 1, conditions: conditions, server: { $0.clientRoots = root }) { _, server, client in
            let why = try await failure(client, server)
            #expect(why == .alert(116))
        }
    }

    /// The time until a link with a client certificate is ready, if everything after the handshake takes `latency`.
    private func connecting(thenAfter latency: Duration) throws -> Duration {
        let root = try Self.clients.get().root
        let identity = try Self.clients.get().identity(for: "worker-7", usage: .client)
        var conditions = NetworkConditions()
        conditions.latency = .milliseconds(50)...(.milliseconds(50))
        var slow = conditions
        slow.latency = latency...latency
        let result = Mutex(Duration.zero)
        try run(
            seed: 1,
            conditions: conditions,
            options: { $0.tls.identity = identity },
            server: { $0.clientRoots = root }
        ) { [slow] network, _, client in
            async let slowing: Void = {
                try await network.clock.sleep(for: .milliseconds(220))
                network.setConditions(slow)
            }()
            try await client.connect()
            result.withLock { $0 = network.clock.now.offset }
            try await slowing
            #expect(try await client.send(Request(type: 0x410, body: "x"), timeout: .seconds(60)).body == "x")
        }
        return result.withLock { $0 }
    }

    @Test func aLinkWithACertificateIsReadyWhenTheServerHasSentData() throws {
        let took = try connecting(thenAfter: .milliseconds(50))
        #expect(.milliseconds(300)..<(.milliseconds(310)) ~= took)
    }

    @Test func aLinkWithACertificateDoesNotWaitLongForASilentServer() throws {
        let took = try connecting(thenAfter: .seconds(5))
        // The handshake is complete after 200 ms, 100 ms of which it has taken itself.
        #expect(.milliseconds(400)..<(.milliseconds(410)) ~= took)
    }
}
