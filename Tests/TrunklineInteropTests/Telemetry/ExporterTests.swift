import Foundation
import Testing
import Trunkline
import TrunklineCluster
import TrunklineTesting

@testable import TrunklineTelemetry

/// Programs of other projects read the metrics of a client.
@Suite(.tags(.realThreads), .serialized, .timeLimit(.minutes(5)))
struct ExporterTests {}

extension ExporterTests {
    /// The metrics of a client that has done something of everything, and has a link.
    private func snapshots() async throws -> [any MetricsSnapshot] {
        let handler: LoopbackServer.Handler = { request in
            switch request.body {
            case "silent": .noReply
            case "push": .sequence([.push(Frame(.push, type: 2, body: "news")), .echo])
            default: .echo
            }
        }
        return try await withLoopbackServer(speaking: .standard, handler: handler) { server in
            try await withClient(to: server.endpoint, speaking: .standard) { client in
                for number in 0..<100 { _ = try await client.send(Request(type: 0x402, body: Bytes("\(number)"))) }
                try await client.post(Request(type: 0x402, body: "message"))
                let pushes = client.pushes()
                _ = try await client.send(Request(type: 0x402, body: "push"))
                _ = try? await client.send(Request(type: 0x402, body: "silent"), timeout: .milliseconds(50))
                await client.renewLink()
                let attributes = ["team": "a \"quoted\" \\ name,\nin two lines"]
                let metrics = await client.metrics
                withExtendedLifetime(pushes) {}
                let cluster = try await withCluster(
                    discovering: .static([ClusterEndpoint(server.endpoint), "127.0.0.1:1"]),
                    speaking: .standard
                ) { cluster in
                    for _ in 0..<10 { _ = try await cluster.send(Request(type: 0x402)) }
                    return await cluster.metrics
                }
                return [
                    ClientSnapshot(of: metrics, named: "users", attributes: attributes),
                    ClientSnapshot(of: ClientMetrics(), named: "unused"),
                    ClusterSnapshot(of: cluster, named: "orders", attributes: attributes),
                ]
            }
        }
    }

    @Test(.enabled(if: ServerProcess.isAvailable("promtool"), "promtool is not installed (package prometheus)"))
    func promtoolAcceptsThePage() async throws {
        let page = PrometheusText.page(of: try await snapshots())
        #expect(page.contains("trunkline_request_errors_total") && page.contains("trunkline_push_received_total"))
        #expect(page.contains("trunkline_cluster_servers"))
        let (status, complaints) = try await Self.check(page)
        #expect(status == 0 && complaints == "", "\(complaints)\n\(page)")
        // It does read the page.
        #expect(try await Self.check(page + "trunkline_a{b=\"c} 1\n").status != 0)
    }

    @Test(.enabled(if: OTLPCollector.isAvailable, "opentelemetry-proto is not installed"))
    func aCollectorReadsTheReport() async throws {
        let snapshots = try await snapshots()
        let collector = try await OTLPCollector()
        defer { collector.stop() }
        let failures = Lock<[OTLPExporter.Failure]>([])
        let exporter = OTLPExporter(
            to: .host("127.0.0.1", port: collector.port),
            resource: ["service.name": "shop"],
            shutdownTimeout: .seconds(10),
            onFailure: { failure in failures.withLock { $0.append(failure) } },
            snapshots: { snapshots }
        )
        // It is cancelled before it begins, so it sends one report, the last one.
        await withTaskGroup(of: Void.self) { tasks in
            tasks.cancelAll()
            tasks.addTask { await exporter.run() }
        }
        #expect(failures.withLock { $0 }.isEmpty)
        var expected = ["resource service.name=shop"]
        for metric in Metric.all {
            for point in snapshots.flatMap({ metric.points(of: $0) }) { expected.append(Self.line(metric, point)) }
        }
        // The quoted name contains a line break.
        let report = collector.report
        #expect(report.joined(separator: "\n") == expected.joined(separator: "\n"))
        #expect(expected.count > 100)
    }

    /// As the collector writes it.
    private static func line(_ metric: Metric, _ point: Metric.Point) -> String {
        let attributes = point.attributes.map { "\($0.name)=\($0.text)" }.joined(separator: ",")
        let kind = metric.kind == .counter ? "sum" : metric.kind.rawValue
        let value: String
        switch point.value {
        case .integer(let integer): value = "\(integer)"
        case .number(let number): value = "\(number)"
        case .durations(let histogram):
            let bounds = Metric.bounds.map { Duration.seconds($0) }
            let cumulative = histogram.counts(upTo: bounds) + [histogram.count]
            let counts = zip(cumulative, [0] + cumulative).map { "\($0 - $1)" }
            value = "\(histogram.count) \(histogram.sum.inSeconds) \(counts.joined(separator: ","))"
        }
        return "\(metric.name) \(kind) \(metric.unit) {\(attributes)} \(value)"
    }

    /// Gives `page` to promtool, and returns its status and what it says.
    private static func check(_ page: String) async throws -> (status: Int32, complaints: String) {
        let directory = FileManager.default.temporaryDirectory
            .appendingPathComponent("trunkline-\(UUID().uuidString.prefix(8))")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: directory) }
        let (input, output) = (directory.appendingPathComponent("page"), directory.appendingPathComponent("output"))
        try page.write(to: input, atomically: true, encoding: .utf8)
        _ = FileManager.default.createFile(atPath: output.path, contents: nil)
        let process = Process()
        process.executableURL = URL(fileURLWithPath: try #require(ServerProcess.find("promtool")))
        process.arguments = ["check", "metrics"]
        process.standardInput = try FileHandle(forReadingFrom: input)
        let outputHandle = try FileHandle(forWritingTo: output)
        (process.standardOutput, process.standardError) = (outputHandle, outputHandle)
        // Not `waitUntilExit`, which would block one of the few threads that all tests share.
        let status = try await withCheckedThrowingContinuation {
            (continuation: CheckedContinuation<Int32, any Error>) in
            process.terminationHandler = { continuation.resume(returning: $0.terminationStatus) }
            do {
                try process.run()
            } catch {
                process.terminationHandler = nil
                continuation.resume(throwing: error)
            }
        }
        return (status, try String(contentsOf: output, encoding: .utf8))
    }
}
