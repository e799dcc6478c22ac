import Testing
import TrunklineTesting

@testable import TrunklineCluster
@testable import TrunklineCore
@testable import TrunklineIO

/// Where the requests of a cluster go: the shares of servers that are new, have returned, are slow, or fail. In 5 s,
/// the share of a server differs by a third from the fair one by chance, in 20 s by a quarter.
@Suite(.simulated, .timeLimit(.seeded))
struct ClusterShareTests {}

extension ClusterShareTests {
    // MARK: New and returned servers

    /// A new server counted as one of 30 ms until it had responses, and got none because of that: nothing for 20 s.
    @Test func anAddedServerGetsATenthAtFirstAndItsShareSoon() async throws {
        try await ClusterBed.run(servers: 5, listed: 4) { bed, cluster, _ in
            try await bed.underLoad(of: cluster, every: .milliseconds(5)) {
                try await bed.pass(.seconds(15))
                bed.list(0..<5)
                let first = try await bed.share(of: 4, in: .seconds(1), among: 5)
                #expect(first > 0.03 && first < 0.4, "\(first)")
                try await bed.pass(.seconds(10))
                let whole = try await bed.share(of: 4, in: .seconds(20), among: 5)
                #expect(whole > 0.75 && whole < 1.25, "\(whole)")
            }
            #expect(bed.errors.isEmpty)
        }
    }

    /// What had been measured while the server hung, up to 8 s, kept requests away from it: 2 % of them went there
    /// after 40 s.
    @Test func aServerThatReturnsGetsItsShareSoon() async throws {
        try await ClusterBed.run(servers: 5) { bed, cluster, _ in
            try await bed.underLoad(of: cluster, every: .milliseconds(5)) {
                try await bed.pass(.seconds(12))
                bed.set(0, .hangs)
                try await bed.pass(until: .ejected, 0, cluster)
                bed.set(0, .fast)
                let outage = try await bed.pass(until: .serving, 0, cluster)
                #expect(outage < .seconds(40), "33 s of ejection at most, and a probe within 5 s: \(outage)")
                let first = try await bed.share(of: 0, in: .seconds(2), among: 5)
                #expect(first > 0.03 && first < 0.5, "\(first)")
                try await bed.pass(.seconds(10))
                let whole = try await bed.share(of: 0, in: .seconds(20), among: 5)
                #expect(whole > 0.7 && whole < 1.3, "\(whole)")
            }
        }
    }

    /// The same for a server that was slow before it was started again.
    @Test func aServerThatIsRestartedGetsItsShareSoon() async throws {
        try await ClusterBed.run(servers: 5) { bed, cluster, servers in
            bed.set(0) { _ in .after(.milliseconds(50), .echo) }
            try await bed.underLoad(of: cluster, every: .milliseconds(10)) {
                try await bed.pass(.seconds(8))
                await servers[0].kill()
                bed.set(0, .fast)
                try await servers[0].resumeAccepting()
                try await bed.pass(until: .serving, 0, cluster)
                try await bed.pass(.seconds(11))
                let whole = try await bed.share(of: 0, in: .seconds(20), among: 5)
                #expect(whole > 0.75 && whole < 1.25, "\(whole)")
            }
        }
    }

    /// Also without an ejection, what was measured is forgotten when it is old: it takes one answer.
    @Test func aServerThatHungIsUsedAgainWithoutAnEjection() async throws {
        let options = ClientOptions { $0.requests.timeout = .seconds(2) }
        try await ClusterBed.run(servers: 5, options: options) {
            $0.ejection = nil
        } _: { bed, cluster, _ in
            try await bed.underLoad(of: cluster, every: .milliseconds(10)) {
                try await bed.pass(.seconds(2))
                bed.set(0, .hangs)
                try await bed.pass(.seconds(3))
                bed.set(0, .fast)
                // The last evidence is of 2 s later at most, and old after 10 s.
                try await bed.pass(.seconds(15))
                let whole = try await bed.share(of: 0, in: .seconds(20), among: 5)
                #expect(whole > 0.75 && whole < 1.25, "\(whole)")
            }
            #expect(bed.errors.count < 20, "\(bed.errors.count)")
        }
    }

    /// A server that starts slowly got all its keys at once, whenever it was idle.
    @Test func keysMoveSlowlyToAnAddedServer() async throws {
        try await ClusterBed.run(servers: 3, listed: 2) { bed, cluster, _ in
            @Sendable func share() async throws -> Double {
                let before = bed.received[2]
                for key in 0..<600 { _ = try await cluster.send(ask("hello"), key: key) }
                return Double(bed.received[2] - before) / 200
            }
            try await bed.pass(.seconds(10))
            bed.list(0..<3)
            try await bed.pass(.milliseconds(100))
            // 600 keys take about a second.
            let (first, again) = (try await share(), try await share())
            #expect(first > 0.02 && first < 0.5, "\(first)")
            #expect(again > first && again < 0.7, "\(again)")
            try await bed.pass(.seconds(11))
            let whole = try await share()
            #expect(whole > 0.6 && whole < 1.4, "\(whole)")
        }
    }

    // MARK: Errors

    /// A server that answers every request with an error at once is always idle, so it got 40 % of the requests of
    /// five.
    @Test func aServerThatRejectsAtOnceGetsFewRequests() async throws {
        try await ClusterBed.run(servers: 5, answering: ClusterBed.Manner { _ in .after(.milliseconds(20), .echo) }) {
            // The rules of ejection would hide the balancing.
            $0.ejection = nil
        } _: { bed, cluster, _ in
            bed.set(0, .rejects)
            try await bed.underLoad(of: cluster, callers: 10) {
                try await bed.pass(.milliseconds(500))
                let share = try await bed.share(of: 0, in: .seconds(10), among: 5)
                #expect(share < 0.2, "a fifth of its fair share, 4 % of all requests: \(share)")
                bed.set(0) { _ in .after(.milliseconds(20), .echo) }
                try await bed.pass(.seconds(15))
                let whole = try await bed.share(of: 0, in: .seconds(20), among: 5)
                #expect(whole > 0.75 && whole < 1.25, "\(whole)")
            }
        }
    }

    /// Of a server with errors and one that hung, the latter was always chosen: within half a second all callers waited
    /// for it.
    @Test func aServerThatHangsBesideOneWithErrorsGetsFewRequests() async throws {
        try await ClusterBed.run(servers: 5) {
            $0.ejection = nil
        } _: { bed, cluster, _ in
            bed.set(0, .rejects)
            try await bed.underLoad(of: cluster, callers: 20) {
                try await bed.pass(.seconds(1))
                bed.set(1, .hangs)
                try await bed.pass(.seconds(5))
                let waiting = await cluster.metrics.servers[1].inFlight
                #expect(waiting < 20, "\(waiting)")
                let counts = try await bed.received(in: .seconds(1))
                #expect(counts[2...].allSatisfy { $0 > 100 }, "\(counts)")
                bed.set(1, .fast)
            }
        }
    }

    /// The copies that were given up told nothing about a server that had never answered: it got a third of the
    /// requests.
    @Test func hedgesFindAServerThatHangsFromTheBeginning() async throws {
        try await ClusterBed.run(servers: 3) {
            ($0.ejection, $0.hedgeBudget) = (nil, 1)
        } _: { bed, cluster, _ in
            bed.set(0, .hangs)
            for _ in 0..<300 { _ = try await cluster.send(ask("hello"), hedge: .after(.milliseconds(20))) }
            #expect(bed.received[0] < 30, "\(bed.received)")
        }
    }

    /// No option says that an error response is a failure. That of one server alone ejected it never.
    @Test(arguments: [.leastLoaded, .roundRobin] as [any BalancingPolicy], [3, 5])
    func aServerThatRejectsFarMoreThanTheOthersIsEjected(_ balancing: any BalancingPolicy, _ count: Int)
        async throws
    {
        try await ClusterBed.run(servers: count, answering: ClusterBed.Manner { _ in .after(.milliseconds(50), .echo) })
        {
            $0.balancing = balancing
            $0.ejection?.baseTime = .seconds(5)
        } _: { bed, cluster, _ in
            let changes = cluster.changes
            bed.set(0, .rejects)
            try await bed.underLoad(of: cluster, callers: 5) {
                try await bed.pass(until: .ejected, 0, cluster)
                // An error response is no proof of this server.
                try await bed.pass(until: .probing, 0, cluster)
                try await bed.pass(until: .ejected, 0, cluster)
                bed.set(0, .fast)
                try await bed.pass(until: .serving, 0, cluster)
            }
            await cluster.close()
            var reasons: [String] = []
            for await case .ejected(_, _, let reason) in changes { reasons.append(reason) }
            #expect(reasons.first?.hasPrefix("100.0 % of its requests failed or had an error response") == true)
            #expect(reasons.dropFirst() == ["its probe failed"], "\(reasons)")
        }
    }

    /// Errors that all servers have are those of the requests.
    @Test func errorsOfAllServersChangeNothing() async throws {
        let manner = ClusterBed.Manner { request in
            .after(.milliseconds(1), request.serial % 2 == 0 ? .status(ClusterPlan.failureStatus) : .echo)
        }
        try await ClusterBed.run(servers: 4, answering: manner) { bed, cluster, _ in
            try await bed.underLoad(of: cluster, every: .milliseconds(5)) {
                try await bed.pass(.seconds(25))
                let counts = try await bed.received(in: .seconds(10))
                #expect(counts.allSatisfy { $0 > 350 && $0 < 650 }, "\(counts)")
            }
            #expect(await cluster.ejections == 0)
        }
    }

    /// All requests of a key go to one server, and all its errors too.
    @Test func errorsOfAKeyDoNotEjectItsServer() async throws {
        try await ClusterBed.run(servers: 3) { bed, cluster, _ in
            for index in 0..<3 {
                bed.set(index) {
                    $0.body == "bad" ? .status(ClusterPlan.failureStatus) : .after(.milliseconds(1), .echo)
                }
            }
            for round in 0..<1000 {
                let isBad = round % 2 == 0
                let options = CallOptions(key: RoutingKey(isBad ? 0 : round))
                _ = try? await cluster.send(ask(isBad ? "bad" : "good"), options: options)
                try await bed.pass(.milliseconds(30))
            }
            #expect(await cluster.ejections == 0)
        }
    }

    /// Messages that were written, and errors of requests with a key, counted as successes: a server that answered all
    /// other requests with an error had too low a rate of errors to be ejected.
    @Test(arguments: [false, true])
    func messagesAndKeysDoNotHideErrors(hasKeys: Bool) async throws {
        try await ClusterBed.run(servers: 3) {
            $0.balancing = .roundRobin
        } _: { bed, cluster, _ in
            bed.set(0) { $0.type == SeedCalls.oneWayType ? .noReply : .status(ClusterPlan.failureStatus) }
            try await bed.underLoad(of: cluster, every: .milliseconds(20)) {
                for number in 0..<4000 {
                    if hasKeys {
                        _ = try? await cluster.send(ask("a"), options: CallOptions(key: RoutingKey(number)))
                    } else {
                        try await cluster.post(Request(type: SeedCalls.oneWayType, body: "message"))
                    }
                    try await bed.pass(.milliseconds(5))
                }
            }
            #expect(await cluster.ejections > 0)
        }
    }

    /// The error response after the first part of a reply counted for a server that was chosen by a key, and was no
    /// failure although the user says so.
    @Test func anErrorAfterTheFirstPartIsThatOfAnyRequest() async throws {
        try await ClusterBed.run(servers: 3) {
            $0.isFailure = { $0.status == ClusterPlan.failureStatus }
        } _: { bed, cluster, _ in
            for index in 0..<3 {
                bed.set(index) { _ in .parts(["a"], then: .status(ClusterPlan.failureStatus)) }
            }
            for number in 0..<4 {
                let options = CallOptions(key: RoutingKey("one"))
                await #expect(throws: ClientError.self) {
                    for try await _ in cluster.stream(ask("rows"), options: options) {}
                }
                #expect(await cluster.ejections == 0, "\(number)")
            }
            let marked = await cluster.servers.all.map { $0.member.takeMarkedFailures() }
            #expect(marked.reduce(0, +) == 4, "\(marked)")
        }
    }

    // MARK: What is measured

    /// The latency of a server was that of all that its clients did, streams included: "mean 203 ms; median 1.15 ms".
    @Test func streamsDoNotEjectAServerForItsLatency() async throws {
        try await ClusterBed.run(servers: 3) {
            $0.balancing = .roundRobin
        } _: { bed, cluster, _ in
            bed.set(0) {
                $0.body == "rows"
                    ? .parts(["a", "b", "c"], every: .milliseconds(300), then: .after(.milliseconds(300), .echo))
                    : .after(.milliseconds(1), .echo)
            }
            try await bed.underLoad(of: cluster, every: .milliseconds(50)) {
                try await withThrowingTaskGroup(of: Void.self) { group in
                    for _ in 0..<300 {
                        group.addTask { for try await _ in cluster.stream(ask("rows")) {} }
                        try await bed.pass(.milliseconds(100))
                    }
                    try await group.waitForAll()
                }
            }
            #expect(await cluster.ejections == 0)
            let scores = await cluster.scores
            #expect(scores.allSatisfy { $0 < .milliseconds(20) }, "\(scores)")
        }
    }

    /// A stream that its reader gave up after a minute made the score of its server a minute.
    @Test func givenUpStreamsDoNotCount() async throws {
        try await ClusterBed.run(servers: 2) { bed, cluster, _ in
            bed.set(0) { $0.body == "news" ? .endlessParts("a", every: .seconds(1)) : .after(.milliseconds(1), .echo) }
            bed.set(1) { $0.body == "news" ? .endlessParts("a", every: .seconds(1)) : .after(.milliseconds(1), .echo) }
            try await bed.underLoad(of: cluster, every: .milliseconds(100)) {
                let streams = (0..<4).map { _ in cluster.stream(ask("news")) }
                try await bed.pass(.seconds(60))
                for stream in streams { stream.cancel() }
                try await bed.pass(.seconds(1))
                let scores = await cluster.scores
                #expect(scores.allSatisfy { $0 < .milliseconds(20) }, "\(scores)")
            }
        }
    }

    /// The first large request uses an ordinary link, and set the score of its server to its own time.
    @Test func largeRequestsDoNotCount() async throws {
        try await ClusterBed.run(servers: 3) { bed, cluster, _ in
            for index in 0..<3 {
                bed.set(index) { .after($0.body == "large" ? .seconds(2) : .milliseconds(1), .echo) }
            }
            try await bed.underLoad(of: cluster, every: .milliseconds(10)) {
                for _ in 0..<6 { _ = try await cluster.send(ask("large"), options: CallOptions(isLarge: true)) }
                let scores = await cluster.scores
                #expect(scores.allSatisfy { $0 < .milliseconds(20) }, "\(scores)")
            }
            #expect(await cluster.ejections == 0)
        }
    }

    /// A batch has its results when the last of them is there, and all of them counted as that slow.
    @Test func batchesDoNotCount() async throws {
        try await ClusterBed.run(servers: 3) { bed, cluster, _ in
            for index in 0..<3 {
                bed.set(index) { .after($0.body == "slow" ? .seconds(2) : .milliseconds(1), .echo) }
            }
            try await bed.underLoad(of: cluster, every: .milliseconds(10)) {
                let requests = (0..<48).map { ask($0 % 16 == 15 ? "slow" : "fast") }
                for result in await cluster.send(all: requests) { _ = try result.get() }
                let scores = await cluster.scores
                #expect(scores.allSatisfy { $0 < .milliseconds(20) }, "\(scores)")
            }
        }
    }

    /// What the caller does with a client takes its own time.
    @Test func closuresOfCallersDoNotCount() async throws {
        try await ClusterBed.run(servers: 3) { bed, cluster, _ in
            try await bed.underLoad(of: cluster, every: .milliseconds(10)) {
                for _ in 0..<6 {
                    try await cluster.perform { client, _, _ throws(ClientError) in
                        _ = try await client.send(ask("a"))
                        try? await bed.pass(.seconds(2))
                    }
                }
                let scores = await cluster.scores
                #expect(scores.allSatisfy { $0 < .milliseconds(20) }, "\(scores)")
            }
        }
    }

    /// A server that is slow is still ejected for that, by what is measured.
    @Test func aServerThatIsFarSlowerIsEjected() async throws {
        try await ClusterBed.run(servers: 3) {
            $0.balancing = .roundRobin
        } _: { bed, cluster, _ in
            bed.set(0) { _ in .after(.milliseconds(50), .echo) }
            try await bed.underLoad(of: cluster, every: .milliseconds(10)) {
                let time = try await bed.pass(until: .ejected, 0, cluster)
                #expect(time < .seconds(21))
            }
        }
    }
}
