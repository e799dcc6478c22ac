import Synchronization
import Testing
import Trunkline
import TrunklineTesting

@testable import TrunklineLoopback

/// A test server with TLS, and a client to it.
struct SecuredPair {
    let server: LoopbackServer
    let client: Client

    init(
        _ identity: TLSIdentity,
        trusting root: PEM,
        server change: (inout LoopbackServer.TLS) -> Void = { _ in },
        client changeClient: (inout ClientOptions.TLS) -> Void = { _ in }
    ) async throws {
        server = try await LoopbackServer.start(
            speaking: .standard,
            options: LoopbackServer.Options { $0.tls = .init(identity, change) }
        )
        client = Client(
            to: server.endpoint,
            speaking: .standard,
            options: ClientOptions {
                // A busy machine must not cause a retry.
                $0.connecting.timeout = patience
                $0.requests.timeout = patience
                $0.tls.roots = .only(root)
                changeClient(&$0.tls)
            }
        )
    }

    func end() async {
        await client.close()
        await server.stop()
    }
}

/// Sends one request that must fail because of TLS. Returns the reason.
func failure(_ client: Client, _ server: LoopbackServer) async throws -> TLSFailure? {
    var reports = client.disconnects.makeAsyncIterator()
    let error = await #expect(throws: ClientError.self) { try await client.send(Request(type: 0x410, body: "secret")) }
    #expect(error?.code == .tlsFailed)
    #expect(error?.fate == .notSent)
    let report = await reports.next()
    #expect(report?.cause == .tls)
    #expect(report?.phase == .securing)
    #expect(report?.endedBy == ((report?.error as? TransportError)?.isAlert == true ? .server : .client))
    #expect(await server.journal.bytesReceived == 0)
    #expect(await server.journal.requestCount == 0)
    guard case .tls(let failure)? = (error?.cause as? TransportError)?.code else { return nil }
    return failure
}

extension TransportError {
    fileprivate var isAlert: Bool { if case .tls(.alert) = code { true } else { false } }
}

@Suite(.tags(.realThreads)) struct TLSLoopbackTests {}

extension TLSLoopbackTests {
    @Test("requests over TLS are answered, small and large", .timeLimit(.minutes(5)))
    func answers() async throws {
        let authority = try TestAuthority()
        let pair = try await SecuredPair(try authority.identity(for: "127.0.0.1"), trusting: authority.root)
        let reply = try await pair.client.send(Request(type: 0x410, body: "hello"))
        #expect(reply.body == "hello")
        let large = Bytes((0..<3_000_000).map { UInt8(truncatingIfNeeded: $0) })
        #expect(try await pair.client.send(Request(type: 0x410, body: large)).body == large)
        #expect(await pair.client.diagnostics.tlsSession?.version == "TLSv1.3")
        await pair.end()
    }

    @Test("a thousand concurrent requests over TLS get their own responses", .timeLimit(.minutes(5)))
    func many() async throws {
        let authority = try TestAuthority()
        let pair = try await SecuredPair(try authority.identity(for: "127.0.0.1"), trusting: authority.root)
        try await withThrowingTaskGroup { group in
            for number in 0..<1000 {
                group.addTask { () async throws -> Void in
                    let body = Bytes(String(repeating: "\(number) ", count: 1 + number * 7 % 9000))
                    #expect(try await pair.client.send(Request(type: 0x410, body: body)).body == body)
                }
            }
            try await group.waitForAll()
        }
        await pair.end()
    }

    @Test("a certificate below an intermediate authority is trusted if the chain is complete", .timeLimit(.minutes(5)))
    func chain() async throws {
        let authority = try TestAuthority()
        let intermediate = try authority.intermediate()
        let pair = try await SecuredPair(try intermediate.identity(for: "127.0.0.1"), trusting: authority.root)
        #expect(try await pair.client.send(Request(type: 0x410)).type == 0x410)
        await pair.end()
    }

    @Test("the next link resumes the TLS session", .timeLimit(.minutes(5)), arguments: [TLSVersion.tls12, .tls13])
    func resumes(version: TLSVersion) async throws {
        let authority = try TestAuthority()
        let pair = try await SecuredPair(try authority.identity(for: "127.0.0.1"), trusting: authority.root)
        _ = try await pair.client.send(Request(type: 0x410))
        #expect(await pair.client.diagnostics.tlsSession?.isResumed == false)
        await pair.server.disconnectAll()
        _ = try await pair.client.send(Request(type: 0x410), options: CallOptions(retry: .idempotent()))
        #expect(await pair.client.diagnostics.tlsSession?.isResumed == true)
        #expect(await pair.server.journal.resumptionCount == 1)
        await pair.end()
    }

    @Test(
        "the certificates of the server can be inspected, also those of a resumed session",
        .timeLimit(.minutes(5))
    )
    func certificates() async throws {
        let authority = try TestAuthority(named: "Acmé\n root")
        let intermediate = try authority.intermediate(named: "below")
        let names = ["127.0.0.1", "*.acme.example", "::1"]
        let validity = Duration.seconds(-3600) ... .seconds(7200)
        let identity = try intermediate.identity(forNames: names, validity: validity)
        let pair = try await SecuredPair(identity, trusting: authority.root)
        _ = try await pair.client.send(Request(type: 0x410))
        let certificates = try #require(await pair.client.diagnostics.tlsSession?.certificates)
        #expect(certificates.map(\.subject) == ["CN=127.0.0.1", "CN=below"])
        // RFC 4514 escapes control characters in hexadecimal, with a backslash.
        #expect(certificates.map(\.issuer) == ["CN=below", "CN=Acmé\\0A root"])
        #expect(certificates.map(\.names) == [names, []])
        for certificate in certificates {
            #expect(certificate.fingerprint.count == 64)
            let isHexadecimal = certificate.fingerprint.allSatisfy { $0.isHexDigit }
            #expect(isHexadecimal)
        }
        let own = try #require(certificates.first)
        #expect(own.notAfter - own.notBefore == 10_800)
        #expect((Int64(wallClockSeconds()) - 7_200...Int64(wallClockSeconds())).contains(own.notBefore))

        await pair.server.disconnectAll()
        _ = try await pair.client.send(Request(type: 0x410), options: CallOptions(retry: .idempotent()))
        let session = await pair.client.diagnostics.tlsSession
        #expect(session?.isResumed == true)
        #expect(session?.certificates == certificates)
        await pair.end()
    }

    @Test("both sides agree on an application protocol", .timeLimit(.minutes(5)))
    func applicationProtocol() async throws {
        let authority = try TestAuthority()
        let pair = try await SecuredPair(
            try authority.identity(for: "127.0.0.1"),
            trusting: authority.root,
            server: { $0.applicationProtocols = ["acme/2", "acme/1"] },
            client: { $0.applicationProtocols = ["acme/1", "acme/2"] }
        )
        _ = try await pair.client.send(Request(type: 0x410))
        #expect(await pair.client.diagnostics.tlsSession?.applicationProtocol == "acme/2")
        await pair.end()
    }

    @Test("a client identifies itself by its certificate", .timeLimit(.minutes(5)))
    func clientCertificate() async throws {
        let authority = try TestAuthority()
        let clients = try TestAuthority(named: "clients")
        let identity = try clients.identity(for: "worker-7", usage: .client, passphrase: "open sesame")
        let pair = try await SecuredPair(
            try authority.identity(for: "127.0.0.1"),
            trusting: authority.root,
            server: { $0.clientRoots = clients.root },
            client: { $0.identity = identity }
        )
        #expect(try await pair.client.send(Request(type: 0x410, body: "x")).body == "x")
        await pair.end()
    }
}

/// Whatever is wrong with a certificate, no byte of a request leaves the client, and the error gives the reason.
@Suite(.tags(.realThreads)) struct TLSCertificateLoopbackTests {}

extension TLSCertificateLoopbackTests {
    struct Case: Sendable, CustomTestStringConvertible {
        let testDescription: String
        var failure: TLSFailure?
        var names = ["127.0.0.1"]
        var serverName: String?
        var usage = TestAuthority.Usage.server
        var validity: ClosedRange<Duration> = .seconds(-3600) ... .seconds(3600)
        var isForeign = false
        var lacksIntermediate = false

        init(_ description: String, _ failure: TLSFailure?, _ change: (inout Case) -> Void) {
            testDescription = description
            self.failure = failure
            change(&self)
        }
    }

    static let cases: [Case] = [
        Case("nothing is wrong", nil) { _ in },
        Case("the name is one of several", nil) {
            $0.names = ["a.example", "127.0.0.1", "b.example"]
            $0.serverName = "b.example"
        },
        Case("a wildcard stands for a label", nil) {
            $0.names = ["*.example.test"]
            $0.serverName = "a.example.test"
        },
        Case("a name with a trailing dot", nil) {
            $0.names = ["a.example.test"]
            $0.serverName = "a.example.test."
        },
        Case("an IPv6 address", nil) {
            $0.names = ["::1"]
            $0.serverName = "::1"
        },
        Case("an unknown authority", .untrusted) { $0.isForeign = true },
        Case("the intermediate authority's certificate is missing", .untrusted) { $0.lacksIntermediate = true },
        Case("expired", .expired) { $0.validity = .seconds(-7200) ... .seconds(-3600) },
        Case("not yet valid", .notYetValid) { $0.validity = .seconds(3600) ... .seconds(7200) },
        Case("another host", .nameMismatch) { $0.names = ["other.example"] },
        Case("another host by name", .nameMismatch) {
            $0.names = ["a.example.test"]
            $0.serverName = "b.example.test"
        },
        Case("another address", .nameMismatch) { $0.names = ["127.0.0.2"] },
        Case("a name in place of the address", .nameMismatch) {
            $0.names = ["localhost"]
        },
        Case("a wildcard for two labels", .nameMismatch) {
            $0.names = ["*.example.test"]
            $0.serverName = "a.b.example.test"
        },
        Case("a wildcard for no label", .nameMismatch) {
            $0.names = ["*.example.test"]
            $0.serverName = "example.test"
        },
        Case("a wildcard within a label", .nameMismatch) {
            $0.names = ["a*.example.test"]
            $0.serverName = "ab.example.test"
        },
        Case("only the common name is right", .nameMismatch) { $0.names = [] },
        Case("a certificate for clients", .wrongPurpose) { $0.usage = .client },
        Case("a certificate for code", .wrongPurpose) { $0.usage = .code },
    ]

    @Test(.timeLimit(.minutes(5)), arguments: cases)
    func certificates(_ item: Case) async throws {
        let authority = try TestAuthority()
        var issuer = item.isForeign ? try TestAuthority() : authority
        if item.lacksIntermediate { issuer = try authority.intermediate() }
        let identity = try issuer.identity(
            forNames: item.names,
            usage: item.usage,
            validity: item.validity,
            withChain: !item.lacksIntermediate
        )
        let pair = try await SecuredPair(identity, trusting: authority.root) { _ in
        } client: {
            $0.serverName = item.serverName
        }
        if item.failure == nil {
            #expect(try await pair.client.send(Request(type: 0x410, body: "x")).body == "x")
        } else {
            #expect(try await failure(pair.client, pair.server) == item.failure)
        }
        await pair.end()
    }

    @Test(
        "a server without a common application protocol is refused",
        .timeLimit(.minutes(5)),
        arguments: [[], ["other"]]
    )
    func applicationProtocol(protocols: [String]) async throws {
        let authority = try TestAuthority()
        let pair = try await SecuredPair(
            try authority.identity(for: "127.0.0.1"),
            trusting: authority.root,
            server: { $0.applicationProtocols = protocols },
            client: { $0.applicationProtocols = ["acme/1"] }
        )
        #expect(try await failure(pair.client, pair.server) == .noApplicationProtocol)
        await pair.end()
    }

    @Test("a pin must be in the chain", .timeLimit(.minutes(5)), arguments: [true, false])
    func pins(isRight: Bool) async throws {
        let authority = try TestAuthority()
        let pin = isRight ? authority.pin : try TestAuthority().pin
        let worker = try authority.identity(for: "worker-7", usage: .client)
        let pair = try await SecuredPair(
            try authority.identity(for: "127.0.0.1"),
            trusting: authority.root,
            server: { $0.clientRoots = authority.root },
            client: {
                $0.pins = [pin]
                $0.identity = worker
            }
        )
        if isRight {
            #expect(try await pair.client.send(Request(type: 0x410, body: "x")).body == "x")
            await pair.server.disconnectAll()
            let reply = try await pair.client.send(
                Request(type: 0x410, body: "y"),
                options: CallOptions(retry: .idempotent())
            )
            #expect(reply.body == "y")
            #expect(await pair.server.journal.resumptionCount == 1)
        } else {
            #expect(try await failure(pair.client, pair.server) == .pinMismatch)
            // The server has not seen the client's certificate either.
            #expect(await pair.server.journal.handshakeCount == 0)
        }
        await pair.end()
    }

    @Test(
        "a client without the right certificate sends no request to a server",
        .timeLimit(.minutes(5)),
        arguments: [true, false]
    )
    func clientCertificate(hasOne: Bool) async throws {
        let authority = try TestAuthority()
        let clients = try TestAuthority(named: "clients")
        let identity = hasOne ? try authority.identity(for: "worker-7", usage: .client) : nil
        let pair = try await SecuredPair(
            try authority.identity(for: "127.0.0.1"),
            trusting: authority.root,
            server: { $0.clientRoots = clients.root },
            client: { $0.identity = identity }
        )
        // If the server is slow to reject it, the client has sent something by then, which the server does not decrypt.
        // The rest is tested in virtual time.
        let error = await #expect(throws: ClientError.self) { try await pair.client.send(Request(type: 0x410)) }
        #expect(error?.code == .tlsFailed)
        #expect((error?.cause as? TransportError)?.code == .tls(.alert(hasOne ? 48 : 116)))
        #expect(await pair.server.journal.bytesReceived == 0)
        #expect(await pair.server.journal.requestCount == 0)
        await pair.end()
    }

    @Test("a self-signed certificate is not trusted", .timeLimit(.minutes(5)))
    func selfSigned() async throws {
        let pair = try await SecuredPair(try TestAuthority().selfSigned(), trusting: try TestAuthority().root)
        #expect(try await failure(pair.client, pair.server) == .untrusted)
        await pair.end()
    }

    @Test("pins are checked without verification, too", .timeLimit(.minutes(5)), arguments: [true, false])
    func pinsAlone(isRight: Bool) async throws {
        let authority = try TestAuthority()
        let server = try TestAuthority()
        let pin = isRight ? server.pin : authority.pin
        let pair = try await SecuredPair(
            try server.selfSigned(),
            trusting: authority.root,
            client: {
                $0.verification = .insecureNone
                $0.pins = [pin]
            }
        )
        if isRight {
            #expect(try await pair.client.send(Request(type: 0x410, body: "x")).body == "x")
        } else {
            #expect(try await failure(pair.client, pair.server) == .pinMismatch)
        }
        await pair.end()
    }

    /// OpenSSL accepts ".example.test" for every name with this suffix.
    @Test("a partial name is invalid", .timeLimit(.minutes(5)), arguments: [".example.test", "a..example.test", "."])
    func partialName(name: String) async throws {
        let authority = try TestAuthority()
        let pair = try await SecuredPair(
            try authority.identity(for: "a.example.test"),
            trusting: authority.root,
            client: { $0.serverName = name }
        )
        #expect(try await failure(pair.client, pair.server) == .configuration)
        await pair.end()
    }

    /// Regression: the vault was unavailable for a moment, which counted as a refusal by the server.
    @Test("a passphrase that is not available is requested again", .timeLimit(.minutes(5)))
    func passphraseLater() async throws {
        struct VaultIsAway: Error {}
        let authority = try TestAuthority()
        let worker = try authority.identity(for: "worker-7", usage: .client, passphrase: "open sesame")
        let asked = Mutex(0)
        let pair = try await SecuredPair(
            try authority.identity(for: "127.0.0.1"),
            trusting: authority.root,
            server: { $0.clientRoots = authority.root },
            client: {
                $0.identity = TLSIdentity(certificates: worker.certificates, privateKey: worker.privateKey) {
                    if asked.withLock({
                        $0 += 1; return $0
                    }) == 1 {
                        throw VaultIsAway()
                    }
                    return "open sesame"
                }
            }
        )
        var reports = pair.client.disconnects.makeAsyncIterator()
        #expect(try await pair.client.send(Request(type: 0x410, body: "x")).body == "x")
        let report = await reports.next()
        #expect(report?.cause == .tls && report?.phase == .securing)
        #expect((report?.error as? TransportError)?.code == .tls(.noPassphrase))
        #expect((report?.error as? TransportError)?.message.contains("VaultIsAway") == true)
        // The description of the client contains no secrets.
        var text = ""
        dump(pair.client, to: &text)
        #expect(!text.contains("open sesame") && !text.contains("PRIVATE KEY"))
        await pair.end()
    }

    @Test("verification can be disabled explicitly", .timeLimit(.minutes(5)))
    func insecure() async throws {
        let pair = try await SecuredPair(
            try TestAuthority().identity(for: "elsewhere"),
            trusting: try TestAuthority().root,
            client: { $0.verification = .insecureNone }
        )
        #expect(try await pair.client.send(Request(type: 0x410, body: "x")).body == "x")
        await pair.end()
    }

    @Test("a key that does not match, or cannot be read, is a configuration error", .timeLimit(.minutes(5)))
    func configuration() async throws {
        let authority = try TestAuthority()
        let one = try authority.identity(for: "a", usage: .client)
        let other = try authority.identity(for: "b", usage: .client, passphrase: "open sesame")
        let bad: [TLSIdentity] = [
            TLSIdentity(certificates: one.certificates, privateKey: other.privateKey) { "open sesame" },
            TLSIdentity(certificates: one.certificates, privateKey: other.privateKey) { "wrong" },
            TLSIdentity(certificates: one.certificates, privateKey: other.privateKey),
            TLSIdentity(certificates: .text("no certificate"), privateKey: one.privateKey),
            TLSIdentity(certificates: .file("/nowhere/certificate.pem"), privateKey: one.privateKey),
        ]
        for identity in bad {
            let pair = try await SecuredPair(try authority.identity(for: "127.0.0.1"), trusting: authority.root) { _ in
            } client: {
                $0.identity = identity
            }
            let error = await #expect(throws: ClientError.self) { try await pair.client.send(Request(type: 0x410)) }
            #expect(error?.code == .tlsFailed)
            #expect((error?.cause as? TransportError)?.code == .tls(.configuration), "\(String(describing: error))")
            #expect(await pair.server.journal.totalConnections == 0)
            for text in ["\(String(describing: error))", "\(identity)", String(reflecting: identity)] {
                #expect(!text.contains("sesame") && !text.contains("PRIVATE"))
            }
            await pair.end()
        }
    }
}
