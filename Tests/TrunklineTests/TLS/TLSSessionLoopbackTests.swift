import Testing
import TrunklineTesting

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts

/// A saved TLS session is dropped when it is followed by a failure.
///
/// Regression: nothing removed a saved session after a failed handshake. A server, or a device before it, that did not bear the
/// ticket was offered it in every attempt, although a full handshake would have succeeded. An alert failed the requests that
/// waited with `tlsFailed`.
@Suite(.tags(.realThreads)) struct TLSSessionLoopbackTests {}

extension TLSSessionLoopbackTests {
    private func run(
        _ conduct: TicketRelay.Conduct,
        startsInPlaintext: Bool = false,
        _ change: (inout ClientOptions) -> Void = { _ in },
        _ body: (LoopbackServer, TicketRelay, Client) async throws -> Void
    ) async throws {
        let authority = try TestAuthority()
        let identity = try authority.identity(for: "127.0.0.1")
        let server = try await LoopbackServer.start(
            speaking: .standard,
            options: LoopbackServer.Options {
                $0.tls = .init(identity) {
                    $0.beginsAtOnce = !startsInPlaintext
                }
            }
        ) { request in request.type == 0x411 ? .sequence([.reply("go on"), .startTLS]) : .echo }
        guard case .host(_, let port) = server.endpoint.target else { return }
        let relay = TicketRelay(before: port, conduct)
        let endpoint = try await relay.listen()
        let client = Client(
            to: startsInPlaintext ? endpoint : endpoint.secured(),
            speaking: .standard,
            options: ClientOptions {
                $0.connecting.timeout = patience
                $0.requests.timeout = patience
                $0.tls.roots = .only(authority.root)
                if startsInPlaintext {
                    $0.handshake.perform = { link in
                        _ = try await link.send(Request(type: 0x411))
                        try await link.startTLS()
                        _ = try await link.send(Request(type: 0x410))
                    }
                }
                change(&$0)
            }
        )
        let result = await Result { () async throws -> Void in try await body(server, relay, client) }
        await client.closeNow()
        await relay.stop()
        await server.stop()
        try result.get()
    }

    /// Sends a request; it fails if a link that offers the session is all that there is.
    private func expectAnswer(_ client: Client) async throws {
        let response = try await client.send(
            Request(type: 0x410, body: "hello"),
            options: CallOptions(retry: .idempotent())
        )
        #expect(response.body == "hello")
    }

    @Test(
        "a handshake that fails with a ticket is repeated at once without it",
        .timeLimit(.minutes(5)),
        // 10 and 80 are taken for temporary, 40, 47 and 51 for permanent or for corrupted data.
        arguments: [.resets, .closes, .babbles, .alerts(10), .alerts(40), .alerts(47), .alerts(51), .alerts(80)]
            as [TicketRelay.Conduct]
    )
    func repeats(conduct: TicketRelay.Conduct) async throws {
        try await run(conduct) { server, relay, client in
            try await expectAnswer(client)
            await server.disconnectAll()
            try await expectAnswer(client)
            #expect(await relay.withTicket == 1)
            #expect(await relay.withoutTicket == 2)
            #expect(await client.diagnostics.tlsSession?.isResumed == false)
            // One attempt for each link: the second has made two handshakes.
            #expect(await client.metrics.connection.attempts == 2)
        }
    }

    @Test("the session of the repeated handshake is saved and resumed", .timeLimit(.minutes(5)))
    func isSavedAgain() async throws {
        try await run(.resets) { server, relay, client in
            try await expectAnswer(client)
            await server.disconnectAll()
            try await expectAnswer(client)
            await relay.set(.bears)
            await server.disconnectAll()
            try await expectAnswer(client)
            #expect(await client.diagnostics.tlsSession?.isResumed == true)
            #expect(await relay.withTicket == 2)
        }
    }

    @Test("a ticket that is not answered is offered once", .timeLimit(.minutes(5)))
    func isSilent() async throws {
        try await run(.isSilent) {
            $0.connecting.timeout = .milliseconds(500)
            $0.reconnecting.policy = Backoff(base: .milliseconds(10), cap: .milliseconds(10))
        } _: { server, relay, client in
            try await expectAnswer(client)
            await server.disconnectAll()
            try await expectAnswer(client)
            #expect(await relay.withTicket == 1)
            #expect(await client.diagnostics.tlsSession?.isResumed == false)
        }
    }

    @Test(
        "an alert for a ticket in startTLS() is not a permanent failure",
        .timeLimit(.minutes(5)),
        arguments: [47, 40] as [UInt8]
    )
    func startTLS(alert: UInt8) async throws {
        try await run(.alerts(alert), startsInPlaintext: true) { server, relay, client in
            try await expectAnswer(client)
            await server.disconnectAll()
            try await expectAnswer(client)
            #expect(await relay.withTicket == 1)
            #expect(await client.diagnostics.tlsSession?.isResumed == false)
        }
    }

    @Test("a permanent failure of a full handshake is not repeated", .timeLimit(.minutes(5)))
    func fullHandshakes() async throws {
        try await run(.bears) {
            $0.tls.roots = .system
        } _: { _, relay, client in
            let error = await #expect(throws: ClientError.self) { try await client.send(Request(type: 0x410)) }
            #expect(error?.code == .tlsFailed)
            #expect(await relay.withoutTicket == 1)
        }
    }
}

extension Result where Failure == any Error {
    fileprivate init(_ body: () async throws -> Success) async {
        do { self = .success(try await body()) } catch { self = .failure(error) }
    }
}
