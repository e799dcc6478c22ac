import Testing
import TrunklineTesting

@testable import TrunklineCluster
@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts

/// A cluster with real sockets, on the event loop of other clients.
@Suite(.tags(.realThreads), .timeLimit(.minutes(5)))
struct ClusterLoopbackTests {}

extension ClusterLoopbackTests {
    /// A source of lists that ignores the cancellation of its task: `Task.sleep` then returns at once.
    private struct Poller: AsyncSequence, AsyncIteratorProtocol, Sendable {
        let list: [ClusterEndpoint]
        let loop: any EventLoop
        /// Whether it was called on the event loop, which it might block.
        let isOnLoop = Lock(false)
        let calls = Lock(0)

        func makeAsyncIterator() -> Poller { self }

        func next() async -> [ClusterEndpoint]? {
            if loop.isCurrent { isOnLoop.withLock { $0 = true } }
            calls.withLock { $0 += 1 }
            try? await Task.sleep(for: .milliseconds(5))
            return list
        }
    }

    /// The task of the discovery never ended, and never waited. The loop served nothing else.
    @Test(arguments: [false, true])
    func aDiscoveryThatIgnoresItsCancellationStopsNoOtherClient(isDeallocated: Bool) async throws {
        let silence = ask("silence")
        try await withServerAndClient(handler: { $0.body == silence.body ? .noReply : .echo }) { server, _ in
            let loops = EventLoops(count: 1)
            let poller = Poller(list: [ClusterEndpoint(server.endpoint)], loop: loops.next())
            var cluster: Cluster? = Cluster(
                discovering: Discovery(poller),
                speaking: .standard,
                options: quickOptions(),
                on: loops
            )
            let response = try await cluster?.send(ask("hello"))
            #expect(response?.body == "hello")
            if isDeallocated { cluster = nil } else { await cluster?.close() }
            let calls = poller.calls.withLock { $0 }
            try await withClient(to: server.endpoint, speaking: .standard, options: quickOptions(), on: loops) {
                client in
                for number in 0..<100 {
                    let response = try await client.send(ask(number))
                    #expect(response.body == ask(number).body)
                }
                let error = await failure { () throws(ClientError) in
                    try await client.send(silence, timeout: .milliseconds(20))
                }
                #expect(error?.code == .timedOut)
            }
            #expect(poller.calls.withLock { $0 } < calls + 100, "it is asked again and again")
            #expect(poller.isOnLoop.withLock { !$0 }, "code of the user may block its thread")
        }
    }

    /// Whether there was room, and the counting of the request, were two steps, and a batch looked at one link of
    /// several.
    @Test func noThreadExceedsTheLimitOfAServer() async throws {
        let sample = SampleTable((0..<3).map { _ in SampleTable.Server() }, on: EventLoops(count: 1)) {
            $0.adaptiveLimit = 10...10
        }
        let highest = Lock(0)
        await withTaskGroup { group in
            for number in 0..<4 {
                group.addTask {
                    var generator = SeededGenerator(seed: UInt64(number))
                    for round in 0..<5000 {
                        let wish = Wish(now: SampleTable.now)
                        var taken = (0..<12).compactMap { _ in sample.table.pick(wish, using: &generator) }
                        if round % 3 == 0, let link = taken.first {
                            taken += Array(repeating: link, count: link.begin(upTo: 16))
                        }
                        let most = sample.links.map(\.member.inFlight).max() ?? 0
                        highest.withLock { $0 = max($0, most) }
                        for link in taken { link.end(.notSent, from: SampleTable.now, at: SampleTable.now) }
                    }
                }
            }
        }
        #expect(highest.withLock { $0 } <= 10)
        #expect(sample.links.allSatisfy { $0.inFlight == 0 && $0.member.inFlight == 0 })
        await sample.client.close()
    }

    /// Requests without an answer, so that each choice sees those before it.
    @Test func aPolicyOfAUserSpreadsRequests() async throws {
        var servers: [LoopbackServer] = []
        for _ in 0..<3 {
            servers.append(
                try await LoopbackServer.start(speaking: .standard) { $0.body == "silence" ? .noReply : .echo }
            )
        }
        let cluster = Cluster(
            discovering: .static(servers.map { ClusterEndpoint($0.endpoint) }),
            speaking: .standard,
            options: quickOptions(),
            on: EventLoops(count: 2)
        ) { $0.balancing = SamplePolicies.FewestInFlight() }
        try await cluster.connect()
        while await cluster.metrics.servers.contains(where: { $0.state != .serving }) {
            try await Task.sleep(for: .milliseconds(1))
        }
        var silent: [PendingRequest<Response>] = []
        for number in 1...6 {
            silent.append(cluster.start(ask("silence"), timeout: .seconds(60)))
            // Each server in turn, because it has the fewest.
            let (server, count) = (servers[(number - 1) % 3], (number + 2) / 3)
            try await server.wait(within: .seconds(30)) { $0.requestCount == count }
        }
        await withTaskGroup { group in
            for caller in 0..<8 {
                group.addTask {
                    for number in 0..<100 {
                        let body = ask(1000 * caller + number)
                        let response = try? await cluster.send(body)
                        #expect(response?.body == body.body)
                    }
                }
            }
        }
        for call in silent { call.cancel() }
        await cluster.close()
        for server in servers { await server.stop() }
    }

    /// The second copy could choose the server that the first one had chosen in the same moment.
    @Test func twoCopiesAreNeverOnOneServer() {
        let (copies, now) = (HedgedCopies(on: EventLoops(count: 1).next()), Instant(nanoseconds: 1))
        #expect(copies.begin(on: 1, ofSecond: false, at: now))
        #expect(!copies.begin(on: 1, ofSecond: true, at: now) && copies.server(ofSecond: true) == nil)
        #expect(copies.begin(on: 2, ofSecond: true, at: now))
        #expect(!copies.begin(on: 2, ofSecond: false, at: now) && copies.server(ofSecond: false) == 1)
        copies.endSecond()
        #expect(copies.begin(on: 2, ofSecond: false, at: now))
    }
}
