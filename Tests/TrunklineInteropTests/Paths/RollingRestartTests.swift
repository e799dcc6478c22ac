import Testing
import Trunkline
import TrunklineTesting

@testable import TrunklineLoopback

/// Three servers are restarted one after the other, as in a deployment, while a thousand callers send requests.
@Suite(.tags(.realThreads), .timeLimit(.minutes(3)))
struct RollingRestartTests {}

extension RollingRestartTests {
    /// Type 5 is the server's goAway.
    private static let layout = FrameLayout {
        Field.type(UInt32.self)
        Field.serial(UInt32.self)
        Field.length(UInt32.self, counting: .body)
        Field.body
    }
    .roles {
        $0.ping = 1
        $0.push = 2
        $0.cancel = 3
        $0.goAway = 5
        $0.serials = 50...
    }

    private static let callers = 1000

    /// Starts a server at an address that no other test uses: while it is down, no other socket can get its port.
    private func start(at port: UInt16 = 0) async throws -> LoopbackServer {
        #if os(Linux)
            let host: [UInt8] = [127, 0, 54, 1]
        #else
            let host: [UInt8] = [127, 0, 0, 1]
        #endif
        return try await LoopbackServer.start(at: .ipv4(host, port: port), speaking: Self.layout)
    }

    private func port(of server: LoopbackServer) -> UInt16 {
        if case .host(_, let port) = server.endpoint.target { port } else { 0 }
    }

    /// The server that has the link, among those in `left`; otherwise any of them.
    private func next(of left: Set<Int>, _ servers: [LoopbackServer]) async -> Int? {
        for number in left.sorted() where await servers[number].connectionCount > 0 { return number }
        return left.min()
    }

    @Test func noRequestFailsDuringARollingRestart() async throws {
        var servers: [LoopbackServer] = []
        for _ in 0..<3 { servers.append(try await start()) }
        let client = Client(to: servers.map(\.endpoint), speaking: Self.layout)
        let witness = Witness(client, callers: Self.callers, pause: .zero, timeout: .default)
        var lines: [String] = []
        var changes: [(began: ContinuousClock.Instant, ended: ContinuousClock.Instant, number: Int)] = []
        let began = ContinuousClock.now
        var quiet = began
        try await Witness.observe([witness]) {
            try await Task.sleep(for: .seconds(1))
            quiet = .now
            // Twice, so that each server takes over from another.
            for _ in 0..<2 {
                var left: Set = [0, 1, 2]
                while let number = await next(of: left, servers) {
                    left.remove(number)
                    let server = servers[number]
                    let began = ContinuousClock.now
                    await server.stopAccepting()
                    let links = try await server.broadcast(Frame(.goAway, type: 5))
                    try await server.wait(within: .seconds(60)) { $0.connectionCount == 0 }
                    if links > 0 { changes.append((began, .now, number)) }
                    await server.stop()
                    try await witness.waitForAnswers(2)
                    servers[number] = try await start(at: port(of: server))
                    try await witness.waitForAnswers(2)
                }
            }
        }
        lines.append("quiet: \(percentiles(witness.durations(from: began, to: quiet)))")
        for change in changes {
            let during = percentiles(witness.durations(from: change.began, to: change.ended))
            lines.append("server \(change.number), \(milliseconds(change.ended - change.began)): \(during)")
        }
        let links = await client.metrics.connection.links
        lines.append("\(links) links, \(witness.seen.failures.count) failures")
        for line in lines { print("Rolling restart: \(line)") }
        #expect(witness.seen.failures.isEmpty)
        #expect(links == changes.count + 1)
        #expect(
            witness.seen.reports.allSatisfy {
                $0.requestsLost == 0 && ($0.cause == .goAway || $0.cause == .closedLocally)
            }
        )
        let states = witness.seen.states.map(\.state)
        let ready = states.drop { !$0.isReady }.prefix { $0 != .draining && $0 != .closed }
        #expect(ready.allSatisfy { $0.isReady }, "\(states)")
        for server in servers { await server.stop() }
    }
}
