import Testing
import TrunklineCache

@testable import TrunklineCluster
@testable import TrunklineCore
@testable import TrunklineTelemetry

/// Counters that users can set, for tests of their own: no exporter traps.
extension ArgumentValueTests {
    static let metrics =
        [
            counter("ClientMetrics.abandoned: Int", \.abandoned), counter("ClientMetrics.failed: Int", \.failed),
            counter("ClientMetrics.failedMessages: Int", \.failedMessages),
            counter("ClientMetrics.heldSerials: Int", \.heldSerials),
            counter("ClientMetrics.lateResponses: Int", \.lateResponses),
            counter("ClientMetrics.parts: Int", \.parts), counter("ClientMetrics.pending: Int", \.pending),
            counter("ClientMetrics.pushes: Int", \.pushes),
            counter("ClientMetrics.pushesDelivered: Int", \.pushesDelivered),
            counter("ClientMetrics.Limits.serials: Int", \.limits.serials),
            counter("ClientMetrics.Limits.inFlight: Int", \.limits.inFlight),
            counter("ClientMetrics.Limits.waiting: Int", \.limits.waiting),
            counter("ClientMetrics.Limits.waitingBytes: Int", \.limits.waitingBytes),
            counter("ClientMetrics.Limits.bytesToWrite: Int", \.limits.bytesToWrite),
            counter("ClientMetrics.requests: Int", \.requests), counter("ClientMetrics.responses: Int", \.responses),
            counter("ClientMetrics.retries: Int", \.retries),
            counter("ClientMetrics.retriesRefused: Int", \.retriesRefused),
            counter("ClientMetrics.repetitions: Int", \.repetitions),
            counter("ClientMetrics.Serving.answered: Int", \.serving.answered),
            counter("ClientMetrics.Serving.cancelled: Int", \.serving.cancelled),
            counter("ClientMetrics.Serving.dropped: Int", \.serving.dropped),
            counter("ClientMetrics.Serving.maximumConcurrent: Int", \.serving.maximumConcurrent),
            counter("ClientMetrics.Serving.maximumWaiting: Int", \.serving.maximumWaiting),
            counter("ClientMetrics.Serving.received: Int", \.serving.received),
            counter("ClientMetrics.Serving.running: Int", \.serving.running),
            counter("ClientMetrics.Serving.waiting: Int", \.serving.waiting),
            counter("ClientMetrics.unexpectedFrames: Int", \.unexpectedFrames),
            counter("ClientMetrics.undecodableResponses: Int", \.undecodableResponses),
            counter("ClientMetrics.unknownResponses: Int", \.unknownResponses),
            counter("ClientMetrics.waitingBytes: Int", \.waitingBytes),
            counter("ClientMetrics.written: Int", \.written),
            counter("ClientMetrics.Waiting.forBackOff: Int", \.waiting.forBackOff),
            counter("ClientMetrics.Waiting.forLink: Int", \.waiting.forLink),
            counter("ClientMetrics.Waiting.forTurn: Int", \.waiting.forTurn),
            counter("ConnectionMetrics.attempts: Int", \.connection.attempts),
            counter("ConnectionMetrics.bytesReceived: Int", \.connection.bytesReceived),
            counter("ConnectionMetrics.bytesSent: Int", \.connection.bytesSent),
            counter("ConnectionMetrics.droppedDatagrams: Int", \.connection.droppedDatagrams),
            counter("ConnectionMetrics.failedAttempts: Int", \.connection.failedAttempts),
            counter("ConnectionMetrics.framesReceived: Int", \.connection.framesReceived),
            counter("ConnectionMetrics.framesSent: Int", \.connection.framesSent),
            counter("ConnectionMetrics.links: Int", \.connection.links),
            counter("ConnectionMetrics.pings: Int", \.connection.pings),
            counter("ConnectionMetrics.unencodableFrames: Int", \.connection.unencodableFrames),
            clusterCounter("Cluster.Metrics.calls: Int", \.calls),
            clusterCounter("Cluster.Metrics.discoveryFailures: Int", \.discoveryFailures),
            clusterCounter("Cluster.Metrics.failed: Int", \.failed),
            clusterCounter("Cluster.Metrics.hedges: Int", \.hedges),
            clusterCounter("Cluster.Metrics.requests: Int", \.requests),
            clusterCounter("Cluster.Metrics.responses: Int", \.responses),
            clusterCounter("Cluster.Metrics.retries: Int", \.retries),
            clusterCounter("Cluster.Metrics.retriesRefused: Int", \.retriesRefused),
            clusterCounter("Cluster.Metrics.undecodableResponses: Int", \.undecodableResponses),
            clusterCounter("Cluster.Metrics.waiting: Int", \.waiting),
            clusterCounter("Cluster.Metrics.written: Int", \.written),
        ] + [
            ValueCase(
                "ClientMetrics.EventQueueMetrics.capacity: Int",
                "ClientMetrics.EventQueueMetrics.missed: Int",
                "ClientMetrics.EventQueueMetrics.waiting: Int",
                "ClientMetrics.pushesDroppedByStream: [String : Int]",
                "ClientMetrics.failures: [ClientMetrics.Failure : Int]",
                "ClientMetrics.refusals: [ClientError.Code : Int]",
                "ClientMetrics.rejections: [String : Int]",
                "ClientMetrics.Serving.refused: [ServingRefusal : Int]",
                "Cluster.Metrics.failures: [ClientMetrics.Failure : Int]",
                "ConnectionMetrics.addressFailures: [String : Int]",
                "ConnectionMetrics.attemptFailures: [DisconnectCause : Int]",
                "ConnectionMetrics.linkEndReasons: [String : Int]",
                "ConnectionMetrics.losses: [DisconnectCause : Int]"
            ) {
                for number in Int.extremes {
                    var metrics = ClientMetrics()
                    metrics.failures = [.init(.timedOut, .unknown): number, .init(.cancelled, .unknown): number]
                    metrics.refusals = [.overloaded: number, .closed: number]
                    metrics.connection.attemptFailures = [.refused: number, .reset: number]
                    metrics.connection.losses = [.refused: number, .reset: number]
                    metrics.connection.addressFailures = ["10.0.0.7:7000": number]
                    metrics.rejections = ["NOT_FOUND": number, "404": number]
                    metrics.connection.linkEndReasons = metrics.rejections
                    metrics.serving.refused = [.overloaded: number, .failed: number]
                    metrics.pushesDroppedByStream = ["all": number, "key": number]
                    var queue = ClientMetrics.EventQueueMetrics()
                    (queue.waiting, queue.capacity, queue.missed) = (number, number, number)
                    metrics.eventQueues = ["Observer": queue]
                    export(metrics)
                    var cluster = Cluster.Metrics()
                    cluster.eventQueues = metrics.eventQueues
                    cluster.failures = metrics.failures
                    _ = PrometheusText.page(of: [ClusterSnapshot(of: cluster, named: "a")])
                }
            },
            ValueCase("Cluster.Metrics.discoveryOutage: Duration") {
                for time in Duration.extremes {
                    var metrics = Cluster.Metrics()
                    metrics.discoveryOutage = time
                    export(ClusterSnapshot(of: metrics, named: "a"))
                }
            },
            ValueCase {
                // All at once, for sums.
                for number in Int.extremes {
                    var metrics = ClientMetrics()
                    (metrics.waiting.forLink, metrics.waiting.forTurn) = (number, number)
                    metrics.waiting.forBackOff = number
                    (metrics.pending, metrics.connection.framesSent) = (number, number)
                    export(metrics)
                }
            },
        ]

    private static func counter(
        _ name: String,
        _ path: any WritableKeyPath<ClientMetrics, Int> & Sendable
    ) -> ValueCase {
        ValueCase(name) {
            for number in Int.extremes {
                var metrics = ClientMetrics()
                metrics[keyPath: path] = number
                export(metrics)
            }
        }
    }

    static let cacheMetrics = [
        cacheCounter("byteCount", \.byteCount), cacheCounter("count", \.count), cacheCounter("hits", \.hits),
        cacheCounter("misses", \.misses), cacheCounter("shares", \.shares), cacheCounter("staleHits", \.staleHits),
    ]

    private static func cacheCounter(
        _ name: String,
        _ path: any WritableKeyPath<CachingSender.Metrics, Int> & Sendable
    ) -> ValueCase {
        ValueCase("CachingSender.Metrics.\(name): Int") {
            for number in Int.extremes {
                var metrics = CachingSender.Metrics()
                metrics[keyPath: path] = number
                export(CacheSnapshot(of: metrics, named: "a"))
            }
        }
    }

    private static func clusterCounter(
        _ name: String,
        _ path: any WritableKeyPath<Cluster.Metrics, Int> & Sendable
    ) -> ValueCase {
        ValueCase(name) {
            for number in Int.extremes {
                var metrics = Cluster.Metrics()
                metrics[keyPath: path] = number
                export(ClusterSnapshot(of: metrics, named: "a"))
            }
        }
    }

    private static func export(_ snapshot: any MetricsSnapshot) {
        _ = PrometheusText.page(of: [snapshot])
        _ = OTLPRequest.json(of: [snapshot], resource: [:], from: 0, at: 1)
    }

    private static func export(_ metrics: ClientMetrics) {
        export(ClientSnapshot(of: metrics, named: "a"))
        var merged = metrics
        merged.merge(metrics)
        export(ClientSnapshot(of: merged, named: "a"))
        _ = (metrics.waiting.total, metrics.connection.disconnects, metrics.connection.bytesToWrite)
        _ = "\(metrics)"
    }
}
