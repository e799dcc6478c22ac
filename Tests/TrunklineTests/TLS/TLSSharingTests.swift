import CTrunkline
import Testing
import TrunklineTesting

@testable import TrunklineCore
@testable import TrunklineIO

/// Which clients share a configuration of OpenSSL, and what they do not share.
@Suite(.tags(.realThreads)) struct TLSSharingTests {
    private let authority: TestAuthority
    private let settings: TLSSettings

    init() throws {
        authority = try TestAuthority()
        var settings = TLSSettings(.client(verifies: true))
        settings.trustsSystem = false
        settings.roots = [try authority.root.load()]
        self.settings = settings
    }

    private func changed(_ change: (inout TLSSettings) throws -> Void) rethrows -> TLSSettings {
        var settings = settings
        try change(&settings)
        return settings
    }

    @Test func clientsWithEqualSettingsShareOneConfiguration() throws {
        let first = try OpenSSLContext(settings)
        #expect(try unsafe OpenSSLContext(settings).pointer == first.pointer)
        let others = try [
            changed { $0.role = .client(verifies: false) },
            changed { $0.minimumVersion = .tls13 },
            changed { $0.trustsSystem = true },
            changed { $0.roots = [] },
            changed { $0.roots = [try TestAuthority().root.load()] },
            changed { $0.applicationProtocols = ["a"] },
            changed { $0.pins = [try #require(PublicKeyPin(sha256: [UInt8](repeating: 0, count: 32)))] },
        ]
        let contexts = try [first] + others.map { try OpenSSLContext($0) }
        #expect(unsafe Set(contexts.map { unsafe $0.pointer }).count == contexts.count)
    }

    @Test func configurationsWithAPrivateKeyAreNotShared() async throws {
        var client = settings
        client.identity = try await authority.identity(for: "client", usage: .client).load()
        let clients = try [OpenSSLContext(client), OpenSSLContext(client)]
        #expect(unsafe clients[0].pointer != clients[1].pointer)
        var server = TLSSettings(.server(verifiesClients: false))
        server.identity = try await authority.identity(for: "server").load()
        let servers = try [OpenSSLContext(server), OpenSSLContext(server)]
        #expect(unsafe servers[0].pointer != servers[1].pointer)
    }

    @Test func anUnusedConfigurationIsReleased() throws {
        weak var configuration: OpenSSLConfiguration?
        do {
            let (first, second) = (try OpenSSLConfiguration.shared(by: settings), try OpenSSLContext(settings))
            #expect(unsafe first.pointer == second.pointer)
            configuration = first
        }
        #expect(configuration == nil)
    }

    @Test func clientsDoNotResumeEachOthersSessions() async throws {
        var server = TLSSettings(.server(verifiesClients: false))
        server.identity = try await authority.identity(for: "server").load()
        let serverContext = try OpenSSLContext(server)
        let (first, second) = (try OpenSSLContext(settings), try OpenSSLContext(settings))
        #expect(unsafe first.pointer == second.pointer)
        #expect(try session(first, with: serverContext)?.isResumed == false)
        #expect(try session(second, with: serverContext)?.isResumed == false)
        #expect(try session(first, with: serverContext)?.isResumed == true)
        #expect(try session(second, with: serverContext)?.isResumed == true)
    }

    /// Regression: a session stayed saved although the link that had resumed it ended before the server sent anything. If the
    /// session was the reason, every further link ended in the same way.
    @Test func aResumedSessionIsForgottenIfTheServerSaysNothing() async throws {
        var server = TLSSettings(.server(verifiesClients: false))
        server.identity = try await authority.identity(for: "server").load()
        let serverContext = try OpenSSLContext(server)
        let client = try OpenSSLContext(settings)
        #expect(try session(client, with: serverContext)?.isResumed == false)
        #expect(try session(client, with: serverContext, isSilent: true)?.isResumed == true)
        #expect(try session(client, with: serverContext)?.isResumed == false)
        #expect(try session(client, with: serverContext)?.isResumed == true)
    }

    /// Regression: it stayed saved if the server ended such a link in order (`close_notify`).
    @Test func aResumedSessionIsForgottenIfTheServerOnlySaysGoodbye() async throws {
        var server = TLSSettings(.server(verifiesClients: false))
        server.identity = try await authority.identity(for: "server").load()
        let serverContext = try OpenSSLContext(server)
        let client = try OpenSSLContext(settings)
        // In TLS 1.3, OpenSSL sends a new ticket before it ends the link.
        #expect(try session(client, with: serverContext, isOld: true)?.isResumed == false)
        #expect(try session(client, with: serverContext, isOld: true, saysGoodbye: true)?.isResumed == true)
        #expect(try session(client, with: serverContext, isOld: true)?.isResumed == false)
        #expect(try session(client, with: serverContext, isOld: true)?.isResumed == true)
    }

    /// Makes a connection without a socket. Returns the client's session.
    ///
    /// - Parameters:
    ///   - isSilent: Whether the server sends nothing after the handshake.
    ///   - isOld: Whether the server knows TLS 1.2 only.
    ///   - saysGoodbye: Whether the server ends the link in order after the handshake.
    private func session(
        _ context: OpenSSLContext,
        with serverContext: OpenSSLContext,
        isSilent: Bool = false,
        isOld: Bool = false,
        saysGoodbye: Bool = false
    ) throws -> TLSSession? {
        let client = try context.makeEngine(for: "server")
        let server = try serverContext.makeEngine(for: "")
        if isOld, let engine = server as? OpenSSLEngine {
            _ = unsafe engine.api.pointee.SSL_ctrl(engine.ssl, 124, 0x0303, nil)  // SSL_CTRL_SET_MAX_PROTO_VERSION
        }
        for _ in 0..<4 where !isSilent || client.session == nil {
            try deliver(server.outgoing.takeAll(), to: client)
            try deliver(client.outgoing.takeAll(), to: server)
        }
        if isSilent {
            client.finishWriting()
            return client.session
        }
        if saysGoodbye {
            server.finishWriting()
            try deliver(server.outgoing.takeAll(), to: client)
            return client.session
        }
        // The server's tickets.
        var memory = [UInt8](repeating: 0, count: 100)
        _ = unsafe server.outgoing.takeAll().withUnsafeBytes { bytes in
            var input = unsafe bytes
            return unsafe memory.withUnsafeMutableBytes { unsafe client.read(&input, into: $0) }
        }
        client.finishWriting()
        return client.session
    }

    private func deliver(_ bytes: [UInt8], to engine: any TLSEngine) throws(TransportError) {
        guard engine.session == nil else {
            // Tickets that came with the end of the handshake.
            var memory = [UInt8](repeating: 0, count: 100)
            return unsafe bytes.withUnsafeBytes { all in
                var input = unsafe all
                _ = unsafe memory.withUnsafeMutableBytes { unsafe engine.read(&input, into: $0) }
            }
        }
        _ = try unsafe bytes.span.bytes.withUnsafeBytes { memory throws(TransportError) in
            var input = unsafe memory
            return try unsafe engine.handshake(&input)
        }
    }
}
