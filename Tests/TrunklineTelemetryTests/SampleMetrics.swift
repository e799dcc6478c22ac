import Trunkline
import TrunklineTelemetry

/// A snapshot in which every metric has a value, except those of the present link.
func sampleSnapshot(named name: String = "users", attributes: [String: String] = [:]) -> ClientSnapshot {
    var metrics = Client.Metrics()
    (metrics.requests, metrics.responses, metrics.written, metrics.failed) = (9, 4, 2, 2)
    metrics.pending = 1
    metrics.failures = [.init(.timedOut, .unknown): 1, .init(.cancelled, .notSent): 1, .init(.rejected, .answered): 2]
    metrics.refusals = [.overloaded: 3]
    (metrics.retries, metrics.retriesRefused) = (5, 6)
    var durations = Client.Metrics.CallDurations()
    for milliseconds in [1, 4, 5, 100, 20_000] { durations.all.record(.milliseconds(milliseconds)) }
    durations.failures[.timedOut, default: LatencyHistogram()].record(.seconds(20))
    metrics.durationsByEndpoint = ["users.example:7000": durations]
    metrics.queueDurations.record(.microseconds(20))
    (metrics.pushes, metrics.pushesDelivered, metrics.pushesDropped) = (20, 15, 5)
    metrics.connection.attempts = 3
    metrics.connection.attemptFailures = [.refused: 2]
    metrics.connection.losses = [.reset: 1]
    (metrics.connection.bytesSent, metrics.connection.bytesReceived) = (1000, 2000)
    return ClientSnapshot(of: metrics, named: name, attributes: attributes)
}
