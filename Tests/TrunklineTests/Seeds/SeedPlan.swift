import Trunkline

@testable import TrunklineTesting

/// Everything about a simulated life that its seed decides before it begins.
struct SeedPlan: Sendable {
    enum Matching { case wide, narrow, strict, inOrder }

    /// The time limit of one attempt. It includes the handshake, but not the restoration of subscriptions:
    /// see `restoring`.
    var connectTimeout: Duration { hasDeadAddress ? .milliseconds(250) : .milliseconds(100) }
    static let handshakeTimeout = Duration.milliseconds(80)
    /// The time for two subscriptions, each restored at the last moment.
    var restoring: Duration { subscribes ? Self.handshakeTimeout * 3 : .zero }
    static let requestTimeout = Duration.milliseconds(400)
    static let drainTimeout = Duration.milliseconds(200)
    static let backoffCap = Duration.milliseconds(20)
    /// The longest retry delay that a server sends. The client adds up to a tenth.
    static let longestHint = Duration.milliseconds(40)
    static let halfLife = Duration.milliseconds(20)
    private static let refusalPause = Duration.milliseconds(50)
    static let quarantine = Duration.milliseconds(100)

    let seed: UInt64
    let matching: Matching
    let hosts: [String]
    let heartbeat: HeartbeatMode
    let heartbeatTimes: (interval: Duration, deadline: Duration)
    let hasHandshake: Bool
    /// Whether the servers send a frame first, which the handshake reads.
    let serverSpeaksFirst: Bool
    let refusesForGood: Bool
    /// Whether names resolve to an unreachable address first.
    let hasDeadAddress: Bool
    let subscribes: Bool
    let closesEarly: Bool
    let closesAtOnce: Bool
    /// Whether some responses announce a length that is 1 MiB too large, so that later frames are taken for their body.
    let losesFraming: Bool
    /// Whether the system hides its network.
    let hidesPaths: Bool
    /// The longest delay until the client learns of a change of its network.
    let newsDelay: Duration
    /// Whether planned changes establish the next link while there is one.
    let overlapsLinks: Bool

    init(seed: UInt64) {
        self.seed = seed
        var random = SeededGenerator(seed: seed &* 1_000_003)
        matching = [Matching.wide, .wide, .strict, .strict, .inOrder, .narrow][Int.random(in: 0..<6, using: &random)]
        hosts = Array(["a", "b", "c"].prefix(Int.random(in: 1...3, using: &random)))
        heartbeat =
            switch Int.random(in: 0..<6, using: &random) {
            case 0, 1: .none
            case 2: .oneWay
            default: .pingPong
            }
        heartbeatTimes = (
            .milliseconds(Int.random(in: 5...50, using: &random)),
            .milliseconds(Int.random(in: 10...40, using: &random))
        )
        hasHandshake = Int.random(in: 0..<2, using: &random) == 0
        serverSpeaksFirst = hasHandshake && Int.random(in: 0..<3, using: &random) == 0
        refusesForGood = Int.random(in: 0..<4, using: &random) == 0
        hasDeadAddress = Int.random(in: 0..<4, using: &random) == 0
        subscribes = Int.random(in: 0..<3, using: &random) == 0
        closesEarly = Int.random(in: 0..<5, using: &random) == 0
        closesAtOnce = Int.random(in: 0..<2, using: &random) == 0
        losesFraming = Int.random(in: 0..<4, using: &random) == 0
        hidesPaths = Int.random(in: 0..<6, using: &random) == 0
        overlapsLinks = Int.random(in: 0..<5, using: &random) != 0
        newsDelay = .milliseconds([0, 5, 60][Int.random(in: 0..<3, using: &random)])
    }

    /// A random number generator for one purpose, which does not depend on what happens elsewhere.
    func random(_ salt: UInt64) -> SeededGenerator { SeededGenerator(seed: seed &* 1_000_003 &+ salt) }

    var codec: SeedCodec {
        switch matching {
        case .wide: .wide
        case .narrow: .narrow
        case .strict: .strict
        case .inOrder: .inOrder
        }
    }

    /// The bit of a frame's length that is worth 1 MiB.
    var mebibyteBit: Int {
        switch matching {
        case .wide, .narrow: 8 * 8 + 11
        case .strict: 10 * 8 + 11
        case .inOrder: 4 * 8 + 11
        }
    }

    var hasStatus: Bool { matching == .strict || matching == .inOrder }
    var endpoints: [Endpoint] { hosts.map { endpoint($0) } }
    /// The endpoint of a host. Its name differs from that of the host in the network, and is resolved slowly
    /// to its address.
    func endpoint(_ host: String) -> Endpoint { Wire.endpoint(.host("\(host).test", port: 7000)) }

    /// The longest time until a client gets a response after the faults have been mended. In this time it notices
    /// that the old link is dead or that the present attempt fails. Then it waits as long as the server or the
    /// policy requires, or until a refusal is forgotten, and connects once more. Finally there must be room for
    /// another request.
    var recoveryBound: Duration {
        var bound = (connectTimeout + restoring) * 2 + Self.backoffCap + .milliseconds(10)
        // Without a ping, the client notices a frame that is never completed.
        bound += heartbeatTimes.deadline + (heartbeat == .pingPong ? heartbeatTimes.interval : .zero)
        bound += Self.longestHint * 11 / 10
        // Abandoned requests hold every place below the limit.
        if matching != .narrow { bound += Self.quarantine }
        // They hold every serial, or must be answered first: the link is replaced, with the back-off of the policy.
        if matching == .narrow || matching == .inOrder {
            bound += .milliseconds(250) + Self.backoffCap + connectTimeout
        }
        if hasHandshake, refusesForGood { bound += Self.halfLife * 8 + Self.refusalPause * 1.1 }
        // The network becomes better, perhaps twice.
        bound += (.milliseconds(80) + newsDelay) * 2
        // The next attempt begins when the link that it must not overlap is closed: its requests have ended, and if the
        // server does not read, 2 s more have passed.
        if !overlapsLinks { bound += Self.requestTimeout + .seconds(2) }
        return bound
    }

    var options: ClientOptions {
        var random = random(1)
        return ClientOptions {
            $0.reconnecting.policy = Backoff(base: .milliseconds(2), cap: Self.backoffCap)
            $0.reconnecting.refusalPause = Self.refusalPause
            $0.reconnecting.stableAfter = .milliseconds(Int.random(in: 5...100, using: &random))
            if Int.random(in: 0..<5, using: &random) == 0 { $0.reconnecting.maximumAttempts = 3 }
            $0.connecting.timeout = connectTimeout
            $0.connecting.resolutionDelay = .milliseconds(5)
            $0.connecting.attemptDelay = .milliseconds(10)
            $0.handshake.timeout = Self.handshakeTimeout
            $0.failover.order = [.ordered, .shuffled, .weighted][Int.random(in: 0..<3, using: &random)]
            $0.failover.halfLife = Self.halfLife
            $0.failover.errorRate?.minimumRequests = Int.random(in: 3...20, using: &random)
            $0.failover.errorRate?.window = .milliseconds(200)
            if Int.random(in: 0..<3, using: &random) == 0 {
                $0.failover.returnsToPreferredAfter = .milliseconds(Int.random(in: 10...100, using: &random))
            }
            $0.liveness.heartbeat = heartbeat
            $0.liveness.interval = heartbeatTimes.interval
            $0.liveness.deadline = heartbeatTimes.deadline
            $0.liveness.probeAfter =
                Int.random(in: 0..<3, using: &random) == 0 ? nil : .milliseconds(Int.random(in: 2...30, using: &random))
            $0.requests.timeout = Self.requestTimeout
            $0.requests.drainTimeout = Self.drainTimeout
            $0.requests.quarantine = matching == .narrow ? .seconds(60) : Self.quarantine
            $0.requests.maximumInFlight = Int.random(in: 2...30, using: &random)
            // Four serials are soon all in quarantine. Links are then replaced because of them, not
            // because of the limit.
            if matching == .narrow { $0.requests.maximumInFlight = 65_536 }
            if Int.random(in: 0..<4, using: &random) == 0 {
                $0.requests.maximumWaiting = Int.random(in: 2...20, using: &random)
                $0.requests.maximumWaitingBytes = Int.random(in: 200...4000, using: &random)
            }
            switch Int.random(in: 0..<3, using: &random) {
            case 0: $0.requests.retryBudget = nil
            case 1: $0.requests.retryBudget?.initial = 2
            default: break
            }
            $0.outbound.highWatermark = Int.random(in: 100...4000, using: &random)
            $0.outbound.lowWatermark = Int.random(in: 0...200, using: &random)
            if Int.random(in: 0..<4, using: &random) == 0 {
                $0.failover.maximumLinkAge = .milliseconds(Int.random(in: 20...200, using: &random))
            }
            $0.failover.overlap = overlapsLinks ? .allowed : .never
            $0.failover.sendsAfterGoAway = Int.random(in: 0..<4, using: &random) != 0
            $0.network.onRouteChange = [.ignore, .probe, .move][Int.random(in: 0..<3, using: &random)]
            if hasHandshake { $0.handshake.perform = { handshaker in try await handshake(handshaker) } }
        }
    }

    private func handshake(_ handshaker: Handshaker) async throws {
        let salt = serverSpeaksFirst ? try await handshaker.nextMessage().body : Bytes()
        let answer = try await handshaker.send(Request(type: 0x410, body: Bytes("login \(salt)")))
        if answer.body == "no" { throw HandshakeRefusal("no", isPermanent: refusesForGood) }
        if answer.body == "later" { throw HandshakeRefusal("later", isPermanent: false, retryAfter: Self.longestHint) }
    }

    var serverOptions: LoopbackServer.Options {
        LoopbackServer.Options {
            $0.answersCancelled = seed % 2 == 0
            if hasStatus { $0.successStatus = 200 }
            if serverSpeaksFirst { $0.onConnect = .push(Frame(.push, type: 2, body: "salt")) }
        }
    }

    /// The conditions of the network without faults.
    var conditions: NetworkConditions {
        var random = random(2)
        var conditions = NetworkConditions()
        conditions.sendBuffer = Int.random(in: 50...2000, using: &random)
        conditions.receiveWindow = Int.random(in: 50...2000, using: &random)
        conditions.fragmentation = [0, 0.25, 0.9][Int.random(in: 0..<3, using: &random)]
        return conditions
    }
}
