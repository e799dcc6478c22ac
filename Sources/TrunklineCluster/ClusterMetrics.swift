public import TrunklineCore

extension Cluster {
    /// Counts and current values of a cluster. Counts begin with its creation and include servers that were removed.
    public struct Metrics: Sendable, Hashable {
        /// The number of calls: requests and one-way messages, each of them once, whatever its tries and copies, and
        /// also each of a batch. A subscription is one call; its moves are not counted. Calls in progress are
        /// included.
        public var calls = 0
        /// The calls that failed, by code and fate, each of them once: also those that no server took, and those that
        /// were refused. ``ClientMetrics/failures`` of a server counts tries.
        public var failures: [ClientMetrics.Failure: Int] = [:]
        /// The number of times that a failed request was scheduled to be sent again after it had been written: see
        /// ``RetryPolicy/idempotent(tries:backoff:)``.
        public var retries = 0
        /// The number of times that a failed request was not sent again because the ``RetryBudget`` was exhausted.
        public var retriesRefused = 0
        /// The number of tries: requests and one-way messages that clients of the cluster accepted. A request that was
        /// sent again to another server, and a second copy, count each time.
        public var requests = 0
        /// The number of responses, error responses included.
        public var responses = 0
        /// The number of one-way messages whose last byte the kernel accepted.
        public var written = 0
        /// The number of tries that ended without a response and were not written.
        public var failed = 0
        /// The number of calls that wait for a server.
        public var waiting = 0
        /// How often the discovery has failed, wholly or in part, or found no server.
        public var discoveryFailures = 0
        /// How long the discovery has been failing; zero while it works, and after `close()`. The servers of the last
        /// list stay in use.
        public var discoveryOutage = Duration.zero
        /// The number of second copies of hedged requests.
        public var hedges = 0
        /// The number of responses to typed requests that their callers could not decode. The calls count as answered.
        public var undecodableResponses = 0
        /// The queues in which events wait for the observers and the log: see
        /// ``ClientMetrics/eventQueues``.
        public var eventQueues: [String: ClientMetrics.EventQueueMetrics] = [:]
        /// The servers that the cluster uses now, in the order in which they were found. After `close()`, those that it
        /// used last.
        public var servers: [ServerMetrics] = []

        init() {}
    }

    /// What a cluster knows about one of its servers.
    public struct ServerMetrics: Sendable, Hashable {
        /// How the cluster uses a server.
        @nonexhaustive
        public enum State: String, Sendable, Hashable {
            /// It takes requests.
            case serving
            /// No link is ready.
            case connecting
            /// It is left out.
            case ejected
            /// Its time is over, and one request may try it.
            case probing

            package static let all: [State] = [.serving, .connecting, .ejected, .probing]
        }

        /// The server.
        public let endpoint: Endpoint
        /// How the cluster uses it.
        public let state: State
        /// The number of links, ready or not.
        public let links: Int
        /// How often the server was ejected while it served, since the cluster began to use it. A failed probe, which
        /// lengthens an ejection, does not count.
        public let ejections: Int
        /// The number of requests in flight, as the choice of a server counts them. Always 0 while only one link is
        /// possible: one server, and ``ClusterOptions/linksPerEndpoint`` of `1...1`.
        public let inFlight: Int
        /// The moving average of the latency by which servers are chosen: see ``LeastLoaded``.
        /// It is zero before the first response, after the server was ejected or lost its links, and while only one
        /// link is possible. It decays while the server gets no requests. To measure a server, read ``total``.
        public let latencyScore: Duration
        /// The zone of the server; `nil` if it is unknown.
        public let zone: String?
        /// What its clients count and measure, by link.
        public let clients: [ClientMetrics]
        /// What all its clients count and measure together, as by ``ClientMetrics/merge(_:)``.
        ///
        /// Counts and durations include links that are closed, since the cluster began to use the server, so they never
        /// decrease. Current values include links that are draining. A server that was removed and is found again
        /// begins with zero.
        public let total: ClientMetrics
    }

    /// The metrics of this cluster at the time of the call. Those of each client are a consistent snapshot.
    public var metrics: Metrics {
        get async {
            // All at once, before the first `await`: a link that is closed meanwhile is counted once.
            let (present, draining, closed) = (
                servers.all, servers.draining.values.sorted { $0.id < $1.id }, servers.closed
            )
            let drainingByServer = Dictionary(grouping: draining) { $0.member.id }
            let discoveryFailures = servers.discoveryFailures
            let discoveryOutage = servers.discoveryFailingSince.map { loop.now.since($0) } ?? .zero
            var metrics = servers.past
            for server in present {
                var clients: [ClientMetrics] = []
                for link in server.links { clients.append(await link.link.client.metrics) }
                var total = closed[server.member.id] ?? ClientMetrics()
                for client in clients { total.merge(client) }
                for link in drainingByServer[server.member.id] ?? [] { total.merge(await link.client.metrics) }
                let isClosed = lifecycle >= .closing
                metrics.servers.append(
                    ServerMetrics(
                        endpoint: server.found.endpoint,
                        state: isClosed ? .connecting : state(of: server),
                        links: isClosed ? 0 : server.links.count,
                        ejections: server.ejections,
                        inFlight: server.links.reduce(0) { $0 + $1.link.inFlight },
                        latencyScore: .microseconds(Int(server.member.average.microseconds(at: loop.now))),
                        zone: server.found.zone,
                        clients: clients,
                        total: total
                    )
                )
                metrics.add(total)
            }
            let isPresent = Set(present.map(\.member.id))
            for link in draining where !isPresent.contains(link.member.id) {
                metrics.add(await link.client.metrics)
            }
            metrics.waiting = waiting.waitingCount
            metrics.discoveryFailures = discoveryFailures
            metrics.discoveryOutage = discoveryOutage
            metrics.hedges = hedging.withLock { $0.copies }
            let (counts, placed) = counts.withLock { ($0, picker.requests) }
            metrics.calls = max(0, placed + counts.unplaced - counts.repeats)
            (metrics.failures, metrics.retries) = (counts.failures, counts.retries)
            metrics.retriesRefused = counts.retriesRefused
            metrics.undecodableResponses = counts.undecodable
            metrics.eventQueues = voice.queueMetrics
            return metrics
        }
    }

    private func state(of server: ClusterServers.Server) -> ServerMetrics.State {
        if !server.isReady { return .connecting }
        return switch outliers.state(of: server.member.id) {
        case .serving, nil: .serving
        case .ejected: .ejected
        case .probing: .probing
        }
    }
}

extension Cluster.Metrics {
    mutating func add(_ client: ClientMetrics) {
        requests += client.requests
        responses += client.responses
        written += client.written
        failed += client.failed
    }
}
