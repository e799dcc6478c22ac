import Testing
import Trunkline
import TrunklineCluster
import TrunklineTesting

/// Clusters whose servers are behind proxies of TCP connections.
@Suite(
    .tags(.realThreads),
    .serialized,
    .timeLimit(.minutes(5)),
    .enabled(if: ServerProcess.isAvailable("memcached"), "memcached is not installed")
)
enum ClusterProxyTests {}

extension ClusterProxyTests {
    private static func servers(_ count: Int) async throws -> [ServerProcess] {
        var servers: [ServerProcess] = []
        for _ in 0..<count { servers.append(try await ServerProcess("memcached") { ["-u", "root", "-s", $0] }) }
        return servers
    }

    /// The endpoints of the cluster are proxies that cut idle connections.
    private static func expectCallsAfterIdling(_ program: ProxyProcess.Program) async throws {
        let servers = try await servers(3)
        defer { for server in servers { server.stop() } }
        let idleTimeout = Duration.milliseconds(400)
        let proxy = try await ProxyProcess(
            program,
            to: servers.map { [.unix(path: $0.socketPath)] },
            idleTimeout: idleTimeout
        )
        defer { proxy.stop() }
        let (records, began) = (Lock([LogRecord]()), ContinuousClock.now)
        let options = ClientOptions {
            $0.logging = ClientLogging { record in records.withLock { $0.append(record) } }
            $0.requests.timeout = .seconds(60)
            $0.requests.retryBudget = nil
        }
        let found = Discovery.static(proxy.endpoints.map { ClusterEndpoint($0) })
        try await withCluster(discovering: found, speaking: Memcached.layout, options: options) { cluster in
            let idempotent = CallOptions(retry: .idempotent(tries: 10))
            let loads = [
                SteadyLoad("\(program.rawValue)", cluster),
                SteadyLoad("\(program.rawValue), idempotent", cluster, options: idempotent),
            ]
            // The proxy has cut each connection once.
            try await cluster.connect()
            func links() async -> [Int] { await cluster.metrics.servers.flatMap(\.clients).map(\.connection.links) }
            while await links().contains(where: { $0 < 2 }) { try await Task.sleep(for: .milliseconds(10)) }
            // It cuts them before, while and after the requests arrive.
            for round in 0..<TestEnvironment.scaled(20) {
                try await Task.sleep(for: idleTimeout + .milliseconds(round % 5 * 2 - 5))
                await withTaskGroup { group in
                    for load in loads { for _ in 0..<12 { group.addTask { await load.call() } } }
                }
            }
            for load in loads { print("Cluster behind \(load.summary(from: began, to: .now))") }
            let count = await links().reduce(0, +)
            print("Cluster behind \(program.rawValue): \(count) links, \(records.withLock { $0.count }) log records")
            for call in loads.flatMap(\.calls) {
                switch call.result {
                case .success(let isRight): #expect(isRight)
                case .failure(let error):
                    #expect(error.code == .connectionLost && error.fate == .unknown, "\(error)")
                }
            }
            #expect(loads[1].calls.allSatisfy { $0.error == nil })
        }
        // A link that is lost has no line of its own. Summaries are written every 30 s.
        // A busy machine adds lines: that the process did not run, and that most links were lost at the same time.
        let lines = records.withLock { $0 }.filter { $0.event != "loop.late" && !$0.event.hasPrefix("cluster.panic") }
        let intervals = Int((ContinuousClock.now - began) / .seconds(30))
        #expect(lines.count <= 30 + 10 * intervals, "\(lines.map(\.description).joined(separator: "\n"))")
    }

    @Suite(.enabled(if: ProxyProcess.isAvailable(.nginx), "nginx or its stream module is not installed"))
    struct Nginx {
        @Test func callsAfterIdlingHaveATrueFate() async throws { try await expectCallsAfterIdling(.nginx) }
    }

    @Suite(.enabled(if: ProxyProcess.isAvailable(.haproxy), "haproxy is not installed"))
    struct HAProxy {
        @Test func callsAfterIdlingHaveATrueFate() async throws { try await expectCallsAfterIdling(.haproxy) }

        /// Five servers, of which one is ten times slower, work on one request at a time. A cluster chooses a server for
        /// each request, and HAProxy with `leastconn` for each connection.
        @Test func theSameWorkThroughAClusterAndThroughHAProxy() async throws {
            let servers = try await servers(5)
            defer { for server in servers { server.stop() } }
            var relays: [SlowRelay] = []
            for (index, server) in servers.enumerated() {
                let time = Duration.milliseconds(index == 4 ? 80 : 8)
                relays.append(try await SlowRelay.start(to: .unix(path: server.socketPath), .work, time))
            }
            let proxy = try await ProxyProcess(.haproxy, to: [relays.map(\.endpoint)], idleTimeout: .seconds(60))
            defer { proxy.stop() }
            let options = ClientOptions { $0.requests.timeout = .seconds(60) }
            func cluster(of endpoints: [Endpoint], links: Int = 1) -> Cluster {
                let found = Discovery.static(endpoints.map { ClusterEndpoint($0) })
                return Cluster(discovering: found, speaking: Memcached.layout, options: options) {
                    $0.linksPerEndpoint = links...links
                }
            }
            let direct = cluster(of: relays.map(\.endpoint))
            let several = cluster(of: proxy.endpoints, links: 5)
            let one = Client(to: proxy.endpoints[0], speaking: Memcached.layout, options: options)
            let loads = [
                SteadyLoad("cluster", direct), SteadyLoad("HAProxy, one client", one),
                SteadyLoad("HAProxy, five links", several),
            ]
            for load in loads {
                try await SteadyLoad.run([load], callers: 12) {
                    // Without the time in which the cluster learns which server is slow.
                    try await Task.sleep(for: .milliseconds(500))
                    let start = ContinuousClock.now
                    try await Task.sleep(for: .milliseconds(TestEnvironment.scaled(3000)))
                    print("Beside HAProxy: \(load.summary(from: start, to: .now))")
                }
                let wrong = load.calls.filter { (try? $0.result.get()) != true }
                #expect(wrong.isEmpty, "\(load.name): \(wrong.prefix(5).map(\.result))")
            }
            await direct.close()
            await several.close()
            await one.close()
            for relay in relays { await relay.stop() }
        }
    }
}
