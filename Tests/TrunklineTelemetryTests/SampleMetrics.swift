import TrunklineTelemetry

@testable import TrunklineCluster
@testable import TrunklineCore
@testable import TrunklineIO

/// A snapshot in which every metric has a value, except those of the present link.
func sampleSnapshot(named name: String = "users", attributes: [String: String] = [:]) -> ClientSnapshot {
    var metrics = ClientMetrics()
    (metrics.requests, metrics.responses, metrics.written, metrics.failed) = (9, 4, 2, 2)
    metrics.pending = 1
    metrics.failures = [.init(.timedOut, .unknown): 1, .init(.cancelled, .notSent): 1, .init(.rejected, .answered): 2]
    metrics.refusals = [.overloaded: 3]
    (metrics.retries, metrics.retriesRefused) = (5, 6)
    metrics.repetitions = 37
    var durations = ClientMetrics.CallDurations()
    for milliseconds in [1, 4, 5, 100, 20_000] { durations.all.record(.milliseconds(milliseconds)) }
    durations.failures[.timedOut, default: LatencyHistogram()].record(.seconds(20))
    metrics.durationsByEndpoint = ["users.example:7000": durations]
    metrics.durationsByName = ["GetUser": durations]
    metrics.queueDurations.record(.microseconds(20))
    (metrics.pushes, metrics.pushesDelivered, metrics.pushesDroppedByStream) = (20, 15, ["type 0x1f": 5])
    metrics.connection.attempts = 3
    metrics.connection.attemptFailures = [.refused: 2]
    metrics.connection.losses = [.reset: 1]
    (metrics.connection.bytesSent, metrics.connection.bytesReceived) = (1000, 2000)
    metrics.connection.droppedDatagrams = 38
    return ClientSnapshot(of: metrics, named: name, attributes: attributes)
}

/// A snapshot of a cluster with two servers: one with two links, which has answered 10 requests, and one that is
/// ejected.
func sampleCluster(named name: String = "orders", attributes: [String: String] = [:]) -> ClusterSnapshot {
    var metrics = Cluster.Metrics()
    (metrics.requests, metrics.responses, metrics.written, metrics.failed) = (20, 14, 3, 2)
    (metrics.waiting, metrics.hedges) = (4, 5)
    (metrics.discoveryFailures, metrics.discoveryOutage) = (8, .milliseconds(7500))
    (metrics.calls, metrics.retries, metrics.retriesRefused) = (17, 2, 1)
    metrics.failures = [.init(.timedOut, .notSent): 6]
    metrics.servers = [
        sampleServer("a.example:7000", .serving, responses: 10, links: 2),
        sampleServer("b.example:7000", .ejected, responses: 3, links: 1),
    ]
    return ClusterSnapshot(of: metrics, named: name, attributes: attributes)
}

/// A server with the values that tests compare.
func sampleServer(
    _ endpoint: Endpoint,
    _ state: Cluster.ServerMetrics.State,
    responses: Int,
    links: Int,
    method: String? = nil
) -> Cluster.ServerMetrics {
    var total = ClientMetrics()
    (total.requests, total.responses) = (responses + 1, responses)
    total.failures = [.init(.timedOut, .unknown): 1]
    // One call ended before it was on a link.
    for ended in [endpoint, nil] {
        total.durationsByEndpoint[ended, default: ClientMetrics.CallDurations()].all.record(.milliseconds(1))
    }
    if let method { total.durationsByName[method] = total.durationsByEndpoint[endpoint] }
    return Cluster.ServerMetrics(
        endpoint: endpoint,
        state: state,
        links: links,
        ejections: state == .ejected ? 2 : 0,
        inFlight: 7,
        latencyScore: .milliseconds(30),
        zone: nil,
        clients: Array(repeating: ClientMetrics(), count: links),
        total: total
    )
}
