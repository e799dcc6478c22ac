import Foundation
import Testing
import Trunkline
import TrunklineTesting

/// `openssl s_server -rev`, which returns every line reversed. Clients that connect too early try again.
final class OpenSSLServer {
    private let process = Process()
    let credentials: Credentials
    let endpoint: Endpoint
    private let directory: URL

    init(_ arguments: [String], validFor names: [String] = ["127.0.0.1"]) throws {
        guard let path = ServerProcess.find("openssl") else {
            throw ServerProcess.NotStarted(description: "openssl is not installed")
        }
        directory = FileManager.default.temporaryDirectory
            .appendingPathComponent("trunkline-\(UUID().uuidString.prefix(8))")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        credentials = try Credentials(besides: directory.appendingPathComponent("s").path, validFor: names)
        let port = try freePort()
        endpoint = .host("127.0.0.1", port: port).secured()
        process.executableURL = URL(fileURLWithPath: path)
        process.arguments =
            ["s_server", "-accept", "127.0.0.1:\(port)", "-cert", credentials.certificate, "-key", credentials.key]
            + ["-CAfile", credentials.root, "-rev", "-quiet"] + arguments
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        try process.run()
    }

    /// Kills the process, as the system does if memory runs out: its sockets are closed without a `close_notify`.
    func kill() {
        guard process.isRunning else { return }
        Foundation.kill(process.processIdentifier, SIGKILL)
    }

    func stop() {
        kill()
        try? FileManager.default.removeItem(at: directory)
    }
}

@Suite(.tags(.realThreads), .serialized, .enabled(if: ServerProcess.isAvailable("openssl"), "openssl is not installed"))
struct OpenSSLServerTests {}

extension OpenSSLServerTests {
    private func run(
        _ arguments: [String],
        options change: (inout ClientOptions.TLS, Credentials) throws -> Void = { _, _ in },
        _ body: (OpenSSLServer, Client) async throws -> Void
    ) async throws {
        let server = try OpenSSLServer(arguments)
        var options = server.credentials.options()
        try change(&options.tls, server.credentials)
        options.reconnecting.policy = Backoff(base: .milliseconds(20), cap: .milliseconds(200))
        let client = Client(to: server.endpoint, speaking: DelimitedCodec(delimiter: "\n"), options: options)
        do {
            try await body(server, client)
        } catch {
            await client.closeNow()
            server.stop()
            throw error
        }
        await client.close()
        server.stop()
    }

    private func expectResponse(_ client: Client) async throws {
        #expect(try await client.send(Request(body: "hello")).body == "olleh")
    }

    private func failure(_ client: Client) async -> TLSFailure? {
        let error = await #expect(throws: ClientError.self) { try await client.send(Request(body: "hello")) }
        #expect(error?.code == .tlsFailed, "\(String(describing: error))")
        guard case .tls(let failure)? = (error?.cause as? TransportError)?.code else { return nil }
        return failure
    }

    @Test(.timeLimit(.minutes(5)), arguments: ["-tls1_2", "-tls1_3"])
    func bothVersionsAreSupported(version: String) async throws {
        try await run([version]) { _, client in
            for _ in 0..<100 { try await expectResponse(client) }
            #expect(await client.diagnostics.tlsSession?.version == (version == "-tls1_2" ? "TLSv1.2" : "TLSv1.3"))
        }
    }

    @Test(.timeLimit(.minutes(5)), arguments: ["-tls1", "-tls1_1"])
    func weakVersionsAreRefused(version: String) async throws {
        try await run([version, "-cipher", "ALL:@SECLEVEL=0"]) { _, client in
            #expect(await failure(client) == .protocolVersion)
        }
    }

    @Test(.timeLimit(.minutes(5)))
    func aServerWithoutTheMinimumVersionIsRefused() async throws {
        try await run(["-tls1_2"], options: { options, _ in options.minimumVersion = .tls13 }) { _, client in
            #expect(await failure(client) == .protocolVersion)
        }
    }

    @Test(.timeLimit(.minutes(5)))
    func anApplicationProtocolIsNegotiated() async throws {
        try await run(["-alpn", "acme/1"], options: { options, _ in options.applicationProtocols = ["x", "acme/1"] }) {
            _,
            client in
            try await expectResponse(client)
            #expect(await client.diagnostics.tlsSession?.applicationProtocol == "acme/1")
        }
    }

    @Test(.timeLimit(.minutes(5)))
    func aServerWithoutACommonApplicationProtocolIsRefused() async throws {
        try await run(["-alpn", "acme/1"], options: { options, _ in options.applicationProtocols = ["x"] }) {
            _,
            client in
            #expect(await failure(client) == .noApplicationProtocol)
        }
    }

    @Test(.timeLimit(.minutes(5)), arguments: ["-tls1_2", "-tls1_3"])
    func aClientPresentsItsCertificate(version: String) async throws {
        try await run(
            [version, "-Verify", "2", "-verify_return_error"],
            options: { options, credentials in options.identity = credentials.client }
        ) { _, client in
            try await expectResponse(client)
        }
    }

    @Test(.timeLimit(.minutes(5)), arguments: ["-tls1_2", "-tls1_3"])
    func aClientWithoutACertificateIsRefused(version: String) async throws {
        try await run([version, "-Verify", "2", "-verify_return_error"]) { _, client in
            let failure = await failure(client)
            // handshake_failure before TLS 1.3, certificate_required since.
            #expect(failure == .alert(version == "-tls1_2" ? 40 : 116))
        }
    }

    @Test(.timeLimit(.minutes(5)))
    func aTruncatedStreamIsAnAbnormalEnd() async throws {
        try await run([]) { server, client in
            // Subscribes before the round trip, because a later subscriber may miss the end. The server may not have
            // listened at first.
            var reports = client.disconnects.makeAsyncIterator()
            try await expectResponse(client)
            server.kill()
            var report = await reports.next()
            while report?.cause == .refused, report?.phase != .ready { report = await reports.next() }
            #expect(report?.cause == .closedByServer)
            #expect((report?.error as? TransportError)?.code == .tls(.truncated))
        }
    }

    @Test(.timeLimit(.minutes(5)), arguments: ["-tls1_2", "-tls1_3"])
    func theProbeReportsTheServer(version: String) async throws {
        try await run([version, "-alpn", "acme/1"], options: { tls, _ in tls.applicationProtocols = ["acme/1"] }) {
            server,
            client in
            try await expectResponse(client)  // it listens
            await client.suspend()  // it serves one client at a time
            let probe = try await ProbeRun([
                "--json", "--roots", server.credentials.root, "--alpn", "acme/1", "--interval", "1ms", "--timeout",
                "60s", "--warn-days",
                "0",
                "\(server.endpoint)",
            ])
            #expect(probe.exitCode == 0, "\(probe)")
            let document = try probe.document()
            let session = try #require(document.list("addresses").first)["session"]
            #expect(session.text("version") == (version == "-tls1_2" ? "TLSv1.2" : "TLSv1.3"))
            #expect(session.text("application_protocol") == "acme/1")
            #expect(document.certificates.first?.texts("names") == ["127.0.0.1"])
            #expect(document["connections"].number("succeeded") == 5)
        }
    }

    @Test(.timeLimit(.minutes(5)), arguments: ["-tls1_2", "-tls1_3"])
    func theNextLinkResumesTheSession(version: String) async throws {
        try await run([version]) { server, client in
            try await expectResponse(client)
            await client.suspend()
            await client.resume()
            try await expectResponse(client)
            #expect(await client.diagnostics.tlsSession?.isResumed == true)
        }
    }
}
