import Testing
import Trunkline
import TrunklineTesting

/// Extreme durations must not trap.
@Suite(.tags(.realThreads), .timeLimit(.minutes(5)))
struct ExtremeDurationLoopbackTests {}

extension ExtremeDurationLoopbackTests {
    /// Regression: the timer of the attempt was before the clock's origin, further from now than 64 bits of
    /// nanoseconds reach.
    @Test(arguments: Mechanism.allCases)
    func aNegativeAttemptTimeoutDoesNotTrap(_ mechanism: Mechanism) async throws {
        let options = quickOptions { $0.connecting.timeout = .seconds(Int64.min) }
        try await withServerAndClient(by: mechanism, clientOptions: options) { _, client in
            // The call fails, or succeeds before its timer is checked.
            _ = try? await client.send(ask("a"), timeout: .milliseconds(50))
        }
    }

    @Test func theLongestTimeoutsDoNotExpire() async throws {
        try await withServerAndClient(by: .epoll) { _, client in
            let longest = Duration.seconds(Int64.max)
            let reply = try await withTimeout(longest) { try await client.send(ask("a"), timeout: .after(longest)) }
            #expect(reply.body == "a")
        }
    }
}
