import Foundation
import Testing
import Trunkline
import TrunklineFoundation
import TrunklineGateway
import TrunklineTelemetry
import TrunklineTesting

@testable import TrunklineDiagnostics

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// Values that reach the operating system, the system's clocks, OpenSSL or URLSession.
@Suite(.tags(.realThreads), .timeLimit(.minutes(5)))
struct SocketValueTests {}

extension SocketValueTests {
    @Test(arguments: SocketValueTests.cases)
    func noValueOfAnArgumentTraps(_ argument: ValueCase) async throws {
        try await argument.use()
    }

    static let cases = sockets + http

    private static let sockets = [
        ValueCase(
            "KeepAliveOptions.init(idle: Duration, interval: Duration, count: Int)",
            "KeepAliveOptions.count: Int",
            "KeepAliveOptions.idle: Duration",
            "KeepAliveOptions.interval: Duration"
        ) {
            for duration in Duration.extremes {
                try await connect {
                    $0.connecting.keepAlive = KeepAliveOptions(idle: duration, interval: duration)
                    $0.connecting.userTimeout = duration
                    $0.connecting.attemptDelay = duration
                }
                try await connect { $0.connecting.keepAlive?.idle = duration }
                try await connect { $0.connecting.keepAlive?.interval = duration }
            }
            for count in Int.extremes {
                try await connect { $0.connecting.keepAlive = KeepAliveOptions(count: count) }
                try await connect { $0.connecting.keepAlive?.count = count }
            }
        },
        // Timers of a real event loop.
        ValueCase {
            for duration in Duration.extremes {
                try await connect {
                    ($0.connecting.timeout, $0.requests.timeout) = (duration, duration)
                    ($0.liveness.interval, $0.liveness.deadline) = (duration, duration)
                    ($0.requests.quarantine, $0.requests.drainTimeout) = (duration, duration)
                }
            }
        },
        ValueCase("ClientOptions.TLS.rotationCheck: Duration?") {
            let authority = try TestAuthority()
            let identity = try authority.identity(forNames: ["localhost"])
            let root = FileManager.default.temporaryDirectory.appending(path: "trunkline-\(UUID()).pem").path
            try authority.root.write(toFile: root)
            defer { try? FileManager.default.removeItem(atPath: root) }
            for interval in Duration.extremes {
                var options = LoopbackServer.Options()
                options.tls = LoopbackServer.TLS(identity)
                try await connect(options) {
                    $0.tls.roots = .only(.file(root))
                    $0.tls.serverName = "localhost"
                    $0.tls.rotationCheck = interval
                }
            }
        },
        ValueCase("TestAuthority.identity(validity: ClosedRange<Duration>)") {
            let authority = try TestAuthority()
            for range in ClosedRange<Duration>.extremes {
                // OpenSSL refuses years beyond 9999 with an error.
                _ = try? authority.identity(forNames: ["localhost"], validity: range)
            }
        },
        ValueCase("LoopbackServer.Options.port: UInt16") {
            for port in UInt16.extremes {
                // The port may be taken, or not allowed.
                let server = try? await LoopbackServer.start(
                    speaking: FrameLayout.standard,
                    options: LoopbackServer.Options { $0.port = port }
                )
                await server?.stop()
            }
        },
        ValueCase("EventLoops.init(count: Int)") {
            for count in Int.extremes where count < 1 << 20 { _ = EventLoops(count: count) }
        },
        ValueCase("withTimeout(_: Duration, clock: some Clock<Duration>)") {
            for timeout in Duration.extremes { _ = try? await withTimeout(timeout) {} }
        },
        ValueCase(
            "Probe.certificateWarning: Duration",
            "Probe.interval: Duration",
            "Probe.pings: Int",
            "Probe.timeout: Duration"
        ) {
            try await withServer { server in
                var probe = Probe(of: server.endpoint, speaking: .standard)
                (probe.interval, probe.pings) = (.zero, 1)
                for pings in Int.extremes where pings < 2 { try await Self.run(probe) { $0.pings = pings } }
                for duration in Duration.extremes {
                    try await Self.run(probe) { $0.interval = duration }
                    try await Self.run(probe) { $0.timeout = duration }
                    try await Self.run(probe) { $0.certificateWarning = duration }
                }
                // So many pings would take minutes.
                probe.pings = .max
                #expect(probe.effectivePings == 10_000)
            }
        },
        ValueCase("OTLPExporter.init(every: Duration, shutdownTimeout: Duration)") {
            try await withServer { server in
                for interval in Duration.extremes {
                    let exporter = OTLPExporter(to: server.endpoint, every: interval, shutdownTimeout: interval) { [] }
                    let run = Task { await exporter.run() }
                    try await Task.sleep(for: .milliseconds(5))
                    run.cancel()
                    await run.value
                }
            }
        },
    ]

    @discardableResult
    private static func run(_ probe: Probe, _ change: (inout Probe) -> Void) async throws -> ProbeReport {
        var probe = probe
        change(&probe)
        return try await probe.run()
    }

    private static let http = [
        ValueCase(
            "HTTPTunnel.Options.maximumBodySize: Int",
            "HTTPTunnel.Options.maximumUploadSpool: Int",
            "HTTPTunnel.Options.window: Int",
            "HTTPTunnel.Policy.preferLink(hedgeAfter: Duration)"
        ) {
            for number in Int.extremes {
                try await tunnel(HTTPTunnel.Options { $0.maximumBodySize = number })
                try await tunnel(HTTPTunnel.Options { $0.window = number })
                try await tunnel(HTTPTunnel.Options { $0.maximumUploadSpool = number })
            }
            for delay in Duration.extremes {
                try await tunnel(HTTPTunnel.Options { $0.policy = .preferLink(hedgeAfter: delay) })
            }
        },
        ValueCase(
            "HTTPGateway.Options.maximumConcurrency: Int",
            "HTTPGateway.Options.maximumRequestBody: Int",
            "HTTPGateway.Options.maximumResponseBody: Int",
            "HTTPGateway.Options.timeout: Duration"
        ) {
            for number in Int.extremes {
                try await tunnel(by: HTTPGateway.Options { $0.maximumConcurrency = number })
                try await tunnel(by: HTTPGateway.Options { $0.maximumRequestBody = number })
                try await tunnel(by: HTTPGateway.Options { $0.maximumResponseBody = number })
            }
            for timeout in Duration.extremes { try await tunnel(by: HTTPGateway.Options { $0.timeout = timeout }) }
        },
    ]

    /// Runs `body` with a server on a port of this machine.
    private static func withServer(
        _ options: LoopbackServer.Options = LoopbackServer.Options(),
        speaking codec: some FrameCodec = FrameLayout.standard,
        handler: @escaping LoopbackServer.Handler = { _ in .echo },
        _ body: nonisolated(nonsending) (LoopbackServer) async throws -> Void
    ) async throws {
        let server = try await LoopbackServer.start(speaking: codec, options: options, handler: handler)
        do { try await body(server) } catch {
            await server.stop()
            throw error
        }
        await server.stop()
    }

    /// Connects with options that `change` has changed, sends and closes.
    private static func connect(
        _ serverOptions: LoopbackServer.Options = LoopbackServer.Options(),
        _ change: (inout ClientOptions) -> Void
    ) async throws {
        var options = ClientOptions()
        change(&options)
        try await withServer(serverOptions) { server in
            let codec = FrameLayout.standard
            let client = Client(to: server.endpoint, speaking: codec, options: options)
            _ = await ended { _ = try await client.send(Request(type: 0x410), timeout: .seconds(10)) }
            await client.closeNow()
        }
    }

    /// Sends requests through a tunnel whose gateway reaches a server of this machine.
    private static func tunnel(
        _ options: HTTPTunnel.Options = HTTPTunnel.Options { $0.policy = .linkOnly },
        by gatewayOptions: HTTPGateway.Options = HTTPGateway.Options()
    ) async throws {
        try await withServer(speaking: FrameLayout.standard, handler: { _ in .close }) { origin in
            let root = "http://\(origin.endpoint)"
            let allowed = try #require(HTTPOrigin(parsing: root, allowingPrivateAddresses: true))
            let gateway = HTTPGateway(allowing: [allowed], options: gatewayOptions)
            try await withServer(handler: gateway.handler) { server in
                let client = Client(to: server.endpoint, speaking: FrameLayout.standard)
                let tunnel = HTTPTunnel(client, options: options)
                var request = URLRequest(url: try #require(URL(string: root + "/")))
                request.httpMethod = "POST"
                // Each fails, because the origin closes.
                _ = try? await tunnel.upload(for: request, from: Data([1, 2, 3]))
                await client.closeNow()
            }
        }
    }
}
