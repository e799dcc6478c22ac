import Synchronization
import Testing
import TrunklineTesting

@testable import Trunkline

/// The calls of a cluster, in simulated networks: each of them does what that of a client does.
@Suite(.simulated)
struct ClusterCallTests {
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
}
