import TrunklineTesting

@testable import TrunklineCluster
@testable import TrunklineCore
@testable import TrunklineIO

/// Everything about a simulated life of a cluster that its seed decides before it begins.
struct ClusterPlan: Sendable {
    static let requestTimeout = Duration.seconds(2)
    static let idempotentTries = 3
    /// The longest time for which a server that is ready waits for a probe.
    static let longestProbing = OutlierRules.Settings().probingTime + .milliseconds(20)
    /// The longest time until all servers serve again after the faults have been mended.
    var recoveryBound: Duration { .seconds(rotates ? 300 : 90) }

    let seed: UInt64
    let hosts: [String]
    let zones: [String?]
    let weights: [Double]
    /// Whether the cluster looks up the addresses of a name.
    let isNamed: Bool
    /// Whether the name server answers with a part of the addresses, another one each time.
    let rotates: Bool
    let options: ClusterOptions
    let closesEarly: Bool
    let closesAtOnce: Bool
    let drainTimeout: Duration
    /// The number of calls that wait from the beginning on, beside those of the callers.
    let crowd: Int

    init(seed: UInt64) {
        self.seed = seed
        var random = SeededGenerator(seed: seed &* 1_000_003 &+ 0xC1)
        let count = seed % 50 == 49 ? Int.random(in: 13...100, using: &random) : Int.random(in: 3...12, using: &random)
        // A name has neither zones nor weights.
        let isNamed = seed % 8 == 3
        (self.isNamed, rotates) = (isNamed, seed % 16 == 3)
        hosts = (0..<count).map { isNamed ? "10.1.0.\($0 + 1)" : "s\($0)" }
        let (hasZones, hasWeights) = (seed % 4 == 1, Int.random(in: 0..<4, using: &random) == 0 && !isNamed)
        var zones: [String?] = []
        var weights: [Double] = []
        for _ in 0..<count {
            zones.append(hasZones ? ["here", "there", nil][Int.random(in: 0..<3, using: &random)] : nil)
            weights.append(hasWeights ? Double(Int.random(in: 0...4, using: &random)) : 1)
        }
        (self.zones, self.weights) = (zones, weights)
        var options = ClusterOptions()
        // In the others, an error response may be that of the request.
        if seed % 3 != 2 { options.isFailure = { $0.status == Self.failureStatus } }
        options.balancing = Bool.random(using: &random) ? .leastLoaded : .roundRobin
        // The same, in the way that a policy of a user is called.
        if seed % 5 == 4 { options.balancing = SamplePolicies.ofUser(options.balancing) }
        let fewestLinks = Int.random(in: 1...2, using: &random)
        options.linksPerEndpoint = fewestLinks...(fewestLinks + Int.random(in: 0...2, using: &random))
        options.linkIdleTime = .seconds(Int.random(in: 1...5, using: &random))
        if Int.random(in: 0..<4, using: &random) == 0 { options.subset = Int.random(in: 1...count, using: &random) }
        if hasZones { options.zone = "here" }
        if Int.random(in: 0..<3, using: &random) == 0 {
            options.adaptiveLimit = 1...Int.random(in: 1...20, using: &random)
            options.isOverload = { $0.status == Self.failureStatus }
        }
        options.ejection = nil
        if Int.random(in: 0..<5, using: &random) != 0 {
            var ejection = ClusterOptions.Ejection()
            ejection.consecutiveFailures = [nil, 1, 2, 3, 5][Int.random(in: 0..<5, using: &random)]
            ejection.baseTime = .seconds(Int.random(in: 1...3, using: &random))
            ejection.maximumTime = .seconds(Int.random(in: 3...10, using: &random))
            // Not drawn from `random`: the rest of the plan does not depend on it.
            ejection.maximumShare = [0.5, 0.5, 0.1, 0][Int(seed / 7 % 4)]
            options.ejection = ejection
        }
        options.slowStart = [.zero, .seconds(1), .seconds(10)][Int.random(in: 0..<3, using: &random)]
        options.hedgeBudget = [0, 0.05, 1][Int.random(in: 0..<3, using: &random)]
        options.drainTimeout = .seconds(Int.random(in: 1...5, using: &random))
        self.options = options
        closesEarly = Int.random(in: 0..<6, using: &random) == 0
        closesAtOnce = Bool.random(using: &random)
        drainTimeout = .milliseconds(Int.random(in: 100...3000, using: &random))
        crowd = Int.random(in: 0..<4, using: &random) == 0 ? Int.random(in: 20...300, using: &random) : 0
    }

    /// Whether all servers must have about the same share in the end: nothing makes them differ.
    var isEven: Bool {
        hosts.count <= 12 && options.subset ?? .max >= hosts.count && options.zone == nil
            && options.adaptiveLimit == nil
            && weights.allSatisfy { $0 == 1 }
    }

    /// The status of the error responses of a server that fails fast.
    static let failureStatus: UInt32 = 503

    /// A random number generator for one purpose, which does not depend on what happens elsewhere.
    func random(_ salt: UInt64) -> SeededGenerator { SeededGenerator(seed: seed &* 1_000_003 &+ salt) }

    let codec = SeedCodec.strict

    func endpoint(_ index: Int) -> ClusterEndpoint {
        ClusterEndpoint(.host(hosts[index], port: 7000), weight: weights[index], zone: zones[index])
    }

    var clientOptions: ClientOptions {
        var random = random(1)
        return ClientOptions {
            $0.reconnecting.policy = Backoff(base: .milliseconds(10), cap: .seconds(1))
            $0.reconnecting.stableAfter = .milliseconds(500)
            $0.reconnecting.maximumRetryAfter = .seconds(1)
            $0.connecting.timeout = .milliseconds(500)
            $0.liveness.interval = .milliseconds(Int.random(in: 200...2000, using: &random))
            $0.liveness.deadline = .milliseconds(500)
            $0.requests.timeout = Self.requestTimeout
            $0.requests.drainTimeout = drainTimeout
            $0.requests.quarantine = .seconds(2)
            $0.requests.maximumInFlight = [2, 8, 65_536][Int.random(in: 0..<3, using: &random)]
            if Int.random(in: 0..<5, using: &random) == 0 {
                $0.requests.maximumWaiting = Int.random(in: 0...6, using: &random)
            }
            switch Int.random(in: 0..<3, using: &random) {
            case 0: $0.requests.retryBudget = nil
            case 1: $0.requests.retryBudget?.initial = 2
            default: break
            }
            $0.failover.sendsAfterGoAway = Int.random(in: 0..<4, using: &random) != 0
        }
    }

    var serverOptions: LoopbackServer.Options {
        LoopbackServer.Options {
            $0.successStatus = 200
            $0.answersCancelled = seed % 2 == 0
        }
    }
}
