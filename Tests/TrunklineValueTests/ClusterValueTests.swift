import Testing
import Trunkline
import TrunklineCluster
import TrunklineTesting

/// A cluster works or refuses its calls with an error, and closes, whatever the values of its options are.
@Suite(.tags(.simulated), .timeLimit(.minutes(5)))
struct ClusterValueTests {}

extension ClusterValueTests {
    @Test(arguments: ClusterValueTests.cases)
    func noValueOfAnOptionTraps(_ option: ValueCase) async throws {
        try await option.use()
    }

    static let cases = [
        option("ClusterOptions.linksPerEndpoint: ClosedRange<Int>", \.linksPerEndpoint),
        option("ClusterOptions.linkIdleTime: Duration", \.linkIdleTime),
        option("ClusterOptions.largeLinks: Int", \.largeLinks),
        option("ClusterOptions.subset: Int?", \.subset),
        option("ClusterOptions.slowStart: Duration", \.slowStart),
        option("ClusterOptions.hedgeBudget: Double", \.hedgeBudget),
        option("ClusterOptions.adaptiveLimit: ClosedRange<Int>?", \.adaptiveLimit),
        option("ClusterOptions.drainTimeout: Duration", \.drainTimeout),
        option("ClusterOptions.Ejection.consecutiveFailures: Int?", \.ejection.value.consecutiveFailures),
        option("ClusterOptions.Ejection.maximumShare: Double", \.ejection.value.maximumShare),
        option("ClusterOptions.Ejection.baseTime: Duration", \.ejection.value.baseTime),
        option("ClusterOptions.Ejection.maximumTime: Duration", \.ejection.value.maximumTime),
        ValueCase("ClusterEndpoint.init(weight: Double?)", "ClusterEndpoint.weight: Double") {
            for weight in Double.extremes {
                for balancing in [.leastLoaded, .roundRobin] as [any BalancingPolicy] {
                    for other in [1, weight] {
                        var second = ClusterEndpoint("other:7000")
                        second.weight = other
                        let servers = [ClusterEndpoint("db:7000", weight: weight), second]
                        try await useCluster(.static(servers)) { $0.balancing = balancing }
                    }
                }
            }
        },
        ValueCase("Discovery.file(every: Duration)") {
            for interval in Duration.extremes {
                try await useCluster(.file("/nonexistent/servers", every: interval))
            }
        },
        ValueCase("Hedge.after(_: Duration)", "Hedge.after(percentile: Double)") {
            let hedges = Duration.extremes.map { Hedge.after($0) } + Double.extremes.map { .after(percentile: $0) }
            try await withCluster { network, cluster in
                for hedge in hedges {
                    for _ in 0..<25 {
                        await ended { _ = try await cluster.send(Request(type: 0x410, body: "a"), hedge: hedge) }
                    }
                    await ended {
                        let silence = Request(type: 0x410, body: "silence")
                        _ = try await cluster.send(silence, hedge: hedge, timeout: .milliseconds(50))
                    }
                }
            }
        },
        ValueCase("PushSelection.ofType(_: UInt32)", "RequestSender.pushes(ofType: UInt32)") {
            try await withCluster { network, cluster in
                for type in UInt32.extremes {
                    let streams = [cluster.pushes(.ofType(type)), cluster.pushes(ofType: type)]
                    await ended { _ = try await cluster.send(Request(type: 0x410)) }
                    for stream in streams { stream.finish() }
                }
            }
        },
    ]

    private static func option<Value: Extreme>(
        _ name: String,
        _ path: any WritableKeyPath<ClusterOptions, Value> & Sendable
    ) -> ValueCase {
        ValueCase(name) {
            for value in Value.extremes {
                try await useCluster { $0[keyPath: path] = value }
            }
        }
    }
}

private let servers = Discovery.static(["db:7000", "other:7000"])

/// Runs `body` with a cluster of two servers, in virtual time, and closes it.
private func withCluster(
    _ discovery: Discovery = servers,
    _ change: @escaping @Sendable (inout ClusterOptions) -> Void = { _ in },
    _ body: @escaping @Sendable (SimulatedNetwork, Cluster) async throws -> Void
) async throws {
    try await SimulatedNetwork(seed: 1).runWithServer { network in
        let cluster = Cluster(
            discovering: discovery,
            speaking: FrameLayout.standard,
            options: ClientOptions { $0.requests.retry = .idempotent() },
            on: network.loops,
            change
        )
        try await body(network, cluster)
        let start = network.clock.now
        await cluster.close()
        // `drainTimeout` may be endless, but all requests have ended.
        #expect(network.clock.now < start.advanced(by: .seconds(40)))
    }
}

/// Uses a cluster in every way that depends on its options: it sends, loses a link, ejects, and closes.
private func useCluster(
    _ discovery: Discovery = servers,
    _ change: (inout ClusterOptions) -> Void = { _ in }
) async throws {
    var options = ClusterOptions()
    change(&options)
    try await withCluster(discovery) { [options] in
        $0 = options
    } _: { network, cluster in
        for _ in 0..<2 {
            for key in 0..<4 {
                await ended(by: network.clock) { _ = try await cluster.send(Request(type: 0x410, body: "hello")) }
                await ended(by: network.clock) { _ = try await cluster.send(Request(type: 0x410), key: key) }
            }
            await ended(by: network.clock) {
                _ = try await cluster.send(Request(type: 0x410, body: "a"), hedge: .after(.milliseconds(1)))
            }
            await withTaskGroup { group in
                for _ in 0..<12 {
                    group.addTask {
                        let silence = Request(type: 0x410, body: "silence")
                        await ended { _ = try await cluster.send(silence, timeout: .milliseconds(50)) }
                    }
                }
            }
            await ended(by: network.clock) {
                _ = await cluster.send(all: (0..<40).map { _ in Request(type: 0x410, body: "batch") })
            }
            _ = await cluster.metrics
            network.reset("db")
            try await network.clock.sleep(for: .seconds(45))
        }
    }
}
