import Testing
import Trunkline
import TrunklineTesting

/// Durations that nobody means must not stop the program.
@Suite(.tags(.realThreads), .timeLimit(.minutes(5)))
struct ExtremeDurationLoopbackTests {
    /// The timer of the attempt lay before the clock's origin, further than 64 bits of nanoseconds reach back from now.
    @Test(arguments: Mechanism.allCases)
    func anAttemptMayHaveLessThanNoTime(_ mechanism: Mechanism) async throws {
        let options = quickOptions { $0.connecting.timeout = .seconds(Int64.min) }
        try await withServerAndClient(by: mechanism, clientOptions: options) { _, client in
            // It fails, or succeeds before its timer is looked at.
            _ = try? await client.send(ask("a"), timeout: .milliseconds(50))
        }
    }

    @Test func theLongestTimeoutsAreNoTimeouts() async throws {
        try await withServerAndClient(by: .epoll) { _, client in
            let longest = Duration.seconds(Int64.max)
            let reply = try await withTimeout(longest) { try await client.send(ask("a"), timeout: .after(longest)) }
            #expect(reply.body == "a")
        }
    }
}
