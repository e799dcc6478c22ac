import Testing

@testable import TrunklineCore
@testable import TrunklineIO

/// The one decision about retries, for every need, policy and fate.
@Suite struct RetryRulesTests {
    private let now = Instant(nanoseconds: 1_000)

    private func failed(
        _ need: FailedTry.Need = .link,
        wasWritten: Bool = true,
        _ policy: RetryPolicy = .idempotent(
            tries: 3,
            backoff: Backoff(base: .milliseconds(10), cap: .milliseconds(10))
        ),
        number: Int = 1,
        latestEnd: Instant? = nil
    ) -> FailedTry {
        FailedTry(need, wasWritten: wasWritten, policy, number: number, latestEnd: latestEnd)
    }

    private func rules(tokens: Int?) -> RetryRules {
        var budget = RetryBudget()
        (budget.initial, budget.share, budget.perSecond) = (tokens ?? 0, 0, 0)
        return RetryRules(tokens.map { _ in budget }, seed: 1)
    }

    private func isRetry(_ decision: RetryDecision) -> Bool { if case .retry = decision { true } else { false } }

    @Test(arguments: [RetryPolicy.never, .ifUnsent, .idempotent(tries: 1), .idempotent()])
    func aRequestThatWasNotSentGoesElsewhereWithoutAToken(_ policy: RetryPolicy) {
        var rules = rules(tokens: 0)
        let failed = failed(.server, wasWritten: false, policy, number: 1, latestEnd: now)
        #expect(rules.decision(after: failed, at: now, requests: 0) == .goElsewhere)
    }

    @Test(arguments: [RetryPolicy.never, .ifUnsent, .idempotent(tries: 1), .idempotent(tries: .min)])
    func onlyIdempotentRequestsWithTriesLeftAreRetried(_ policy: RetryPolicy) {
        var rules = rules(tokens: nil)
        #expect(rules.decision(after: failed(.link, policy), at: now, requests: 0) == .fail)
        #expect(rules.decision(after: failed(.link, wasWritten: false, policy), at: now, requests: 0) == .fail)
    }

    @Test func theLastTryIsNotFollowedByAnother() {
        var rules = rules(tokens: nil)
        #expect(isRetry(rules.decision(after: failed(number: 2), at: now, requests: 0)))
        #expect(rules.decision(after: failed(number: 3), at: now, requests: 0) == .fail)
    }

    @Test func aFailureThatNothingHelpsAgainstTakesNoToken() {
        var rules = rules(tokens: 1)
        #expect(rules.decision(after: failed(.nothing), at: now, requests: 0) == .fail)
        #expect(isRetry(rules.decision(after: failed(), at: now, requests: 0)))
        #expect(rules.decision(after: failed(), at: now, requests: 0) == .failOverBudget)
    }

    @Test func onlyRequestsThatWereWrittenTakeAToken() {
        var rules = rules(tokens: 1)
        for _ in 0..<10 { #expect(isRetry(rules.decision(after: failed(wasWritten: false), at: now, requests: 0))) }
        #expect(isRetry(rules.decision(after: failed(), at: now, requests: 0)))
        #expect(rules.decision(after: failed(), at: now, requests: 0) == .failOverBudget)
    }

    /// Regression: a cluster took a token, and counted a retry, for a try that the deadline did not allow.
    @Test func aTryThatCouldOnlyBeginAfterTheDeadlineTakesNoToken() {
        var rules = rules(tokens: 1)
        for _ in 0..<10 {
            #expect(rules.decision(after: failed(latestEnd: now), at: now, requests: 0) == .fail)
        }
        #expect(isRetry(rules.decision(after: failed(), at: now, requests: 0)))
    }

    @Test func requestsEarnRetries() {
        var budget = RetryBudget()
        (budget.initial, budget.share, budget.perSecond) = (0, 0.5, 0)
        var rules = RetryRules(budget, seed: 1)
        #expect(rules.decision(after: failed(), at: now, requests: 1) == .failOverBudget)
        #expect(isRetry(rules.decision(after: failed(), at: now, requests: 2)))
        #expect(rules.decision(after: failed(), at: now, requests: 3) == .failOverBudget)
    }
}
