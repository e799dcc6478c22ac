import Foundation
import Testing
import Trunkline
import TrunklineTesting

@testable import TrunklineDiagnostics
@testable import TrunklineIO
@testable import TrunklineLoopback

/// The executable against servers of the test kit.
@Suite(.tags(.realThreads)) struct ProbeTests {}

extension ProbeTests {
    /// Runs the probe with `--json`, and returns its exit code and document.
    private func probe(_ endpoint: Endpoint, _ options: String...) async throws -> (Int32, ProbeRun.Document) {
        // Only the silent server needs its timeout; elsewhere nothing depends on time.
        let timeout = options.contains("--timeout") ? [] : ["--timeout", "60s"]
        let run = try await ProbeRun(options + timeout + ["--json", "--interval", "1ms", "\(endpoint)"])
        #expect(run.complaint == "")
        return (run.exitCode, try run.document())
    }

    /// A server with a certificate, and the file of its root.
    private struct SecuredServer {
        let server: LoopbackServer
        let roots: String
        private let directory: URL

        init(
            for names: [String] = ["127.0.0.1"],
            validity: ClosedRange<Duration> = .seconds(-3600) ... .seconds(86_400 * 90),
            change: (inout LoopbackServer.TLS) -> Void = { _ in }
        ) async throws {
            let authority = try TestAuthority()
            var tls = LoopbackServer.TLS(try authority.identity(forNames: names, validity: validity))
            change(&tls)
            directory = FileManager.default.temporaryDirectory
                .appendingPathComponent("trunkline-\(UUID().uuidString.prefix(8))")
            try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
            roots = directory.appendingPathComponent("root.pem").path
            try authority.root.write(toFile: roots)
            server = try await LoopbackServer.start(
                speaking: .standard,
                options: LoopbackServer.Options { $0.tls = tls }
            )
        }

        func stop() async {
            await server.stop()
            try? FileManager.default.removeItem(at: directory)
        }
    }

    @Test(.timeLimit(.minutes(5)))
    func aServerThatAnswersPingsIsHealthy() async throws {
        try await withLoopbackServer(speaking: .standard) { server in
            let (code, document) = try await probe(server.endpoint, "--preset", "standard", "--pings", "7")
            #expect(code == 0)
            #expect(document.text("health") == "healthy")
            #expect(document.number("schema") == 1)
            #expect(document.text("endpoint") == server.endpoint.description)
            #expect(document.list("problems").isEmpty)
            #expect(document.list("addresses").map { $0.text("result") } == ["won"])
            #expect(document["pings"].number("answered") == 7)
            let times = document["pings"].numbers("times").sorted()
            let spread = document["pings"]["round_trip"]
            #expect(times.count == 7)
            #expect(spread.number("min") == times.first)
            #expect(spread.number("max") == times.last)
            #expect(spread.number("median") == times[3])
            #expect(await server.journal.totalConnections == 1)
        }
    }

    @Test(.timeLimit(.minutes(5)))
    func theTextSaysTheSame() async throws {
        let secured = try await SecuredServer()
        let endpoint = secured.server.endpoint
        let run = try await ProbeRun([
            "\(endpoint)", "--roots", secured.roots, "--preset=standard", "--interval=1ms", "--timeout=60s",
        ])
        #expect(run.exitCode == 0)
        #expect(run.output.hasPrefix("\(endpoint): healthy\n"), "\(run.output)")
        for part in [
            "won", "connected in", "TLS in", "TLSv1.3", "CN=127.0.0.1", "CN=Trunkline test authority", "days left",
            "Pings (standard)", "5 of 5", "median",
        ] {
            #expect(run.output.contains(part), "\(part) is not in\n\(run.output)")
        }
        #expect(run.complaint == "")
        await secured.stop()
    }

    @Test(.timeLimit(.minutes(5)))
    func withoutAPresetNothingIsSent() async throws {
        try await withLoopbackServer(speaking: .standard) { server in
            let (code, document) = try await probe(server.endpoint, "--pings", "3")
            #expect(code == 0)
            #expect(document["connections"].number("succeeded") == 3)
            #expect(document["connections"]["connect"].number("median") != nil)
            try await server.wait(within: .seconds(60)) { $0.totalConnections == 4 }
            #expect(await server.journal.bytesReceived == 0)
        }
    }

    @Test(.timeLimit(.minutes(5)))
    func theCertificatesAreReported() async throws {
        let names = ["127.0.0.1", "*.acme.example"]
        let secured = try await SecuredServer(for: names) { $0.applicationProtocols = ["acme/1"] }
        let (code, document) = try await probe(
            secured.server.endpoint,
            "--roots",
            secured.roots,
            "--alpn",
            "other,acme/1"
        )
        #expect(code == 0)
        let session = try #require(document.list("addresses").first)["session"]
        #expect(session.text("version") == "TLSv1.3")
        #expect(session.text("cipher_suite")?.hasPrefix("TLS_") == true)
        #expect(session.text("application_protocol") == "acme/1")
        let certificate = try #require(document.certificates.first)
        #expect(certificate.text("subject") == "CN=127.0.0.1")
        #expect(certificate.text("issuer") == "CN=Trunkline test authority")
        #expect(certificate.texts("names") == names)
        let end = try #require(certificate.text("not_after").flatMap { ISO8601DateFormatter().date(from: $0) })
        #expect(abs(end.timeIntervalSinceNow - 86_400 * 90) < 3_600)
        #expect((89...90).contains(try #require(certificate.number("days_left"))))
        // How many resume the session depends on when its ticket arrives.
        #expect(document["connections"].number("succeeded") == 5)
        #expect(document["connections"].number("resumed") != nil)
        await secured.stop()
    }

    @Test(.timeLimit(.minutes(5)))
    func aCertificateThatExpiresSoonDegrades() async throws {
        let secured = try await SecuredServer(validity: .seconds(-60) ... .seconds(86_400 * 10))
        let (code, document) = try await probe(secured.server.endpoint, "--roots", secured.roots, "--pings", "0")
        #expect(code == 2)
        #expect(document.text("health") == "degraded")
        #expect(document.problems == ["certificate_expires_soon"])
        let later = try await probe(
            secured.server.endpoint,
            "--roots",
            secured.roots,
            "--pings",
            "0",
            "--warn-days",
            "9"
        )
        #expect(later.0 == 0)
        await secured.stop()
    }

    /// Some servers present an expired certificate beside their own, such as a cross-signed root, for old devices.
    @Test(.timeLimit(.minutes(5)))
    func anExpiredCertificateThatIsNotNeededHidesNothing() async throws {
        let old = try TestAuthority(named: "old authority").identity(
            forNames: ["old.example"],
            validity: .seconds(-86_400 * 9) ... .seconds(-86_400 * 3)
        )
        let unneeded = Array(try old.certificates.load())
        let secured = try await SecuredServer(validity: .seconds(-60) ... .seconds(86_400 * 10)) { tls in
            let own = (try? tls.identity.certificates.load()).map { Array($0) } ?? []
            tls.identity = TLSIdentity(certificates: .text(Bytes(own + unneeded)), privateKey: tls.identity.privateKey)
        }
        let (code, document) = try await probe(secured.server.endpoint, "--roots", secured.roots, "--pings", "0")
        #expect(code == 2)
        #expect(document.problems == ["certificate_expires_soon"])
        #expect(document.certificates.map { $0.text("subject") } == ["CN=127.0.0.1", "CN=old.example"])
        await secured.stop()
    }

    @Test(.timeLimit(.minutes(5)))
    func anExpiredCertificateIsShownWithTheReason() async throws {
        let secured = try await SecuredServer(validity: .seconds(-86_400 * 9) ... .seconds(-86_400 * 3))
        let (code, document) = try await probe(
            secured.server.endpoint,
            "--roots",
            secured.roots,
            "--preset",
            "standard"
        )
        #expect(code == 1)
        #expect(document.problems == ["tls_expired"])
        #expect(document.list("addresses").map { $0.text("result") } == ["untrusted"])
        #expect(document.certificates.first?.number("days_left").map { $0 < -2.9 && $0 > -3.2 } == true)
        // What the server does otherwise is reported too.
        #expect(document["pings"].number("answered") == 5)
        await secured.stop()
    }

    @Test(.timeLimit(.minutes(5)))
    func aWrongNameIsShownWithTheReason() async throws {
        let secured = try await SecuredServer(for: ["gateway.example"])
        let endpoint = secured.server.endpoint
        let (code, document) = try await probe(endpoint, "--roots", secured.roots, "--pings", "0")
        #expect(code == 1)
        #expect(document.problems == ["tls_name_mismatch"])
        #expect(document.certificates.first?.texts("names") == ["gateway.example"])
        let named = try await probe(
            endpoint,
            "--roots",
            secured.roots,
            "--pings",
            "0",
            "--server-name",
            "gateway.example"
        )
        #expect(named.0 == 0)
        await secured.stop()
    }

    @Test(.timeLimit(.minutes(5)))
    func anUnknownRootIsShownWithTheReason() async throws {
        let secured = try await SecuredServer()
        let (code, document) = try await probe(secured.server.endpoint, "--pings", "0")
        #expect(code == 1)
        #expect(document.problems == ["tls_untrusted"])
        #expect(document.certificates.count == 1)
        let insecure = try await probe(secured.server.endpoint, "--pings", "0", "--insecure")
        #expect(insecure.0 == 0)
        #expect(insecure.1.list("addresses").first?["error"].text("code") == "tls_untrusted")
        await secured.stop()
    }

    @Test(.timeLimit(.minutes(5)))
    func aRefusedPortIsUnhealthy() async throws {
        let (code, document) = try await probe(.host("127.0.0.1", port: try freePort()))
        #expect(code == 1)
        #expect(document.problems == ["refused"])
        #expect(document.list("addresses").map { $0.text("result") } == ["failed"])
    }

    @Test(.timeLimit(.minutes(5)))
    func aSilentServerIsUnhealthy() async throws {
        let listener = try SilentListener()
        let endpoint = Endpoint.host("127.0.0.1", port: listener.port)
        let silent = try await probe(endpoint, "--preset", "standard", "--timeout", "10s")
        #expect(silent.0 == 1)
        #expect(silent.1.problems == ["no_pong"])
        #expect(silent.1["pings"].number("sent") == 1)
        let secured = try await probe(endpoint.secured(), "--timeout", "2s")
        #expect(secured.0 == 1)
        #expect(secured.1.problems == ["timed_out"])
        withExtendedLifetime(listener) {}
    }

    @Test(.timeLimit(.minutes(5)), arguments: ["standard", "none"])
    func aServerThatClosesIsUnhealthy(preset: String) async throws {
        let options = LoopbackServer.Options { $0.onConnect = .close }
        try await withLoopbackServer(speaking: .standard, options: options) { server in
            // Long enough for the end to arrive.
            let run = try await ProbeRun([
                "--json", "--preset", preset, "--interval", "30s", "--pings", preset == "none" ? "0" : "2",
                "--timeout", "60s",
                "\(server.endpoint)",
            ])
            #expect(run.exitCode == 1)
            // A reset if the ping arrives at the closed socket before its end is read.
            let problems = try run.document().problems
            #expect(problems.contains("closed_by_peer") || problems.contains("reset"))
        }
    }

    @Test(.timeLimit(.minutes(5)))
    func otherBytesThanFramesAreUnhealthy() async throws {
        let options = LoopbackServer.Options { $0.onConnect = .garbage(Bytes([UInt8](repeating: 0xFF, count: 64))) }
        try await withLoopbackServer(speaking: .standard, options: options) { server in
            let (code, document) = try await probe(server.endpoint, "--preset", "standard")
            #expect(code == 1)
            #expect(document.problems == ["malformed_frame"])
        }
    }

    @Test(.timeLimit(.minutes(5)))
    func unixSocketsAreProbed() async throws {
        let path = FileManager.default.temporaryDirectory
            .appendingPathComponent("trunkline-\(UUID().uuidString.prefix(8))").path
        let options = LoopbackServer.Options { $0.unixPath = path }
        try await withLoopbackServer(speaking: .checked, options: options) { server in
            let (code, document) = try await probe(server.endpoint, "--preset", "checked")
            #expect(code == 0)
            #expect(document.list("addresses").first?.text("address") == "unix:\(path)")
            #expect(document["pings"].number("answered") == 5)
        }
    }

    /// A rotation that has left out one host: each address has its own certificate.
    @Test(.timeLimit(.minutes(5)))
    func oneExpiredCertificateOfTwoDegrades() async throws {
        let authority = try TestAuthority()
        let port = try freePort()
        var servers: [LoopbackServer] = []
        for (host, end) in [(UInt8(1), 86_400.0 * 90), (2, -86_400)] {
            let identity = try authority.identity(
                forNames: ["gateway.example"],
                validity: .seconds(-86_400 * 2) ... .seconds(end)
            )
            servers.append(
                try await LoopbackServer.start(
                    at: .ipv4([127, 0, 0, host], port: port),
                    speaking: .standard,
                    options: LoopbackServer.Options { $0.tls = .init(identity) }
                )
            )
        }
        let loops = EventLoops(
            resolvingBy: Resolver(maximumThreads: 2, maximumQueued: 8) { _, family in
                // The expired one first.
                let hosts: [UInt8] = family == .ipv4 ? [2, 1] : []
                return .success(hosts.map { .ipv4([127, 0, 0, $0], port: 0) })
            }
        )
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("\(UUID().uuidString).pem").path
        try authority.root.write(toFile: file)
        let arguments = try #require(
            try ProbeArguments([
                "tls://gateway.example:\(port)", "--roots", file, "--preset", "standard", "--timeout", "60s",
            ])
        )
        let report = try await arguments.probe().run(on: loops)
        #expect(report.health == .degraded)
        #expect(report.problems.map(\.code) == ["tls_expired"])
        #expect(report.problems.map(\.address) == ["127.0.0.2:\(port)"])
        #expect(report.addresses.map(\.result) == [.untrusted, .won])
        #expect(report.text.contains("expired 1"))
        for server in servers { await server.stop() }
        try FileManager.default.removeItem(atPath: file)
    }
}

/// The command line.
struct ProbeArgumentTests {
    @Test(arguments: [
        ([], "the endpoint is missing"),
        (["--json"], "the endpoint is missing"),
        (["a:1", "b:2"], "one endpoint is expected, not 2"),
        (["gateway"], "the port is missing"),
        (["gateway:0"], "the port is not a number from 1 to 65535"),
        (["::1:7000"], "an IPv6 address needs brackets"),
        (["a:1", "--nonsense"], "unknown option --nonsense"),
        (["a:1", "--pings"], "the value after --pings is missing"),
        (["a:1", "--pings", "-1"], "--pings is not a number from 0 to 10000: -1"),
        (["a:1", "--pings", "1", "--pings=2"], "--pings is given twice"),
        (["a:1", "--json=yes"], "--json has no value"),
        (["a:1", "--timeout", "0"], "--timeout must be positive"),
        (["a:1", "--timeout", "nan"], "--timeout is not a time of at most an hour"),
        (["a:1", "--interval", "2h"], "--interval is not a time of at most an hour"),
        (["a:1", "--preset", "http"], "unknown preset http: use one of none, standard"),
        (["a:1", "--preset", "standard", "--layout", "a.json"], "--preset and --layout exclude each other"),
        (
            ["a:1", "--layout", "/no/such/file"],
            "--layout: /no/such/file: the file: reading /no/such/file: No such file"
        ),
        (["a:1", "--layout", "/dev/null"], "--layout: /dev/null: the file: "),
        (["tls://a:1", "--certificate", "/dev/null"], "--certificate: "),
        (["tls://a:1", "--roots", "/no/such/file"], "--roots: "),
        (["a:1", "--roots", "/dev/null"], "--roots: "),
        (["a:1", "--insecure"], "--insecure needs an endpoint with tls://"),
        (["a:1", "--server-name", "b"], "--server-name needs an endpoint with tls://"),
        (["udp://a:1"], "datagrams (udp://) have no connection to probe"),
        (["tls://unix:/run/acme.sock"], "a Unix socket or vsock with TLS needs --server-name"),
    ])
    func aBadCommandLineIsExplained(words: [String], explanation: String) {
        let error = #expect(throws: ProbeUsageError.self) { try ProbeArguments(words) }
        #expect(error?.message.contains(explanation) == true, "\(error?.message ?? "")")
    }

    @Test func optionsMayFollowTheEndpoint() throws {
        let arguments = try #require(try ProbeArguments(["[::1]:7000", "--timeout=250ms", "--interval", "1.5"]))
        #expect(arguments.endpoint == "[::1]:7000")
        #expect(arguments.timeout == .milliseconds(250))
        #expect(arguments.interval == .milliseconds(1_500))
        #expect(arguments.spoken.name == "none" && arguments.spoken.codec == nil)
    }

    @Test func helpNeedsNoEndpoint() throws {
        #expect(try ProbeArguments(["--help"]) == nil)
    }

    @Test(arguments: [false, true])
    func helpFitsATerminal(hasFixedProtocol: Bool) {
        let usage = ProbeArguments.usage(hasFixedProtocol: hasFixedProtocol)
        #expect(usage.split(separator: "\n").allSatisfy { $0.count <= 80 })
        #expect(usage.contains("--layout") == !hasFixedProtocol)
    }

    @Test(arguments: ["--preset", "--layout"])
    func aToolOfOneProtocolTakesNoOther(option: String) {
        let error = #expect(throws: ProbeUsageError.self) {
            try ProbeArguments(
                ["a:1", option, "standard"],
                ClientOptions(),
                fixed: ProbeProtocol(codec: FrameLayout.standard, name: "acme")
            )
        }
        #expect(error?.message == "unknown option \(option)")
    }

    @Test func theSpreadIsThatOfAllTimes() throws {
        let spread = try #require(Spread([4, 1, 3, 2].map { Duration.seconds($0) }))
        #expect((spread.minimum, spread.maximum) == (1, 4))
        #expect((spread.median, spread.mean) == (2.5, 2.5))
        #expect(abs(spread.deviation - 1.118) < 0.001)
        #expect(Spread([]) == nil)
    }
}

/// The exit codes for bad command lines, which need the executable.
@Suite(.tags(.realThreads)) struct ProbeUsageTests {}

extension ProbeUsageTests {
    @Test(.timeLimit(.minutes(5)))
    func aBadCommandLineHasItsOwnExitCode() async throws {
        let run = try await ProbeRun(["gateway"])
        #expect(run.exitCode == 64)
        #expect(run.output == "")
        #expect(run.complaint.hasPrefix("trunkline-probe: invalid endpoint \"gateway\": the port is missing"))
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("\(UUID().uuidString).pem").path
        try Data("no certificate".utf8).write(to: URL(fileURLWithPath: file))
        #expect(try await ProbeRun(["tls://127.0.0.1:1", "--roots", file]).exitCode == 64)
        try FileManager.default.removeItem(atPath: file)
    }

    @Test(.timeLimit(.minutes(5)))
    func helpIsPrinted() async throws {
        let run = try await ProbeRun(["--help"])
        #expect(run.exitCode == 0)
        #expect(run.output.contains("EXIT STATUS"))
    }
}
