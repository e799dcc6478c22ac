import Testing
import Trunkline

@testable import TrunklineLoopback
@testable import TrunklineTesting

/// Time, order and the end of a simulation.
@Suite(.simulated) struct SimulationTimeTests {}

extension SimulationTimeTests {
    /// A busy run: tasks that sleep, yield and exchange bytes over links. Returns the network for its fingerprint.
    private func busyRun(seed: UInt64) throws -> SimulatedNetwork {
        let network = SimulatedNetwork(seed: seed)
        network.recordsTrace = true
        let server = TestServer(on: network.loop)
        try network.runBlocking {
            try await server.listen(on: network.address("db"))
            try await withThrowingTaskGroup(of: Void.self) { group in
                for index in 0..<5 {
                    group.addTask {
                        try await network.clock.sleep(for: .milliseconds(index % 3))
                        let peer = TestPeer(on: network.loop)
                        try await peer.connect(to: network.address("db"))
                        await peer.write(pattern(300 * index + 1))
                        _ = await peer.received(atLeast: 300 * index + 1)
                        await Task.yield()
                        await peer.close()
                    }
                }
                try await group.waitForAll()
            }
            await server.stop()
        }
        return network
    }

    @Test func theSameSeedGivesTheSameRun() throws {
        for seed in 0..<20 as Range<UInt64> {
            let first = try busyRun(seed: seed)
            let second = try busyRun(seed: seed)
            #expect(first.fingerprint == second.fingerprint)
            #expect(first.trace == second.trace)
            #expect(!first.trace.isEmpty)
        }
    }

    @Test func differentSeedsGiveDifferentRuns() throws {
        let fingerprints = try (0..<50 as Range<UInt64>).map { try busyRun(seed: $0).fingerprint }
        #expect(Set(fingerprints).count == 50)
    }

    @Test(.timeLimit(.minutes(5))) func aDayOfSleepTakesNoRealTime() throws {
        let network = SimulatedNetwork(seed: 1)
        try network.runBlocking { try await network.clock.sleep(for: .seconds(86_000)) }
        #expect(network.clock.now.offset == .seconds(86_000))
    }

    @Test func sleepersWakeInTheOrderOfTheirDeadlines() throws {
        let network = SimulatedNetwork(seed: 2)
        let woken = try network.runBlocking {
            await withTaskGroup(of: Int.self) { group in
                for index in [5, 3, 9, 1, 7] {
                    group.addTask {
                        try? await network.clock.sleep(for: .milliseconds(index))
                        return index
                    }
                }
                return await group.reduce(into: []) { $0.append($1) }
            }
        }
        #expect(woken == [1, 3, 5, 7, 9])
    }

    @Test func aCancelledSleepEndsAtOnce() throws {
        let network = SimulatedNetwork(seed: 3)
        let result = try network.runBlocking {
            await withTaskGroup(of: Bool.self) { group in
                group.addTask {
                    do {
                        try await network.clock.sleep(for: .seconds(100))
                        return false
                    } catch { return error is CancellationError }
                }
                try? await network.clock.sleep(for: .seconds(1))
                group.cancelAll()
                return await group.next()!
            }
        }
        #expect(result)
        #expect(network.clock.now.offset < .seconds(20))
    }

    @Test func tasksInterleaveDifferentlyFromSeedToSeed() throws {
        let orders = try (0..<20 as Range<UInt64>).map { seed in
            try SimulatedNetwork(seed: seed).runBlocking {
                await withTaskGroup(of: Int.self) { group in
                    for index in 0..<6 {
                        group.addTask {
                            for _ in 0..<3 { await Task.yield() }
                            return index
                        }
                    }
                    return await group.reduce(into: []) { $0.append($1) }
                }
            }
        }
        #expect(Set(orders).count > 10)
    }

    @Test func actorsWithoutAnExecutorAndChildTasksStayOnTheLoop() throws {
        actor Counter {
            var count = 0
            func add(after delay: Duration, on clock: SimulatedClock) async throws -> Int {
                try await clock.sleep(for: delay)
                count += 1
                return count
            }
        }
        let network = SimulatedNetwork(seed: 11)
        let counter = Counter()
        let sum = try network.runBlocking {
            async let a = counter.add(after: .seconds(1), on: network.clock)
            async let b = counter.add(after: .seconds(1), on: network.clock)
            let pinned = Task(executorPreference: network.executor) {
                try await counter.add(after: .seconds(2), on: network.clock)
            }
            return try await a + b + pinned.value
        }
        #expect(sum == 6)
    }

    @Test func anErrorOfTheBodyIsRethrown() {
        let network = SimulatedNetwork(seed: 4)
        #expect(throws: CancellationError.self) {
            try network.runBlocking { throw CancellationError() }
        }
    }

    private enum Local { @TaskLocal static var value = 0 }

    /// Otherwise a failed expectation in the body is reported for an unknown test, and the test itself passes.
    @Test func aBodyInheritsTaskLocalValues() async throws {
        let network = SimulatedNetwork(seed: 12)
        let value = try await Local.$value.withValue(7) { try await network.run { Local.value } }
        #expect(value == 7)
    }

    @Test func concurrentRunsOfANetworkFollowEachOther() async throws {
        let network = SimulatedNetwork(seed: 13)
        try await withThrowingTaskGroup(of: Duration.self) { runs in
            for _ in 0..<5 {
                runs.addTask {
                    try await network.run {
                        let start = network.clock.now
                        try await network.clock.sleep(for: .seconds(1))
                        return start.duration(to: network.clock.now)
                    }
                }
            }
            for try await duration in runs { #expect(duration == .seconds(1)) }
        }
    }

    @Test func aNetworkRunsSeveralBodies() throws {
        let network = SimulatedNetwork(seed: 5)
        let first = try network.runBlocking { 1 }
        let second = try network.runBlocking {
            try await network.clock.sleep(for: .seconds(1))
            return 2
        }
        #expect((first, second) == (1, 2))
    }

    @Test func aTaskCreatedBeforeTheRunRunsInIt() throws {
        let network = SimulatedNetwork(seed: 6)
        let task = Task(executorPreference: network.executor) { 42 }
        let value = try network.runBlocking { await task.value }
        #expect(value == 42)
    }

    @Test func aBodyThatWaitsForeverIsReportedAsADeadlock() {
        let network = SimulatedNetwork(seed: 7)
        #expect {
            try network.runBlocking {
                let (stream, continuation) = AsyncStream<Int>.makeStream()
                for await _ in stream {}
                continuation.finish()
            }
        } throws: { error in
            guard case SimulationError.deadlock(let text)? = error as? SimulationError else { return false }
            return text.contains("listeners")
        }
    }

    @Test func aBodyThatGoesOnForeverReachesALimit() {
        var limits = SimulationLimits()
        limits.virtualTime = .seconds(10)
        limits.steps = 100_000
        #expect {
            try SimulatedNetwork(seed: 8).runBlocking(limits: limits) {
                while !Task.isCancelled { await Task.yield() }
            }
        } throws: {
            if case SimulationError.stillRunning? = $0 as? SimulationError { true } else { false }
        }
        let network = SimulatedNetwork(seed: 9)
        #expect {
            try network.runBlocking(limits: limits) {
                while true { try await network.clock.sleep(for: .seconds(1)) }
            }
        } throws: {
            if case SimulationError.stillRunning? = $0 as? SimulationError { true } else { false }
        }
    }

    @Test func timersFireInOrderAndCanBeRearmed() throws {
        final class Target: TimerTarget, @unchecked Sendable {
            let name: String
            let note: @Sendable (String) -> Void
            init(_ name: String, note: @escaping @Sendable (String) -> Void) {
                self.name = name
                self.note = note
            }
            func timerFired() { note(name) }
        }
        final class Log: @unchecked Sendable { var lines: [String] = [] }
        let network = SimulatedNetwork(seed: 10)
        let loop = network.loop
        let log = Log()
        try network.runBlocking {
            let note: @Sendable (String) -> Void = { log.lines.append("\($0) \(loop.now.nanoseconds)") }
            let targets = ["a", "b", "c"].map { Target($0, note: note) }
            let timers = targets.map { LoopTimer(target: $0) }
            loop.arm(timers[0], at: Instant(nanoseconds: 30))
            loop.arm(timers[1], at: Instant(nanoseconds: 20))
            loop.arm(timers[2], at: Instant(nanoseconds: 10))
            loop.arm(timers[2], at: Instant(nanoseconds: 40))  // later
            loop.arm(timers[0], at: Instant(nanoseconds: 15))  // earlier
            loop.arm(timers[1], at: nil)
            try await network.clock.sleep(for: .nanoseconds(100))
            loop.arm(timers[1], at: Instant(nanoseconds: 110))
            try await network.clock.sleep(for: .nanoseconds(100))
            withExtendedLifetime((targets, timers)) {}
        }
        #expect(log.lines == ["a 15", "c 40", "b 110"])
    }

    @Test func endOfTurnWorkRunsAfterTheRestOfItsTurn() throws {
        final class Work: LoopWork {
            let action: @Sendable () -> Void
            init(_ action: @escaping @Sendable () -> Void) { self.action = action }
            func runOnLoop() { action() }
        }
        final class Log: @unchecked Sendable { var lines: [String] = [] }
        for seed in 0..<50 as Range<UInt64> {
            let network = SimulatedNetwork(seed: seed)
            let loop = network.loop
            let log = Log()
            try network.runBlocking {
                loop.schedule(
                    Work {
                        loop.scheduleAtEndOfTurn(Work { log.lines.append("end") })
                        log.lines.append("work")
                    }
                )
                try await network.clock.sleep(for: .nanoseconds(1))
            }
            #expect(log.lines == ["work", "end"])
        }
    }

    /// Sleeps take no real time, so two hundred runs of fifty sleeping tasks take only a moment.
    @Test(.timeLimit(.minutes(5))) func fiftySleepingTasksTakeNoRealTime() throws {
        for seed in 0..<200 as Range<UInt64> {
            let network = SimulatedNetwork(seed: seed)
            let slept = try network.runBlocking {
                try await withThrowingTaskGroup(of: Int.self) { group in
                    for index in 0..<50 {
                        group.addTask {
                            try await network.clock.sleep(for: .seconds(index))
                            return index
                        }
                    }
                    return try await group.reduce(into: []) { $0.append($1) }
                }
            }
            #expect(slept == Array(0..<50))
            #expect(network.clock.now.offset == .seconds(49))
        }
    }
}
