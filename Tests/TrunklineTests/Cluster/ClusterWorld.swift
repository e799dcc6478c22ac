import TrunklineTesting

@testable import TrunklineCluster
@testable import TrunklineCore
@testable import TrunklineIO

/// The servers of a simulated life of a cluster, its discovery, and what has happened so far.
final class ClusterWorld: Sendable {
    enum Mood: String, CaseIterable { case usual, slow, failing, resetting, hanging }

    private struct State {
        var servers: [LoopbackServer] = []
        var moods: [Mood]
        /// The servers of the latest correct list.
        var listed: [Int]
        /// Since when each server has been seen ejected without a panic.
        var ejectedSince: [String: Duration] = [:]
        /// Since when each server has been seen waiting for a probe, with a link.
        var probingSince: [String: Duration] = [:]
        /// When the latest panic ended.
        var panicEnded = Duration.zero
        /// How often each further piece of an upload was received.
        var pieces: [Bytes: Int] = [:]
        /// When each call began.
        var began: [UInt64: Duration] = [:]
        /// The number of requests that each server has received since the faults ended.
        var receivedSinceEnd: [Int: Int]?
        var isOver = false
        var tally: [String: Int] = [:]
        var log: [String] = []
        var violations: [String] = []
    }

    let plan: ClusterPlan
    let network: SimulatedNetwork
    let lists: ClusterLists
    private let cluster = Lock<Cluster?>(nil)
    private let state: Lock<State>

    init(_ plan: ClusterPlan, recordsTrace: Bool) {
        self.plan = plan
        network = SimulatedNetwork(seed: plan.seed)
        network.recordsTrace = recordsTrace
        lists = ClusterLists(ignoringCancellation: plan.seed % 3 == 0)
        state = Lock(
            State(moods: plan.hosts.map { _ in .usual }, listed: Array(plan.hosts.indices))
        )
        network.host("nowhere")
        if plan.isNamed { lists.publish(in: network) }
    }

    // MARK: Facts

    var now: Duration { network.clock.now.offset }
    var tally: [String: Int] { state.withLock { $0.tally } }
    var log: [String] { state.withLock { $0.log } }
    var violations: [String] { state.withLock { $0.violations } }
    var servers: [LoopbackServer] { state.withLock { $0.servers } }
    var listed: [Int] { state.withLock { $0.listed } }
    var pieces: [Bytes: Int] { state.withLock { $0.pieces } }
    var isOver: Bool { state.withLock { $0.isOver } }
    var receivedSinceEnd: [Int: Int] { state.withLock { $0.receivedSinceEnd ?? [:] } }

    func count(_ name: String, _ number: Int = 1) { state.withLock { $0.tally[name, default: 0] += number } }

    func note(_ line: @autoclosure () -> String) {
        guard network.recordsTrace else { return }
        let line = "\(now): \(line())"
        state.withLock { $0.log.append(line) }
    }

    func violated(_ what: String) {
        note("VIOLATION: \(what)")
        state.withLock { $0.violations.append("\(now): \(what)") }
    }

    func callBegan(_ number: UInt64) {
        let now = now
        state.withLock { $0.began[number] = now }
    }

    // MARK: Commands

    func pass(_ time: Duration) async throws { try await network.clock.sleep(for: time) }

    func pass(upTo time: Duration, _ random: inout SeededGenerator) async throws {
        try await pass(time * Double.random(in: 0...1, using: &random))
    }

    func watch(_ cluster: Cluster) { self.cluster.withLock { $0 = cluster } }

    func forgetCluster() { cluster.withLock { $0 = nil } }

    func end() { state.withLock { $0.isOver = true } }

    /// Answers questions about the name, and lets the cluster ask as often as it may.
    func answer(_ cluster: Cluster) async throws {
        guard plan.isNamed else { return }
        var random = plan.random(6)
        while !isOver {
            if plan.rotates { lists.turn(&random) }
            cluster.refresh.ring()
            try await pass(.milliseconds(700))
        }
    }

    /// The name that the cluster looks up, in some lives.
    static let name = Endpoint.host("orders", port: 7000)

    func setMood(_ mood: Mood, _ index: Int) { state.withLock { $0.moods[index] = mood } }

    func setListed(_ listed: [Int]) { state.withLock { $0.listed = listed } }

    func setEjected(_ ejected: Set<String>) {
        let now = now
        state.withLock { state in
            for endpoint in ejected where state.ejectedSince[endpoint] == nil { state.ejectedSince[endpoint] = now }
            state.ejectedSince = state.ejectedSince.filter { ejected.contains($0.key) }
        }
    }

    /// A server that is ready waits for a probe for a limited time.
    func setProbing(_ probing: Set<String>) {
        let now = now
        let late = state.withLock { state in
            for endpoint in probing where state.probingSince[endpoint] == nil { state.probingSince[endpoint] = now }
            state.probingSince = state.probingSince.filter { probing.contains($0.key) }
            return state.probingSince.filter { now - $0.value > ClusterPlan.longestProbing }.map(\.key)
        }
        if !probing.isEmpty { count("probing") }
        for endpoint in late { violated("\(endpoint) waits for a probe since \(ClusterPlan.longestProbing)") }
    }

    func beginCountingReceived() { state.withLock { $0.receivedSinceEnd = [:] } }

    func startServers() async throws {
        for index in plan.hosts.indices {
            let server = try await network.startServer(
                at: plan.endpoint(index).endpoint,
                speaking: plan.codec,
                options: plan.serverOptions,
                // The world holds its servers.
                handler: { [weak self] in self?.reaction(of: index, to: $0) ?? .noReply }
            )
            state.withLock { $0.servers.append(server) }
        }
    }

    private func reaction(of index: Int, to request: Frame) -> Reaction {
        let mood = state.withLock { state in
            state.receivedSinceEnd?[index, default: 0] += 1
            return state.moods[index]
        }
        guard let number = SeedPlan.number(in: request.body) else { return .echo }
        checkEjection(of: index, number)
        if request.type == SeedCalls.oneWayType { return .noReply }
        if request.kind == .part { return upload(number, mood) }
        var random = plan.random(1000 + number)
        let delay = Duration.microseconds(Int.random(in: 500...10_000, using: &random))
        let isInParts = Int.random(in: 0..<6, using: &random) == 0
        switch mood {
        case .usual, .slow:
            let delay = mood == .slow ? delay * 10 : delay
            if isInParts {
                // Some replies end long after their first part.
                let rest = Int.random(in: 0..<4, using: &random) == 0 ? Duration.milliseconds(1200) : .zero
                return .after(delay, .parts([request.body], every: delay, then: .after(rest, .reply(empty))))
            }
            return .after(delay, .echo)
        case .failing: return .status(ClusterPlan.failureStatus, request.body)
        case .resetting: return .reset
        case .hanging: return .noReply
        }
    }

    /// Answers an upload after its last piece, or before.
    private func upload(_ number: UInt64, _ mood: Mood) -> Reaction {
        if mood == .resetting { return .reset }
        var random = plan.random(1000 + number)
        let delay = Duration.microseconds(Int.random(in: 500...10_000, using: &random))
        let isInParts = Int.random(in: 0..<4, using: &random) == 0
        return .perform { [weak self] exchange in
            guard let self else { return }
            let body = exchange.request.body
            func reply(_ status: UInt32, _ body: Bytes) async throws {
                try await exchange.reply(Frame(.response, type: ask("").type, status: status, body: body))
            }
            if mood == .failing { return try await reply(ClusterPlan.failureStatus, body) }
            var frame = exchange.request
            while frame.kind == .part, let next = try await exchange.next() {
                frame = next
                notePiece(frame.body)
            }
            if mood == .hanging { return }
            try await pass(mood == .slow ? delay * 10 : delay)
            guard isInParts else { return try await reply(200, body) }
            try await exchange.part(Frame(.part, type: ask("").type, body: body))
            try await pass(delay)
            try await reply(200, "")
        }
    }

    private func notePiece(_ body: Bytes) { state.withLock { $0.pieces[body, default: 0] += 1 } }

    private var empty: Frame { Frame(.response, status: 200) }

    /// A request of a call that began when its server was already ejected, and that is received during the same
    /// ejection, was sent to an ejected server.
    private func checkEjection(of index: Int, _ number: UInt64) {
        let endpoint = plan.endpoint(index).endpoint
        let (since, began, panicEnded) = state.withLock {
            ($0.ejectedSince["\(endpoint)"], $0.began[number], $0.panicEnded)
        }
        // A server may have been chosen in a panic that is over when it receives the request.
        guard let since, let began, began > max(since, panicEnded), let cluster = cluster.withLock({ $0 }) else {
            return
        }
        let isEjected = cluster.assumeIsolated { $0.isEjected(endpoint) }
        if isEjected { violated("\(endpoint), ejected since \(since), received request \(number), begun at \(began)") }
    }
}

extension ClusterWorld: ClientObserver {
    var interests: ClientEvent.Kinds { .endpoints }
    var delivery: EventDelivery { .onEventLoop }

    func observe(_ events: [ClientEvent]) {
        for event in events {
            switch event.content {
            case .clusterChanged(.panicEnded): state.withLock { $0.panicEnded = event.time }
            // Also after a failed probe, which the server may receive later than that.
            case .clusterChanged(.ejected(let endpoint, _, _)):
                state.withLock { $0.ejectedSince["\(endpoint)"] = event.time }
            default: break
            }
        }
    }
}

/// A discovery whose lists and errors a test decides.
final class ClusterLists: AsyncSequence, Sendable {
    struct LookupFailed: Error {}

    typealias Element = [ClusterEndpoint]

    struct AsyncIterator: AsyncIteratorProtocol {
        fileprivate var base: AsyncStream<[ClusterEndpoint]?>.Iterator

        /// The list that it returns again and again if its task is cancelled; `nil` for none, so that it ends.
        fileprivate var latest: [ClusterEndpoint]?
        fileprivate let ignoresCancellation: Bool

        mutating func next() async throws -> [ClusterEndpoint]? {
            guard let list = await base.next(isolation: #isolation) else { return ignoresCancellation ? latest : nil }
            guard let list else { throw LookupFailed() }
            latest = list
            return list
        }
    }

    private let (stream, continuation) = AsyncStream<[ClusterEndpoint]?>.makeStream()

    private let ignoresCancellation: Bool

    init(ignoringCancellation: Bool = false) { ignoresCancellation = ignoringCancellation }

    func makeAsyncIterator() -> AsyncIterator {
        AsyncIterator(base: stream.makeAsyncIterator(), ignoresCancellation: ignoresCancellation)
    }

    func found(_ list: [ClusterEndpoint]) {
        guard let network = network.withLock({ $0 }) else { return _ = continuation.yield(.some(list)) }
        hosts.withLock { $0 = list.compactMap(\.endpoint.host) }
        network.setName(name, hosts: hosts.withLock { $0 })
        network.setResolution(of: name)
    }

    func fail() {
        guard let network = network.withLock({ $0 }) else { return _ = continuation.yield([ClusterEndpoint]?.none) }
        let failure = NameAnswer.failure(after: .milliseconds(1))
        network.setResolution(of: name, ipv6: failure, ipv4: failure)
    }

    // MARK: A name instead

    private var name: String { ClusterWorld.name.host ?? "" }
    private let network = Lock<SimulatedNetwork?>(nil)
    private let hosts = Lock<[String]>([])

    /// Makes the lists the addresses of a name.
    func publish(in network: SimulatedNetwork) { self.network.withLock { $0 = network } }

    /// Makes another half of the latest list the addresses of the name.
    func turn(_ random: inout SeededGenerator) {
        let all = hosts.withLock { $0 }
        let part = all.shuffled(using: &random).prefix((all.count + 1) / 2)
        network.withLock { $0 }?.setName(name, hosts: Array(part))
    }
}

extension Cluster {
    /// What a simulation looks at from time to time.
    struct Look: Sendable {
        let table: PickTable
        let isPanicking: Bool
        /// The requests in flight of the servers that are ejected, outside of a panic.
        var ejected: [UInt64: (endpoint: String, inFlight: Int)] = [:]
        /// The servers that wait for a probe, and are ready.
        var probing: Set<String> = []
        let waiting: Int
        /// Whether a server could take a request.
        let hasRoom: Bool
        /// The servers that have more requests in flight than their limit may ever be, apart from a probe.
        let crowded: [Endpoint]
        /// The number of links that are used.
        let links: Int
    }

    func look() -> Look {
        let limit = options.adaptiveLimit?.upperBound ?? .max
        let serving = servers.all.filter { server in
            [.serves, .servesAndIsProbed].contains(use(of: server.member.id))
                && server.links.contains { !$0.link.isLarge && $0.isReady && $0.link.isReady }
        }
        let weighted = serving.filter { $0.found.weight > 0 }
        var look = Look(
            table: picker.table,
            isPanicking: outliers.isPanicking,
            waiting: waiting.waitingCount,
            hasRoom: (weighted.isEmpty ? serving : weighted)
                .contains { $0.member.inFlight < $0.member.maximumInFlight },
            crowded: servers.all.filter { $0.member.inFlight - 1 > limit }.map(\.found.endpoint),
            links: servers.all.reduce(0) { $0 + $1.links.count }
        )
        for server in servers.all where server.isReady {
            guard case .probing = outliers.state(of: server.member.id) else { continue }
            look.probing.insert("\(server.found.endpoint)")
        }
        for server in servers.all where isEjected(server.found.endpoint) {
            let inFlight = server.links.reduce(0) { $0 + $1.link.inFlight }
            look.ejected[server.member.id] = ("\(server.found.endpoint)", inFlight)
        }
        return look
    }

    func isEjected(_ endpoint: Endpoint) -> Bool {
        guard !outliers.isPanicking, let server = servers.all.first(where: { $0.found.endpoint == endpoint }),
            case .ejected = outliers.state(of: server.member.id)
        else { return false }
        return true
    }

    /// The servers that must serve when nothing is wrong.
    var expectedServers: [Endpoint] {
        // Those without weight are the last resort.
        let weighted = servers.all.filter { $0.found.weight > 0 }
        let serving = weighted.isEmpty ? servers.all : weighted
        let local = serving.filter { options.zone != nil && $0.found.zone == options.zone }
        return (local.isEmpty ? serving : local).map(\.found.endpoint)
    }

    var usedServers: [Endpoint] { servers.all.map(\.found.endpoint) }

    /// The loads that are left when no call is under way.
    var leftLoads: [String] {
        let links = servers.all.flatMap { $0.links.map(\.link) } + servers.draining.values.sorted { $0.id < $1.id }
        var left = links.filter { $0.inFlight != 0 }.map { "\($0.inFlight) requests of \($0.member.endpoint)" }
        left += servers.all.filter { $0.member.inFlight != 0 }
            .map { "\($0.member.inFlight) counted for \($0.found.endpoint)" }
        if waiting.waitingCount != 0 { left.append("\(waiting.waitingCount) waiting calls") }
        return left
    }
}
