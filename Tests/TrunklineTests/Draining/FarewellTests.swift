import Testing
import Trunkline

@testable import TrunklineLoopback
@testable import TrunklineTesting

/// Servers that say why they end a link, at once or when its requests have been answered: `connection.close` of AMQP 0-9-1,
/// which the client answers with `close-ok`, or the reply 421 of SMTP (RFC 5321, section 3.8).
@Suite(.simulated, .timeLimit(.minutes(5)))
struct FarewellTests {}

extension FarewellTests {
    private func simulate(
        _ options: ClientOptions = ClientOptions(),
        _ body: @escaping @Sendable (SimulatedNetwork, [LoopbackServer], Client) async throws -> Void
    ) throws {
        let network = SimulatedNetwork(seed: 1)
        try network.runBlocking {
            var servers: [LoopbackServer] = []
            for address in ["a:1", "b:1"] as [Endpoint] {
                servers.append(
                    try await network.serve(at: address, speaking: WordsCodec()) { WordsCodec.answer(to: $0) }
                )
            }
            let client = network.client(of: ["a:1", "b:1"], speaking: WordsCodec(), options: options)
            try await body(network, servers, client)
            #expect(await client.diagnostics.audit() == [])
            await client.close()
            for server in servers { await server.stop() }
        }
        #expect(network.openLinks == 0)
    }

    private func ask(_ text: String) -> Request { Request(body: Bytes(text)) }

    private func expectEcho(by client: Client) async throws {
        let reply = try await client.send(ask("echo"))
        #expect(reply.body == "echo")
    }

    /// The frame of a farewell may have any kind. The client answers it with its closing frame, and goes elsewhere.
    @Test(arguments: ["bye", "last"])
    func aFarewellFailsTheRequestsInFlightWithItsReason(_ word: String) throws {
        try simulate { _, servers, client in
            var reports = client.disconnects.makeAsyncIterator()
            let handles = [
                client.start(ask("waiting")), client.start(ask("!\(word) 320 CONNECTION_FORCED maintenance")),
            ]
            let reason = ServerReason("CONNECTION_FORCED", code: 320, text: "maintenance")
            for handle in handles {
                let error = await failure(of: handle)
                #expect(error?.code == .connectionLost && error?.fate == .unknown && error?.reason == reason)
                #expect((error?.cause as? TransportError)?.reason == reason)
            }
            let report = await reports.next()
            #expect(report?.reason == reason && report?.cause == .goAway && report?.endedBy == .server)
            #expect(report?.requestsLost == 2 && report?.endpoint == servers[0].endpoint)
            #expect(report.map { "\($0)" }?.contains("CONNECTION_FORCED (320): maintenance") == true)
            try await expectEcho(by: client)
            #expect(await servers[0].received.contains { $0.kind == .cancel && $0.body == "close-ok" })
            #expect(await servers[1].journal.requestCount == 1)
            #expect(await client.metrics.connection.linkEndReasons == ["CONNECTION_FORCED": 1])
        }
    }

    @Test func aFarewellLetsTheRequestsInFlightFinish() throws {
        try simulate { network, servers, client in
            var reports = client.disconnects.makeAsyncIterator()
            let slow = client.start(ask("slow"))
            _ = try await servers[0].waitForRequest { $0.body == "slow" }
            let left = client.start(ask("!leave 1 SHUTDOWN|echo"))
            try await expectBody("slow", of: slow)
            try await expectEcho(by: client)
            _ = try await left.value
            let report = await reports.next()
            #expect(report?.cause == .goAway && report?.reason == ServerReason("SHUTDOWN", code: 1))
            #expect(report?.requestsLost == 0)
            #expect(await servers[1].journal.requestCount == 1)
            #expect(await client.metrics.connection.linkEndReasons == ["SHUTDOWN": 1])
        }
    }

    /// A response of the handshake is an error, and no farewell.
    @Test func aRejectedHandshakeHasTheReasonOfTheServer() throws {
        let options = ClientOptions { options in
            options.reconnecting.maximumAttempts = 2
            options.handshake.perform = { _ = try await $0.send(Request(body: "!error * 530 NOT_ALLOWED no user")) }
        }
        try simulate(options) { _, _, client in
            var reports = client.disconnects.makeAsyncIterator()
            let error = await failure(of: client.start(ask("echo")))
            let reason = ServerReason("NOT_ALLOWED", code: 530, text: "no user")
            #expect(error?.code == .unavailable && error?.fate == .notSent && error?.reason == reason)
            #expect(await reports.next()?.reason == reason)
            #expect(await client.metrics.connection.linkEndReasons == ["NOT_ALLOWED": 2])
        }
    }

    /// A server that says that it closes when its requests are answered, and closes at once.
    @Test func aCloseAfterAnAnnouncementKeepsItsReason() throws {
        try simulate { _, servers, client in
            let error = await failure(of: client.start(ask("!leave 1 SHUTDOWN now|close")))
            #expect(error?.code == .connectionLost && error?.fate == .unknown)
            #expect(error?.reason == ServerReason("SHUTDOWN", code: 1, text: "now"))
        }
    }

    @Test func aFarewellDuringTheHandshakeIsTheCauseOfTheFailure() throws {
        let options = ClientOptions { options in
            options.reconnecting.maximumAttempts = 2
            options.handshake.perform = { _ = try await $0.send(Request(body: "!bye 403 ACCESS_REFUSED|close")) }
        }
        try simulate(options) { _, _, client in
            let error = await failure(of: client.start(ask("echo")))
            #expect(error?.code == .unavailable && error?.fate == .notSent)
            #expect(error?.reason == ServerReason("ACCESS_REFUSED", code: 403))
            #expect(await client.metrics.connection.linkEndReasons == ["ACCESS_REFUSED": 2])
        }
    }

    /// The closure says what the server has said.
    @Test func aRefusalHasTheReasonOfTheServer() throws {
        let reason = ServerReason("NO_SUCH_USER", code: 530)
        let options = ClientOptions { options in
            options.handshake.perform = { _ in throw HandshakeRefusal(saying: reason, kind: .permission) }
        }
        try simulate(options) { _, _, client in
            var reports = client.disconnects.makeAsyncIterator()
            let error = await failure(of: client.start(ask("echo")))
            #expect(error?.code == .unavailable && error?.reason == reason)
            let report = await reports.next()
            #expect(report?.reason == reason && report?.isPermanent == true)
            #expect(await client.metrics.connection.linkEndReasons == ["NO_SUCH_USER": 2])
        }
    }

    @Test func aConnectionWithoutAClientReportsTheReason() throws {
        let network = SimulatedNetwork(seed: 1)
        try network.runBlocking {
            let server = try await network.serve(at: "a:1", speaking: WordsCodec()) { WordsCodec.answer(to: $0) }
            let connection = network.connection(to: ["a:1"], speaking: WordsCodec())
            var reports = connection.disconnects.makeAsyncIterator()
            try await connection.write(Frame(.request, serial: 1, body: "!bye 1 DONE|close"))
            try await connection.withFrames { frames in
                for try await frame in frames where frame.linkEnding != nil {
                    #expect(frame.linkEnding == .now && frame.reason?.name == "DONE")
                    break
                }
            }
            #expect(await reports.next()?.reason == ServerReason("DONE", code: 1))
            await connection.close()
            await server.stop()
        }
    }
}
