import Testing
import Trunkline
import TrunklineTesting

@testable import TrunklineLoopback

/// TLS that begins on an established connection.
@Suite(.tags(.realThreads)) struct StartTLSLoopbackTests {}

extension StartTLSLoopbackTests {
    /// A server that begins TLS when a reaction says so.
    private static func serverOptions(_ identity: TLSIdentity) -> LoopbackServer.Options {
        LoopbackServer.Options {
            $0.tls = .init(identity) { ($0.beginsAtOnce, $0.handshakeTimeout) = (false, patience) }
        }
    }

    private func run(
        _ reaction: Reaction,
        identity names: [String] = ["127.0.0.1"],
        handshake perform: @escaping @Sendable (Handshaker) async throws -> Void = { link in
            _ = try await link.send(Request(type: 0x411, body: "TLS?"))
            try await link.startTLS()
            _ = try await link.send(Request(type: 0x410, body: "login"))
        },
        _ body: (LoopbackServer, Client) async throws -> Void
    ) async throws {
        let authority = try TestAuthority()
        let identity = try authority.identity(forNames: names)
        let server = try await LoopbackServer.start(
            speaking: .standard,
            options: Self.serverOptions(identity)
        ) { request in request.type == 0x411 ? reaction : .echo }
        let options = ClientOptions { options in
            options.tls.roots = .only(authority.root)
            options.handshake.perform = perform
            options.handshake.timeout = patience
            options.requests.timeout = patience
            options.connecting.timeout = patience
            options.reconnecting.maximumAttempts = 1
        }
        let client = Client(to: server.endpoint, speaking: .standard, options: options)
        do { try await body(server, client) } catch {
            await client.closeNow()
            await server.stop()
            throw error
        }
        await client.close()
        await server.stop()
    }

    @Test("a handshake switches to TLS, and all that follows is secured", .timeLimit(.minutes(5)))
    func upgrades() async throws {
        try await run(.sequence([.reply("go on"), .startTLS])) { server, client in
            try await expectEcho("hello", by: client)
            #expect(await client.diagnostics.tlsSession?.version == "TLSv1.3")
            #expect(await server.journal.handshakeCount == 1)
        }
    }

    @Test("plaintext bytes after the agreement are a protocol violation", .timeLimit(.minutes(5)))
    func injected() async throws {
        let injected: [Reaction] = [
            .sequence([.reply("go on"), .reply("injected"), .startTLS]),
            .sequence([.reply("go on"), .push(Frame(.push, type: 2, body: "injected")), .startTLS]),
            .sequence([.reply("go on"), .garbage([0, 0, 4]), .startTLS]),
            .sequence([.reply("go on"), .ping, .startTLS]),
        ]
        for reaction in injected {
            try await run(reaction) { server, client in
                var reports = client.disconnects.makeAsyncIterator()
                await #expect(throws: ClientError.self) { try await client.connect() }
                let report = await reports.next()
                // This server takes the answer to its ping for a violation, too, and may be the first to report one.
                #expect(report?.cause == .protocolViolation || report?.cause == .closedByServer)
                #expect(await server.journal.requests.allSatisfy { $0.type == 0x411 })
            }
        }
    }

    /// Lines. A part of a line is removed from the input and kept in the codec.
    private struct HoldingLines: FrameCodec, ServerSideCodec, FieldDefaultsCodec {
        var isServer = false
        var held: [UInt8] = []
        var prefix = Bytes()

        var matching: ResponseMatching { .inOrder }

        mutating func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
            guard let end = input.firstOffset(of: 10) else {
                if let part = input.readBytes(input.count) { held += part }
                input.discard(0)
                return nil
            }
            guard let line = input.readBytes(end), input.skip(1) else { return nil }
            defer { held = [] }
            return Frame(isServer ? .request : .response, body: Bytes(held + line))
        }

        mutating func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
            output.append(isServer ? frame.body : Bytes(Array(prefix) + Array(frame.body)))
            output.append([10])
        }

        mutating func setDefaults(from frame: Frame) throws(FrameError) {
            prefix = frame[bytes: "prefix"] ?? prefix
        }

        func serverSide() -> any FrameCodec { HoldingLines(isServer: true) }
    }

    /// An attacker adds a part of a line to the plaintext. Regression: the codec had removed it from the input, where it
    /// would have been found, and added it to the first line that arrived over TLS.
    @Test("no plaintext that a codec has kept becomes a part of what TLS protects", .timeLimit(.minutes(5)))
    func kept() async throws {
        let authority = try TestAuthority()
        let identity = try authority.identity(for: "127.0.0.1")
        let server = try await LoopbackServer.start(
            speaking: HoldingLines(),
            options: Self.serverOptions(identity)
        ) { request in
            request.body == "me: TLS?" ? .sequence([.reply("go on"), .garbage("forged "), .startTLS]) : .echo
        }
        let options = ClientOptions { options in
            options.tls.roots = .only(authority.root)
            options.handshake.perform = { link in
                try await link.setDefault("prefix", to: Bytes("me: "))
                _ = try await link.send(Request(body: "TLS?"))
                try await link.startTLS()
                let reply = try await link.send(Request(body: "login"))
                // What the handshake has set stays.
                #expect(reply.body == "me: login")
            }
            options.handshake.timeout = patience
            options.connecting.timeout = patience
        }
        let client = Client(to: server.endpoint, speaking: HoldingLines(), options: options)
        let reply = try await client.send(Request(body: "hello"), timeout: .after(patience))
        #expect(reply.body == "me: hello")
        await client.close()
        await server.stop()
    }

    @Test("a server with the wrong name receives only the first request", .timeLimit(.minutes(5)))
    func wrongName() async throws {
        try await run(.sequence([.reply("go on"), .startTLS]), identity: ["elsewhere"]) { server, client in
            var reports = client.disconnects.makeAsyncIterator()
            let error = await #expect(throws: ClientError.self) { try await client.connect() }
            #expect(error?.code == .tlsFailed)
            let report = await reports.next()
            #expect((report?.error as? TransportError)?.code == .tls(.nameMismatch))
            #expect(await server.journal.requests.map(\.type) == [0x411])
        }
    }

    @Test("TLS can begin only once, and after the responses", .timeLimit(.minutes(5)))
    func once() async throws {
        try await run(.sequence([.reply("go on"), .startTLS])) { link in
            _ = try await link.send(Request(type: 0x411))
            try await link.startTLS()
            let error = await #expect(throws: ClientError.self) { try await link.startTLS() }
            #expect(error?.code == .invalidRequest)
        } _: { _, client in
            try await expectEcho("x", by: client)
        }
    }
}
