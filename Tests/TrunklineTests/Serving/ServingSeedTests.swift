import Testing
import Trunkline

@testable import TrunklineTesting

/// Random bursts of requests of the server: each of them ends once, by an answer, a refusal, its cancellation or the
/// end of its link, and every handler leaves.
///
/// `TRUNKLINE_SEEDS=20000` sets the number of seeds. `TRUNKLINE_SEED=7` runs the seed 7 alone.
@Suite(.simulated, .timeLimit(.seeded))
struct ServingSeedTests {}

extension ServingSeedTests {
    @Test func everyRequestOfTheServerEndsOnce() throws {
        let all = TestEnvironment.seed.map { $0...$0 } ?? 0...(max(20, TestEnvironment.seeds ?? 0) - 1)
        for seed in all {
            // One in ten is as large as the burst of which most calls got no answer.
            try ServingLife(seed: seed, callCount: seed % 10 == 0 ? 5000 : 400).run()
        }
    }

    /// Without faults nothing is lost, whatever the limits: answered, or refused as overloaded.
    @Test func burstsAreAnsweredOrRefused() throws {
        for seed in TestEnvironment.seed.map({ $0...$0 }) ?? 0...(max(20, TestEnvironment.seeds ?? 0) - 1) {
            try ServingLife(seed: seed, callCount: seed % 20 == 0 ? 5000 : 500, hasFaults: false).run()
        }
    }
}

/// The life of a client that serves, as its seed plans it.
private struct ServingLife {
    let seed: UInt64
    let callCount: Int
    let hasFaults: Bool
    private let maximumConcurrent: Int
    private let maximumWaiting: Int
    private let bursts: [[Call]]
    private let lossTimes: [Duration]
    private let conditions: NetworkConditions

    /// What the handler and the server do with one request.
    private struct Call: Sendable {
        enum End: Int, CaseIterable { case answers, throwsError, isCancelled }
        var end: End
        var work: Duration
        var size: Int
        var cancelledAfter: Duration
    }

    init(seed: UInt64, callCount: Int, hasFaults: Bool = true) {
        (self.seed, self.callCount, self.hasFaults) = (seed, callCount, hasFaults)
        var random = SeededGenerator(seed: seed)
        maximumConcurrent = Int.random(in: 1...100, using: &random)
        maximumWaiting = [0, 10, 1000, 100_000].randomElement(using: &random) ?? 0
        var bursts: [[Call]] = []
        var left = callCount
        while left > 0 {
            let size = min(left, Int.random(in: 1...callCount, using: &random))
            left -= size
            bursts.append(
                (0..<size).map { _ in
                    let end = hasFaults ? Int.random(in: 0..<20, using: &random) : 0
                    return Call(
                        end: Call.End(rawValue: end) ?? .answers,
                        work: .microseconds(Int.random(in: 0...20_000, using: &random)),
                        size: Int.random(in: 0..<10, using: &random) == 0 ? 2000 : 4,
                        cancelledAfter: .microseconds(Int.random(in: 0...100_000, using: &random))
                    )
                }
            )
        }
        self.bursts = bursts
        let losses = hasFaults ? Int.random(in: 0...3, using: &random) : 0
        lossTimes = (0..<losses).map { _ in .milliseconds(Int.random(in: 1...300, using: &random)) }
        var conditions = NetworkConditions()
        conditions.sendBuffer = [4096, 65_536, 1 << 20].randomElement(using: &random) ?? 4096
        conditions.receiveWindow = conditions.sendBuffer
        self.conditions = conditions
    }

    private func body(_ burst: Int, _ index: Int) -> Bytes { Bytes("\(burst) \(index)") }

    private func call(of request: Frame) -> Call? {
        let numbers = String(request.body).split(separator: " ").compactMap { Int($0) }
        return numbers.count == 2 ? bursts[numbers[0]][numbers[1]] : nil
    }

    func run() throws {
        let network = SimulatedNetwork(seed: seed, conditions: conditions)
        var limits = SimulationLimits()
        limits.steps = 50_000_000
        let (gauge, handled, outcomes) = (Gauge(), Lock<[Bytes: Int]>([:]), Lock(CallOutcomes()))
        try network.runBlocking(limits: limits) {
            let server = try await network.serve(at: "a:1", speaking: refusingLayout) { _ in .echo }
            let client = network.client(of: ["a:1"], speaking: refusingLayout)
            try await whileServing(
                client,
                server,
                maximumConcurrent: maximumConcurrent,
                maximumWaiting: maximumWaiting,
                pause: { try await network.clock.sleep(for: .milliseconds(1)) }
            ) { request in
                handled.withLock { $0[request.body, default: 0] += 1 }
                guard let call = call(of: request) else { return nil }
                return try await gauge.within {
                    try await network.clock.sleep(for: call.work)
                    if call.end == .throwsError { throw CancellationError() }
                    return Frame(.response, type: request.type, body: filled(call.size))
                }
            } _: {
                try await withThrowingTaskGroup(of: Void.self) { group in
                    for time in lossTimes {
                        group.addTask {
                            try await network.clock.sleep(for: time)
                            await server.disconnectAll(reset: true)
                        }
                    }
                    // The client's own requests are not in the way.
                    for index in 0..<50 {
                        group.addTask {
                            try await network.clock.sleep(for: .milliseconds(index * 3))
                            let retry = CallOptions(retry: .idempotent(tries: 10))
                            let answer = try await client.send(Request(type: 3, body: "own"), options: retry)
                            #expect(answer.body == "own", "seed \(seed)")
                        }
                    }
                    for burst in bursts.indices {
                        group.addTask {
                            try await network.clock.sleep(for: .milliseconds(burst * 20))
                            let ended = await play(burst, server, network)
                            outcomes.withLock { $0.add(ended) }
                        }
                    }
                    try await group.waitForAll()
                }
                try await network.clock.sleep(for: .seconds(10))
                await judge(client, outcomes.withLock { $0 })
            }
            #expect(gauge.now == 0 && gauge.highest <= maximumConcurrent, "seed \(seed)")
            #expect(handled.withLock { $0.values.allSatisfy { $0 == 1 } }, "seed \(seed)")
            await client.close()
            #expect(await client.diagnostics.audit() == [], "seed \(seed)")
            await server.stop()
        }
        #expect(network.openLinks == 0, "seed \(seed)")
    }

    /// Sends a burst and returns what became of its requests.
    private func play(_ burst: Int, _ server: LoopbackServer, _ network: SimulatedNetwork) async -> CallOutcomes {
        await withTaskGroup(of: Result<Frame, any Error>.self) { group in
            for (index, call) in bursts[burst].enumerated() {
                group.addTask {
                    let request = Frame.call(body(burst, index))
                    do {
                        guard call.end == .isCancelled else { return .success(try await server.request(request)) }
                        return .success(
                            try await cancelling(after: call.cancelledAfter, network) {
                                try await server.request(request)
                            }
                        )
                    } catch {
                        return .failure(error)
                    }
                }
            }
            var outcomes = CallOutcomes()
            for await result in group { outcomes.note(result) }
            return outcomes
        }
    }

    /// Runs `body` in a task that is cancelled after `time`.
    private func cancelling(
        after time: Duration,
        _ network: SimulatedNetwork,
        _ body: @escaping @Sendable () async throws -> Frame
    ) async throws -> Frame {
        try await withThrowingTaskGroup(of: Frame?.self) { group in
            group.addTask { try await body() }
            group.addTask {
                try await network.clock.sleep(for: time)
                return nil
            }
            defer { group.cancelAll() }
            if let first = try await group.next(), let frame = first { return frame }
            group.cancelAll()
            if let last = try await group.next(), let frame = last { return frame }
            throw CancellationError()
        }
    }

    private func judge(_ client: Client, _ outcomes: CallOutcomes) async {
        let metrics = await client.metrics
        let serving = metrics.serving
        let refused = serving.refused.values.reduce(0, +)
        #expect(outcomes.total == callCount, "seed \(seed)")
        #expect(serving.running == 0 && serving.waiting == 0, "seed \(seed)")
        #expect(serving.received == serving.answered + refused + serving.cancelled + serving.dropped, "seed \(seed)")
        #expect(metrics.unknownResponses == 0 && metrics.pending == 0, "seed \(seed)")
        // What the kernel has accepted may be lost with its link.
        #expect(outcomes.answered <= serving.answered, "seed \(seed)")
        if hasFaults { return }
        #expect(outcomes.failed == 0 && outcomes.answered == serving.answered, "seed \(seed)")
        #expect(outcomes.refused == serving.refused, "seed \(seed)")
        #expect(serving.refused.keys.allSatisfy { $0 == .overloaded }, "seed \(seed)")
        #expect(serving.received == callCount && serving.dropped == 0, "seed \(seed)")
        #expect(metrics.unexpectedFrames == 0, "seed \(seed)")
    }
}

extension CallOutcomes {
    fileprivate mutating func add(_ other: CallOutcomes) {
        answered += other.answered
        refused.merge(other.refused, uniquingKeysWith: +)
        failed += other.failed
    }
}
