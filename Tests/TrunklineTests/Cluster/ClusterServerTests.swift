import Synchronization
import Testing

@testable import TrunklineCluster
@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts
@testable import TrunklineLogging
@testable import TrunklineLoopback
@testable import TrunklineTesting

/// The servers of a cluster, in simulated networks: who is used, who is left out, and what is told about it.
@Suite(.simulated)
struct ClusterServerTests {}

extension ClusterServerTests {
    private static let request = Request(type: 0x410, body: "hello")

    /// A protocol with error responses.
    private static let codec = FrameLayout {
        Field.type(UInt16.self)
        Field.serial(UInt32.self)
        Field.status(UInt16.self)
        Field.length(UInt32.self, counting: .body)
        Field.body
    }
    .roles { $0.push = .types(2...2) }

    private static func endpoint(_ number: Int) -> Endpoint { Endpoint(stringLiteral: "s\(number):7000") }

    @Test func aServerThatFailsIsLeftOutProbedAndUsedAgain() async throws {
        let network = SimulatedNetwork(seed: 1)
        let lines = Lock<[LogRecord]>([])
        try await network.run {
            let isBroken = Lock(true)
            var servers: [LoopbackServer] = []
            for number in 0..<3 {
                let server = try await network.startServer(at: Self.endpoint(number), speaking: Self.codec) { _ in
                    number == 0 && isBroken.withLock { $0 } ? .status(500) : .reply(Bytes("s\(number)"))
                }
                servers.append(server)
            }
            let found = servers.map { ClusterEndpoint($0.endpoint) }
            let options = ClientOptions { $0.logging = ClientLogging { line in lines.withLock { $0.append(line) } } }
            let cluster = Cluster(
                discovering: .static(found),
                speaking: Self.codec,
                options: options,
                on: network.loops
            ) {
                $0.balancing = .roundRobin
                $0.isFailure = { $0.status >= 500 }
            }
            try await cluster.connect()
            try await network.clock.sleep(for: .seconds(1))
            var failures = 0
            for _ in 0..<60 { do { _ = try await cluster.send(Self.request) } catch { failures += 1 } }
            #expect(failures == 5, "the fifth failure in a row ejects the server")
            #expect(await cluster.metrics.servers.map(\.state) == [.ejected, .serving, .serving])
            isBroken.withLock { $0 = false }
            try await network.clock.sleep(for: .seconds(40))
            for _ in 0..<60 { _ = try await cluster.send(Self.request) }
            try await network.clock.sleep(for: .seconds(20))
            #expect(await cluster.metrics.servers.map(\.state) == [.serving, .serving, .serving])
            let before = await servers[0].journal.requestCount
            for _ in 0..<60 { _ = try await cluster.send(Self.request) }
            #expect(await servers[0].journal.requestCount - before == 20)
            await cluster.close()
            for server in servers { await server.stop() }
        }
        let events = lines.withLock { $0.map(\.event) }
        #expect(events.filter { $0 == "server.ejected" }.count == 1)
        #expect(events.filter { $0 == "server.returned" }.count == 1)
        #expect(events.first == "cluster.created" && events.last == "cluster.closed", "\(events)")
        #expect(!events.contains("client.ready"), "the clients of a healthy cluster say nothing")
    }

    @Test func aServerThatIsRemovedFinishesItsRequests() async throws {
        let network = SimulatedNetwork(seed: 1)
        try await network.run {
            var servers: [LoopbackServer] = []
            for number in 0..<2 {
                let server = try await network.startServer(at: Self.endpoint(number), speaking: Self.codec) { _ in
                    .after(.seconds(2), .reply(Bytes("s\(number)")))
                }
                servers.append(server)
            }
            let (lists, list) = AsyncStream.makeStream(of: [ClusterEndpoint].self)
            list.yield([ClusterEndpoint(servers[0].endpoint)])
            let cluster = Cluster(discovering: Discovery(lists), speaking: Self.codec, on: network.loops)
            async let old = cluster.send(Self.request)
            try await network.clock.sleep(for: .seconds(1))
            list.yield([ClusterEndpoint(servers[1].endpoint)])
            try await network.clock.sleep(for: .milliseconds(100))
            async let new = cluster.send(Self.request)
            #expect(try await old.body == "s0")
            #expect(try await new.body == "s1")
            try await servers[0].waitForConnections(0, within: .seconds(5))
            let metrics = await cluster.metrics
            #expect(metrics.servers.map(\.endpoint) == [servers[1].endpoint])
            #expect(metrics.responses == 2, "the responses of the removed server are counted")
            await cluster.close()
            for server in servers { await server.stop() }
        }
    }

    /// When all servers are replaced at once, the old ones serve until a new one is ready.
    @Test func aReplacedListCausesNoPause() async throws {
        let network = SimulatedNetwork(seed: 1)
        try await network.run {
            var servers: [LoopbackServer] = []
            for number in 0..<2 {
                servers.append(
                    try await network.startServer(at: Self.endpoint(number), speaking: Self.codec) { _ in
                        .reply(Bytes("s\(number)"))
                    }
                )
            }
            network.refuseConnections(to: "s1")
            let lists = ClusterLists()
            lists.found([ClusterEndpoint(servers[0].endpoint)])
            let cluster = Cluster(discovering: Discovery(lists), speaking: Self.codec, on: network.loops)
            try await cluster.connect()
            var endpoints = cluster.endpoints.makeAsyncIterator()
            #expect(await endpoints.next()?.map(\.endpoint) == [servers[0].endpoint])
            lists.found([ClusterEndpoint(servers[1].endpoint)])
            #expect(await endpoints.next()?.map(\.endpoint) == [servers[1].endpoint])
            var answers: [String] = []
            for round in 0..<200 {
                if round == 50 { network.acceptConnections(to: "s1") }
                answers.append(String(try await cluster.send(Self.request, timeout: .milliseconds(50)).body))
                try await network.clock.sleep(for: .milliseconds(100))
            }
            #expect(answers.first == "s0" && answers.last == "s1")
            #expect(await cluster.metrics.servers.map(\.endpoint) == [servers[1].endpoint])
            await cluster.close()
            for server in servers { await server.stop() }
        }
        #expect(network.openLinks == 0)
    }

    @Test func requestsThatAreLostTogetherAreOneFailure() async throws {
        let network = SimulatedNetwork(seed: 1)
        try await network.run {
            var servers: [LoopbackServer] = []
            for number in 0..<2 {
                servers.append(
                    try await network.startServer(at: Self.endpoint(number), speaking: Self.codec) { _ in
                        .after(.seconds(1), .echo)
                    }
                )
            }
            let found = servers.map { ClusterEndpoint($0.endpoint) }
            let cluster = Cluster(discovering: .static(found), speaking: Self.codec, on: network.loops)
            try await cluster.connect()
            try await network.clock.sleep(for: .seconds(1))
            let calls = (0..<40).map { _ in cluster.start(Self.request) }
            try await network.clock.sleep(for: .milliseconds(500))
            network.reset("s0")
            var lost = 0
            for call in calls { do { _ = try await call.value } catch { lost += 1 } }
            #expect(lost >= 10)
            try await network.clock.sleep(for: .seconds(2))
            #expect(await cluster.metrics.servers.map(\.state) == [.serving, .serving])
            await cluster.close()
            for server in servers { await server.stop() }
        }
    }

    /// `close()` ended the discovery, and calls that waited for it.
    @Test func closingLetsTheFirstCallsFinish() async throws {
        let network = SimulatedNetwork(seed: 1)
        try await network.run {
            let server = try await network.startServer(at: Self.endpoint(0), speaking: Self.codec) { _ in .echo }
            let cluster = Cluster(
                discovering: .static([ClusterEndpoint(server.endpoint)]),
                speaking: Self.codec,
                on: network.loops
            )
            let calls = (0..<10).map { _ in cluster.start(Self.request) }
            async let connecting: Void = cluster.connect()
            try await network.clock.sleep(for: .microseconds(1))
            await cluster.close()
            for call in calls { #expect(try await call.value.body == "hello") }
            do {
                try await connecting
                Issue.record("there was no server")
            } catch let error as ClientError {
                #expect(error.code == .closed)
            }
            await server.stop()
        }
        #expect(network.openLinks == 0)
        #expect(network.loop.timers.armedCount == 0)
    }

    /// Links that are closed, because they were idle or because the server left the list, keep their counts.
    @Test func countsOfAServerNeverDecrease() async throws {
        let network = SimulatedNetwork(seed: 1)
        try await network.run {
            let server = try await network.startServer(at: Self.endpoint(0), speaking: Self.codec) { _ in
                .after(.seconds(1), .reply("s0"))
            }
            let (lists, list) = AsyncStream.makeStream(of: [ClusterEndpoint].self)
            list.yield([ClusterEndpoint(server.endpoint)])
            let cluster = Cluster(
                discovering: Discovery(lists),
                speaking: Self.codec,
                options: ClientOptions { $0.requests.maximumInFlight = 1 },
                on: network.loops
            ) { ($0.linksPerEndpoint, $0.linkIdleTime) = (1...3, .seconds(1)) }
            try await cluster.connect()
            var (latest, links) = (ClientMetrics(), Set<Int>())
            /// Reads the metrics of the server again and again for `seconds`.
            func watch(for seconds: Int) async throws {
                for _ in 0..<(10 * seconds) {
                    try await network.clock.sleep(for: .milliseconds(100))
                    let metrics = try #require(await cluster.metrics.servers.first)
                    let (total, connection) = (metrics.total, metrics.total.connection)
                    links.insert(metrics.links)
                    #expect(total.requests >= latest.requests && total.responses >= latest.responses)
                    #expect(total.callDurations.count >= latest.callDurations.count)
                    #expect(connection.bytesSent >= latest.connection.bytesSent)
                    #expect(connection.links >= latest.connection.links)
                    #expect(total.requests == total.responses + total.written + total.failed + total.pending)
                    #expect(connection.stateCounts.values.reduce(0, +) >= metrics.links)
                    latest = total
                }
            }
            for _ in 0..<3 {
                var calls: [PendingRequest<Response>] = []
                for _ in 0..<8 {
                    calls.append(cluster.start(Self.request))
                    try await network.clock.sleep(for: .milliseconds(50))
                }
                try await watch(for: 10)
                for call in calls { _ = try await call.value }
                try await watch(for: 20)
            }
            #expect(links.isSuperset(of: [1, 3]) && latest.responses == 24 && latest.pending == 0)
            #expect(latest.connection.links > 3 && latest.connection.losses == [.closedLocally: 6])
            #expect(latest.connection.stateCounts == ["ready": 1])
            // Found again, the server begins with zero. The cluster still counts what it did before.
            let other = try await network.startServer(at: Self.endpoint(1), speaking: Self.codec) { _ in .reply("s1") }
            for endpoint in [other.endpoint, server.endpoint] {
                list.yield([ClusterEndpoint(endpoint)])
                try await network.clock.sleep(for: .seconds(5))
                let metrics = await cluster.metrics
                #expect(metrics.servers.map(\.total.responses) == [0] && metrics.responses == 24)
            }
            await cluster.close()
            await server.stop()
            await other.stop()
        }
    }

    /// So that the last report of an exporter has all counts.
    @Test func theLastMetricsContainTheServers() async throws {
        let network = SimulatedNetwork(seed: 1)
        try await network.run {
            let server = try await network.startServer(at: Self.endpoint(0), speaking: Self.codec) { _ in .reply("s0") }
            let found = [ClusterEndpoint(server.endpoint)]
            let cluster = Cluster(discovering: .static(found), speaking: Self.codec, on: network.loops)
            _ = try await cluster.send(Self.request)
            let before = await cluster.metrics
            await cluster.close()
            let metrics = await cluster.metrics
            let last = try #require(metrics.servers.first)
            #expect(metrics.servers.count == 1 && metrics.responses == 1 && last.total.responses == 1)
            #expect(before.servers.first?.state == .serving && before.servers.first?.links == 1)
            #expect(last.state == .connecting && last.links == 0 && last.inFlight == 0)
            #expect(last.total.connection.stateCounts == ["closed": 1] && last.total.connection.link == nil)
            await server.stop()
        }
    }

    @Test func anEmptyListAndAnErrorKeepTheLastList() async throws {
        struct Broken: Error {}
        let network = SimulatedNetwork(seed: 1)
        try await network.run {
            let server = try await network.startServer(at: Self.endpoint(0), speaking: Self.codec) { _ in .reply("s0") }
            let (lists, list) = AsyncThrowingStream.makeStream(of: [ClusterEndpoint].self)
            list.yield([ClusterEndpoint(server.endpoint)])
            let cluster = Cluster(discovering: Discovery(lists), speaking: Self.codec, on: network.loops)
            let changes = cluster.changes
            _ = try await cluster.send(Self.request)
            list.yield([])
            try await network.clock.sleep(for: .seconds(1))
            _ = try await cluster.send(Self.request)
            list.finish(throwing: Broken())
            try await network.clock.sleep(for: .seconds(1))
            _ = try await cluster.send(Self.request)
            await cluster.close()
            var errors: [String] = []
            for await case .discoveryFailed(let error) in changes { errors.append("\(error)") }
            // The sequence is iterated again after a back-off, and throws again.
            #expect(errors.first == "the discovery found no server")
            #expect(errors.count > 1 && errors.dropFirst().allSatisfy { $0 == "Broken()" }, "\(errors)")
            await server.stop()
        }
    }

    /// Nothing showed for how long a discovery had failed, and nothing told that it worked again.
    @Test func anOutageOfTheDiscoveryIsMeasured() async throws {
        let network = SimulatedNetwork(seed: 1)
        try await network.run {
            let server = try await network.startServer(at: "10.1.0.1:7000", speaking: Self.codec) { _ in .reply("s0") }
            network.setName("orders", hosts: ["10.1.0.1"])
            let cluster = Cluster(discovering: .dns("orders:7000"), speaking: Self.codec, on: network.loops)
            let changes = cluster.changes
            _ = try await cluster.send(Self.request)
            #expect(await cluster.metrics.discoveryFailures == 0)
            network.setResolution(of: "orders", ipv6: .failure(after: .zero), ipv4: .failure(after: .zero))
            try await network.clock.sleep(for: .seconds(100))
            let during = await cluster.metrics
            #expect(during.discoveryFailures > 10)
            #expect(during.discoveryOutage > .seconds(60) && during.discoveryOutage < .seconds(80))
            _ = try await cluster.send(Self.request)
            network.setResolution(of: "orders", ipv6: .after(.zero), ipv4: .after(.zero))
            try await network.clock.sleep(for: .seconds(10))
            let after = await cluster.metrics
            #expect(after.discoveryOutage == .zero && after.discoveryFailures >= during.discoveryFailures)
            await cluster.close()
            var outages: [Duration] = []
            for await change in changes { if case .discoveryRecovered(let outage) = change { outages.append(outage) } }
            #expect(outages.count == 1 && outages.allSatisfy { $0 >= during.discoveryOutage }, "\(outages)")
            await server.stop()
        }
    }

    /// The outage of a cluster that was closed in it went on growing, and so did the alert.
    @Test(arguments: [false, true])
    func anOutageOfTheDiscoveryEndsWithTheCluster(closesNow: Bool) async throws {
        struct Broken: Error {}
        let network = SimulatedNetwork(seed: 1)
        try await network.run {
            let server = try await network.startServer(at: Self.endpoint(0), speaking: Self.codec) { _ in .reply("s0") }
            let discovery = Discovery(name: "a source that fails once") { receiver in
                receiver.found([ClusterEndpoint(server.endpoint)])
                receiver.failed(Broken())
                while !Task.isCancelled {
                    await receiver.loop.sleep(until: receiver.loop.now.advanced(by: .seconds(5)))
                }
            }
            let cluster = Cluster(discovering: discovery, speaking: Self.codec, on: network.loops)
            _ = try await cluster.send(Self.request)
            try await network.clock.sleep(for: .seconds(61))
            #expect(await cluster.metrics.discoveryOutage >= .seconds(60))
            if closesNow { await cluster.closeNow() } else { await cluster.close() }
            try await network.clock.sleep(for: .seconds(60))
            let after = await cluster.metrics
            #expect(after.discoveryOutage == .zero && after.discoveryFailures == 1)
            await server.stop()
        }
    }

    /// A list beside an error is a part of the servers: it ended the outage each time.
    @Test func aListBesideAnErrorIsNoRecovery() async throws {
        struct Partial: Error {}
        let network = SimulatedNetwork(seed: 1)
        try await network.run {
            let server = try await network.startServer(at: Self.endpoint(0), speaking: Self.codec) { _ in .reply("s0") }
            let isWhole = Lock(false)
            let discovery = Discovery(name: "a source of halves") { receiver in
                while !Task.isCancelled {
                    receiver.found([ClusterEndpoint(server.endpoint)])
                    if !isWhole.withLock({ $0 }) { receiver.failed(Partial()) }
                    await receiver.loop.sleep(until: receiver.loop.now.advanced(by: .seconds(5)))
                }
            }
            let cluster = Cluster(discovering: discovery, speaking: Self.codec, on: network.loops)
            _ = try await cluster.send(Self.request)
            try await network.clock.sleep(for: .seconds(61))
            let metrics = await cluster.metrics
            #expect(metrics.discoveryOutage >= .seconds(61) && metrics.discoveryFailures == 13)
            isWhole.withLock { $0 = true }
            try await network.clock.sleep(for: .seconds(5))
            #expect(await cluster.metrics.discoveryOutage == .zero)
            await cluster.close()
            await server.stop()
        }
    }

    @Test func aSlowServerGetsFewRequests() async throws {
        let network = SimulatedNetwork(seed: 1)
        try await network.run {
            var servers: [LoopbackServer] = []
            for number in 0..<5 {
                let delay = Duration.milliseconds(number == 0 ? 50 : 5)
                let server = try await network.startServer(at: Self.endpoint(number), speaking: Self.codec) { _ in
                    .after(delay, .reply("done"))
                }
                servers.append(server)
            }
            let found = servers.map { ClusterEndpoint($0.endpoint) }
            let cluster = Cluster(discovering: .static(found), speaking: Self.codec, on: network.loops)
            try await cluster.connect()
            try await network.clock.sleep(for: .seconds(1))
            try await withThrowingDiscardingTaskGroup { group in
                for _ in 0..<20 {
                    group.addTask { for _ in 0..<200 { _ = try await cluster.send(Self.request) } }
                }
            }
            var counts: [Int] = []
            for server in servers { counts.append(await server.journal.requestCount) }
            #expect(counts.reduce(0, +) == 4000)
            #expect(counts[0] < 400, "half of a fair share is 400: \(counts)")
            await cluster.close()
            for server in servers { await server.stop() }
        }
    }

    @Test func observersLearnTheServerOfEachEvent() async throws {
        final class Watch: ClientObserver {
            let interests: ClientEvent.Kinds = [.links, .endpoints]
            let events = Lock<[ClientEvent]>([])
            func observe(_ events: [ClientEvent]) { self.events.withLock { $0 += events } }
        }
        let (network, watch) = (SimulatedNetwork(seed: 1), Watch())
        try await network.run {
            var servers: [LoopbackServer] = []
            for number in 0..<2 {
                servers.append(
                    try await network.startServer(at: Self.endpoint(number), speaking: Self.codec) { _ in .reply("") }
                )
            }
            let cluster = Cluster(
                discovering: .static(servers.map { ClusterEndpoint($0.endpoint) }),
                speaking: Self.codec,
                options: ClientOptions { $0.observers = [watch] },
                on: network.loops
            )
            try await cluster.connect()
            try await network.clock.sleep(for: .seconds(1))
            await cluster.close()
            for server in servers { await server.stop() }
        }
        let events = watch.events.withLock { $0 }
        let ready = events.filter { $0.name == "link.ready" }.compactMap(\.server)
        #expect(Set(ready) == Set([Self.endpoint(0), Self.endpoint(1)]))
        let own = events.filter { $0.server == nil }.map(\.name)
        #expect(own == ["servers.changed", "cluster.ready"], "\(own)")
    }

    /// Regression: on a host without IPv6, the IPv6 addresses of a name were half of the servers, and counted as bad. So the
    /// first server that hung began a panic, and was used for good.
    @Test(arguments: [[1, 2, 3, 4], [1, 2], [1, 2, 3]])
    func unreachableAddressesDoNotDisableEjection(_ numbers: [Int]) async throws {
        let network = SimulatedNetwork(seed: 1)
        let lines = Lock<[LogRecord]>([])
        try await network.run {
            network.removeAddress("fd00::1", from: "eth0")
            network.setName("orders", hosts: numbers.flatMap { ["fd00::1\($0)", "10.1.0.\($0)"] })
            var servers: [LoopbackServer] = []
            for number in numbers {
                let endpoint = Endpoint.host("10.1.0.\(number)", port: 7000)
                let server = try await network.startServer(at: endpoint, speaking: Self.codec) { _ in
                    number == 1 ? .noReply : .reply("")
                }
                servers.append(server)
            }
            let options = ClientOptions { $0.logging = ClientLogging { line in lines.withLock { $0.append(line) } } }
            let cluster = Cluster(
                discovering: .dns("orders:7000"),
                speaking: Self.codec,
                options: options,
                on: network.loops
            ) { $0.balancing = .roundRobin }
            try await cluster.connect()
            try await network.clock.sleep(for: .seconds(1))
            var failures = 0
            for _ in 0..<60 {
                do { _ = try await cluster.send(Self.request, timeout: .milliseconds(100)) } catch { failures += 1 }
            }
            #expect(failures == 5, "the fifth failure in a row ejects the server")
            let states = await cluster.metrics.servers.map(\.state)
            #expect(states.count { $0 == .ejected } == 1, "\(states)")
            await cluster.close()
            for server in servers { await server.stop() }
        }
        #expect(!lines.withLock { $0.contains { $0.event == "cluster.panic" } })
    }
}
