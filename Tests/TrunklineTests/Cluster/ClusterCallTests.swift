import Synchronization
import Testing

@testable import TrunklineCluster
@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts
@testable import TrunklineLoopback
@testable import TrunklineTesting

/// The calls of a cluster, in simulated networks: each of them does what that of a client does.
@Suite(.simulated)
struct ClusterCallTests {}

extension ClusterCallTests {
    private static let request = Request(type: 0x402, body: "hello")

    /// Starts servers named s0, s1, … that react as `reaction` says.
    private static func start(
        _ count: Int,
        in network: SimulatedNetwork,
        answering reaction: @escaping @Sendable (Int, Frame) -> Reaction = { number, _ in .reply(Bytes("s\(number)")) }
    ) async throws -> [LoopbackServer] {
        var servers: [LoopbackServer] = []
        for number in 0..<count {
            let server = try await network.startServer(
                at: Endpoint(stringLiteral: "s\(number):7000"),
                speaking: .standard
            ) { reaction(number, $0) }
            servers.append(server)
        }
        return servers
    }

    private static func cluster(
        of servers: [LoopbackServer],
        in network: SimulatedNetwork,
        options: ClientOptions = ClientOptions(),
        _ change: @Sendable (inout ClusterOptions) -> Void = { _ in }
    ) -> Cluster {
        let found = servers.map { ClusterEndpoint($0.endpoint) }
        return Cluster(
            discovering: .static(found),
            speaking: .standard,
            options: options,
            on: network.loops,
            change
        )
    }

    private static func run(
        seed: UInt64 = 1,
        _ body: @escaping @Sendable (SimulatedNetwork) async throws -> Void
    ) async throws {
        let network = SimulatedNetwork(seed: seed)
        try await network.run { try await body(network) }
        #expect(network.openLinks == 0)
    }

    @Test func codeThatTakesASenderTakesAClientAndACluster() async throws {
        @Sendable func ask(_ sender: some RequestSender) async throws -> [String] {
            var bodies = [String(try await sender.send(Self.request).body)]
            bodies += try await sender.send(all: [Self.request, Self.request]).map { String(try $0.get().body) }
            bodies.append(String(try await sender.start(Self.request).value.body))
            for try await part in sender.stream(Self.request) { bodies.append(String(part.body)) }
            try await sender.post(Request(type: 0x410, body: "message"))
            return bodies
        }
        try await Self.run { network in
            let servers = try await Self.start(1, in: network)
            let client = Client(to: servers[0].endpoint, speaking: .standard, on: network.loops)
            let cluster = Self.cluster(of: servers, in: network)
            let expected = Array(repeating: "s0", count: 5)
            #expect(try await ask(client) == expected)
            #expect(try await ask(cluster) == expected)
            await client.close()
            await cluster.close()
            await servers[0].stop()
        }
    }

    @Test func requestsWithOneKeyGoToOneServer() async throws {
        try await Self.run { network in
            let servers = try await Self.start(5, in: network)
            let cluster = Self.cluster(of: servers, in: network)
            try await cluster.connect()
            try await network.clock.sleep(for: .seconds(1))
            var homes: [Int: Set<String>] = [:]
            for round in 0..<20 {
                let key = round % 10
                homes[key, default: []].insert(String(try await cluster.send(Self.request, key: key).body))
            }
            #expect(homes.values.allSatisfy { $0.count == 1 }, "\(homes)")
            #expect(Set(homes.values).count > 1)
            await cluster.close()
            for server in servers { await server.stop() }
        }
    }

    @Test func aBatchIsSpreadOverTheServers() async throws {
        try await Self.run { network in
            let servers = try await Self.start(4, in: network)
            let cluster = Self.cluster(of: servers, in: network)
            try await cluster.connect()
            try await network.clock.sleep(for: .seconds(1))
            let results = await cluster.send(all: Array(repeating: Self.request, count: 256))
            let names = try results.map { String(try $0.get().body) }
            #expect(names.count == 256)
            #expect(Set(names).count > 1)
            await cluster.close()
            for server in servers { await server.stop() }
        }
    }

    @Test func aSecondCopyOvertakesASlowServer() async throws {
        try await Self.run { network in
            let servers = try await Self.start(2, in: network) { number, request in
                number == 0 && request.body == "hello" ? .after(.seconds(5), .reply("s0")) : .reply(Bytes("s\(number)"))
            }
            let cluster = Self.cluster(of: servers, in: network) { $0.hedgeBudget = 1 }
            try await cluster.connect()
            try await network.clock.sleep(for: .seconds(1))
            for _ in 0..<10 {
                let response = try await cluster.send(Self.request, hedge: .after(.milliseconds(20)))
                #expect(response.body == "s1")
            }
            #expect(await cluster.metrics.hedges > 0)
            try await network.clock.sleep(for: .seconds(1))
            #expect(await servers[0].journal.cancelCount > 0, "the slower copy is cancelled on the wire")
            await cluster.close()
            for server in servers { await server.stop() }
        }
    }

    @Test func aStreamWaitsForAServerAndStaysWithIt() async throws {
        try await Self.run { network in
            let servers = try await Self.start(2, in: network) { number, _ in
                .parts(["\(number)a", "\(number)b"], every: .milliseconds(10), then: .reply(Bytes("\(number)c")))
            }
            let cluster = Self.cluster(of: servers, in: network)
            var bodies: [String] = []
            for try await part in cluster.stream(Request(type: 0x410, body: "rows")) {
                bodies.append(String(part.body))
            }
            #expect(bodies == ["0a", "0b", "0c"] || bodies == ["1a", "1b", "1c"], "\(bodies)")
            await cluster.close()
            for server in servers { await server.stop() }
        }
    }

    @Test func aHandleCancelsItsRequest() async throws {
        try await Self.run { network in
            let servers = try await Self.start(1, in: network) { _, _ in .noReply }
            let cluster = Self.cluster(of: servers, in: network)
            try await cluster.connect()
            let handle = cluster.start(Self.request)
            try await network.clock.sleep(for: .milliseconds(100))
            #expect(handle.state == .written)
            handle.cancel()
            let error = await #expect(throws: ClientError.self) { try await handle.value }
            #expect(error?.code == .cancelled)
            #expect(handle.state == .cancelled)
            await cluster.close()
            await servers[0].stop()
        }
    }

    @Test func closingWaitsForRequestsAndRefusesNewOnes() async throws {
        try await Self.run { network in
            let servers = try await Self.start(2, in: network) { _, _ in .after(.seconds(1), .reply("late")) }
            let cluster = Self.cluster(of: servers, in: network)
            try await cluster.connect()
            async let response = cluster.send(Self.request)
            try await network.clock.sleep(for: .milliseconds(100))
            async let closing: Void = cluster.close()
            try await network.clock.sleep(for: .milliseconds(100))
            let refused = await #expect(throws: ClientError.self) { try await cluster.send(Self.request) }
            #expect(refused?.code == .closed)
            #expect(try await response.body == "late")
            await closing
            for server in servers { await server.stop() }
        }
    }

    @Test func closingEndsCallsThatWaitForAServer() async throws {
        try await Self.run { network in
            let cluster = Cluster(discovering: .static(["nowhere:7000"]), speaking: .standard, on: network.loops)
            async let response = cluster.send(Self.request, timeout: .never)
            try await network.clock.sleep(for: .seconds(1))
            await cluster.closeNow()
            do {
                _ = try await response
                Issue.record("there is no server")
            } catch {
                #expect((error as? ClientError)?.code == .closed)
                #expect((error as? ClientError)?.fate == .notSent)
            }
        }
    }

    @Test func aClusterThatIsDeallocatedClosesItsLinks() async throws {
        try await Self.run { network in
            let servers = try await Self.start(3, in: network)
            do {
                let cluster = Self.cluster(of: servers, in: network)
                _ = try await cluster.send(Self.request)
                try await network.clock.sleep(for: .seconds(1))
            }
            for server in servers { try await server.waitForConnections(0, within: .seconds(5)) }
            for server in servers { await server.stop() }
        }
    }

    @Test func pushesNameTheirServer() async throws {
        try await Self.run { network in
            let servers = try await Self.start(3, in: network)
            let cluster = Self.cluster(of: servers, in: network)
            let pushes = cluster.pushes(ofType: 2)
            try await cluster.connect()
            try await network.clock.sleep(for: .seconds(1))
            for server in servers { try await server.push(Frame(.push, type: 2, body: "news")) }
            var sources: Set<Endpoint> = []
            for await message in pushes.messages.prefix(3) {
                if let endpoint = message.endpoint { sources.insert(endpoint) }
            }
            #expect(sources == Set(servers.map(\.endpoint)))
            await cluster.close()
            for await push in pushes { Issue.record("unexpected \(push)") }
            for server in servers { await server.stop() }
        }
    }

    @Test func anInvalidTimeoutIsRefused() async throws {
        try await Self.run { network in
            let servers = try await Self.start(1, in: network)
            let cluster = Self.cluster(of: servers, in: network)
            for timeout in [Timeout.seconds(0), .seconds(-1)] {
                let error = await #expect(throws: ClientError.self) {
                    try await cluster.send(Self.request, timeout: timeout, options: CallOptions(retry: .idempotent()))
                }
                #expect(error?.code == .timedOut)
                #expect(error?.fate == .notSent)
            }
            await cluster.close()
            await servers[0].stop()
        }
    }

    // MARK: Counting

    /// A batch of messages was one call, and its failures were one.
    @Test func eachMessageOfABatchIsCounted() async throws {
        try await Self.run { network in
            let servers = try await Self.start(2, in: network)
            let cluster = Self.cluster(of: servers, in: network)
            let message = Request(type: 0x410, body: "message")
            let early = await cluster.post(all: [message, message], options: CallOptions(waitsForReady: false))
            #expect(early.count == 2 && early.allSatisfy { if case .failure = $0 { true } else { false } })
            try await cluster.connect()
            let sent = await cluster.post(all: Array(repeating: message, count: 100))
            for result in sent { try result.get() }
            #expect(await cluster.post(all: []).isEmpty)
            try await network.clock.sleep(for: .seconds(1))
            var metrics = await cluster.metrics
            #expect(metrics.calls == 102 && metrics.written == 100)
            #expect(metrics.failures == [ClientMetrics.Failure(.unavailable, .notSent): 2])
            // Each of them takes too long.
            for server in servers { network.partition(server.endpoint.host ?? "") }
            let large = Request(type: 0x410, body: filled(1 << 20))
            let late = await cluster.post(all: [large, large, large], timeout: .milliseconds(100))
            #expect(late.count == 3 && late.allSatisfy { if case .failure = $0 { true } else { false } })
            metrics = await cluster.metrics
            #expect(metrics.calls == 105 && metrics.failures.values.reduce(0, +) == 5, "\(metrics.failures)")
            await cluster.closeNow()
            for server in servers { await server.stop() }
        }
    }

    /// Messages that were not sent failed, although there was another server.
    @Test func messagesThatWereNotSentGoToAnotherServer() async throws {
        for seed in 0..<10 as Range<UInt64> {
            try await Self.run(seed: seed) { network in
                let servers = try await Self.start(2, in: network)
                let options = ClientOptions {
                    $0.reconnecting.policy = Backoff(base: .milliseconds(1), cap: .milliseconds(10))
                }
                let cluster = Self.cluster(of: servers, in: network, options: options)
                try await cluster.connect()
                try await network.clock.sleep(for: .seconds(1))
                let message = Request(type: 0x410, body: "message")
                var results: [Result<Void, ClientError>] = []
                for round in 0..<20 {
                    let index = round % 2
                    async let sent = cluster.post(all: Array(repeating: message, count: 10))
                    network.reset("s\(index)")
                    results += await sent
                    try await network.clock.sleep(for: .seconds(1))
                }
                for case .failure(let error) in results { #expect(error.fate == .unknown, "\(error)") }
                #expect(await cluster.metrics.calls == 200)
                await cluster.close()
                for server in servers { await server.stop() }
            }
        }
    }

    /// The reader got `timedOut`, and the cluster counted `cancelled`.
    @Test func aStreamThatNoServerTakesFailsOnceAndForOneReason() async throws {
        try await Self.run { network in
            let servers = try await Self.start(1, in: network)
            await servers[0].kill()
            let cluster = Self.cluster(of: servers, in: network)
            for _ in 0..<10 {
                let error = await failure { () throws(ClientError) in
                    for try await _ in cluster.stream(Self.request, partTimeout: .milliseconds(100)) {}
                }
                #expect(error?.code == .timedOut && error?.fate == .notSent)
            }
            try await network.clock.sleep(for: .seconds(1))
            let metrics = await cluster.metrics
            #expect(metrics.failures == [ClientMetrics.Failure(.timedOut, .notSent): 10], "\(metrics.failures)")
            await cluster.close()
            await servers[0].stop()
        }
    }

    /// Each error had the causes of all servers: 46 KiB for 1,000.
    @Test func anErrorNamesTheCausesOfSomeServers() async throws {
        try await Self.run { network in
            let found = (0..<300).map { ClusterEndpoint(.host("s\($0)", port: 7000)) }
            for number in 0..<300 { network.refuseConnections(to: "s\(number)") }
            let cluster = Cluster(discovering: .static(found), speaking: .standard, on: network.loops)
            let error = await failure { () throws(ClientError) in
                try await cluster.send(Self.request, timeout: .seconds(2))
            }
            #expect(error?.attempts.count == 8)
            let text = "\(error!)"
            #expect(text.contains("none of the 300 servers is ready") && text.contains("s7:7000: "), "\(text)")
            #expect(text.contains("; and 292 other servers") && !text.contains("s8:7000"), "\(text)")
            await cluster.close()
        }
    }

    // MARK: Adaptive limits

    /// The highest number of requests that were at a server together.
    private final class Peak: Sendable {
        private let state = Lock((now: 0, most: 0))
        var most: Int { state.withLock { $0.most } }
        func enter() { state.withLock { ($0.now, $0.most) = ($0.now + 1, max($0.most, $0.now + 1)) } }
        func leave() { state.withLock { $0.now -= 1 } }

        func reaction(_ network: SimulatedNetwork) -> Reaction {
            .perform { exchange in
                self.enter()
                try await network.clock.sleep(for: .milliseconds(100))
                self.leave()
                try await exchange.reply(Frame(.response, body: "done"))
            }
        }
    }

    /// The limit of a server grew only while one of its links carried half of it. With four links that never happened.
    @Test(arguments: [1, 4, 8])
    func theLimitOfAServerGrowsWhateverItsLinks(_ links: Int) async throws {
        try await Self.run { network in
            let peak = Peak()
            let servers = try await Self.start(1, in: network) { _, _ in peak.reaction(network) }
            let cluster = Self.cluster(of: servers, in: network) {
                ($0.adaptiveLimit, $0.linksPerEndpoint) = (4...64, links...links)
            }
            try await cluster.connect()
            try await network.clock.sleep(for: .seconds(1))
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<100 {
                    group.addTask { for _ in 0..<30 { _ = try await cluster.send(Self.request, timeout: .never) } }
                }
                try await group.waitForAll()
            }
            #expect(peak.most == 64)
            await cluster.close()
            for server in servers { await server.stop() }
        }
    }

    /// Groups of a batch looked for room at the same time, on the link that each of them had.
    @Test(arguments: [1, 3], [false, true])
    func aBatchDoesNotExceedTheLimitOfAServer(_ links: Int, hasLarge: Bool) async throws {
        try await Self.run { network in
            let peaks = [Peak(), Peak()]
            let servers = try await Self.start(2, in: network) { number, _ in peaks[number].reaction(network) }
            let cluster = Self.cluster(of: servers, in: network) {
                ($0.adaptiveLimit, $0.linksPerEndpoint) = (10...10, links...links)
            }
            try await cluster.connect()
            try await network.clock.sleep(for: .seconds(1))
            await withTaskGroup(of: Void.self) { group in
                for number in 0..<4 {
                    let options = CallOptions(isLarge: hasLarge && number % 2 == 0)
                    group.addTask {
                        let requests = Array(repeating: Self.request, count: 80)
                        let results = await cluster.send(all: requests, timeout: .never, options: options)
                        for case .failure(let error) in results { Issue.record("\(error)") }
                    }
                }
            }
            #expect(peaks.map(\.most) == [10, 10])
            await cluster.close()
            for server in servers { await server.stop() }
        }
    }

    /// A batch kept the place in the line that it had when it waited first, and took all places of the server again and
    /// again.
    @Test func aBatchDoesNotCutTheLine() async throws {
        try await Self.run { network in
            let peak = Peak()
            let servers = try await Self.start(1, in: network) { _, _ in peak.reaction(network) }
            let cluster = Self.cluster(of: servers, in: network) { $0.adaptiveLimit = 10...10 }
            try await cluster.connect()
            try await network.clock.sleep(for: .seconds(1))
            async let first = cluster.send(Self.request)
            async let results = cluster.send(all: Array(repeating: Self.request, count: 1000), timeout: .never)
            try await network.clock.sleep(for: .milliseconds(50))
            let began = network.clock.now
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<20 { group.addTask { _ = try await cluster.send(Self.request, timeout: .never) } }
                try await group.waitForAll()
            }
            // Three rounds of 100 ms are enough for 20 calls and their share of the batch.
            #expect(began.duration(to: network.clock.now) < .milliseconds(500))
            for case .failure(let error) in await results { Issue.record("\(error)") }
            _ = try await first
            await cluster.close()
            await servers[0].stop()
        }
    }

    // MARK: Weights

    /// Infinite weights gave sums that are not numbers, and one server all requests.
    @Test(arguments: [.infinity, -.infinity, .nan, -1, 1e308, 1e-9, 1_000_001])
    func aListWithAWeightThatCannotBeUsedIsRefused(_ weight: Double) async throws {
        try await Self.run { network in
            let servers = try await Self.start(2, in: network)
            let lists = ClusterLists()
            let cluster = Cluster(discovering: Discovery(lists), speaking: .standard, on: network.loops)
            lists.found(servers.map { ClusterEndpoint($0.endpoint, weight: weight) })
            let error = await failure { () throws(ClientError) in
                try await cluster.send(Self.request, timeout: .seconds(1))
            }
            #expect("\(error!)".contains("the weight of s0:7000 is"), "\(error!)")
            for good in [0, 1e-6, 1, 1e6] {
                lists.found(servers.map { ClusterEndpoint($0.endpoint, weight: good) })
                try await network.clock.sleep(for: .seconds(1))
                #expect(await cluster.metrics.discoveryOutage == .zero)
                for _ in 0..<10 { _ = try await cluster.send(Self.request) }
            }
            // The last list stays in use.
            lists.found([ClusterEndpoint(servers[0].endpoint, weight: weight)])
            try await network.clock.sleep(for: .seconds(1))
            let metrics = await cluster.metrics
            #expect(metrics.servers.count == 2 && metrics.discoveryFailures == 2)
            await cluster.close()
            for server in servers { await server.stop() }
        }
    }
}
