import Testing
import TrunklineTesting

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts
@testable import TrunklineLogging

/// What a client says about its own certificate, and about those that expire soon. Over real sockets, because a
/// simulation has no calendar.
@Suite(.tags(.realThreads), .timeLimit(.minutes(5)))
struct CertificateLoopbackTests {
    private let log = LogCollector()

    private func options(_ authority: TestAuthority, validFor validity: ClosedRange<Duration>?) throws -> ClientOptions
    {
        var options = ClientOptions { $0.logging = log.logging() }
        options.connecting.timeout = patience
        options.requests.timeout = patience
        options.tls.roots = .only(authority.root)
        if let validity {
            options.tls.identity = try authority.identity(forNames: ["worker"], usage: .client, validity: validity)
        }
        return options
    }

    /// The report of the first attempt at a server without TLS, which takes the first bytes for an absurd length and closes.
    private func attemptAtPlaintextServer(_ options: ClientOptions) async throws -> DisconnectReport? {
        let server = try await LoopbackServer.start(speaking: .standard)
        let client = Client(to: server.endpoint.secured(), speaking: .standard, options: options)
        let attempts = client.disconnects
        client.connectSoon()
        let report = await attempts.first { _ in true }
        await client.closeNow()
        await server.stop()
        // On a busy machine `closeNow` does not wait until the log is complete.
        #expect(await eventually { log.record("attempt.failed") != nil })
        return report
    }

    /// A server that does not say why it closes. The client knows that its certificate has expired.
    @Test func aServerThatClosesWithoutAWordMayNotAcceptTheCertificate() async throws {
        let options = try options(try TestAuthority(), validFor: .seconds(-9 * 86_400) ... .seconds(-7200))
        let report = try await attemptAtPlaintextServer(options)
        #expect(report?.suspicion == "the certificate of this client is not valid: CN=worker expired 2 h ago")
        let line = try #require(log.record("attempt.failed"))
        #expect(line.level == .error && line.message.contains("CN=worker expired 2 h ago"), "\(line)")
        #expect(line.message.contains("to do: renew the certificate of this client (options.tls.identity)"))
    }

    @Test func aPortWithoutTLSIsAskedAbout() async throws {
        let report = try await attemptAtPlaintextServer(try options(try TestAuthority(), validFor: nil))
        #expect(report?.phase == .securing && report?.suspicion == nil)
        let line = try #require(log.record("attempt.failed"))
        #expect(line.level == .warning && line.message.contains("does this port speak TLS?"), "\(line)")
    }

    @Test func certificatesThatExpireSoonAreNamed() async throws {
        let authority = try TestAuthority()
        let options = try options(authority, validFor: .seconds(-3600) ... .seconds(10 * 86_400 + 100))
        let identity = try authority.identity(
            forNames: ["127.0.0.1"],
            validity: .seconds(-3600) ... .seconds(2 * 86_400 + 100)
        )
        let server = try await LoopbackServer.start(
            speaking: .standard,
            options: LoopbackServer.Options { $0.tls = .init(identity) }
        )
        let client = Client(to: server.endpoint, speaking: .standard, options: options)
        try await client.connect()
        let certificates = await client.metrics.connection.certificates
        #expect(certificates.map(\.owner) == [.server, .client])
        #expect(certificates.map(\.subject) == ["CN=127.0.0.1", "CN=worker"])
        await client.closeNow()
        await server.stop()
        #expect(await eventually { log.records.count { $0.event == "certificate.expires" } == 2 })
        let lines = log.records.filter { $0.event == "certificate.expires" }
        #expect(lines.map(\.level) == [.warning, .error])
        #expect(lines.first?.message.hasPrefix("the certificate of this client (CN=worker) expires in 10 days") == true)
        #expect(lines.last?.message.contains("(CN=127.0.0.1) expires in 2 days; to do: renew the") == true, "\(lines)")
    }
}
