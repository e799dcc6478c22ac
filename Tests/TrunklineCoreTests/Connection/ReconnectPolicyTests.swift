import Testing

@testable import TrunklineCore
@testable import TrunklineIO

@Suite struct ReconnectPolicyTests {}

extension ReconnectPolicyTests {
    func failure(round: Int = 0, failedAttempts: Int = 1, _ cause: DisconnectCause = .refused) -> ReconnectFailure {
        ReconnectFailure(round: round, failedAttempts: failedAttempts, cause: cause)
    }

    /// The wait that `policy` decides; negative when it gives up.
    func wait(
        _ policy: some ReconnectPolicy,
        round: Int = 0,
        using generator: inout SeededGenerator
    ) -> Duration {
        switch policy.decision(for: failure(round: round), random: { generator.nextUnit() }) {
        case .retry(let delay): delay
        case .giveUp: .seconds(-1)
        }
    }

    @Test func aMinimumAtTheCapIsAFixedWait() {
        let policy = Backoff(minimum: .seconds(5), cap: .seconds(5))
        for round in [0, 1, 5, 1000] {
            let decision = policy.decision(for: failure(round: round), random: { 0.5 })
            #expect(decision == .retry(after: .seconds(5)))
        }
        // The minimum also applies beyond the cap.
        let long = Backoff(minimum: .seconds(60)).decision(for: failure(round: 100), random: { 0.9 })
        #expect(long == .retry(after: .seconds(60)))
    }

    @Test func waitsAreUniformFromTheMinimumUp() {
        let policy = Backoff(minimum: .seconds(1.5), base: .seconds(11.5), cap: .seconds(11.5))
        for round in [0, 1, 50] {
            #expect(policy.decision(for: failure(round: round), random: { 0 }) == .retry(after: .seconds(1.5)))
            #expect(policy.decision(for: failure(round: round), random: { 0.5 }) == .retry(after: .seconds(6.5)))
        }
        var generator = SeededGenerator(seed: 1)
        for _ in 0..<100 {
            let delay = wait(policy, using: &generator)
            #expect(delay >= .seconds(1.5) && delay <= .seconds(11.5))
        }
    }

    @Test func noRetriesAlwaysGivesUp() {
        let policy = NoRetries()
        #expect(policy.decision(for: failure(), random: { 0 }) == .giveUp)
    }

    /// A custom policy: a minute after the server closed, otherwise a second, at most five times.
    struct Patient: ReconnectPolicy {
        func decision(for failure: ReconnectFailure, random: () -> Double) -> ReconnectDecision {
            if failure.round >= 5 { return .giveUp }
            return .retry(after: .seconds(failure.cause == .closedByServer ? 60 * (0.5 + random() / 2) : 1))
        }
    }

    @Test func aCustomPolicyIsUsed() {
        var policy = ReconnectMachine.Policy()
        policy.reconnect = Patient()
        var machine = ReconnectMachine(endpoints: ["a:1"], policy: policy, seed: 7)
        let start = Instant(nanoseconds: 0)
        _ = machine.linkNeeded(at: start)
        _ = machine.linkReady(1, at: start)
        _ = machine.linkLost(1, .closedByServer, at: start)
        guard case .waiting(let until, 2, .closedByServer) = machine.state else {
            Issue.record("\(machine.state)")
            return
        }
        #expect(until >= start.advanced(by: .seconds(30)) && until < start.advanced(by: .seconds(60)))
        var time = until
        for id in [2, 3, 4, 5] as [SessionID] {
            _ = machine.timerFired(at: time)
            #expect(machine.attemptFailed(id, .refused, at: time) == .wait(until: time.advanced(by: .seconds(1))))
            time = time.advanced(by: .seconds(1))
        }
        _ = machine.timerFired(at: time)
        #expect(machine.attemptFailed(6, .refused, at: time) == .giveUp)
    }

    @Test func waitsAreUniformUpToACeilingThatDoublesToTheCap() {
        let backoff = Backoff()
        #expect(backoff.ceiling(round: 0) == .milliseconds(200))
        #expect(backoff.ceiling(round: 3) == .milliseconds(1600))
        #expect(backoff.ceiling(round: 100_000) == .seconds(30))
        var generator = SeededGenerator(seed: 5)
        let waits = (0..<1000).map { _ in wait(backoff, using: &generator) }
        #expect(waits.allSatisfy { $0 >= .zero && $0 <= .milliseconds(200) })
        #expect(waits.filter { $0 < .milliseconds(100) }.count > 400)
        #expect(waits.filter { $0 > .milliseconds(100) }.count > 400)
    }

    @Test func backoffParametersAreClamped() {
        var generator = SeededGenerator(seed: 5)
        let backoffs = [
            Backoff(base: .seconds(-5), factor: -2, cap: .seconds(-1)),
            Backoff(base: .seconds(Int64.max), cap: .seconds(Int64.max)),
            Backoff(minimum: .seconds(-5), base: .zero), Backoff(minimum: .seconds(Int64.max)),
            Backoff(minimum: .seconds(1), base: .seconds(Int64.max), cap: .seconds(Int64.max)),
            Backoff(factor: .infinity), Backoff(factor: .nan), Backoff(base: .zero, factor: .infinity),
        ]
        for backoff in backoffs {
            for round in [0, 1, 50] { #expect(wait(backoff, round: round, using: &generator) >= .zero) }
        }
    }
}
