import Testing

@testable import TrunklineCluster
@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts
@testable import TrunklineTesting

/// A cluster of simulated servers: who receives a request, and what becomes of those that fail.
@Suite(.simulated)
struct ClusterTests {}

extension ClusterTests {
    /// Runs `body` with a cluster of servers that reply with their own name.
    private func withSimulatedServers(
        _ count: Int,
        seed: UInt64 = 1,
        options: ClientOptions = ClientOptions(),
        answering reaction: @escaping @Sendable (Int, Frame) -> Reaction = { number, _ in .reply(Bytes("s\(number)")) },
        _ change: @escaping @Sendable (inout ClusterOptions) -> Void = { _ in },
        _ body: @escaping @Sendable (SimulatedNetwork, Cluster, [LoopbackServer]) async throws -> Void
    ) async throws {
        let network = SimulatedNetwork(seed: seed)
        try await network.run {
            var servers: [LoopbackServer] = []
            for number in 0..<count {
                servers.append(
                    try await network.serve(at: Endpoint(stringLiteral: "s\(number):7000"), speaking: .standard) {
                        reaction(number, $0)
                    }
                )
            }
            let found = servers.map { ClusterEndpoint(Wire.endpoint($0.endpoint)) }
            let cluster = Cluster(
                discovering: .static(found),
                speaking: .standard,
                options: Wire.client(options),
                on: network.loops,
                change
            )
            try await body(network, cluster, servers)
            await cluster.close()
            for server in servers { await server.stop() }
        }
        #expect(network.openLinks == 0)
    }

    /// The number of responses by server, of requests that are in flight together.
    private static func shares(of count: Int, of cluster: Cluster) async throws -> [String: Int] {
        try await withThrowingTaskGroup { group in
            for _ in 0..<count { group.addTask { String(try await cluster.send(request).body) } }
            return try await group.reduce(into: [:]) { $0[$1, default: 0] += 1 }
        }
    }

    private static let request = Request(type: 0x402, body: "hello")

    @Test func requestsGoToAllServers() async throws {
        try await withSimulatedServers(3) { network, cluster, servers in
            try await cluster.connect()
            try await network.clock.sleep(for: .seconds(1))
            let counts = try await Self.shares(of: 300, of: cluster)
            #expect(counts.count == 3)
            #expect(counts.values.allSatisfy { $0 > 50 }, "\(counts)")
        }
    }

    @Test func theFirstRequestWaitsForAServer() async throws {
        try await withSimulatedServers(3) { _, cluster, _ in
            let response = try await cluster.send(Self.request)
            #expect(response.body.count == 2)
        }
    }

    @Test func aLostServerCostsNoUnsentRequest() async throws {
        try await withSimulatedServers(3) { network, cluster, servers in
            try await cluster.connect()
            try await network.clock.sleep(for: .seconds(1))
            await servers[1].kill()
            try await network.clock.sleep(for: .milliseconds(10))
            for _ in 0..<200 {
                let response = try await cluster.send(Self.request)
                #expect(response.body != "s1")
            }
            try await servers[1].resumeAccepting()
            try await network.clock.sleep(for: .seconds(60))
            let counts = try await Self.shares(of: 300, of: cluster)
            #expect(counts["s1", default: 0] > 30, "\(counts)")
        }
    }

    @Test func aRequestWithoutAnyServerNamesTheCauseOfEach() async throws {
        try await withSimulatedServers(2) { network, cluster, servers in
            for server in servers { await server.kill() }
            let error = await #expect(throws: ClientError.self) {
                try await cluster.send(Self.request, timeout: .seconds(2))
            }
            #expect(error?.code == .timedOut)
            #expect(error?.fate == .notSent)
            #expect(error?.attempts.count == 2)
            #expect("\(error!)".contains("s0:7000: ") && "\(error!)".contains("s1:7000: "), "\(error!)")
            let refused = await #expect(throws: ClientError.self) {
                try await cluster.send(Self.request, options: CallOptions(waitsForReady: false))
            }
            #expect(refused?.code == .unavailable)
        }
    }

    /// `send` gave a request to a client, and a timeout of zero, or `close()` in the meantime, then ended the call before
    /// the load of the server was counted down and its probe ended. The error of a request that was sent said `notSent`.
    @Test func aPlainCallThatFailsLeavesNoLoadBehind() async throws {
        try await withSimulatedServers(
            2,
            answering: { number, _ in number == 0 ? .noReply : .after(.seconds(1), .reset) }
        ) {
            network,
            cluster,
            _ in
            try await cluster.connect()
            try await network.clock.sleep(for: .seconds(1))
            for _ in 0..<4 {
                await #expect(throws: ClientError.self) { try await cluster.send(Self.request, timeout: .after(.zero)) }
            }
            #expect(await cluster.leftLoads == [])
            await withTaskGroup(of: Void.self) { group in
                for _ in 0..<4 {
                    group.addTask {
                        let error = await #expect(throws: ClientError.self) {
                            try await cluster.send(Self.request, timeout: .seconds(2))
                        }
                        #expect(error?.fate == .unknown)
                    }
                }
                group.addTask {
                    try? await network.clock.sleep(for: .milliseconds(500))
                    await cluster.close()
                }
            }
        }
    }

    /// Each request that ended woke one waiting call. So while calls waited, there were never more requests in flight than
    /// at the beginning, although the limit grew.
    @Test func callsThatWaitUseTheRoomOfAGrowingLimit() async throws {
        try await withSimulatedServers(1, answering: { _, _ in .after(.milliseconds(100), .echo) }) {
            $0.adaptiveLimit = 1...100
        } _: { network, cluster, _ in
            try await cluster.connect()
            let began = network.clock.now
            _ = try await Self.shares(of: 200, of: cluster)
            let took = began.duration(to: network.clock.now)
            // With one request at a time it took 20 s.
            #expect(took < .seconds(4), "\(took)")
        }
    }

    /// A caller that sent its next request as soon as one had ended found the room for it before the call that was woken.
    @Test func newCallsGoBehindThoseThatWait() async throws {
        try await withSimulatedServers(1, answering: { _, _ in .after(.milliseconds(100), .echo) }) {
            $0.adaptiveLimit = 1...1
        } _: { network, cluster, _ in
            try await cluster.connect()
            let done = Lock((waiting: 0, busyAtTheEnd: 0, busy: 0))
            await withTaskGroup(of: Void.self) { group in
                group.addTask {
                    for _ in 0..<20 {
                        _ = try? await cluster.send(Self.request, timeout: .never)
                        done.withLock { $0.busy += 1 }
                    }
                }
                for _ in 0..<5 {
                    group.addTask {
                        try? await network.clock.sleep(for: .milliseconds(50))
                        _ = try? await cluster.send(Self.request, timeout: .never)
                        done.withLock { done in
                            done.waiting += 1
                            if done.waiting == 5 { done.busyAtTheEnd = done.busy }
                        }
                    }
                }
            }
            let (waiting, busyAtTheEnd, busy) = done.withLock { $0 }
            #expect((waiting, busy) == (5, 20))
            #expect(busyAtTheEnd <= 2)
        }
    }

    @Test func largeRequestsHaveALinkOfTheirOwn() async throws {
        try await withSimulatedServers(1, answering: { _, _ in .after(.milliseconds(100), .echo) }) {
            $0.linkIdleTime = .seconds(1)
        } _: { network, cluster, servers in
            try await cluster.connect()
            let large = CallOptions(isLarge: true)
            _ = try await cluster.send(Self.request, options: large)
            #expect(await cluster.look().links == 2, "the first large request adds a link, and uses an ordinary one")
            try await network.clock.sleep(for: .seconds(1))
            await withTaskGroup(of: Void.self) { group in
                for number in 0..<20 {
                    group.addTask {
                        _ = try? await cluster.send(Self.request, options: number % 2 == 0 ? large : CallOptions())
                    }
                }
                group.addTask {
                    try? await network.clock.sleep(for: .milliseconds(50))
                    let counts = await cluster.metrics.servers[0].clients.map(\.pending)
                    #expect(counts == [10, 10])
                }
            }
            #expect(await cluster.metrics.servers[0].clients.map(\.responses) == [11, 10])
            try await network.clock.sleep(for: .seconds(25))
            #expect(await cluster.look().links == 1)
        }
    }

    /// The timeline of a call has its tries on all servers, and its wait for one.
    @Test func aTimelineCoversAllServersOfACall() async throws {
        try await withSimulatedServers(2, answering: { _, _ in .after(.milliseconds(100), .reset) }) {
            network,
            cluster,
            servers in
            try await cluster.connect()
            try await network.clock.sleep(for: .seconds(1))
            let recorder = TimelineRecorder()
            let options = CallOptions(retry: .idempotent(tries: 2), recorder: recorder)
            let error = await #expect(throws: ClientError.self) {
                try await cluster.send(Self.request, options: options)
            }
            let timeline = try #require(error?.timeline)
            #expect(recorder.timelines == [timeline])
            #expect(timeline.tryCount == 2 && timeline.tries.count == 2)
            #expect(Set(timeline.tries.compactMap { $0.link?.endpoint }) == Set(servers.map(\.endpoint)))
            #expect(timeline.tries.allSatisfy { $0.failure?.code == .connectionLost && !$0.isServerEjected })
            let (first, second) = (timeline.tries[0], timeline.tries[1])
            #expect(first.begin == .zero && second.begin == first.end && timeline.duration == second.end)
            #expect(second.lastByteWritten ?? .zero >= second.begin)

            for server in servers { await server.kill() }
            try await network.clock.sleep(for: .seconds(1))
            let late = await #expect(throws: ClientError.self) {
                try await cluster.send(Self.request, timeout: .seconds(2), options: CallOptions(recorder: recorder))
            }
            let waited = try #require(late?.timeline)
            #expect(waited.tryCount == 1 && waited.tries[0].link == nil && waited.failure?.code == .timedOut)
            #expect(waited.tries[0].timeWithoutLink == .seconds(2) && waited.duration == .seconds(2))
            #expect(recorder.takeAll() == [timeline, waited])
            for server in servers { try await server.resumeAccepting() }
        }
    }

    /// All links of a server were full again when it had as many as it may have. That stayed noted, so that no link was
    /// added after the additional ones had been closed.
    @Test func linksAreAddedAgainAfterIdleOnesWereClosed() async throws {
        var options = ClientOptions()
        options.requests.maximumInFlight = 1
        try await withSimulatedServers(1, options: options, answering: { _, _ in .after(.seconds(1), .echo) }) {
            ($0.linksPerEndpoint, $0.linkIdleTime) = (1...3, .seconds(1))
        } _: { network, cluster, _ in
            try await cluster.connect()
            for _ in 0..<3 {
                await withTaskGroup(of: Void.self) { group in
                    for number in 0..<8 {
                        group.addTask {
                            try? await network.clock.sleep(for: .milliseconds(50 * number))
                            _ = try? await cluster.send(Self.request)
                        }
                    }
                }
                #expect(await cluster.look().links == 3)
                try await network.clock.sleep(for: .seconds(25))
                #expect(await cluster.look().links == 1)
            }
        }
    }

    /// Servers without weight are not on the ring of keys. If only such servers were ready, two or more, a request with a
    /// key waited until its deadline.
    @Test func requestsWithAKeyGoToServersWithoutWeightIfNoOtherIsReady() async throws {
        let network = SimulatedNetwork(seed: 1)
        try await network.run {
            var servers: [LoopbackServer] = []
            for number in 0..<2 {
                servers.append(
                    try await network.startServer(at: .host("s\(number)", port: 7000), speaking: .standard)
                )
            }
            let found =
                servers.map { ClusterEndpoint($0.endpoint, weight: 0) }
                + [ClusterEndpoint(.host("nowhere", port: 7000))]
            let cluster = Cluster(discovering: .static(found), speaking: .standard, on: network.loops)
            try await cluster.connect()
            try await network.clock.sleep(for: .seconds(1))
            for key in 0..<20 { _ = try await cluster.send(Self.request, key: key) }
            await cluster.close()
            for server in servers { await server.stop() }
        }
    }
}
