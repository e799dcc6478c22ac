import Foundation
import Synchronization
import Trunkline
import TrunklineHTTP
import TrunklineTesting

/// Measures where requests go, by a cluster and through HAProxy with `leastconn`, while ten servers are slow, answer
/// errors, hang, restart, are added and return. A request is sent every millisecond, whatever became of the others.
struct ShareBench {
    private enum Way: CaseIterable {
        case cluster
        case proxy
        case observingProxy

        var title: String {
            switch self {
            case .cluster: "cluster, least loaded, default options"
            case .proxy: "HAProxy, leastconn, a check of each server every second"
            case .observingProxy: "HAProxy, leastconn, the same with `observe layer7` and `slowstart 10s`"
            }
        }
    }

    /// Times are in seconds from the beginning.
    private enum Life {
        case usual
        case slow
        case failing
        case hanging(from: Int)
        case restarting(at: Int)
        case added(at: Int)
        case returning(at: Int)

        var name: String {
            switch self {
            case .usual: "as usual"
            case .slow: "20 times slower"
            case .failing: "errors at once"
            case .hanging(let second): "hangs from \(second) s"
            case .restarting(let second): "down \(second) to \(second + 2) s"
            case .added(let second): "added at \(second) s"
            case .returning(let second): "hangs until \(second) s"
            }
        }

        /// `nil` if the server does not answer.
        func answer(in second: Int) -> (delay: Duration, status: Int)? {
            switch self {
            case .slow: (.milliseconds(100), 200)
            case .failing: (.zero, 500)
            case .hanging(let begin) where second >= begin: nil
            case .returning(let end) where second < end: nil
            default: (.milliseconds(5), 200)
            }
        }
    }

    private static let lives: [Life] = [
        .usual, .usual, .usual, .slow, .failing, .hanging(from: 20), .restarting(at: 20), .restarting(at: 40),
        .added(at: 20), .returning(at: 20),
    ]
    /// In seconds.
    private static let interval = 10
    private static let timeout = Duration.seconds(1)

    private let seconds: Int

    init(isQuick: Bool) { seconds = isQuick ? 30 : 90 }

    func run() async throws -> String {
        var text = """
            \(machineDescription())
            1,000 requests/s to ten servers that take 5 ms, timeout \(Self.timeout); share of each server in the requests
            that reached a server, in percent, by the second in which its interval began; a tenth is 10

            """
        for way in Way.allCases {
            do {
                text += "\n" + (try await measure(way))
            } catch let error as BenchError where way != .cluster {
                text += "\n\(way.title): not measured: \(error.message)\n"
            }
        }
        return text
    }

    private final class Counts: Sendable {
        private struct State {
            /// By server and interval.
            var received: [[Int]]
            var latencies: [Duration] = []
            var failures: [String: Int] = [:]
        }

        private let start = ContinuousClock.now
        private let state: Mutex<State>

        init(intervals: Int) {
            let none = Array(repeating: 0, count: intervals)
            state = Mutex(State(received: lives.map { _ in none }))
        }

        var second: Int { Int((ContinuousClock.now - start) / .seconds(1)) }

        func wait(until time: Duration) async { try? await Task.sleep(until: start + time) }

        func noteReceived(by server: Int) {
            let interval = second / ShareBench.interval
            state.withLock { if interval < $0.received[server].count { $0.received[server][interval] += 1 } }
        }

        func noteAnswered(within time: Duration) { state.withLock { $0.latencies.append(time) } }

        func noteFailed(_ reason: String) { state.withLock { $0.failures[reason, default: 0] += 1 } }

        func table(of way: Way) -> String {
            let state = state.withLock { $0 }
            let intervals = state.received[0].indices
            let totals = intervals.map { interval in state.received.reduce(0) { $0 + $1[interval] } }
            let widths = [20] + intervals.map { _ in 6 }
            var lines = [way.title, aligned([""] + intervals.map { "\($0 * ShareBench.interval) s" }, widths)]
            for (life, counts) in zip(lives, state.received) {
                let shares = zip(counts, totals).map { decimal(100 * Double($0) / Double(max(1, $1)), places: 1) }
                lines.append(aligned([life.name] + shares, widths))
            }
            let sorted = state.latencies.sorted()
            func percentile(_ fraction: Double) -> String {
                guard !sorted.isEmpty else { return "none" }
                let latency = sorted[min(sorted.count - 1, Int(Double(sorted.count) * fraction))]
                return decimal(latency / .milliseconds(1), places: 1) + " ms"
            }
            let failures = state.failures.sorted { $0.key < $1.key }.map { "\($0.value) \($0.key)" }
            lines.append(
                "answered: \(sorted.count), median \(percentile(0.5)), 99 % within \(percentile(0.99)); failed: "
                    + (failures.isEmpty ? "none" : failures.joined(separator: ", "))
            )
            return lines.joined(separator: "\n") + "\n"
        }
    }

    private func measure(_ way: Way) async throws -> String {
        let loops = EventLoops(count: 1)
        let counts = Counts(intervals: (seconds + Self.interval - 1) / Self.interval)
        var servers: [LoopbackServer] = []
        for (index, life) in Self.lives.enumerated() {
            let server = try await Self.server(index, life, way, counts, on: loops)
            if case .added = life { await server.kill() }
            servers.append(server)
        }
        let endpoints = servers.map(\.endpoint)
        switch way {
        case .cluster: try await callThroughCluster(endpoints, servers, counts)
        case .proxy, .observingProxy: try await callThroughProxy(way, endpoints, servers, counts)
        }
        for server in servers { await server.stop() }
        return counts.table(of: way)
    }

    private static func server(
        _ index: Int,
        _ life: Life,
        _ way: Way,
        _ counts: Counts,
        on loops: EventLoops
    ) async throws -> LoopbackServer {
        if case .cluster = way {
            return try await LoopbackServer.start(speaking: .standard, on: loops) { _ in
                counts.noteReceived(by: index)
                guard let answer = life.answer(in: counts.second) else { return .noReply }
                return .after(answer.delay, answer.status == 200 ? .echo : .status(UInt32(answer.status)))
            }
        }
        return try await LoopbackServer.start(speaking: HTTP1Codec(host: "bench"), on: loops) { _ in
            counts.noteReceived(by: index)
            guard let answer = life.answer(in: counts.second) else { return .noReply }
            guard let frame = try? HTTP1Response(answer.status, body: "ok").frame() else { return .close }
            return .after(answer.delay, .reply(frame))
        }
    }

    private func lead(_ servers: [LoopbackServer], _ counts: Counts, whenAdded: () -> Void = {}) async throws {
        for second in 1...seconds {
            await counts.wait(until: .seconds(second))
            for (server, life) in zip(servers, Self.lives) {
                switch life {
                case .restarting(at: second): await server.kill()
                case .restarting(at: second - 2): try await server.resumeAccepting()
                case .added(at: second):
                    try await server.resumeAccepting()
                    whenAdded()
                default: break
                }
            }
        }
    }

    private func call(
        _ counts: Counts,
        _ send: @escaping @Sendable () async throws -> Void,
        during body: () async throws -> Void
    ) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            let number = seconds * 1000
            group.addTask {
                await withDiscardingTaskGroup { calls in
                    for call in 0..<number {
                        await counts.wait(until: .milliseconds(call))
                        calls.addTask {
                            let begun = ContinuousClock.now
                            do {
                                try await send()
                                counts.noteAnswered(within: ContinuousClock.now - begun)
                            } catch {
                                counts.noteFailed((error as? ClientError).map { "\($0.code)" } ?? "\(error)")
                            }
                        }
                    }
                }
            }
            try await body()
            try await group.waitForAll()
        }
    }

    private func callThroughCluster(
        _ endpoints: [Endpoint],
        _ servers: [LoopbackServer],
        _ counts: Counts
    ) async throws {
        let (lists, found) = AsyncStream.makeStream(of: [ClusterEndpoint].self)
        let all = endpoints.map { ClusterEndpoint($0) }
        found.yield(
            zip(all, Self.lives).compactMap { endpoint, life in if case .added = life { nil } else { endpoint } }
        )
        let options = ClientOptions { $0.requests.timeout = Self.timeout }
        let cluster = Cluster(discovering: Discovery(lists), speaking: .standard, options: options)
        try await cluster.connect()
        try await call(counts) {
            _ = try await cluster.send(Request(type: 0x402, body: "hello"))
        } during: {
            try await lead(servers, counts) { found.yield(all) }
        }
        await cluster.close()
    }

    private func callThroughProxy(
        _ way: Way,
        _ endpoints: [Endpoint],
        _ servers: [LoopbackServer],
        _ counts: Counts
    ) async throws {
        let port = try await Self.freePort()
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("trunkline-bench-\(port).cfg")
        defer { try? FileManager.default.removeItem(at: file) }
        let judging =
            if case .observingProxy = way {
                " observe layer7 error-limit 10 on-error mark-down slowstart 10s"
            } else { "" }
        let lines = try endpoints.enumerated().map { "    server s\($0) 127.0.0.1:\(try Self.port(of: $1))" }
        let configuration = """
            defaults
                mode http
                timeout connect 1s
                timeout queue 1s
                timeout client 60s
                timeout server 1s
                retries 3
                option redispatch
            listen bench
                bind 127.0.0.1:\(port)
                balance leastconn
                default-server check inter 1s fall 3 rise 2\(judging)
            \(lines.joined(separator: "\n"))

            """
        try configuration.write(to: file, atomically: true, encoding: .utf8)
        let proxy = try ChildProcess(["-db", "-q", "-f", file.path], program: "haproxy")
        do {
            let pool = HTTPPool(to: .host("127.0.0.1", port: port), timeout: Self.timeout)
            try await call(counts) {
                try await pool.send()
            } during: {
                try await lead(servers, counts)
            }
            await pool.close()
            proxy.finish(killing: true)
        } catch {
            proxy.finish(killing: true)
            throw error
        }
    }

    private static func port(of endpoint: Endpoint) throws -> UInt16 {
        guard let port = endpoint.port else { throw BenchError("\(endpoint) has no port") }
        return port
    }

    private static func freePort() async throws -> UInt16 {
        let server = try await LoopbackServer.start(speaking: .standard)
        let port = try port(of: server.endpoint)
        await server.stop()
        return port
    }
}

private final class HTTPPool: Sendable {
    private struct Refusal: Error, CustomStringConvertible {
        let status: Int
        var description: String { "status \(status)" }
    }

    private let endpoint: Endpoint
    private let options: ClientOptions
    private let loops = EventLoops(count: 1)
    private let idle = Mutex<[Client]>([])

    init(to endpoint: Endpoint, timeout: Duration) {
        self.endpoint = endpoint
        // The proxy answers first.
        options = ClientOptions { $0.requests.timeout = timeout + .milliseconds(500) }
    }

    func send() async throws {
        let client =
            idle.withLock { $0.popLast() }
            ?? Client(to: endpoint, speaking: HTTP1Codec(host: "bench"), options: options, on: loops)
        let response: HTTP1Response
        do {
            response = try await client.send(HTTP1Request(.get, "/"))
        } catch {
            await client.closeNow()
            throw error
        }
        idle.withLock { $0.append(client) }
        if response.status != 200 { throw Refusal(status: response.status) }
    }

    func close() async { for client in idle.withLock({ $0 }) { await client.closeNow() } }
}
