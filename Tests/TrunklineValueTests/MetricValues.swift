import Testing
import TrunklineCache

@testable import TrunklineCluster
@testable import TrunklineCore
@testable import TrunklineTelemetry

/// Counters that users can set, for tests of their own: no exporter traps.
extension ArgumentValueTests {
    static let metrics =
        [
            counter("Client.Metrics.abandoned: Int", \.abandoned), counter("Client.Metrics.failed: Int", \.failed),
            counter("Client.Metrics.failedMessages: Int", \.failedMessages),
            counter("Client.Metrics.heldSerials: Int", \.heldSerials),
            counter("Client.Metrics.lateResponses: Int", \.lateResponses),
            counter("Client.Metrics.parts: Int", \.parts), counter("Client.Metrics.pending: Int", \.pending),
            counter("Client.Metrics.pushes: Int", \.pushes),
            counter("Client.Metrics.pushesDelivered: Int", \.pushesDelivered),
            counter("Client.Metrics.Limits.serials: Int", \.limits.serials),
            counter("Client.Metrics.Limits.inFlight: Int", \.limits.inFlight),
            counter("Client.Metrics.Limits.waiting: Int", \.limits.waiting),
            counter("Client.Metrics.Limits.waitingBytes: Int", \.limits.waitingBytes),
            counter("Client.Metrics.Limits.bytesToWrite: Int", \.limits.bytesToWrite),
            counter("Client.Metrics.requests: Int", \.requests), counter("Client.Metrics.responses: Int", \.responses),
            counter("Client.Metrics.retries: Int", \.retries),
            counter("Client.Metrics.retriesRefused: Int", \.retriesRefused),
            counter("Client.Metrics.repetitions: Int", \.repetitions),
            counter("Client.Metrics.Serving.answered: Int", \.serving.answered),
            counter("Client.Metrics.Serving.cancelled: Int", \.serving.cancelled),
            counter("Client.Metrics.Serving.dropped: Int", \.serving.dropped),
            counter("Client.Metrics.Serving.maximumConcurrent: Int", \.serving.maximumConcurrent),
            counter("Client.Metrics.Serving.maximumWaiting: Int", \.serving.maximumWaiting),
            counter("Client.Metrics.Serving.received: Int", \.serving.received),
            counter("Client.Metrics.Serving.running: Int", \.serving.running),
            counter("Client.Metrics.Serving.waiting: Int", \.serving.waiting),
            counter("Client.Metrics.unexpectedFrames: Int", \.unexpectedFrames),
            counter("Client.Metrics.undecodableResponses: Int", \.undecodableResponses),
            counter("Client.Metrics.unknownResponses: Int", \.unknownResponses),
            counter("Client.Metrics.waitingBytes: Int", \.waitingBytes),
            counter("Client.Metrics.written: Int", \.written),
            counter("Client.Metrics.Waiting.forBackOff: Int", \.waiting.forBackOff),
            counter("Client.Metrics.Waiting.forLink: Int", \.waiting.forLink),
            counter("Client.Metrics.Waiting.forTurn: Int", \.waiting.forTurn),
            counter("Connection.Metrics.attempts: Int", \.connection.attempts),
            counter("Connection.Metrics.bytesReceived: Int", \.connection.bytesReceived),
            counter("Connection.Metrics.bytesSent: Int", \.connection.bytesSent),
            counter("Connection.Metrics.droppedDatagrams: Int", \.connection.droppedDatagrams),
            counter("Connection.Metrics.failedAttempts: Int", \.connection.failedAttempts),
            counter("Connection.Metrics.framesReceived: Int", \.connection.framesReceived),
            counter("Connection.Metrics.framesSent: Int", \.connection.framesSent),
            counter("Connection.Metrics.links: Int", \.connection.links),
            counter("Connection.Metrics.pings: Int", \.connection.pings),
            counter("Connection.Metrics.unencodableFrames: Int", \.connection.unencodableFrames),
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
                "Client.Metrics.EventQueueMetrics.capacity: Int",
                "Client.Metrics.EventQueueMetrics.missed: Int",
                "Client.Metrics.EventQueueMetrics.waiting: Int",
                "Client.Metrics.pushesDroppedByStream: [String : Int]",
                "Client.Metrics.failures: [Client.Metrics.Failure : Int]",
                "Client.Metrics.refusals: [ClientError.Code : Int]",
                "Client.Metrics.rejections: [String : Int]",
                "Client.Metrics.Serving.refused: [ServingRefusal : Int]",
                "Cluster.Metrics.failures: [Client.Metrics.Failure : Int]",
                "Connection.Metrics.addressFailures: [String : Int]",
                "Connection.Metrics.attemptFailures: [DisconnectCause : Int]",
                "Connection.Metrics.linkEndReasons: [String : Int]",
                "Connection.Metrics.losses: [DisconnectCause : Int]"
            ) {
                for number in Int.extremes {
                    var metrics = Client.Metrics()
                    metrics.failures = [.init(.timedOut, .unknown): number, .init(.cancelled, .unknown): number]
                    metrics.refusals = [.overloaded: number, .closed: number]
                    metrics.connection.attemptFailures = [.refused: number, .reset: number]
                    metrics.connection.losses = [.refused: number, .reset: number]
                    metrics.connection.addressFailures = ["10.0.0.7:7000": number]
                    metrics.rejections = ["NOT_FOUND": number, "404": number]
                    metrics.connection.linkEndReasons = metrics.rejections
                    metrics.serving.refused = [.overloaded: number, .failed: number]
                    metrics.pushesDroppedByStream = ["all": number, "key": number]
                    var queue = Client.Metrics.EventQueueMetrics()
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
                    var metrics = Client.Metrics()
                    (metrics.waiting.forLink, metrics.waiting.forTurn) = (number, number)
                    metrics.waiting.forBackOff = number
                    (metrics.pending, metrics.connection.framesSent) = (number, number)
                    export(metrics)
                }
            },
        ]

    private static func counter(
        _ name: String,
        _ path: any WritableKeyPath<Client.Metrics, Int> & Sendable
    ) -> ValueCase {
        ValueCase(name) {
            for number in Int.extremes {
                var metrics = Client.Metrics()
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

    private static func export(_ metrics: Client.Metrics) {
        export(ClientSnapshot(of: metrics, named: "a"))
        var merged = metrics
        merged.merge(metrics)
        export(ClientSnapshot(of: merged, named: "a"))
        _ = (metrics.waiting.total, metrics.connection.disconnects, metrics.connection.bytesToWrite)
        _ = "\(metrics)"
    }
}
