import Foundation
import Testing
import Trunkline
import TrunklineCore
import TrunklineTesting

/// Thousands of simulated lives of a client, each decided by its seed: whatever happens, every call returns once, with
/// its own reply or with an error that tells the truth about what the server has seen, and nothing is left in the end.
@Suite(.timeLimit(.minutes(10)))
struct ClientSeedTests {
    /// As many as `TRUNKLINE_SEEDS` says; 2,000 unless it does.
    @Test func everyRequestEndsOnceAndTellsTheTruthInEverySeed() async {
        let count = ProcessInfo.processInfo.environment["TRUNKLINE_SEEDS"].flatMap(UInt64.init) ?? 2000
        var tally: [String: Int] = [:]
        var folded: UInt64 = 0
        for seed in 0..<count {
            // The simulation keeps the thread to itself: others get their turn between two of them.
            await Task.yield()
            do {
                let life = try Life(seed: seed).run()
                folded = folded &* 31 &+ life.fingerprint
                tally.merge(life.tally, uniquingKeysWith: +)
                if seed % 25 == 0 {
                    let again = try Life(seed: seed).run()
                    #expect(again.fingerprint == life.fingerprint, "seed \(seed) did not repeat itself")
                }
            } catch {
                Issue.record("seed \(seed): \(error)")
            }
        }
        print("ClientSeedTests: \(count) seeds, fingerprint \(folded)")
        // The scenario is worth something only if all of this happens now and then.
        let wanted = ["success", "cancelled notSent", "cancelled unknown", "timedOut notSent", "timedOut unknown"]
        guard count >= 500 else { return }
        for outcome in wanted + [
            "connectionLost unknown", "connectionLost notSent", "unavailable notSent", "closed notSent",
            "closed unknown", "late", "reconnected", "retried",
        ] {
            #expect(tally[outcome, default: 0] > 0, "\(outcome) never happened: \(tally)")
        }
    }
}

/// One simulated life of a client and a server.
private struct Life {
    let seed: UInt64
    /// Few serials: nothing may come twice then, and no answer after the quarantine.
    let isNarrow: Bool
    let closesEarly: Bool

    init(seed: UInt64) {
        self.seed = seed
        isNarrow = seed % 4 == 3
        closesEarly = seed % 5 == 4
    }

    struct Outcome: Sendable {
        var body: Bytes
        var isOneWay = false
        var result: Result<Frame, ClientError>
    }

    struct Report {
        var fingerprint: UInt64
        var tally: [String: Int] = [:]
    }

    private func random(_ salt: UInt64) -> SeededGenerator { SeededGenerator(seed: seed &* 1_000_003 &+ salt) }

    private var options: ClientOptions {
        var random = random(1)
        return ClientOptions {
            $0.reconnecting.policy = Backoff(base: .milliseconds(2), cap: .milliseconds(20))
            $0.connecting.timeout = .milliseconds(100)
            $0.requests.timeout = .milliseconds(400)
            $0.requests.drainTimeout = .milliseconds(200)
            $0.requests.quarantine = isNarrow ? .seconds(60) : .milliseconds(100)
            $0.requests.maximumInFlight = Int.random(in: 2...30, using: &random)
            $0.outbound.highWatermark = Int.random(in: 100...4000, using: &random)
            $0.outbound.lowWatermark = Int.random(in: 0...200, using: &random)
        }
    }

    private var conditions: NetworkConditions {
        var random = random(2)
        var conditions = NetworkConditions()
        conditions.sendBuffer = Int.random(in: 50...2000, using: &random)
        conditions.receiveWindow = Int.random(in: 50...2000, using: &random)
        return conditions
    }

    private func reaction(to request: Frame) -> Reaction {
        let number = UInt64(String(request.body).prefix { $0 != " " }) ?? 0
        var random = random(1000 + number)
        let delay = Duration.microseconds(Int.random(in: 0...60_000, using: &random))
        switch Int.random(in: 0..<60, using: &random) {
        case 0..<10: return .after(delay, .echo)
        case 10..<14 where !isNarrow: return .twice
        case 14..<18 where !isNarrow: return .sequence([.echo, .after(delay, .echo)])
        case 18..<20 where !isNarrow: return .sequence([.unknownSerial, .echo])
        case 20..<24: return .noReply
        case 24..<28: return .sequence([.push(Frame(.push, type: 2, body: request.body)), .echo])
        case 28..<30: return .inPieces(of: 5)
        case 30: return .reset
        case 31: return .sequence([.echo, .close])
        case 32: return .closeMidFrame()
        case 33: return .absurdLength
        default: return .echo
        }
    }

    /// Whether the request of this number, and each of its batch, may be sent again.
    private func retry(of number: UInt64) -> RetryPolicy {
        switch number % 6 {
        case 0: .never
        case 1: .idempotent(attempts: 3, backoff: Backoff(base: .milliseconds(5), cap: .milliseconds(20)))
        default: .ifUnsent
        }
    }

    // MARK: The client's side

    /// One caller, who asks for one thing or several in one of the ways there are.
    private func call(_ number: UInt64, _ service: SimulatedService, _ client: Client) async -> [Outcome] {
        var random = random(1000 + number)
        let size = Int.random(in: 0..<8, using: &random) == 0 ? 1500 : Int.random(in: 0...60, using: &random)
        let body = Bytes("\(number) " + String(repeating: "x", count: size))
        let delay = Duration.microseconds(Int.random(in: 0...40_000, using: &random))
        let retry = retry(of: number)
        let waits = number % 7 != 0
        try? await service.pass(.microseconds(Int.random(in: 0...120_000, using: &random)))
        switch Int.random(in: 0..<8, using: &random) {
        case 0, 1:
            return [
                Outcome(
                    body: body,
                    result: await result { () throws(ClientError) in
                        try await client.send(ask(body), retry: retry, waitsForReady: waits)
                    }
                )
            ]
        case 2:
            let timeout = Duration.microseconds(Int.random(in: 1...30_000, using: &random))
            return [
                Outcome(
                    body: body,
                    result: await result { () throws(ClientError) in
                        try await client.send(ask(body), timeout: timeout, retry: retry)
                    }
                )
            ]
        case 3, 4:
            let handle = client.start(ask(body), retry: retry, waitsForReady: waits)
            try? await service.pass(delay)
            handle.cancel()
            return [Outcome(body: body, result: await result { () throws(ClientError) in try await handle.value })]
        case 5:
            let task = Task(executorPreference: service.network.executor) {
                await result { () throws(ClientError) in try await client.send(ask(body), retry: retry) }
            }
            if number % 2 == 0 { try? await service.pass(delay) }
            task.cancel()
            return [Outcome(body: body, result: await task.value)]
        case 6:
            let posted = await result { () throws(ClientError) in
                try await client.post(ask(body), retry: retry)
                return Frame(.response)
            }
            return [Outcome(body: body, isOneWay: true, result: posted)]
        default:
            let bodies = (0..<4).map { Bytes("\(number) \($0)") }
            let results = await client.send(all: bodies.map { ask($0) }, retry: retry, waitsForReady: waits)
            return zip(bodies, results).map { Outcome(body: $0, result: $1) }
        }
    }

    private func result(
        _ body: nonisolated(nonsending) () async throws(ClientError) -> Frame
    ) async -> Result<Frame, ClientError> {
        do throws(ClientError) { return .success(try await body()) } catch { return .failure(error) }
    }

    // MARK: The world's side

    private func makeTrouble(_ service: SimulatedService) async throws {
        var random = random(3)
        let network = service.network
        for _ in 0..<Int.random(in: 0...3, using: &random) {
            try await service.pass(.microseconds(Int.random(in: 0...60_000, using: &random)))
            let time = Duration.microseconds(Int.random(in: 0...80_000, using: &random))
            switch Int.random(in: 0..<8, using: &random) {
            case 0, 1: network.reset("db")
            case 2:
                network.partition("db")
                try await service.pass(time)
                network.heal("db")
            case 3:
                network.refuseConnections(to: "db")
                network.reset("db")
                try await service.pass(time)
                network.acceptConnections(to: "db")
            case 4: await service.server.disconnectAll()
            case 5:
                await service.server.pauseReading()
                try await service.pass(time)
                await service.server.resumeReading()
            case 6:
                network.halfOpen("db")
                try await service.pass(time)
                network.reset("db")
            default: await service.server.disconnectAll(reset: true)
            }
        }
    }

    // MARK: From birth to death

    func run() throws -> Report {
        let network = SimulatedNetwork(seed: seed, conditions: conditions)
        let layout = isNarrow ? standardLayout(serials: 50...53) : .standard
        let (outcomes, received, facts) = try network.runBlocking {
            let server = try await LoopbackServer.start(
                at: network.address("db"),
                knownAs: "db:7000",
                speaking: layout,
                options: LoopbackServer.Options { $0.answersCancelled = seed % 2 == 0 },
                on: network.loops,
                handler: { reaction(to: $0) }
            )
            let service = SimulatedService(network: network, server: server)
            let client = service.client(speaking: layout, options: options)
            let buffering = PushBuffering(maximumCount: 2, overflow: seed % 3 == 0 ? .dropNewest : .dropOldest)
            let stream = client.pushes(buffering: buffering)

            async let connecting: Void = withTaskGroup(of: Void.self) { group in
                for _ in 0..<4 { group.addTask { try? await client.connect() } }
            }
            async let pushes = stream.reduce(into: 0) { count, _ in count += 1 }
            async let trouble: Void = makeTrouble(service)
            async let closing: Void = closeEarly(service, client)
            let outcomes = await withTaskGroup(of: [Outcome].self) { group in
                for number in 0..<24 as Range<UInt64> { group.addTask { await call(number, service, client) } }
                return await group.reduce(into: []) { $0 += $1 }
            }
            await connecting
            try await trouble
            try await closing
            if seed % 2 == 0 { await client.close() } else { await client.closeNow() }
            _ = await pushes  // the stream ends with the client
            let statistics = await client.statistics
            await server.stop()
            try await service.pass(.seconds(1))
            return (outcomes, await server.received, statistics)
        }
        #expect(network.openLinks == 0, "seed \(seed)")
        #expect(facts.pending == 0, "seed \(seed)")
        #expect(facts.heldSerials == 0, "seed \(seed)")
        var report = Report(fingerprint: network.fingerprint)
        judge(outcomes, received, &report)
        report.tally["late"] = facts.lateResponses
        report.tally["retried"] = facts.retries
        report.tally["reconnected"] = max(0, facts.connection.links - 1)
        return report
    }

    private func closeEarly(_ service: SimulatedService, _ client: Client) async throws {
        guard closesEarly else { return }
        var random = random(4)
        try await service.pass(.microseconds(Int.random(in: 0...150_000, using: &random)))
        if seed % 2 == 0 { await client.closeNow() } else { await client.close() }
    }

    /// Compares what callers were told with what the server has seen.
    private func judge(_ outcomes: [Outcome], _ received: [Frame], _ report: inout Report) {
        let requests = received.filter { $0.kind == .request }
        let seen = Dictionary(requests.map { ($0.body, 1) }, uniquingKeysWith: +)
        for (body, count) in seen {
            let number = UInt64(String(body).prefix { $0 != " " }) ?? 0
            let limit = if case .idempotent(let attempts, _) = retry(of: number) { attempts } else { 1 }
            #expect(count <= limit, "seed \(seed): \(String(body)) was sent \(count) times")
        }
        for outcome in outcomes {
            let name = "seed \(seed), request \(String(outcome.body).prefix(4))"
            switch outcome.result {
            case .success(let reply):
                report.tally["success", default: 0] += 1
                if outcome.isOneWay { continue }
                #expect(reply.body == outcome.body, "\(name) got another's reply")
                #expect(seen[outcome.body] != nil, "\(name) was answered but never received")
            case .failure(let error):
                report.tally["\(error.code) \(error.fate)", default: 0] += 1
                #expect(error.fate != .answered, "\(name): \(error)")
                if error.fate == .notSent {
                    #expect(seen[outcome.body] == nil, "\(name) was received: \(error)")
                }
            }
        }
        guard !isNarrow else { return }
        // A cancel frame comes after its request, on the same link.
        let serials = Set(requests.map(\.serial))
        for frame in received where frame.kind == .cancel {
            #expect(serials.contains(frame.serial), "seed \(seed): cancel of \(frame.serial), which never came")
        }
    }
}
