import Foundation
import Testing
import Trunkline
import TrunklineTesting

@testable import TrunklineDiagnostics

/// The probe as a library: a user's codec, handshake and ping. The servers are those of the test kit.
@Suite(.tags(.realThreads), .timeLimit(.minutes(5)))
struct ProbeProtocolTests {
    /// A probe that does not depend on time.
    private func probe(
        _ endpoint: Endpoint,
        _ options: ClientOptions = ClientOptions(),
        ping: (@Sendable (Client) async throws -> Void)? = nil
    ) -> Probe {
        var probe = Probe(of: endpoint, speaking: .checked, options: options, ping: ping)
        probe.interval = .milliseconds(1)
        probe.timeout = .seconds(60)
        return probe
    }

    /// Options that log in with type 7 and this password.
    private func login(_ password: Bytes) -> ClientOptions {
        ClientOptions {
            $0.handshake.timeout = .seconds(60)
            $0.handshake.perform = { handshaker in
                do {
                    _ = try await handshaker.send(Request(type: 7, body: password))
                } catch let error as ClientError where error.code == .rejected {
                    throw HandshakeRefusal("wrong password")
                }
            }
        }
    }

    /// A server that answers requests only on a connection whose first request had the right password.
    private func withGuardedServer(_ body: (LoopbackServer) async throws -> Void) async throws {
        try await withLoopbackServer(
            speaking: .checked,
            handler: { request in request.type == 7 && request.body != "right" ? .status(401) : .echo },
            body
        )
    }

    @Test func aServerThatAcceptsTheLoginIsHealthy() async throws {
        try await withGuardedServer { server in
            let report = try await probe(server.endpoint, login("right")) { _ = try await $0.send(Request(type: 8)) }
                .run()
            #expect(report.health == .healthy && report.exitCode == 0, "\(report.text)")
            #expect(report.pings?.answered == 5)
            #expect(report.text.contains("Handshake\n  completed  in "), "\(report.text)")
            #expect(report.text.contains("Pings (FrameLayout)\n  answered    5 of 5\n"), "\(report.text)")
            #expect(report.json.contains("\"handshake\": {"))
        }
    }

    /// Without a closure, the pings are those of the codec, after the login.
    @Test func theCodecPingsAfterTheLogin() async throws {
        try await withGuardedServer { server in
            let report = try await probe(server.endpoint, login("right")).run()
            #expect(report.exitCode == 0, "\(report.text)")
            #expect(report.pings?.answered == 5)
            #expect(await server.journal.pingCount >= 5)
        }
    }

    @Test func aRefusedLoginIsNamed() async throws {
        try await withGuardedServer { server in
            let report = try await probe(server.endpoint, login("wrong")).run()
            #expect(report.health == .unhealthy && report.exitCode == 3)
            let problem = try #require(report.problems.first)
            #expect(report.problems.count == 1)
            #expect(problem.code == "handshake_refused" && problem.isRejection)
            #expect(problem.message == "the login failed: the handshake was refused: wrong password")
            #expect(problem.address == server.endpoint.description)
            #expect(report.addresses.map(\.result) == [.won])
        }
    }

    /// A server that closes does not say that it refused the login. The port does not speak TLS, so that is not why.
    @Test func aServerThatClosesDuringTheLoginMayHaveRefusedIt() async throws {
        try await withLoopbackServer(speaking: .checked, handler: { _ in .close }) { server in
            let report = try await probe(server.endpoint, login("wrong")).run()
            // It may also be a load balancer without a server, so it is no rejection.
            #expect(report.exitCode == 1)
            #expect(report.problems.map(\.code) == ["handshake_closed"])
            let message = report.problems.first?.message ?? ""
            #expect(message.hasPrefix("the login failed: "), "\(message)")
            #expect(message.hasSuffix("; the server may have refused the login without saying so"), "\(message)")
        }
    }

    @Test func aMistakeInTheHandshakeIsNotARefusal() async throws {
        let options = ClientOptions { $0.handshake.perform = { try await $0.setDefault("unknown", to: 1) } }
        try await withLoopbackServer(speaking: .checked) { server in
            let report = try await probe(server.endpoint, options).run()
            #expect(report.exitCode == 1)
            #expect(report.problems.map(\.code) == ["handshake_failed"])
        }
    }

    @Test func aPingThatFailsIsUnhealthy() async throws {
        try await withLoopbackServer(speaking: .checked, handler: { _ in .status(500) }) { server in
            let report = try await probe(server.endpoint) { _ = try await $0.send(Request(type: 8)) }.run()
            #expect(report.exitCode == 1)
            #expect(report.problems.map(\.code) == ["rejected"])
            #expect(report.problems.first?.message.hasPrefix("ping 1 failed: ") == true)
        }
    }

    @Test func aPingWithoutAnAnswerIsUnhealthy() async throws {
        try await withLoopbackServer(speaking: .checked, handler: { _ in .noReply }) { server in
            var probe = probe(server.endpoint) { _ = try await $0.send(Request(type: 8)) }
            probe.timeout = .seconds(10)
            let report = try await probe.run()
            #expect(report.problems.map(\.code) == ["no_pong"])
            #expect(report.pings?.sent == 1 && report.pings?.answered == 0)
        }
    }

    @Test func anUnreachableServerIsNotLoggedInto() async throws {
        let report = try await probe(.host("127.0.0.1", port: try freePort()), login("right")).run()
        #expect(report.exitCode == 1)
        #expect(report.problems.map(\.code) == ["refused"])
    }

    @Test func theProbeIsACommandOfItsOwn() async throws {
        try await withGuardedServer { server in
            let words = ["\(server.endpoint)", "--json", "--interval", "1ms", "--timeout", "60s"]
            #expect(await Probe.run(words, speaking: .checked, options: login("right")) == 0)
            #expect(await Probe.run(words, speaking: .checked, options: login("wrong")) == 3)
            #expect(await Probe.run(["--preset", "standard"] + words, speaking: .checked) == 64)
            #expect(await Probe.run(["--help"], speaking: .checked) == 0)
        }
    }

    // MARK: TLS

    /// The plaintext server takes the first bytes of TLS for an absurd length, and closes.
    @Test func aPortWithoutTLSIsAskedAbout() async throws {
        try await withLoopbackServer(speaking: .standard) { server in
            let report = try await probe(server.endpoint.secured()).run()
            #expect(report.exitCode == 1)
            let message = report.problems.first?.message ?? ""
            #expect(message.hasSuffix("; does this port speak TLS?"), "\(message)")
        }
    }

    @Test(arguments: [false, true])
    func aPortThatExpectsTLSIsNamed(logsIn: Bool) async throws {
        let identity = try TestAuthority().identity(for: "127.0.0.1")
        let options = LoopbackServer.Options { $0.tls = .init(identity) }
        try await withLoopbackServer(speaking: .checked, options: options) { server in
            let plain = Endpoint.host("127.0.0.1", port: try #require(server.endpoint.port))
            let report = try await probe(plain, logsIn ? login("right") : ClientOptions()).run()
            #expect(report.exitCode == 1)
            #expect(report.problems.map(\.code) == ["tls_expected"], "\(report.text)")
            let message = report.problems.first?.message ?? ""
            #expect(message.hasSuffix("; the port speaks TLS: use \(server.endpoint)"), "\(message)")
        }
    }

    // MARK: Certificates of the client

    private let expired: ClosedRange<Duration> = .seconds(-9 * 86_400) ... .seconds(-7200)

    private func options(_ authority: TestAuthority, _ validity: ClosedRange<Duration>) throws -> ClientOptions {
        try ClientOptions {
            $0.tls.roots = .only(authority.root)
            $0.tls.identity = try authority.identity(forNames: ["worker"], usage: .client, validity: validity)
        }
    }

    private func server(_ authority: TestAuthority, change: (inout LoopbackServer.Options) -> Void) async throws
        -> LoopbackServer
    {
        let identity = try authority.identity(for: "127.0.0.1")
        return try await LoopbackServer.start(
            speaking: .checked,
            options: LoopbackServer.Options {
                $0.tls = .init(identity)
                change(&$0)
            }
        )
    }

    /// A server that closes without an alert. The client knows that its certificate has expired.
    @Test func aServerThatClosesWithoutAWordMayNotAcceptTheCertificate() async throws {
        let authority = try TestAuthority()
        let server = try await server(authority) { $0.onConnect = .close }
        let options = try options(authority, expired)
        var withoutPings = Probe(of: server.endpoint, options: options)
        // The server closes at once; until then the probe waits.
        (withoutPings.interval, withoutPings.pings, withoutPings.timeout) = (.seconds(60), 0, .seconds(60))
        for report in [try await withoutPings.run(), try await probe(server.endpoint, options).run()] {
            #expect(report.exitCode == 3, "\(report.text)")
            #expect(report.problems.map(\.code) == ["client_certificate_refused"])
            let message = report.problems.first?.message ?? ""
            #expect(message.hasSuffix("the certificate of this client is not valid: CN=worker expired 2 h ago"))
            #expect(report.text.contains("Certificate of this client\n  subject  CN=worker"), "\(report.text)")
        }
        await server.stop()
    }

    @Test func aServerThatClosesDuringTheTLSHandshakeMayNotAcceptTheCertificate() async throws {
        let options = try options(try TestAuthority(), expired)
        try await withLoopbackServer(speaking: .standard) { server in
            let report = try await probe(server.endpoint.secured(), options).run()
            #expect(report.exitCode == 3)
            #expect(report.problems.map(\.code) == ["client_certificate_refused"])
        }
    }

    @Test func aServerThatSaysSoIsQuotedWithTheCertificate() async throws {
        let authority = try TestAuthority()
        let server = try await server(authority) { $0.tls?.clientRoots = authority.root }
        let report = try await probe(server.endpoint, try options(authority, expired)).run()
        #expect(report.exitCode == 3, "\(report.text)")
        #expect(report.problems.map(\.code) == ["tls_alert"])
        let message = report.problems.first?.message ?? ""
        #expect(message.hasSuffix("the certificate of this client is not valid: CN=worker expired 2 h ago"))
        await server.stop()
    }

    @Test func aServerMayAcceptAnExpiredCertificate() async throws {
        let authority = try TestAuthority()
        let server = try await server(authority) { _ in }
        let report = try await probe(server.endpoint, try options(authority, expired)).run()
        #expect(report.exitCode == 2)
        #expect(report.problems.map(\.code) == ["client_certificate_invalid"])
        let soon = try await probe(server.endpoint, try options(authority, .seconds(-60) ... .seconds(86_400 * 4)))
            .run()
        #expect(soon.problems.map(\.code) == ["client_certificate_expires_soon"])
        #expect(
            soon.problems.first?.message.hasPrefix("the certificate of this client, CN=worker, expires in 3 d") == true
        )
        await server.stop()
    }

    @Test func aKeyOfAnotherCertificateCannotBeUsed() async throws {
        let authority = try TestAuthority()
        let (own, other) = (try authority.identity(for: "worker"), try authority.identity(for: "other"))
        let options = ClientOptions {
            $0.tls.identity = TLSIdentity(certificates: own.certificates, privateKey: other.privateKey)
        }
        let probe = probe(Endpoint.host("127.0.0.1", port: try freePort()).secured(), options)
        let error = await #expect(throws: TransportError.self) { try await probe.run() }
        #expect(error?.code == .tls(.configuration))
    }
}

/// The executable with options that name files.
@Suite(.tags(.realThreads), .timeLimit(.minutes(5)))
struct ProbeFileTests {}

extension ProbeFileTests {
    /// memcached's binary protocol, whose `noop` is a ping.
    private static let memcached = """
        {
          "comment": "BinaryProtocolRevamped",
          "fields": [
            {"kind": 1, "numbers": {"request": "0x80", "response": "0x81"}},
            {"type": 1},
            {"integer": 2, "name": "keyLength"},
            {"integer": 1, "name": "extrasLength"},
            {"integer": 1, "name": "dataType"},
            {"status": 2},
            {"length": 4, "counting": "body"},
            {"serial": 4},
            {"integer": 8, "name": "cas"},
            {"body": true}
          ],
          "roles": {"ping": "0x0a"}
        }
        """

    /// Calls `body` with the path of a file that holds `text`.
    private func withFile(_ text: String, _ body: (String) async throws -> Void) async throws {
        let path = FileManager.default.temporaryDirectory.appendingPathComponent("\(UUID().uuidString).json").path
        try Data(text.utf8).write(to: URL(fileURLWithPath: path))
        try await body(path)
        try FileManager.default.removeItem(atPath: path)
    }

    @Test(.enabled(if: ServerProcess.isAvailable("memcached"), "memcached is not installed"))
    func memcachedIsProbedWithALayoutInJSON() async throws {
        let server = try await ServerProcess("memcached") { ["-u", "root", "-s", $0] }
        defer { server.stop() }
        try await withFile(Self.memcached) { path in
            let run = try await ProbeRun([
                "--layout", path, "--json", "--interval", "1ms", "--timeout", "60s", "unix:\(server.socketPath)",
            ])
            #expect(run.exitCode == 0, "\(run.output)\(run.complaint)")
            let document = try run.document()
            #expect(document["pings"].number("answered") == 5)
            #expect(document.text("preset") == "layout")
        }
    }

    @Test func anInvalidLayoutIsExplained() async throws {
        try await withFile(Self.memcached.replacing("keyLength\"", with: "keyLength\", \"wide\": 2")) { path in
            let run = try await ProbeRun(["--layout", path, "127.0.0.1:1"])
            #expect(run.exitCode == 64)
            #expect(run.complaint.contains("--layout: \(path): fields[2].wide: unknown member"), "\(run.complaint)")
        }
    }

    @Test func anExpiredCertificateOfTheClientIsNamed() async throws {
        let authority = try TestAuthority()
        let identity = try authority.identity(for: "127.0.0.1")
        let own = try authority.identity(
            forNames: ["worker"],
            usage: .client,
            validity: .seconds(-9 * 86_400) ... .seconds(-7200)
        )
        let server = try await LoopbackServer.start(
            speaking: .standard,
            options: LoopbackServer.Options {
                $0.tls = .init(identity)
                $0.onConnect = .close
            }
        )
        let directory = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        func file(_ name: String, _ text: PEM) throws -> String {
            let path = directory.appendingPathComponent(name).path
            try text.write(toFile: path)
            return path
        }
        let run = try await ProbeRun([
            "\(server.endpoint)", "--interval", "60s", "--timeout", "60s", "--pings", "0", "--roots",
            file("root.pem", authority.root),
            "--certificate", file("own.pem", own.certificates), "--key", file("key.pem", own.privateKey),
        ])
        #expect(run.exitCode == 3, "\(run.output)\(run.complaint)")
        #expect(run.output.contains("the certificate of this client is not valid: CN=worker expired 2 h ago"))
        await server.stop()
        try FileManager.default.removeItem(at: directory)
    }
}
