import Foundation
import Synchronization
import Testing

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts
@testable import TrunklineTesting

/// A state that a client can be in, by its name in the tables of `ConnectionStates.md`.
enum Situation: String, CaseIterable, Sendable {
    case idle, resolving, connecting, handshaking, ready
    case left = "ready, a link draining"
    case changing = "ready, a planned change"
    case waiting, noNetwork, suspended, draining, closed
}

extension Situation {
    /// How the description of its state begins.
    var stateName: String { self == .noNetwork ? "no network" : rawValue }
}

/// What can be asked of a client, by its name in the tables of `ConnectionStates.md`.
enum Operation: String, CaseIterable, Sendable {
    case send
    case sendOnce = "send(retry: .never)"
    case sendNow = "send(waitsForReady: false)"
    case post, connect, close, suspend, resume, reconnectNow, switchEndpoint, replaceEndpoints
}

/// The tables of `ConnectionStates.md` that begin with a column "State".
struct StateTable: Sendable {
    private var cells: [String: String] = [:]

    subscript(situation: Situation, operation: Operation) -> String? {
        cells[situation.rawValue + "|" + operation.rawValue]
    }

    static let documented = StateTable()

    private init() {
        let path = URL(filePath: #filePath).appending(
            path: "../../../../Sources/Trunkline/Documentation.docc/Articles/ConnectionStates.md"
        )
        let text = (try? String(contentsOf: path.standardized, encoding: .utf8)) ?? ""
        var columns: [String] = []
        for line in text.split(separator: "\n", omittingEmptySubsequences: false) {
            let row = line.split(separator: "|").map {
                $0.replacing("`", with: "").trimmingCharacters(in: .whitespaces)
            }
            guard line.hasPrefix("|"), let first = row.first else {
                columns = []
                continue
            }
            if first == "State" { columns = row }
            for (column, cell) in zip(columns, row).dropFirst() { cells[first + "|" + column] = cell }
        }
    }
}

/// A client of two simulated servers, brought into any state.
struct StateWorld: Sendable {
    let network: SimulatedNetwork
    let servers: [LoopbackServer]
    let client: Client
    fileprivate let facts: Facts

    fileprivate final class Facts: Sendable {
        /// Whether the servers answer handshakes.
        let answersHandshakes = Mutex(true)
        let runningHandshakes = Mutex(0)
        /// The request that takes two seconds.
        let slow = Mutex<PendingRequest<Response>?>(nil)
    }

    /// Says when nobody holds the client's options any more: when client and connection are gone.
    private final class Witness: Sendable {
        let isGone: @Sendable () -> Void
        init(_ isGone: @escaping @Sendable () -> Void) { self.isGone = isGone }
        deinit { isGone() }
    }

    var now: Duration { network.clock.now.offset }
    var slow: PendingRequest<Response>? { facts.slow.withLock { $0 } }
    func pass(_ duration: Duration) async throws { try await network.clock.sleep(for: duration) }

    /// Runs `body` in `situation`, closes, and looks for anything that is left.
    static func run(
        in situation: Situation,
        seed: UInt64 = 1,
        _ change: @escaping @Sendable (inout ClientOptions) -> Void = { _ in },
        _ body: @escaping @Sendable (StateWorld) async throws -> Void
    ) throws {
        let network = SimulatedNetwork(seed: seed)
        let facts = Facts()
        let isGone = Mutex(false)
        try network.runBlocking {
            let handler: LoopbackServer.Handler = { request in
                if request.body == "login" { return facts.answersHandshakes.withLock { $0 } ? .echo : .noReply }
                return request.body == "slow" ? .after(.seconds(2), .echo) : .echo
            }
            var servers: [LoopbackServer] = []
            for endpoint in ["a:1", "b:1", "c:1"] as [Endpoint] {
                servers.append(try await network.serve(at: endpoint, speaking: .standard, handler: handler))
            }
            let witness = Witness { isGone.withLock { $0 = true } }
            let options = ClientOptions { options in
                options.reconnecting.policy = Backoff(minimum: .seconds(10), cap: .seconds(10))
                options.requests.timeout = .seconds(60)
                options.handshake.perform = { handshaker in
                    facts.runningHandshakes.withLock { $0 += 1 }
                    defer { facts.runningHandshakes.withLock { $0 -= 1 } }
                    _ = try await handshaker.send(ask("login"))
                }
                options.handshake.restore = { _, _ in withExtendedLifetime(witness) {} }
                change(&options)
            }
            let client = network.client(of: ["a:1", "b:1"], speaking: .standard, options: options)
            let world = StateWorld(network: network, servers: servers, client: client, facts: facts)
            try await world.enter(situation)
            try await body(world)
            await client.closeNow()
            await world.expectNothingLeft(situation)
            facts.slow.withLock { $0 = nil }
            for server in servers { await server.stop() }
        }
        #expect(facts.runningHandshakes.withLock { $0 } == 0, "\(situation)")
        #expect(isGone.withLock { $0 }, "\(situation): somebody holds the client")
        #expect(network.openLinks == 0, "\(situation)")
        #expect(network.armedTimers == 0, "\(situation)")
    }

    private func enter(_ situation: Situation) async throws {
        switch situation {
        case .idle: break
        case .resolving:
            for host in ["a", "b"] { network.setResolution(of: host, ipv6: .never, ipv4: .never) }
            await client.reconnectNow()
        case .connecting:
            for host in ["a", "b"] { network.swallowConnections(to: host) }
            await client.reconnectNow()
        case .handshaking:
            facts.answersHandshakes.withLock { $0 = false }
            await client.reconnectNow()
        case .ready: try await client.connect()
        case .left:
            try await startSlow()
            try await client.switchEndpoint(to: servers[1].endpoint)
            await client.becomesReady(at: servers[1].endpoint)
        case .changing:
            try await client.connect()
            facts.answersHandshakes.withLock { $0 = false }
            try await client.switchEndpoint(to: servers[1].endpoint)
        case .waiting:
            for host in ["a", "b"] { network.refuseConnections(to: host) }
            await client.reconnectNow()
        case .noNetwork:
            network.setInterface("eth0", isUp: false)
            await client.reconnectNow()
        case .suspended:
            try await client.connect()
            await client.suspend()
        case .draining:
            try await startSlow()
            let client = client
            Task(executorPreference: network.executor) { await client.close() }
        case .closed: await client.closeNow()
        }
        try await pass(.milliseconds(100))
        let state = await client.connection.state.description
        let isReady = [.ready, .left, .changing].contains(situation)
        #expect(state.hasPrefix(isReady ? "ready" : situation.stateName), "\(state) instead of \(situation)")
        #expect(await (client.connection.entered { $0.machine.change } != nil) == (situation == .changing))
    }

    private func startSlow() async throws {
        facts.slow.withLock { $0 = client.start(ask("slow")) }
        try await servers[0].waitForRequest { $0.body == "slow" }
    }

    /// Ends whatever keeps the client from a link.
    func heal() async {
        for host in ["a", "b"] {
            network.setResolution(of: host)
            network.acceptConnections(to: host)
        }
        network.setInterface("eth0", isUp: true)
        facts.answersHandshakes.withLock { $0 = true }
        await client.resume()
    }

    /// The client is closed: it has no socket, timer or request any more.
    func expectNothingLeft(_ situation: Situation) async {
        let left = await client.leftovers
        #expect(left.isEmpty, "\(situation): \(left)")
    }
}
