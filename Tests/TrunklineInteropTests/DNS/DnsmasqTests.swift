#if canImport(Glibc)
    import Synchronization
    import Testing
    import TrunklineTesting

    @testable import TrunklineCluster

    @testable import TrunklineCore
    @testable import TrunklineIO

    @testable import TrunklineLayouts

    /// Discoveries that ask a real name server, with the functions of the system.
    @Suite(
        .tags(.realThreads),
        .enabled(if: Dnsmasq.isAvailable, "dnsmasq is not installed"),
        .timeLimit(.minutes(5))
    )
    struct DnsmasqTests {
        /// Runs a discovery until it has a list or an error.
        private func first(of discovery: Discovery, on server: Dnsmasq) async throws -> Result<
            [ClusterEndpoint], any Error
        > {
            let loop = server.loops.next()
            let (results, continuation) = AsyncStream<Result<[ClusterEndpoint], any Error>>.makeStream()
            let receiver = DiscoveryReceiver(loop: loop, alarm: Alarm(on: loop)) {
                continuation.yield(.success($0))
            } failed: {
                continuation.yield(.failure($0))
            }
            let task = Task(executorPreference: loop.taskExecutor) { try await discovery.run(receiver) }
            defer { task.cancel() }
            for await result in results { return result }
            throw CancellationError()
        }

        private func message(of result: Result<[ClusterEndpoint], any Error>) -> String {
            switch result {
            case .success(let list): "no error, but \(list)"
            case .failure(let error): "\((error as? TransportError)?.message ?? "\(error)")"
            }
        }

        @Test func recordsAndTheirTargetsAreFound() async throws {
            let server = try await Dnsmasq.start([
                "--srv-host=_acme._tcp.orders.test,a.orders.test,7001,10,6",
                "--srv-host=_acme._tcp.orders.test,b.orders.test,7002,10,0",
                "--srv-host=_acme._tcp.orders.test,c.orders.test,7003,20,1",
                "--host-record=a.orders.test,10.9.0.1,fd00::1", "--host-record=b.orders.test,10.9.0.2",
                "--host-record=c.orders.test,10.9.0.3",
            ])
            defer { server.stop() }
            let list = try await first(of: .srv("_acme._tcp.orders.test") { server.search($0) }, on: server).get()
            func found(_ address: String, _ port: UInt16, _ name: String, _ weight: Double) -> ClusterEndpoint {
                let metadata = ["target": name, "priority": "10"]
                return ClusterEndpoint(.host(address, port: port), weight: weight, serverName: name, metadata: metadata)
            }
            #expect(
                Set(list) == [
                    found("fd00::1", 7001, "a.orders.test", 3), found("10.9.0.1", 7001, "a.orders.test", 3),
                    found("10.9.0.2", 7002, "b.orders.test", 1),
                ]
            )
        }

        /// The answer is too long for a datagram, so the system repeats the question over TCP.
        @Test func aLongAnswerIsComplete() async throws {
            let hosts = (1...200).map { "h\($0).orders.test" }
            let server = try await Dnsmasq.start(
                hosts.map { "--srv-host=_acme._tcp.orders.test,\($0),7000,1,1" }
                    + hosts.enumerated().map { "--host-record=\($1),10.9.1.\($0 + 1)" }
            )
            defer { server.stop() }
            let list = try await first(of: .srv("_acme._tcp.orders.test") { server.search($0) }, on: server).get()
            #expect(Set(list.map { $0.metadata["target"] }) == Set(hosts))
            #expect(Set(list.map(\.endpoint)).count == 200)
        }

        @Test func missingServicesAreErrors() async throws {
            let server = try await Dnsmasq.start([
                "--srv-host=_none._tcp.orders.test", "--host-record=a.orders.test,10.9.0.1",
                "--srv-host=_lost._tcp.orders.test,lost.orders.test,7000,1,1",
            ])
            defer { server.stop() }
            for (name, reason) in [
                ("_none._tcp.orders.test", "the service is not available"),
                ("_nobody._tcp.orders.test", "the name does not exist"),
                ("a.orders.test", "the name has no SRV records"),
                ("_lost._tcp.orders.test", "resolving lost.orders.test."),
            ] {
                let message = message(of: try await first(of: .srv(name) { server.search($0) }, on: server))
                #expect(message.contains(reason), "\(message)")
            }
        }

        @Test func addressesOfBothFamiliesAreFound() async throws {
            let server = try await Dnsmasq.start([
                "--host-record=many.orders.test,10.9.0.1,fd00::1", "--host-record=many.orders.test,10.9.0.2",
                "--host-record=four.orders.test,10.9.0.3",
            ])
            defer { server.stop() }
            let many = try await first(of: .dns("tls://many.orders.test:7000"), on: server).get()
            let endpoints: Set<Endpoint> = ["tls://[fd00::1]:7000", "tls://10.9.0.1:7000", "tls://10.9.0.2:7000"]
            #expect(Set(many.map(\.endpoint)) == endpoints && many.first?.endpoint == "tls://[fd00::1]:7000")
            #expect(many.allSatisfy { $0.serverName == "many.orders.test" })
            // One family has no addresses, which the system reports as a failure.
            let four = try await first(of: .dns("four.orders.test:7000"), on: server).get()
            #expect(four.map(\.endpoint) == ["10.9.0.3:7000"])
            let message = message(of: try await first(of: .dns("nobody.orders.test:7000"), on: server))
            #expect(message.hasPrefix("resolving nobody.orders.test: "), "\(message)")
        }

        @Test func aClusterSendsToServersFromRecords() async throws {
            try await withLoopbackServer(speaking: .standard) { one in
                try await withLoopbackServer(speaking: .standard) { two in
                    let server = try await Dnsmasq.start(
                        [one, two].map {
                            "--srv-host=_acme._tcp.orders.test,a.orders.test,\($0.endpoint.port ?? 0),1,1"
                        }
                            + ["--host-record=a.orders.test,127.0.0.1"]
                    )
                    defer { server.stop() }
                    let discovery = Discovery.srv("_acme._tcp.orders.test") { server.search($0) }
                    let change: (inout ClusterOptions) -> Void = { $0.balancing = .roundRobin }
                    try await withCluster(
                        discovering: discovery,
                        speaking: .standard,
                        on: server.loops,
                        changing: change
                    ) { cluster in
                        for number in 0..<1000 {
                            let body = Bytes("\(number)")
                            let reply = try await cluster.send(Request(type: 0x410, body: body))
                            #expect(reply.body == body)
                            if await one.journal.requestCount > 0, await two.journal.requestCount > 0 { return }
                        }
                        Issue.record("one of the servers received no request")
                    }
                }
            }
        }

        // MARK: A list that changes

        /// The answer changes from three to six addresses. The cluster asks again when a link is lost, but at least 5 s
        /// after the last answer. Otherwise it asks again after 24 s to 36 s.
        @Test(.enabled(if: ServerProcess.isAvailable("redis-server"), "redis-server is not installed"))
        func aClusterUsesServersThatAppearUnderLoad() async throws {
            let addresses = (2...7).map { "127.0.0.\($0)" }
            let (redis, port) = try await ServerProcess.atFreePort { port in
                var servers: [ServerProcess] = []
                for address in addresses { servers.append(try await Self.redis(address, port)) }
                return (servers, port)
            }
            defer { for server in redis { server.stop() } }
            let server = try await Dnsmasq.start([])
            defer { server.stop() }
            try server.addHosts(Array(addresses[..<3]), of: "redis.test")
            let discovery = Discovery.dns(.host("redis.test", port: port))
            // On a busy machine one of them may be slow, and must keep its keys.
            // A server that is connected again after more than 10 s would get its keys little by little.
            let options = { (options: inout ClusterOptions) in
                options.ejection = nil
                options.slowStart = .zero
            }
            try await withCluster(
                discovering: discovery,
                speaking: RESPCodec(version: 2),
                on: server.loops,
                changing: options
            ) {
                try await Self.waitForServers(3, in: $0)
                let before = try await Self.homes(in: $0)
                #expect(Set(before.values) == Set(addresses[..<3]))
                let began = ContinuousClock.now
                try await Self.whileCallersRead($0) { seen in
                    try server.addHosts(Array(addresses[3...]), of: "redis.test")
                    await redis[0].kill()
                    try await redis[0].start()
                    while seen.withLock({ $0.count }) < 6 { try await Task.sleep(for: .milliseconds(10)) }
                }
                print("Cluster by DNS: six servers took requests after \(milliseconds(.now - began))")
                try await Self.waitForServers(6, in: $0)
                let after = try await Self.homes(in: $0)
                let moved = before.filter { after[$0.key] != $0.value }
                #expect(moved.keys.allSatisfy { addresses[3...].contains(after[$0] ?? "") })
                print("Cluster by DNS: \(moved.count) of \(before.count) keys moved")
                // Half of them, on average. The shares of six servers differ by about 8 %.
                #expect(Set(after.values) == Set(addresses) && moved.count < before.count * 3 / 4)
            }
        }

        private static func redis(_ address: String, _ port: UInt16) async throws -> ServerProcess {
            try await ServerProcess("redis-server") { socketPath in
                [
                    "--bind", address, "--port", "\(port)", "--unixsocket", socketPath, "--save", "", "--appendonly",
                    "no", "--protected-mode", "no", "--loglevel", "warning", "--logfile", "\(socketPath.dropLast())log",
                ]
            }
        }

        /// The address of the server that answers.
        private static func address(
            in cluster: Cluster,
            key: RoutingKey? = nil
        ) async throws(ClientError) -> String {
            let options = CallOptions(timeout: .after(.seconds(60)), retry: .idempotent(tries: 10), key: key)
            let reply = try await cluster.send(Command("CONFIG", "GET", "bind"), options: options)
            return reply.elements.last?.text ?? ""
        }

        private static func waitForServers(_ count: Int, in cluster: Cluster) async throws {
            try await cluster.connect()
            while await cluster.metrics.servers.count(where: { $0.state == .serving }) < count {
                try await Task.sleep(for: .milliseconds(10))
            }
        }

        /// The address of the server of each of 300 keys. No other requests are in flight, so no server has more than
        /// its share.
        private static func homes(in cluster: Cluster) async throws -> [String: String] {
            var homes: [String: String] = [:]
            for number in 0..<300 {
                homes["key-\(number)"] = try await address(in: cluster, key: RoutingKey("key-\(number)"))
            }
            return homes
        }

        /// Runs `body` while callers send requests, and tells it the addresses of the servers that have answered.
        private static func whileCallersRead(
            _ cluster: Cluster,
            _ body: nonisolated(nonsending) (Lock<Set<String>>) async throws -> Void
        ) async throws {
            let (seen, isOver) = (Lock(Set<String>()), Lock(false))
            try await withThrowingTaskGroup { group in
                for _ in 0..<4 {
                    group.addTask {
                        while !isOver.withLock({ $0 }) {
                            let address = try await address(in: cluster)
                            seen.withLock { _ = $0.insert(address) }
                            try await Task.sleep(for: .milliseconds(5))
                        }
                    }
                }
                defer { isOver.withLock { $0 = true } }
                try await body(seen)
            }
        }
    }
#endif
