import Testing
import TrunklineCache
import TrunklineTelemetry

@testable import TrunklineCluster
@testable import TrunklineCore
@testable import TrunklineIO

@Suite struct PrometheusTextTests {}

extension PrometheusTextTests {
    private func lines(of snapshots: [any MetricsSnapshot], with prefix: String) -> [String] {
        PrometheusText.page(of: snapshots).split(separator: "\n").map(String.init).filter { $0.hasPrefix(prefix) }
    }

    @Test func aHistogramHasCumulativeBucketsASumAndACount() {
        let name = "rpc_client_call_duration_seconds"
        let found = lines(of: [sampleSnapshot()], with: name)
        let bounds = "0.005 0.01 0.025 0.05 0.075 0.1 0.25 0.5 0.75 1 2.5 5 7.5 10 +Inf".split(separator: " ")
        // The calls that succeeded, and one that failed.
        let server = "trunkline_client_name=\"users\",server_address=\"users.example\",server_port=\"7000\""
        let series = [
            (server, [3, 3, 3, 3, 3, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4], "0.11"),
            (
                "\(server),error_type=\"timedOut\"",
                [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1], "20"
            ),
        ]
        let expected = series.flatMap { labels, counts, sum -> [String] in
            let buckets = zip(bounds, counts).map { "\(name)_bucket{\(labels),le=\"\($0)\"} \($1)" }
            return buckets + ["\(name)_sum{\(labels)} \(sum)", "\(name)_count{\(labels)} \(counts[14])"]
        }
        #expect(found == expected)
    }

    @Test func errorsHaveTheirCodeAndFate() {
        let name = "trunkline_request_errors_total"
        #expect(
            lines(of: [sampleSnapshot()], with: name).filter { !$0.hasSuffix(" 0") } == [
                "\(name){trunkline_client_name=\"users\",error_type=\"cancelled\",trunkline_fate=\"notSent\"} 1",
                "\(name){trunkline_client_name=\"users\",error_type=\"rejected\",trunkline_fate=\"answered\"} 2",
                "\(name){trunkline_client_name=\"users\",error_type=\"timedOut\",trunkline_fate=\"unknown\"} 1",
            ]
        )
    }

    @Test func everyFamilyIsThereOnceForAllClients() {
        let page = PrometheusText.page(of: [sampleSnapshot(), sampleSnapshot(named: "orders")])
        let types = page.split(separator: "\n").filter { $0.hasPrefix("# TYPE ") }
        #expect(types.count == Set(types).count)
        #expect(types.contains("# TYPE trunkline_io_bytes_total counter"))
        #expect(
            lines(of: [sampleSnapshot(), sampleSnapshot(named: "orders")], with: "trunkline_push_received_total") == [
                "trunkline_push_received_total{trunkline_client_name=\"users\"} 20",
                "trunkline_push_received_total{trunkline_client_name=\"orders\"} 20",
            ]
        )
    }

    /// Each family is in one piece: its comments, then its values.
    @Test func commentsComeBeforeTheirValues() {
        var family = ""
        for line in PrometheusText.page(of: [sampleSnapshot()]).split(separator: "\n") {
            let words = line.split(separator: " ")
            if line.hasPrefix("# TYPE ") { family = String(words[2]) }
            if !line.hasPrefix("#") { #expect(line.hasPrefix(family)) }
        }
    }

    @Test func labelsAreEscaped() {
        let snapshot = sampleSnapshot(named: "a\"b\\c\nd", attributes: ["1st.team-name": "é"])
        #expect(
            lines(of: [snapshot], with: "trunkline_push_received_total") == [
                #"trunkline_push_received_total{trunkline_client_name="a\"b\\c\nd",_1st_team_name="é"} 20"#
            ]
        )
    }

    /// A page with a label twice is invalid as a whole.
    @Test func attributesOfTheSnapshotDoNotRepeatALabel() {
        let attributes = [
            "a.b": "1", "a_b": "2", "__c": "7", "_c": "8", "error.type": "3", "error_type": "4", "le": "5",
            "trunkline.client.name": "6",
        ]
        let page = PrometheusText.page(of: [sampleSnapshot(attributes: attributes)])
        for line in page.split(separator: "\n") where !line.hasPrefix("#") {
            guard let labels = line.split(separator: "{").last?.split(separator: "}").first else { continue }
            let names = labels.split(separator: ",").compactMap { $0.split(separator: "=").first }
            #expect(names.count == Set(names).count, "\(line)")
            #expect(names.filter { $0 == "a_b" }.count == 1 && names.filter { $0 == "_c" }.count == 1, "\(line)")
        }
        let common = "trunkline_client_name=\"users\",_c=\"7\",a_b=\"1\""
        #expect(page.contains("trunkline_request_refused_total{\(common),le=\"5\",error_type=\"overloaded\"} 3\n"))
        let server = "server_address=\"users.example\",server_port=\"7000\""
        #expect(page.contains("rpc_client_call_duration_seconds_bucket{\(common),\(server),le=\"0.005\"} 3\n"))
        #expect(page.contains("trunkline_push_received_total{\(common),error_type=\"3\",le=\"5\"} 20\n"))
    }

    /// Labels that begin with two underscores are reserved: `__name__` would replace the name of the metric.
    @Test(arguments: [
        ("__name__", "_name__"), ("..name..", "_name__"), ("-_instance", "_instance"), ("___", "_"), ("_.1", "_1"),
        ("_a", "_a"), (".a", "_a"), ("1a", "_1a"), ("a__b", "a__b"), ("", "_"),
    ])
    func noLabelIsReserved(_ name: String, label: String) {
        let page = PrometheusText.page(of: [sampleSnapshot(attributes: [name: "x"])])
        #expect(!page.contains("{__") && !page.contains(",__"), "\(name)")
        let line = "trunkline_push_received_total{trunkline_client_name=\"users\",\(label)=\"x\"} 20\n"
        #expect(page.contains(line), "\(name)")
    }

    /// `le` is the label of buckets, and `quantile` that of summaries, of which there are none.
    @Test func labelsOfTheFormatItselfAreNotRepeated() {
        let page = PrometheusText.page(of: [sampleSnapshot(attributes: ["le": "x", "quantile": "y"])])
        for line in page.split(separator: "\n") where line.contains("_bucket{") {
            #expect(line.split(separator: ",le=").count == 2 && !line.contains("le=\"x\""), "\(line)")
        }
        #expect(
            page.contains("trunkline_push_received_total{trunkline_client_name=\"users\",le=\"x\",quantile=\"y\"} 20\n")
        )
    }

    // MARK: Clusters

    private static let first = #"trunkline_client_name="orders",server_address="a.example",server_port="7000""#
    private static let second = #"trunkline_client_name="orders",server_address="b.example",server_port="7000""#

    @Test func metricsOfAClientHaveAValueForEachServer() {
        let (name, first, second) = ("trunkline_request_ended_total", Self.first, Self.second)
        #expect(
            lines(of: [sampleCluster()], with: name) == [
                "\(name){\(first),trunkline_outcome=\"response\"} 10",
                "\(name){\(first),trunkline_outcome=\"written\"} 0",
                "\(name){\(first),trunkline_outcome=\"failed\"} 0",
                "\(name){\(second),trunkline_outcome=\"response\"} 3",
                "\(name){\(second),trunkline_outcome=\"written\"} 0",
                "\(name){\(second),trunkline_outcome=\"failed\"} 0",
            ]
        )
    }

    /// Those that ended on no link too: without attributes, there would be one series for all servers.
    @Test func everyCallOfAClusterBelongsToAServer() {
        let name = "rpc_client_call_duration_seconds_count"
        let expected = [Self.first, Self.second].map { "\(name){\($0)} 2" }
        #expect(lines(of: [sampleCluster()], with: name) == expected)
    }

    @Test func aClusterHasMetricsOfItsOwn() {
        let (name, first, second) = ("trunkline_client_name=\"orders\"", Self.first, Self.second)
        #expect(
            lines(of: [sampleCluster()], with: "trunkline_cluster_").filter {
                !$0.contains("_call_errors_") || !$0.hasSuffix(" 0")
            } == [
                "trunkline_cluster_servers{\(name),trunkline_server_state=\"serving\"} 1",
                "trunkline_cluster_servers{\(name),trunkline_server_state=\"connecting\"} 0",
                "trunkline_cluster_servers{\(name),trunkline_server_state=\"ejected\"} 1",
                "trunkline_cluster_servers{\(name),trunkline_server_state=\"probing\"} 0",
                "trunkline_cluster_calls_waiting{\(name)} 4",
                "trunkline_cluster_discovery_failures_total{\(name)} 8",
                "trunkline_cluster_discovery_outage_seconds{\(name)} 7.5",
                "trunkline_cluster_request_accepted_total{\(name)} 20",
                "trunkline_cluster_request_ended_total{\(name),trunkline_outcome=\"response\"} 14",
                "trunkline_cluster_request_ended_total{\(name),trunkline_outcome=\"written\"} 3",
                "trunkline_cluster_request_ended_total{\(name),trunkline_outcome=\"failed\"} 2",
                "trunkline_cluster_call_begun_total{\(name)} 17",
                "trunkline_cluster_call_errors_total{\(name),error_type=\"timedOut\",trunkline_fate=\"notSent\"} 6",
                "trunkline_cluster_response_undecodable_total{\(name)} 0",
                "trunkline_cluster_call_retries_total{\(name),trunkline_retry_decision=\"allowed\"} 2",
                "trunkline_cluster_call_retries_total{\(name),trunkline_retry_decision=\"refused\"} 1",
                "trunkline_cluster_request_hedges_total{\(name)} 5",
                "trunkline_cluster_server_state{\(first),trunkline_server_state=\"serving\"} 1",
                "trunkline_cluster_server_state{\(first),trunkline_server_state=\"connecting\"} 0",
                "trunkline_cluster_server_state{\(first),trunkline_server_state=\"ejected\"} 0",
                "trunkline_cluster_server_state{\(first),trunkline_server_state=\"probing\"} 0",
                "trunkline_cluster_server_state{\(second),trunkline_server_state=\"serving\"} 0",
                "trunkline_cluster_server_state{\(second),trunkline_server_state=\"connecting\"} 0",
                "trunkline_cluster_server_state{\(second),trunkline_server_state=\"ejected\"} 1",
                "trunkline_cluster_server_state{\(second),trunkline_server_state=\"probing\"} 0",
                "trunkline_cluster_server_ejections_total{\(first)} 0",
                "trunkline_cluster_server_ejections_total{\(second)} 2",
                "trunkline_cluster_server_links{\(first)} 2", "trunkline_cluster_server_links{\(second)} 1",
                "trunkline_cluster_server_in_flight{\(first)} 7", "trunkline_cluster_server_in_flight{\(second)} 7",
                "trunkline_cluster_server_latency_score_seconds{\(first)} 0.03",
                "trunkline_cluster_server_latency_score_seconds{\(second)} 0.03",
            ]
        )
    }

    /// A page with a series twice is invalid as a whole.
    @Test func noSeriesIsThereTwice() {
        var cluster = sampleCluster(attributes: ["server.address": "mine", "server_port": "1", "team": "a"])
        // Endpoints that differ only in TLS have the same attributes.
        cluster.metrics.servers.append(sampleServer("tls://a.example:7000", .serving, responses: 5, links: 1))
        cluster.metrics.servers.append(sampleServer("unix:/run/orders", .probing, responses: 1, links: 1))
        let page = PrometheusText.page(of: [sampleSnapshot(), cluster, sampleCluster(named: "prices")])
        let series = page.split(separator: "\n").filter { !$0.hasPrefix("#") }
            .map { $0.prefix { $0 != "}" } }
        #expect(series.count == Set(series).count)
        for line in series {
            let names = (line.split(separator: "{").last ?? "").split(separator: ",")
                .compactMap { $0.split(separator: "=").first }
            #expect(names.count == Set(names).count, "\(line)")
        }
        let first = Self.first + ",team=\"a\""
        #expect(page.contains("trunkline_request_ended_total{\(first),trunkline_outcome=\"response\"} 15\n"))
        #expect(page.contains("trunkline_cluster_server_links{trunkline_client_name=\"orders\",team=\"a\",server_add"))
        #expect(page.contains("trunkline_cluster_server_state{") && page.contains("server_address=\"/run/orders\""))
    }

    @Test func clientsAndClustersShareAFamily() {
        let page = PrometheusText.page(of: [sampleSnapshot(), sampleCluster()])
        let types = page.split(separator: "\n").filter { $0.hasPrefix("# TYPE ") }
        #expect(types.count == Set(types).count)
        #expect(lines(of: [sampleSnapshot(), sampleCluster()], with: "trunkline_request_accepted_total{").count == 3)
    }

    @Test func aClusterWithoutServersHasOnlyItsOwnMetrics() {
        var cluster = sampleCluster()
        cluster.metrics.servers = []
        let page = PrometheusText.page(of: [cluster])
        let lines = page.split(separator: "\n").filter { !$0.hasPrefix("#") }
        #expect(lines.allSatisfy { $0.hasPrefix("trunkline_cluster_") } && lines.count == 35)
    }

    /// An idle client had 277 series although the article said 60: a histogram of each delay that it had never had, and
    /// the metrics of calls with a cache and of requests of the server, which it did not use.
    @Test func anIdleClientHasAsManySeriesAsTheArticleSays() throws {
        func count(_ snapshot: any MetricsSnapshot) -> Int {
            PrometheusText.page(of: [snapshot]).split(separator: "\n").count { !$0.hasPrefix("#") }
        }
        var metrics = ClientMetrics()
        let client = count(ClientSnapshot(of: metrics, named: "new"))
        metrics.tryDurations.record(.milliseconds(1))
        let histogram = count(ClientSnapshot(of: metrics, named: "new")) - client
        var cluster = sampleCluster()
        cluster.metrics.servers = []
        let own = count(cluster)
        let server = Cluster.ServerMetrics(
            endpoint: "a:1",
            state: .serving,
            links: 1,
            ejections: 0,
            inFlight: 0,
            latencyScore: .zero,
            zone: nil,
            clients: [ClientMetrics()],
            total: ClientMetrics()
        )
        cluster.metrics.servers = [server]
        let article = try MetricTableTests.article()
        #expect(article.contains("A client that has done nothing has \(client) series in Prometheus."))
        #expect(article.contains("Each further histogram is \(histogram) series"))
        #expect(article.contains("A cluster has \(own) series, and \(count(cluster) - own) more for each server"))
    }

    /// As many as those of the calls on one endpoint.
    @Test func callsByNameHaveTheirMethodAndError() {
        let name = "trunkline_request_duration_seconds"
        let found = lines(of: [sampleSnapshot()], with: "\(name)_count")
        let method = "trunkline_client_name=\"users\",rpc_method=\"GetUser\""
        #expect(found == ["\(name)_count{\(method)} 4", "\(name)_count{\(method),error_type=\"timedOut\"} 1"])
        var cluster = sampleCluster()
        cluster.metrics.servers[0] = sampleServer(
            "a.example:7000",
            .serving,
            responses: 10,
            links: 2,
            method: "GetUser"
        )
        let ofServer = lines(of: [cluster], with: "\(name)_count")
        #expect(ofServer.count == 1 && ofServer.first?.contains("server_address=\"a.example\"") == true)
    }

    /// What is not used has no series, and all of them from its first use.
    @Test func metricsOfWhatIsNotUsedBeginWithItsUse() {
        var metrics = ClientMetrics()
        func lines(with prefix: String) -> Int {
            self.lines(of: [ClientSnapshot(of: metrics, named: "a")], with: prefix).count
        }
        #expect(lines(with: "trunkline_server_request_") == 0)
        #expect(lines(with: "trunkline_delay_duration_seconds_count{") == 1)
        // It serves, and has not received a request.
        metrics.serving.maximumConcurrent = 64
        for duration in [\ClientMetrics.queueDurations, \.tryDurations] {
            metrics[keyPath: duration].record(.milliseconds(1))
        }
        #expect(lines(with: "trunkline_server_request_") == 13)
        #expect(lines(with: "trunkline_server_request_refused_total{") == 4)
        #expect(lines(with: "trunkline_delay_duration_seconds_count{") == 3)
    }

    @Test func aCacheHasItsOwnSnapshot() {
        var metrics = CachingSender.Metrics()
        (metrics.hits, metrics.misses, metrics.shares, metrics.staleHits) = (1, 2, 3, 4)
        (metrics.count, metrics.byteCount) = (5, 6)
        let cache = CacheSnapshot(of: metrics, named: "users", attributes: ["rpc.system.name": "acme"])
        let labels = "trunkline_client_name=\"users\",rpc_system_name=\"acme\""
        let values = PrometheusText.page(of: [cache]).split(separator: "\n").filter { !$0.hasPrefix("#") }
        #expect(
            values == [
                "trunkline_cache_calls_total{\(labels),trunkline_cache_result=\"hit\"} 1",
                "trunkline_cache_calls_total{\(labels),trunkline_cache_result=\"miss\"} 2",
                "trunkline_cache_calls_total{\(labels),trunkline_cache_result=\"share\"} 3",
                "trunkline_cache_calls_total{\(labels),trunkline_cache_result=\"stale_hit\"} 4",
                "trunkline_cache_responses{\(labels)} 5", "trunkline_cache_size_bytes{\(labels)} 6",
            ]
        )
        // Its name may be that of the client.
        let both: [any MetricsSnapshot] = [ClientSnapshot(of: ClientMetrics(), named: "users"), cache]
        let page = PrometheusText.page(of: both)
        #expect(page.contains(values[0]) && page.contains("trunkline_request_accepted_total{"))
    }

    /// `increase` does not see the first event of a series that begins with it, so each series begins with zero.
    @Test func aNewClientHasZerosForEverythingThatMayHappen() {
        let page = PrometheusText.page(of: [ClientSnapshot(of: ClientMetrics(), named: "new")])
        let zeros = [
            "trunkline_request_errors_total{trunkline_client_name=\"new\",error_type=\"timedOut\",trunkline_fate=\"unknown\"} 0\n",
            "trunkline_request_errors_total{trunkline_client_name=\"new\",error_type=\"rejected\",trunkline_fate=\"answered\"} 0\n",
            "trunkline_request_refused_total{trunkline_client_name=\"new\",error_type=\"overloaded\"} 0\n",
            "trunkline_push_dropped_total{trunkline_client_name=\"new\",trunkline_push_stream=\"all\"} 0\n",
        ]
        for zero in zeros { #expect(page.contains(zero), "\(zero)") }
        for cause in DisconnectCause.allCases {
            for name in ["failures", "losses"] {
                let labels = "trunkline_client_name=\"new\",trunkline_cause=\"\(cause.rawValue)\""
                #expect(page.contains("trunkline_link_\(name)_total{\(labels)} 0\n"))
            }
        }
        #expect(!page.contains("trunkline_tcp_"))
        #expect(page.contains("trunkline_link_state{trunkline_client_name=\"new\",trunkline_link_state=\"idle\"} 1\n"))
        #expect(PrometheusText.page(of: []).isEmpty)
    }
}
