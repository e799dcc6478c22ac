import TrunklineCache
import TrunklineCluster
import TrunklineCore

/// The table of metrics. The article *Exporting metrics* contains it too, and a test compares them.
extension Metric {
    static let all: [Metric] =
        calls + requests + pushes + serverRequests + cache + observers + links + frames + connection + cluster

    private static let calls = [
        Metric(
            "rpc.client.call.duration",
            .histogram,
            "s",
            by: server + ["error.type"],
            "The time from a call to its end, with waiting and retries; without error.type, the calls that succeeded"
        ) { metrics in
            // Endpoints that differ only in TLS have the same attributes.
            var byServer: [[String?]: ClientMetrics.CallDurations] = [:]
            for (endpoint, durations) in metrics.durationsByEndpoint {
                byServer[attributes(of: endpoint), default: .init()].merge(durations)
            }
            let sorted = byServer.sorted { $0.key.lexicographicallyPrecedes($1.key) { ($0 ?? "") < ($1 ?? "") } }
            return sorted.flatMap { readings(of: $0.value, $0.key) }
        },
        Metric(
            "trunkline.delay.duration",
            .histogram,
            "s",
            by: ["trunkline.delay.type"],
            "Where time passes: queueing, tries on a link, connecting, handshakes, pings, turns and delays of the loop"
        ) { metrics in
            let delays: [(type: String, durations: LatencyHistogram)] = [
                ("queue", metrics.queueDurations), ("try", metrics.tryDurations),
                ("connect", metrics.connection.connectDurations),
                ("handshake", metrics.connection.handshakeDurations),
                ("ping", metrics.connection.pingDurations), ("turn", metrics.connection.turnDurations),
                ("late", metrics.connection.loopDelays),
            ]
            // A histogram is 17 series in Prometheus. For percentiles, one may begin with its first durations; the sum
            // of "late" must not, because an alert looks at its increase.
            return delays.filter { $0.type == "late" || $0.durations.count > 0 }.map {
                ([$0.type], .durations($0.durations))
            }
        },
    ]

    private static let requests = [
        Metric(
            "trunkline.request.accepted",
            .counter,
            "{request}",
            "Requests and one-way messages that the client accepted"
        ) { $0.requests },
        Metric(
            "trunkline.request.ended",
            .counter,
            "{request}",
            by: ["trunkline.outcome"],
            "Accepted requests that ended: with a response, written (one-way messages), or failed"
        ) { metrics in
            [
                (["response"], .integer(metrics.responses)), (["written"], .integer(metrics.written)),
                (["failed"], .integer(metrics.failed)),
            ]
        },
        Metric(
            "trunkline.request.errors",
            .counter,
            "{request}",
            by: ["error.type", "trunkline.fate"],
            "Accepted requests that ended with an error, error responses included"
        ) { failures($0.failures) },
        Metric(
            "trunkline.request.duration",
            .histogram,
            "s",
            by: ["rpc.method", "error.type"],
            "The same time as rpc.client.call.duration, by the name of the request (requests.measuresByName)"
        ) { metrics in
            metrics.durationsByName.sorted { $0.key < $1.key }.flatMap { readings(of: $0.value, [$0.key]) }
        },
        Metric(
            "trunkline.request.rejections",
            .counter,
            "{request}",
            by: ["trunkline.server.reason"],
            "Error responses that gave a reason, by its name"
        ) { counts($0.rejections) },
        Metric(
            "trunkline.request.refused",
            .counter,
            "{request}",
            by: ["error.type"],
            "Requests that the client did not accept"
        ) { metrics in
            counts(Dictionary(uniqueKeysWithValues: metrics.refusals.map { ("\($0.key)", $0.value) }), known: refusals)
        },
        Metric(
            "trunkline.request.retries",
            .counter,
            "{request}",
            by: ["trunkline.retry.decision"],
            "Failed requests that were scheduled to be sent again, or were not because of the retry budget"
        ) { metrics in
            [(["allowed"], .integer(metrics.retries)), (["refused"], .integer(metrics.retriesRefused))]
        },
        Metric(
            "trunkline.request.repetitions",
            .counter,
            "{request}",
            "Requests in datagrams that were sent again because they were not answered"
        ) { $0.repetitions },
        Metric(
            "trunkline.message.failed",
            .counter,
            "{message}",
            "Messages that enqueue accepted and that failed later"
        ) { $0.failedMessages },
        Metric(
            "trunkline.request.pending",
            .gauge,
            "{request}",
            by: ["trunkline.wait.type"],
            "Requests that have not ended, by what they wait for"
        ) { metrics in
            let waiting = metrics.waiting
            return [
                (["link"], .integer(waiting.forLink)), (["turn"], .integer(waiting.forTurn)),
                (["backoff"], .integer(waiting.forBackOff)),
                (["response"], .integer(metrics.pending &- waiting.total)),
            ]
        },
        Metric(
            "trunkline.request.waiting.size",
            .gauge,
            "By",
            "The memory of the requests that wait for a link, their turn or a retry"
        ) { $0.waitingBytes },
        Metric(
            "trunkline.request.waiting.limit",
            .gauge,
            "{request}",
            "How many requests may wait for a link, their turn or a retry (requests.maximumWaiting)"
        ) { $0.limits.waiting },
        Metric(
            "trunkline.request.waiting.size.limit",
            .gauge,
            "By",
            "How much memory they may use (requests.maximumWaitingBytes)"
        ) { $0.limits.waitingBytes },
        Metric(
            "trunkline.request.in_flight",
            .gauge,
            "{request}",
            "Requests on links and abandoned ones, on which servers may be working"
        ) { $0.inFlight },
        Metric(
            "trunkline.request.in_flight.limit",
            .gauge,
            "{request}",
            "How many these may be (requests.maximumInFlight)"
        ) { $0.limits.inFlight },
        Metric(
            "trunkline.request.abandoned",
            .gauge,
            "{request}",
            "Abandoned requests that the server has not answered"
        ) { $0.abandoned },
        Metric("trunkline.serial.held", .gauge, "{serial}", "Serial numbers in use on all links") { $0.heldSerials },
        Metric(
            "trunkline.serial.limit",
            .gauge,
            "{serial}",
            "Serial numbers of all links, in use or free; 0 without a link, and if responses are matched in order"
        ) { $0.limits.serials },
        Metric("trunkline.response.parts", .counter, "{part}", "Parts of replies that reached their request") {
            $0.parts
        },
        Metric(
            "trunkline.response.unmatched",
            .counter,
            "{response}",
            by: ["trunkline.reason"],
            "Responses to abandoned requests (late), and responses that no request was waiting for (unknown)"
        ) { metrics in
            [
                (["late"], .integer(metrics.lateResponses)), (["unknown"], .integer(metrics.unknownResponses)),
            ]
        },
        Metric(
            "trunkline.response.undecodable",
            .counter,
            "{response}",
            "Responses to typed requests of a client that their callers could not decode"
        ) { $0.undecodableResponses },
    ]

    private static let pushes = [
        Metric("trunkline.push.received", .counter, "{push}", "Pushes received") { $0.pushes },
        Metric(
            "trunkline.push.streamed",
            .counter,
            "{push}",
            by: ["trunkline.outcome"],
            "Pushes that entered the buffer of a stream (delivered), and those dropped because it was full"
        ) { metrics in
            [(["delivered"], .integer(metrics.pushesDelivered)), (["dropped"], .integer(metrics.pushesDropped))]
        },
        Metric(
            "trunkline.push.dropped",
            .counter,
            "{push}",
            by: ["trunkline.push.stream"],
            "Pushes that streams dropped because their buffer was full, by what the streams receive"
        ) { counts($0.pushesDroppedByStream, known: ["all"]) },
    ]

    private static let serverRequests = [
        serving("trunkline.server_request.received", .counter, "Requests of the server") { $0.received },
        Metric(
            "trunkline.server_request.ended",
            .counter,
            "{request}",
            by: ["trunkline.outcome"],
            "Requests of the server that ended: answered, refused, cancelled by the server, or dropped without an answer"
        ) { metrics in
            guard metrics.serving.isUsed else { return [] }
            return [
                (["answered"], .integer(metrics.serving.answered)),
                (["refused"], .integer(metrics.serving.refused.values.reduce(0) { $0.addingClamped($1) })),
                (["cancelled"], .integer(metrics.serving.cancelled)),
                (["dropped"], .integer(metrics.serving.dropped)),
            ]
        },
        Metric(
            "trunkline.server_request.refused",
            .counter,
            "{request}",
            by: ["trunkline.reason"],
            "Requests of the server that were refused, by the reason (ServingRefusal)"
        ) { metrics in
            guard metrics.serving.isUsed else { return [] }
            let refused = metrics.serving.refused.map { ($0.key.rawValue, $0.value) }
            // One that the server has cancelled counts as cancelled.
            let known = ServingRefusal.allCases.filter { $0 != .cancelled }.map(\.rawValue)
            return counts(Dictionary(uniqueKeysWithValues: refused), known: known)
        },
        serving(
            "trunkline.server_request.running",
            .gauge,
            "Handlers that run, and answers that are being written"
        ) { $0.running },
        serving(
            "trunkline.server_request.running.limit",
            .gauge,
            "How many these may be (maximumConcurrent of serve); 0 if the client does not serve"
        ) { $0.maximumConcurrent },
        serving("trunkline.server_request.waiting", .gauge, "Requests of the server that wait for a handler") {
            $0.waiting
        },
        serving(
            "trunkline.server_request.waiting.limit",
            .gauge,
            "How many may wait (maximumWaiting of serve); 0 if the client does not serve"
        ) { $0.maximumWaiting },
    ]

    /// No point before the client has served or received a request of the server.
    private static func serving(
        _ name: String,
        _ kind: Kind,
        _ help: String,
        _ value: @escaping @Sendable (ClientMetrics.Serving) -> Int
    ) -> Metric {
        Metric(name, kind, "{request}", by: [], help) { metrics in
            metrics.serving.isUsed ? [([], .integer(value(metrics.serving)))] : []
        }
    }

    private static let observers = [
        queue("trunkline.observer.queue", .gauge, "Events and log records that wait for an observer or the log") {
            $0.waiting
        },
        queue("trunkline.observer.queue.limit", .gauge, "How many may wait") { $0.capacity },
        queue("trunkline.observer.missed", .counter, "Events and log records lost because the queue was full") {
            $0.missed
        },
    ]

    private static func queue(
        _ name: String,
        _ kind: Kind,
        _ help: String,
        _ value: @escaping @Sendable (ClientMetrics.EventQueueMetrics) -> Int
    ) -> Metric {
        Metric(name, kind, "{event}", by: ["trunkline.observer"], help) { metrics in
            counts(metrics.eventQueues.mapValues(value))
        }
    }

    private static let cache = [
        Metric(
            cache: "trunkline.cache.calls",
            .counter,
            "{call}",
            by: ["trunkline.cache.result"],
            "Calls with a cache policy; a stale hit is also a miss or a share"
        ) { metrics in
            [
                (["hit"], .integer(metrics.hits)), (["miss"], .integer(metrics.misses)),
                (["share"], .integer(metrics.shares)), (["stale_hit"], .integer(metrics.staleHits)),
            ]
        },
        Metric(cache: "trunkline.cache.responses", .gauge, "{response}", "Cached responses") { metrics in
            [([], .integer(metrics.count))]
        },
        Metric(cache: "trunkline.cache.size", .gauge, "By", "The size of the cached responses") { metrics in
            [([], .integer(metrics.byteCount))]
        },
    ]

    private static let links = [
        Metric(
            "trunkline.tls.certificate.not_after",
            .gauge,
            "s",
            by: ["trunkline.certificate.owner"],
            "When the certificate of the server, or of this client, expires: seconds since 1970"
        ) { metrics in
            metrics.connection.certificates.map { ([$0.owner.rawValue], .integer(Int($0.notAfter))) }
                .sorted { ($0.0[0] ?? "") < ($1.0[0] ?? "") }
        },
        Metric("trunkline.link.attempts", .counter, "{attempt}", "Attempts to connect that began") {
            $0.connection.attempts
        },
        Metric(
            "trunkline.link.failures",
            .counter,
            "{attempt}",
            by: ["trunkline.cause"],
            "Attempts to connect that failed or that the client ended"
        ) { counts($0.connection.attemptFailures) },
        Metric(
            "trunkline.address.failures",
            .counter,
            "{attempt}",
            by: ["network.peer.address"],
            "Times that an address of a name failed, or did not answer, while another one did"
        ) { counts($0.connection.addressFailures) },
        Metric(
            "trunkline.datagram.dropped",
            .counter,
            "{datagram}",
            "Datagrams from the server that were not complete frames, or not valid responses to their requests"
        ) { $0.connection.droppedDatagrams },
        Metric(
            "trunkline.link.reasons",
            .counter,
            "{link}",
            by: ["trunkline.server.reason"],
            "Links that the server ended with a reason of its own"
        ) { counts($0.connection.linkEndReasons) },
        Metric("trunkline.link.established", .counter, "{link}", "Links that became ready") { $0.connection.links },
        Metric(
            "trunkline.link.losses",
            .counter,
            "{link}",
            by: ["trunkline.cause"],
            "Links that ended after they had been ready, on purpose or not"
        ) { counts($0.connection.losses) },
        Metric(
            "trunkline.link.state",
            .gauge,
            "{state}",
            by: ["trunkline.link.state"],
            "1 for the present state of the connection, 0 for the other states; of a server of a cluster, its links by state"
        ) { metrics in
            let counts = metrics.connection.stateCounts
            return ConnectionState.names.map { ([$0], .integer(counts[$0] ?? 0)) }
        },
    ]

    private static let frames = [
        Metric("trunkline.ping.sent", .counter, "{ping}", "Pings sent") { $0.connection.pings },
        Metric(
            "trunkline.heartbeat.interval",
            .gauge,
            "s",
            by: server + ["network.peer.address"],
            "The interval of the heartbeats of the present link"
        ) { metrics in
            guard let interval = metrics.connection.heartbeatInterval, let link = metrics.connection.link else {
                return []
            }
            return [(attributes(of: link.endpoint) + [link.peerAddress], .number(interval.inSeconds))]
        },
        Metric(
            "trunkline.frames",
            .counter,
            "{frame}",
            by: ["network.io.direction"],
            "Frames of all kinds, those of handshakes included"
        ) { metrics in
            [
                (["receive"], .integer(metrics.connection.framesReceived)),
                (["transmit"], .integer(metrics.connection.framesSent)),
            ]
        },
        Metric(
            "trunkline.io",
            .counter,
            "By",
            by: ["network.io.direction"],
            "Bytes read and written; over TLS, before encryption and after decryption"
        ) { metrics in
            [
                (["receive"], .integer(metrics.connection.bytesReceived)),
                (["transmit"], .integer(metrics.connection.bytesSent)),
            ]
        },
        Metric(
            "trunkline.frame.unencodable",
            .counter,
            "{frame}",
            "Frames without a caller that the codec could not encode"
        ) { $0.connection.unencodableFrames },
        Metric(
            "trunkline.frame.unexpected",
            .counter,
            "{frame}",
            "Received frames that a client does not use, such as cancellations of requests that are not served"
        ) { $0.unexpectedFrames },
        Metric("trunkline.outbound.size", .gauge, "By", "Bytes that wait to be written to the socket") {
            $0.connection.bytesToWrite
        },
        Metric(
            "trunkline.outbound.size.limit",
            .gauge,
            "By",
            "The size from which further requests wait (outbound.highWatermark)"
        ) { $0.limits.bytesToWrite },
    ]

    static let server = ["server.address", "server.port"]

    private static let connection = [
        tcp("trunkline.tcp.rtt", "s", "The smoothed round-trip time that the kernel measures") {
            .number($0.smoothedRoundTripTime.inSeconds)
        },
        tcp("trunkline.tcp.rtt.variation", "s", "The mean deviation of the round-trip time") {
            .number($0.roundTripTimeVariation.inSeconds)
        },
        tcp("trunkline.tcp.retransmissions", "{segment}", "Segments that the present link has sent again") {
            .integer($0.retransmissions)
        },
        tcp("trunkline.tcp.unacknowledged", "{segment}", "Segments sent and not acknowledged") {
            .integer($0.unacknowledgedSegments)
        },
        tcp("trunkline.tcp.congestion_window", "{segment}", "The congestion window") {
            .integer($0.congestionWindow)
        },
        tcp("trunkline.tcp.unsent", "By", "Bytes in the socket that the kernel has not sent") {
            $0.unsentBytes.map { .integer($0) }
        },
    ]

    /// No point without a link, or if the system does not report the value.
    private static func tcp(
        _ name: String,
        _ unit: String,
        _ help: String,
        _ value: @escaping @Sendable (TCPInformation) -> Value?
    ) -> Metric {
        Metric(name, .gauge, unit, by: server + ["network.peer.address"], help) { metrics in
            guard let tcp = metrics.connection.tcp, let value = value(tcp), let link = metrics.connection.link else {
                return []
            }
            return [(attributes(of: link.endpoint) + [link.peerAddress], value)]
        }
    }

    private static let cluster = [
        Metric(
            cluster: "trunkline.cluster.servers",
            .gauge,
            "{server}",
            by: ["trunkline.server.state"],
            "Servers that the cluster uses, by state"
        ) { metrics in states(of: metrics.servers).map { ([$0.name], .integer($0.count)) } },
        Metric(cluster: "trunkline.cluster.calls.waiting", .gauge, "{call}", "Calls that wait for a server") {
            metrics in
            [([], .integer(metrics.waiting))]
        },
        Metric(
            cluster: "trunkline.cluster.discovery.failures",
            .counter,
            "{failure}",
            "Times that the discovery failed, wholly or in part, or found no server"
        ) { metrics in [([], .integer(metrics.discoveryFailures))] },
        Metric(
            cluster: "trunkline.cluster.discovery.outage",
            .gauge,
            "s",
            "How long the discovery has been failing; 0 while it works"
        ) { metrics in [([], .number(metrics.discoveryOutage.inSeconds))] },
        Metric(
            cluster: "trunkline.cluster.request.accepted",
            .counter,
            "{request}",
            "Requests and one-way messages that the clients of all servers accepted, removed servers included"
        ) { metrics in [([], .integer(metrics.requests))] },
        Metric(
            cluster: "trunkline.cluster.request.ended",
            .counter,
            "{request}",
            by: ["trunkline.outcome"],
            "Those that ended: with a response, written (one-way messages), or failed"
        ) { metrics in
            [
                (["response"], .integer(metrics.responses)), (["written"], .integer(metrics.written)),
                (["failed"], .integer(metrics.failed)),
            ]
        },
        Metric(
            cluster: "trunkline.cluster.call.begun",
            .counter,
            "{call}",
            "Calls, each of them once, whatever its tries and copies"
        ) { metrics in [([], .integer(metrics.calls))] },
        Metric(
            cluster: "trunkline.cluster.call.errors",
            .counter,
            "{call}",
            by: ["error.type", "trunkline.fate"],
            "Calls that failed, also those that no server took"
        ) { failures($0.failures) },
        Metric(
            cluster: "trunkline.cluster.response.undecodable",
            .counter,
            "{response}",
            "Responses to typed requests that their callers could not decode"
        ) { metrics in [([], .integer(metrics.undecodableResponses))] },
        Metric(
            cluster: "trunkline.cluster.call.retries",
            .counter,
            "{call}",
            by: ["trunkline.retry.decision"],
            "Failed tries after which the call was sent again, or was not because of the retry budget"
        ) { metrics in
            [(["allowed"], .integer(metrics.retries)), (["refused"], .integer(metrics.retriesRefused))]
        },
        Metric(
            cluster: "trunkline.cluster.request.hedges",
            .counter,
            "{request}",
            "Second copies of hedged requests"
        ) { metrics in [([], .integer(metrics.hedges))] },
        queue(
            cluster: "trunkline.cluster.observer.queue",
            .gauge,
            "Events and log records that wait for an observer or the log of the cluster"
        ) { $0.waiting },
        queue(cluster: "trunkline.cluster.observer.queue.limit", .gauge, "How many may wait") { $0.capacity },
        queue(
            cluster: "trunkline.cluster.observer.missed",
            .counter,
            "Events and log records lost because the queue was full"
        ) { $0.missed },
        Metric(
            cluster: "trunkline.cluster.server.state",
            .gauge,
            "{state}",
            by: server + ["trunkline.server.state"],
            "1 for the present state of the server, 0 for the other states"
        ) { metrics in
            metrics.serversByAddress.flatMap { address, servers in
                states(of: servers).map { (address + [$0.name], .integer($0.count)) }
            }
        },
        server(
            "trunkline.cluster.server.ejections",
            .counter,
            "{ejection}",
            "Times that the server was left out after it had served"
        ) { servers in .integer(servers.reduce(0) { $0.addingClamped($1.ejections) }) },
        server("trunkline.cluster.server.links", .gauge, "{link}", "Links to the server, ready or not") { servers in
            .integer(servers.reduce(0) { $0.addingClamped($1.links) })
        },
        server("trunkline.cluster.server.in_flight", .gauge, "{request}", "Requests in flight to the server") {
            servers in
            .integer(servers.reduce(0) { $0.addingClamped($1.inFlight) })
        },
        server(
            "trunkline.cluster.server.latency_score",
            .gauge,
            "s",
            "The moving average by which servers are chosen"
        ) { servers in
            .number((servers.map(\.latencyScore).max() ?? .zero).inSeconds)
        },
    ]

    private static func queue(
        cluster name: String,
        _ kind: Kind,
        _ help: String,
        _ value: @escaping @Sendable (ClientMetrics.EventQueueMetrics) -> Int
    ) -> Metric {
        Metric(cluster: name, kind, "{event}", by: ["trunkline.observer"], help) { metrics in
            counts(metrics.eventQueues.mapValues(value))
        }
    }

    private static func server(
        _ name: String,
        _ kind: Kind,
        _ unit: String,
        _ help: String,
        _ value: @escaping @Sendable ([Cluster.ServerMetrics]) -> Value
    ) -> Metric {
        Metric(cluster: name, kind, unit, by: server, help) { metrics in
            metrics.serversByAddress.map { ($0.address, value($0.servers)) }
        }
    }

    private static func states(of servers: [Cluster.ServerMetrics]) -> [(name: String, count: Int)] {
        Cluster.ServerMetrics.State.all.map { state in (state.rawValue, servers.count { $0.state == state }) }
    }

    static func attributes(of endpoint: Endpoint?) -> [String?] {
        [endpoint?.host ?? endpoint?.path, endpoint?.port.map { "\($0)" }]
    }

    private static func readings(of durations: ClientMetrics.CallDurations, _ values: [String?]) -> [Reading] {
        let failed = durations.failures.map { (code: "\($0.key)", durations: $0.value) }
        return [(values + [nil], .durations(durations.successes))]
            + failed.sorted { $0.code < $1.code }.map { (values + [$0.code], .durations($0.durations)) }
    }

    // Known values have a point from the start: `increase` and `rate` of Prometheus do not see the first event of a
    // series that begins with it.

    private static func counts(_ numbers: [DisconnectCause: Int]) -> [Reading] {
        counts(
            Dictionary(uniqueKeysWithValues: numbers.map { ($0.key.rawValue, $0.value) }),
            known: DisconnectCause.allCases.map(\.rawValue)
        )
    }

    private static func counts(_ numbers: [String: Int], known: [String] = []) -> [Reading] {
        let zeros = Dictionary(uniqueKeysWithValues: known.map { ($0, 0) })
        return numbers.merging(zeros) { count, _ in count }.sorted { $0.key < $1.key }
            .map { ([$0.key], .integer($0.value)) }
    }

    private static func failures(_ numbers: [ClientMetrics.Failure: Int]) -> [Reading] {
        let zeros = Dictionary(uniqueKeysWithValues: failures.map { ($0, 0) })
        return numbers.merging(zeros) { count, _ in count }
            .map { (values: ["\($0.key.code)", "\($0.key.fate)"], value: Value.integer($0.value)) }
            .sorted { ($0.values[0] ?? "", $0.values[1] ?? "") < ($1.values[0] ?? "", $1.values[1] ?? "") }
    }

    private static let failures: [ClientMetrics.Failure] = [
        .init(.cancelled, .notSent), .init(.cancelled, .unknown),
        .init(.timedOut, .notSent), .init(.timedOut, .unknown),
        .init(.connectionLost, .notSent), .init(.connectionLost, .unknown),
        .init(.unavailable, .notSent), .init(.unavailable, .unknown),
        .init(.closed, .notSent), .init(.closed, .unknown),
        .init(.overloaded, .notSent), .init(.overloaded, .unknown), .init(.overloaded, .answered),
        .init(.protocolViolation, .unknown), .init(.protocolViolation, .answered),
        .init(.tlsFailed, .notSent), .init(.tlsFailed, .unknown),
        .init(.invalidRequest, .notSent), .init(.rejected, .answered),
    ]

    private static let refusals = [ClientError.Code.closed, .connectionLost, .overloaded, .unavailable].map { "\($0)" }
}

extension ClientMetrics.Serving {
    fileprivate var isUsed: Bool { received != 0 || maximumConcurrent != 0 }
}
