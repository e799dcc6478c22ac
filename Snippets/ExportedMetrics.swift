// Exports the metrics of a client and a cluster: as a page for Prometheus, and to a collector of OpenTelemetry.

import Trunkline
import TrunklineHTTP
import TrunklineTelemetry
import TrunklineTesting

// A server for this example, and a collector, which counts the reports that it receives.
let server = try await LoopbackServer.start(speaking: .standard)
let collector = try await LoopbackServer.start(speaking: HTTP1Codec(host: "collector")) { _ in
    (try? HTTP1Response(200, body: "{}").frame()).map { .reply($0) } ?? .close
}
let endpointOfCollector = collector.endpoint  // usually "localhost:4318"

let client = Client(to: server.endpoint, speaking: .standard)
let cluster = Cluster(discovering: .static([ClusterEndpoint(server.endpoint)]), speaking: .standard)

/// The content of the page `/metrics`, to be served with the content type `PrometheusText.contentType`.
@Sendable func metricsPage() async -> String {
    PrometheusText.page(of: [
        ClientSnapshot(of: await client.metrics, named: "users"),
        ClusterSnapshot(of: await cluster.metrics, named: "orders"),
    ])
}

let exporter = OTLPExporter(
    to: endpointOfCollector,
    resource: ["service.name": "shop"],
    onFailure: { failure in print(failure) }
) {
    [
        ClientSnapshot(of: await client.metrics, named: "users"),
        ClusterSnapshot(of: await cluster.metrics, named: "orders"),
    ]
}

try await withThrowingTaskGroup { tasks in
    tasks.addTask { await exporter.run() }

    // The program.
    for number in 1...100 {
        _ = try await client.send(Request(type: 0x402, body: Bytes("\(number)")))
        _ = try await cluster.send(Request(type: 0x402, body: Bytes("\(number)")))
    }

    // Ends the exporter, which reports one last time.
    tasks.cancelAll()
}

for line in await metricsPage().split(separator: "\n") where line.contains("request_ended") { print(line) }
let report = try await collector.waitForRequest { _ in true }
print("the collector has received a report: \(report.body.count > 1000)")

await client.close()
await cluster.close()
await server.stop()
await collector.stop()
print("ExportedMetrics: done")
