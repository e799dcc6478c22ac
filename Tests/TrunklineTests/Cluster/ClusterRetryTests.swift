import Testing
import TrunklineTesting

@testable import TrunklineCluster
@testable import TrunklineCore
@testable import TrunklineIO

/// The budget of retries, and second copies of requests.
@Suite(.simulated)
struct ClusterRetryTests {}

extension ClusterRetryTests {
    // MARK: The budget

    /// Retries counted as requests, and so earned further retries: a share of 0.5 gave 1 retry a call, and 1.0 gave
    /// 94.5.
    @Test(arguments: [0.25, 0.5, 1])
    func retriesDoNotEarnRetries(share: Double) async throws {
        let options = ClientOptions {
            $0.requests.retry = .idempotent(tries: 100, backoff: Backoff(base: .milliseconds(1), cap: .milliseconds(1)))
            $0.requests.retryBudget = RetryBudget()
            $0.requests.retryBudget?.share = share
            $0.requests.retryBudget?.perSecond = 0
            $0.requests.retryBudget?.initial = 0
            $0.requests.timeout = .seconds(60)
            $0.reconnecting.policy = Backoff(base: .milliseconds(1), cap: .milliseconds(10))
        }
        try await ClusterBed.run(servers: 3, options: options, answering: ClusterBed.Manner { _ in .reset }) {
            $0.ejection = nil
        } _: { bed, cluster, _ in
            for _ in 0..<100 {
                await #expect(throws: ClientError.self) { try await cluster.send(ask("hello")) }
                try await bed.pass(.milliseconds(20))
            }
            let metrics = await cluster.metrics
            #expect(metrics.calls == 100)
            #expect(metrics.retries == Int(100 * share))
            #expect(bed.received.reduce(0, +) == 100 + Int(100 * share))
        }
    }

    // MARK: Second copies

    /// The delay counted from the call. When it was over before the first copy had a server, there was no second copy:
    /// 7 of 20 pairs timed out beside a server that answers in 2 ms.
    @Test func theDelayOfASecondCopyCountsFromTheFirst() async throws {
        try await ClusterBed.run(servers: 2, answering: ClusterBed.Manner { _ in .after(.milliseconds(2), .echo) }) {
            ($0.hedgeBudget, $0.ejection) = (1, nil)
        } _: { bed, cluster, servers in
            bed.set(0, .hangs)
            for round in 0..<20 {
                for server in servers { await server.kill() }
                try await bed.pass(.milliseconds(10))
                async let response = cluster.send(ask(round), hedge: .after(.milliseconds(10)), timeout: .seconds(8))
                try await bed.pass(.milliseconds(100))
                for server in servers { try await server.resumeAccepting() }
                #expect(try await response.body == Bytes("\(round)"))
                try await bed.pass(.seconds(1))
            }
        }
    }

    /// Whatever the wait for a server is, percentiles are of the time on servers.
    @Test func theWaitForAServerDoesNotDelayLaterCopies() async throws {
        try await ClusterBed.run(servers: 2, answering: ClusterBed.Manner { _ in .after(.milliseconds(2), .echo) }) {
            ($0.hedgeBudget, $0.ejection) = (1, nil)
        } _: { bed, cluster, servers in
            for server in servers { await server.kill() }
            try await bed.pass(.milliseconds(10))
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in 0..<40 {
                    group.addTask { _ = try await cluster.send(ask(number), hedge: .after(percentile: 0.95)) }
                }
                try await bed.pass(.seconds(2))
                for server in servers { try await server.resumeAccepting() }
                try await group.waitForAll()
            }
            try await bed.pass(.seconds(1))
            bed.set(0, .hangs)
            let began = bed.network.clock.now
            for number in 0..<10 { _ = try await cluster.send(ask(number), hedge: .after(percentile: 0.95)) }
            #expect(began.duration(to: bed.network.clock.now) < .seconds(1))
        }
    }

    /// A copy that found no server took its share of the budget with it, so that there was none when it could have
    /// helped.
    @Test func aCopyThatFindsNoServerCostsNothing() async throws {
        try await ClusterBed.run(
            servers: 2,
            listed: 1,
            answering: ClusterBed.Manner { _ in .after(.milliseconds(50), .echo) }
        ) {
            $0.ejection = nil
        } _: { bed, cluster, _ in
            let hedge = Hedge.after(.milliseconds(10))
            for number in 0..<30 { _ = try await cluster.send(ask(number), hedge: hedge) }
            #expect(await cluster.metrics.hedges == 0)
            bed.list(0..<2)
            try await bed.pass(.seconds(1))
            for number in 0..<5 { _ = try await cluster.send(ask(number), hedge: hedge) }
            #expect(await cluster.metrics.hedges == 5)
        }
    }

    /// The retry of the first copy went to the server that was at work on the second one.
    @Test(arguments: [2, 3], UInt64(0)..<8)
    func theTwoCopiesAreOnDifferentServers(servers: Int, seed: UInt64) async throws {
        let options = ClientOptions {
            $0.requests.retry = .idempotent(backoff: Backoff(base: .milliseconds(1), cap: .milliseconds(1)))
            $0.reconnecting.policy = Backoff(base: .milliseconds(1), cap: .milliseconds(1))
        }
        try await ClusterBed.run(seed: seed, servers: servers, options: options) {
            ($0.hedgeBudget, $0.ejection) = (1, nil)
        } _: { bed, cluster, _ in
            /// The servers that have received the request, in order.
            let order = Lock<[Int]>([])
            for index in 0..<servers {
                bed.set(index) { _ in
                    let number = order.withLock { order in
                        order.append(index)
                        return order.count
                    }
                    switch number {
                    case 1: return .after(.milliseconds(50), .reset)
                    case 2: return .noReply
                    default: return .echo
                    }
                }
            }
            _ = try await cluster.send(ask("hello"), hedge: .after(.milliseconds(10)))
            let received = order.withLock { $0 }
            #expect(received.count == 3 && received[0] != received[1] && received[1] != received[2], "\(received)")
        }
    }
}
