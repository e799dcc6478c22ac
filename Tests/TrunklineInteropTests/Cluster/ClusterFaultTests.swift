import Testing
import Trunkline
import TrunklineCluster
import TrunklineTesting

/// Eight servers of a cluster, of which some are stopped, killed or slow while callers send requests.
@Suite(
    .tags(.realThreads),
    .timeLimit(.minutes(5)),
    .enabled(if: ServerProcess.isAvailable("memcached"), "memcached is not installed")
)
struct ClusterFaultTests {}

extension ClusterFaultTests {
    private struct Servers {
        var processes: [ServerProcess] = []
        let relay: SlowRelay
        /// The endpoints of the processes, except that of the server behind the relay.
        let endpoints: [Endpoint]

        static let (stopped, killed, slow) = (0, 1, 2)

        init() async throws {
            for _ in 0..<8 { processes.append(try await ServerProcess("memcached") { ["-u", "root", "-s", $0] }) }
            var endpoints = processes.map { Endpoint.unix(path: $0.socketPath) }
            relay = try await SlowRelay.start(to: endpoints[Self.slow], .distance)
            endpoints[Self.slow] = relay.endpoint
            self.endpoints = endpoints
        }

        /// Kills a server and starts it again.
        func restart(_ index: Int) async throws {
            if index == Self.slow { await relay.kill() }
            await processes[index].kill()
            try await processes[index].start()
            if index == Self.slow { try await relay.restart() }
        }

        func stop() async {
            for process in processes { process.stop() }
            await relay.stop()
        }
    }

    private static let options = ClientOptions {
        $0.requests.timeout = .seconds(1)
        $0.reconnecting.policy = Backoff(base: .milliseconds(10), cap: .milliseconds(200))
    }

    private func cluster(_ balancing: any BalancingPolicy, of servers: Servers) -> Cluster {
        let found = servers.endpoints.map { ClusterEndpoint($0) }
        return Cluster(discovering: .static(found), speaking: Memcached.layout, options: Self.options) {
            $0.balancing = balancing
            $0.ejection?.baseTime = .seconds(1)
        }
    }

    /// All ways to send requests use the same servers at the same time, so they see the same faults.
    @Test func everyCallEndsWithATrueFateWhileServersFail() async throws {
        let second = Duration.milliseconds(TestEnvironment.scaled(1000))
        let servers = try await Servers()
        let clusters = [cluster(.leastLoaded, of: servers), cluster(.roundRobin, of: servers)]
        // The client's server has its share of the faults: it is stopped, and restarted like all others.
        let client = Client(to: servers.endpoints[Servers.stopped], speaking: Memcached.layout, options: Self.options)
        let pause = Duration.milliseconds(25)
        let loads = [
            SteadyLoad("least loaded", clusters[0], pause: pause), SteadyLoad("round robin", clusters[1], pause: pause),
            SteadyLoad("one client", client, pause: pause),
        ]
        var phases: [(name: String, start: ContinuousClock.Instant, end: ContinuousClock.Instant)] = []
        func phase(_ name: String, _ body: () async throws -> Void) async throws {
            let start = ContinuousClock.now
            try await body()
            phases.append((name, start, .now))
        }
        try await SteadyLoad.run(loads, callers: 6) {
            for cluster in clusters { try await waitUntilAllTakeTraffic(cluster) }
            try await phase("without faults") { try await Task.sleep(for: second * 2) }
            try await phase("one stopped, one killed, one slow") {
                servers.processes[Servers.stopped].pause()
                await servers.processes[Servers.killed].kill()
                servers.relay.set(.milliseconds(100))
                try await Task.sleep(for: second * 5)
                servers.processes[Servers.stopped].resume()
                try await servers.processes[Servers.killed].start()
                servers.relay.set(.zero)
            }
            for cluster in clusters { try await waitUntilAllTakeTraffic(cluster) }
            // Until the server that was stopped has performed what it received before.
            try await Task.sleep(for: second)
            try await expectTruth(of: loads, on: servers)
            try await phase("all restarted in turn") {
                for index in servers.processes.indices {
                    try await servers.restart(index)
                    try await Task.sleep(for: second / 5)
                }
            }
            for cluster in clusters { try await waitUntilAllTakeTraffic(cluster) }
        }
        for phase in phases {
            for load in loads { print("Cluster, \(phase.name): \(load.summary(from: phase.start, to: phase.end))") }
        }
        for load in loads { expectResults(of: load) }
        for cluster in clusters {
            // On a busy machine a server may look slow, and be left out for a while, also after the last fault.
            try await waitUntilAllServe(cluster)
            await expectNothingLeft(in: cluster)
        }
        let metrics = await client.metrics
        #expect(metrics.pending == 0 && metrics.unknownResponses == 0)
        await client.close()
        await servers.stop()
    }

    // MARK: Waiting

    /// Waits until no server is ejected. It sends requests, because an ejected server returns only after one of them.
    private func waitUntilAllServe(_ cluster: Cluster) async throws {
        while true {
            let servers = await cluster.metrics.servers
            if servers.count == 8, servers.allSatisfy({ $0.state == .serving }) { return }
            _ = try? await cluster.send(Memcached.set("probe", [1]))
            try await Task.sleep(for: .milliseconds(20))
        }
    }

    /// Waits until each server has answered more requests. On a busy machine, some of them may be ejected at any time.
    private func waitUntilAllTakeTraffic(_ cluster: Cluster) async throws {
        while await cluster.metrics.servers.count < 8 { try await Task.sleep(for: .milliseconds(20)) }
        func responses() async -> [Int] {
            await cluster.metrics.servers.map { $0.clients.reduce(0) { $0 + $1.responses } }
        }
        let before = await responses()
        while zip(before, await responses()).contains(where: { $1 <= $0 }) {
            try await Task.sleep(for: .milliseconds(20))
        }
    }

    // MARK: Expectations

    /// Every response belongs to its request, and every error has one of the codes and fates that these faults cause.
    private func expectResults(of load: SteadyLoad) {
        let wrong = load.calls.filter { call in
            switch call.result {
            case .success(let isRight): !isRight
            case .failure(let error):
                switch error.code {
                case .timedOut: error.fate == .answered
                // A request of which nothing was written is sent on another link.
                case .connectionLost: error.fate != .unknown
                default: true
                }
            }
        }
        #expect(wrong.isEmpty, "\(load.name): \(wrong.prefix(5).map(\.result))")
    }

    /// No server has performed a request whose fate is `notSent`, and no request was performed twice.
    ///
    /// Only the server that was killed has forgotten what it performed.
    private func expectTruth(of loads: [SteadyLoad], on servers: Servers) async throws {
        let clients = servers.processes.map { Client(to: .unix(path: $0.socketPath), speaking: Memcached.layout) }
        for load in loads {
            // Some calls with each outcome.
            let calls = Dictionary(grouping: load.calls) { $0.error?.fate }
            for call in calls.values.flatMap({ $0.shuffled().prefix(20) }) {
                var count = 0
                for client in clients where try await Self.hasPerformed(call.number, client) { count += 1 }
                #expect(count <= (call.error?.fate == .notSent ? 0 : 1), "\(load.name): \(call.result)")
            }
        }
        for client in clients { await client.close() }
    }

    /// Whether a server has the counter of a request.
    private static func hasPerformed(_ number: UInt64, _ client: Client) async throws(ClientError) -> Bool {
        do {
            _ = try await client.send(Memcached.get(SteadyLoad.key(number)))
            return true
        } catch {
            guard error.code == .rejected, error.response?.status == 1 else { throw error }
            return false
        }
    }

    private func expectNothingLeft(in cluster: Cluster) async {
        let metrics = await cluster.metrics
        #expect(metrics.waiting == 0)
        #expect(metrics.servers.allSatisfy { $0.inFlight == 0 && $0.state == .serving })
        let clients = metrics.servers.flatMap(\.clients)
        #expect(clients.allSatisfy { $0.pending == 0 && $0.unknownResponses == 0 })
        await cluster.close()
    }
}
