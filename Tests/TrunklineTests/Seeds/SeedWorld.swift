import Synchronization
import Trunkline

@testable import TrunklineTesting

/// The servers of a simulated life, their state, and what has happened so far.
final class SeedWorld: Sendable {
    enum HandshakeMood { case usual, slow, refusing, busy, silent }

    private struct State {
        /// The servers that listen, by host.
        var servers: [String: LoopbackServer] = [:]
        /// All servers that were ever started, in order.
        var all: [LoopbackServer] = []
        var mood = HandshakeMood.usual
        /// Whether servers behave. A request that waited until now is then answered like any other.
        var isMended = false
        var stalled = Duration.zero
        /// The times during which the process of the client was, or is, stopped.
        var stops: [Range<Duration>] = []
        var tally: [String: Int] = [:]
        var log: [String] = []
        var violations: [String] = []
        /// How often each further piece of an upload was received.
        var pieces: [Bytes: Int] = [:]
        /// The calls of `subscribe`, by the body of their request; the error of those that failed.
        var subscriptions: [Bytes: ClientError?] = [:]
    }

    let plan: SeedPlan
    let network: SimulatedNetwork
    private let state = Mutex(State())

    init(_ plan: SeedPlan, recordsTrace: Bool) {
        self.plan = plan
        network = SimulatedNetwork(seed: plan.seed, conditions: plan.conditions)
        network.recordsTrace = recordsTrace
        for host in plan.hosts {
            network.host(host)
            network.setName("\(host).test", hosts: plan.hasDeadAddress ? ["fd00::99", "10.9.9.9", host] : [host])
        }
        network.addInterface("wlan0", address: "192.168.0.7", metric: Self.spareMetric)
        network.hidesPaths = plan.hidesPaths
        network.longestNewsDelay = plan.newsDelay
        if plan.hasDeadAddress { network.swallowConnections(to: "10.9.9.9") }
    }

    // MARK: Facts

    var now: Duration { network.clock.now.offset }
    /// How long the event loop has been held up, or the process stopped, until now.
    var stalled: Duration {
        let now = now
        return state.withLock { state in
            state.stops.reduce(state.stalled) { $0 + max(.zero, min(now, $1.upperBound) - $1.lowerBound) }
        }
    }
    var tally: [String: Int] { state.withLock { $0.tally } }
    var log: [String] { state.withLock { $0.log } }
    var violations: [String] { state.withLock { $0.violations } }
    var allServers: [LoopbackServer] { state.withLock { $0.all } }
    var pieces: [Bytes: Int] { state.withLock { $0.pieces } }
    var subscriptions: [Bytes: ClientError?] { state.withLock { $0.subscriptions } }
    func server(_ host: String) -> LoopbackServer? { state.withLock { $0.servers[host] } }

    func count(_ name: String, _ number: Int = 1) { state.withLock { $0.tally[name, default: 0] += number } }

    func note(_ line: @autoclosure () -> String) {
        guard network.recordsTrace else { return }
        let line = "\(now): \(line())"
        state.withLock { $0.log.append(line) }
    }

    func noteSubscription(_ body: Bytes, _ error: ClientError?) {
        note("\(body): \(error.map { "\($0)" } ?? "subscribed")")
        state.withLock { $0.subscriptions[body] = .some(error) }
    }

    func violated(_ what: String) {
        note("VIOLATION: \(what)")
        state.withLock { $0.violations.append(what) }
    }

    // MARK: Commands

    func pass(_ time: Duration) async throws { try await network.clock.sleep(for: time) }

    func pass(upTo microseconds: Int, _ random: inout SeededGenerator) async throws {
        try await pass(.microseconds(Int.random(in: 0...microseconds, using: &random)))
    }

    func stopMisbehaving() { state.withLock { $0.isMended = true } }

    func setMood(_ mood: HandshakeMood) { state.withLock { $0.mood = mood } }

    func stall(for time: Duration) {
        state.withLock { $0.stalled += time }
        network.stall(for: time)
    }

    func stop(for time: Duration) {
        let now = now
        state.withLock { $0.stops.append(now..<now + time) }
        network.stopProcess(for: time)
    }

    func sleep(for time: Duration) {
        state.withLock { $0.stalled += time }
        network.putToSleep(for: time)
    }

    func startServer(_ host: String) async throws {
        let server = try await network.serve(
            at: .host(host, port: 7000),
            speaking: plan.codec,
            options: plan.serverOptions,
            handler: { [weak self] in self?.reaction(to: $0) ?? .noReply }  // the world holds its servers
        )
        state.withLock { state in
            state.servers[host] = server
            state.all.append(server)
        }
    }

    /// Answers an upload after its last piece, or before, or not at all.
    private func upload(_ request: Frame) -> Reaction {
        var random = plan.random(2000 + (SeedPlan.number(in: request.body) ?? 0))
        let (way, delay) = (Int.random(in: 0..<8, using: &random), Int.random(in: 0...20_000, using: &random))
        let isMended = state.withLock { $0.isMended }
        if way == 0, !isMended { return .reset }
        return .perform { [weak self] exchange in
            guard let self else { return }
            var frame = exchange.request
            while frame.kind == .part, way != 1, let next = try await exchange.next() {
                frame = next
                notePiece(frame.body)
            }
            if way == 2, !isMended { return }
            try await pass(.microseconds(delay))
            let type = ask("").type
            if way < 5 { return try await exchange.reply(Frame(.response, type: type, body: exchange.request.body)) }
            try await exchange.part(Frame(.part, type: type, body: exchange.request.body))
            try await pass(.microseconds(delay / 2))
            try await exchange.reply(Frame(.response, type: type))
        }
    }

    private func notePiece(_ body: Bytes) { state.withLock { $0.pieces[body, default: 0] += 1 } }

    func stopServer(_ host: String) async {
        await state.withLock { $0.servers.removeValue(forKey: host) }?.stop()
    }

    private func reaction(to request: Frame) -> Reaction {
        if request.kind == .part { return upload(request) }
        if let number = SeedPlan.number(in: request.body), !state.withLock({ $0.isMended }) {
            return plan.reaction(to: request, number)
        }
        if request.type == SeedCalls.oneWayType, plan.matching == .inOrder { return .noReply }
        // Slow, so that links change meanwhile.
        if request.body == "topic 1", plan.seed % 2 == 0, !state.withLock({ $0.isMended }) {
            return .after(.milliseconds(60), .echo)
        }
        guard String(request.body).hasPrefix("login") else { return .echo }
        return switch state.withLock({ $0.mood }) {
        case .usual: .echo
        case .slow: .after(.milliseconds(50), .echo)
        case .refusing: .reply("no")
        case .busy: .reply("later")
        case .silent: .noReply
        }
    }
}
