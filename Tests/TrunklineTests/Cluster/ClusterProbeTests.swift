import Testing
import TrunklineTesting

@testable import TrunklineCluster
@testable import TrunklineCore
@testable import TrunklineIO

/// How a server that was left out is used again.
@Suite(.simulated)
struct ClusterProbeTests {}

extension ClusterProbeTests {
    /// Runs `body` when the time of server 0 of three is over, which was ejected and works again.
    private func whileProbing(
        _ body: @escaping @Sendable (ClusterBed, Cluster, [LoopbackServer]) async throws -> Void
    ) async throws {
        try await ClusterBed.run(servers: 3) {
            $0.balancing = .roundRobin
            $0.isFailure = { $0.status == ClusterPlan.failureStatus }
            $0.ejection?.consecutiveFailures = 1
            $0.ejection?.baseTime = .seconds(1)
        } _: { bed, cluster, servers in
            bed.set(0, .rejects)
            for _ in 0..<3 { _ = try? await cluster.send(ask("hello")) }
            #expect(await cluster.state(of: 0) == .ejected)
            bed.set(0, .fast)
            try await bed.pass(until: .probing, 0, cluster)
            try await body(bed, cluster, servers)
        }
    }

    private static let repeatable = CallOptions(retry: .idempotent())

    /// Sends requests that may not be performed twice. Returns how many of them server 0 received.
    private func ordinaryRequests(_ bed: ClusterBed, _ cluster: Cluster) async throws -> Int {
        let before = bed.received[0]
        for _ in 0..<20 { _ = try await cluster.send(ask("hello")) }
        return bed.received[0] - before
    }

    /// The stream was the probe, and the server was left out until it ended.
    @Test func theFirstPartOfAReplyProvesTheServer() async throws {
        try await whileProbing { bed, cluster, _ in
            bed.set(0) { _ in .after(.milliseconds(10), .endlessParts("news", every: .seconds(1))) }
            let before = bed.received[0]
            let stream = cluster.stream(ask("watch"), options: Self.repeatable)
            try await bed.pass(.milliseconds(5))
            #expect(bed.received[0] > before)
            #expect(await cluster.state(of: 0) == .probing)
            try await bed.pass(.milliseconds(100))
            #expect(await cluster.state(of: 0) == .serving)
            stream.cancel()
        }
    }

    /// Any request could be sacrificed, also one that must not be sent again.
    @Test func aRequestThatMayBePerformedTwiceIsPreferred() async throws {
        try await whileProbing { bed, cluster, _ in
            #expect(try await ordinaryRequests(bed, cluster) == 0)
            let before = bed.received[0]
            _ = try await cluster.send(ask("hello"), options: Self.repeatable)
            #expect(bed.received[0] == before + 1)
            try await bed.pass(.milliseconds(10))
            #expect(await cluster.state(of: 0) == .serving)
        }
    }

    @Test func aHedgedRequestMayBePerformedTwice() async throws {
        try await whileProbing { bed, cluster, _ in
            let before = bed.received[0]
            _ = try await cluster.send(ask("hello"), hedge: .after(.seconds(1)))
            #expect(bed.received[0] == before + 1)
            try await bed.pass(.milliseconds(10))
            #expect(await cluster.state(of: 0) == .serving)
        }
    }

    @Test func withoutSuchARequestAnyOtherIsTheProbe() async throws {
        try await whileProbing { bed, cluster, _ in
            try await bed.pass(.seconds(5))
            #expect(try await ordinaryRequests(bed, cluster) > 0)
            try await bed.pass(.milliseconds(10))
            #expect(await cluster.state(of: 0) == .serving)
        }
    }

    /// Without a request, an ejection lasted for ever.
    @Test func aServerThatIsNotProbedReturnsByTime() async throws {
        try await whileProbing { bed, cluster, _ in
            let changes = cluster.changes
            try await bed.pass(.seconds(9))
            #expect(await cluster.state(of: 0) == .probing)
            try await bed.pass(.seconds(2))
            #expect(await cluster.state(of: 0) == .serving)
            for await case .returned(let endpoint, _) in changes {
                #expect(endpoint == ClusterBed.endpoint(0))
                break
            }
        }
    }

    /// One probe that hangs does not keep the server out for as long as it may take.
    @Test func aProbeThatHangsDoesNotKeepTheServerOut() async throws {
        try await whileProbing { bed, cluster, _ in
            bed.set(0, .hangs)
            let stream = cluster.stream(ask("watch"), partTimeout: .never, options: Self.repeatable)
            try await bed.pass(.milliseconds(100))
            bed.set(0, .fast)
            try await bed.pass(.seconds(11))
            #expect(await cluster.state(of: 0) == .serving)
            stream.cancel()
        }
    }

    /// Messages prove nothing. A `post(all:)` whose messages all failed ended the ejection.
    @Test func messagesAreNoProbes() async throws {
        try await whileProbing { bed, cluster, _ in
            try await bed.pass(.seconds(6))
            let before = bed.received[0]
            let message = Request(type: SeedCalls.oneWayType, body: "message")
            for result in await cluster.post(all: [Request(type: .max), Request(type: .max)]) {
                #expect(throws: ClientError.self) { try result.get() }
            }
            for _ in 0..<4 {
                try await cluster.post(message, options: Self.repeatable)
                try await cluster.enqueue(message)
                try cluster.tryEnqueue(message)
                for result in await cluster.post(all: [message], options: Self.repeatable) { try result.get() }
            }
            #expect(await cluster.state(of: 0) == .probing)
            #expect(bed.received[0] == before)
        }
    }

    /// A subscription was the probe. That of a one-way message did not end, and no request could be another one.
    @Test(arguments: [false, true])
    func subscriptionsAreNoProbes(isMessage: Bool) async throws {
        try await whileProbing { bed, cluster, _ in
            try await bed.pass(.seconds(6))
            let before = bed.received[0]
            for _ in 0..<4 {
                let message = Request(type: SeedCalls.oneWayType, body: "news")
                let subscription =
                    isMessage
                    ? try await cluster.subscribe(posting: message) : try await cluster.subscribe(ask("news"))
                await subscription.end()
            }
            #expect(await cluster.state(of: 0) == .probing)
            #expect(bed.received[0] == before)
        }
    }

    /// Messages of which the link was lost are a failure of their server.
    @Test func messagesThatAreLostAreAFailure() async throws {
        try await ClusterBed.run(servers: 2) {
            $0.ejection?.consecutiveFailures = 1
        } _: { bed, cluster, servers in
            // The messages do not fit into the buffers of the kernel.
            let message = Request(type: SeedCalls.oneWayType, body: Bytes(Array(repeating: 7, count: 1 << 20)))
            for host in ["s0", "s1"] { bed.network.partition(host) }
            async let results = cluster.post(all: Array(repeating: message, count: 64), timeout: .seconds(60))
            try await bed.pass(.seconds(1))
            let busy = try #require(await cluster.metrics.servers.first { $0.inFlight > 0 })
            bed.network.reset(busy.endpoint == ClusterBed.endpoint(0) ? "s0" : "s1")
            #expect(await results.contains { if case .failure = $0 { true } else { false } })
            for host in ["s0", "s1"] { bed.network.heal(host) }
            try await bed.pass(.milliseconds(100))
            #expect(await cluster.ejections == 1)
        }
    }
}
