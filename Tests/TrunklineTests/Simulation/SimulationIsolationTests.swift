import Foundation
import Testing

@testable import TrunklineLoopback
@testable import TrunklineTesting

/// Code that leaves the event loop of a simulation gets an error.
@Suite(.tags(.realThreads), .serialized) struct SimulationIsolationTests {}

extension SimulationIsolationTests {
    /// How long something takes outside the loop: long enough for the loop to have nothing to do meanwhile, even on a busy
    /// machine. If it ended earlier, the loop would not have been left.
    private static let elsewhere = Duration.seconds(1)

    /// Runs `body` on a separate thread: the pool's threads must be free for work that leaves the event loop.
    private func error(of body: @escaping @Sendable () async throws -> Void) async -> SimulationError? {
        await withCheckedContinuation { continuation in
            Thread.detachNewThread {
                var limits = SimulationLimits()
                limits.grace = .seconds(20)
                let network = SimulatedNetwork(seed: 1)
                do {
                    try network.runBlocking(limits: limits, body)
                    continuation.resume(returning: nil)
                } catch {
                    continuation.resume(returning: error as? SimulationError)
                }
            }
        }
    }

    private func hasLeftTheLoop(_ error: SimulationError?) -> Bool {
        if case .leftTheLoop? = error { true } else { false }
    }

    @Test func sleepingInRealTimeLeavesTheLoop() async {
        let error = await error { try await Task.sleep(for: Self.elsewhere) }
        #expect(hasLeftTheLoop(error))
    }

    @Test func awaitingADetachedTaskLeavesTheLoop() async {
        let error = await error {
            let outside = Task.detached { try? await Task.sleep(for: Self.elsewhere) }
            await outside.value
        }
        #expect(hasLeftTheLoop(error))
    }

    @Test func aNetworkWhoseLoopWasLeftCannotBeUsedAgain() async {
        let second: SimulationError? = await withCheckedContinuation { continuation in
            Thread.detachNewThread {
                var limits = SimulationLimits()
                limits.grace = .seconds(20)
                let network = SimulatedNetwork(seed: 3)
                try? network.runBlocking(limits: limits) { try await Task.sleep(for: Self.elsewhere) }
                do {
                    try network.runBlocking {}
                    continuation.resume(returning: nil)
                } catch { continuation.resume(returning: error as? SimulationError) }
            }
        }
        #expect(hasLeftTheLoop(second))
    }

    @Test func theClockUsedByADetachedTaskLeavesTheLoop() async {
        let second: SimulationError? = await withCheckedContinuation { continuation in
            Thread.detachNewThread {
                let network = SimulatedNetwork(seed: 4)
                do {
                    try network.runBlocking {
                        let outside = Task.detached { try await network.clock.sleep(for: .seconds(1)) }
                        for _ in 0..<30_000 {  // thirty seconds at least, for a pool that is busy
                            usleep(1000)
                            try await network.clock.sleep(for: .seconds(1))
                        }
                        outside.cancel()
                    }
                    continuation.resume(returning: nil)
                } catch { continuation.resume(returning: error as? SimulationError) }
            }
        }
        #expect(hasLeftTheLoop(second))
    }
}
