import Testing

@testable import TrunklineCore
@testable import TrunklineIO

@Suite struct RetryAccountTests {
    private let start = Instant(nanoseconds: 5_000_000_000)

    private func budget(_ change: (inout RetryBudget) -> Void) -> RetryBudget {
        var budget = RetryBudget()
        change(&budget)
        return budget
    }

    private func withdrawals(_ account: inout RetryAccount, at now: Instant, requests: Int) -> Int {
        var count = 0
        while account.withdraw(at: now, requests: requests) { count += 1 }
        return count
    }

    @Test func theAccountBeginsWithTheInitialRetries() {
        var account = RetryAccount(RetryBudget())
        #expect(withdrawals(&account, at: start, requests: 0) == 100)
    }

    @Test func aRetryThatWasNotMadeIsReturned() {
        var account = RetryAccount(budget { ($0.initial, $0.maximumSaved, $0.perSecond) = (2, 2, 0) })
        for _ in 0..<10 {
            let isAllowed = account.withdraw(at: start, requests: 0)
            #expect(isAllowed)
            account.deposit()
        }
        #expect(withdrawals(&account, at: start, requests: 0) == 2)
        for _ in 0..<10 { account.deposit() }
        #expect(withdrawals(&account, at: start, requests: 0) == 2)
    }

    @Test func aFifthOfAllRequestsIsAddedExactly() {
        var account = RetryAccount(budget { $0.initial = 0 })
        #expect(withdrawals(&account, at: start, requests: 4) == 0)
        #expect(withdrawals(&account, at: start, requests: 5) == 1)
        // One request at a time: a fifth is not a binary fraction, but five fifths must add up to one.
        var count = 0
        for requests in 6...1005 { count += withdrawals(&account, at: start, requests: requests) }
        #expect(count == 200)
    }

    @Test func tenRetriesPerSecondAreAddedFromTheFirstWithdrawalOn() {
        var account = RetryAccount(budget { $0.initial = 0 })
        #expect(withdrawals(&account, at: start, requests: 0) == 0)
        #expect(withdrawals(&account, at: start.advanced(by: .milliseconds(99)), requests: 0) == 0)
        #expect(withdrawals(&account, at: start.advanced(by: .milliseconds(101)), requests: 0) == 1)
        #expect(withdrawals(&account, at: start.advanced(by: .seconds(1)), requests: 0) == 9)
    }

    @Test func savedRetriesAreLimited() {
        var account = RetryAccount(budget { $0.maximumSaved = 7 })
        #expect(withdrawals(&account, at: start, requests: 1_000_000) == 7)
        #expect(withdrawals(&account, at: start.advanced(by: .seconds(86_400)), requests: 1_000_000) == 7)
    }

    @Test func aBudgetOfZeroAllowsNoRetries() {
        var account = RetryAccount(
            budget {
                $0.share = 0
                $0.perSecond = 0
                $0.initial = 0
            }
        )
        #expect(withdrawals(&account, at: start, requests: .max) == 0)
        #expect(withdrawals(&account, at: .distantFuture, requests: .max) == 0)
    }

    @Test(arguments: [Double.nan, .infinity, -.infinity, -1, .greatestFiniteMagnitude])
    func extremeNumbersNeverTrap(_ number: Double) {
        let budget = budget {
            $0.share = number
            $0.perSecond = number
            $0.maximumSaved = number > 0 ? .max : .min
            $0.initial = number > 0 ? .max : .min
        }
        var account = RetryAccount(budget)
        _ = account.withdraw(at: start, requests: .max)
        _ = account.withdraw(at: .distantFuture, requests: .min)
        _ = account.withdraw(at: start, requests: .max)
    }

    /// A clock or a count that goes back neither adds nor removes anything.
    @Test func goingBackInTimeAddsNothing() {
        var account = RetryAccount(budget { $0.initial = 0 })
        #expect(withdrawals(&account, at: start, requests: 10) == 2)
        #expect(withdrawals(&account, at: Instant(nanoseconds: 0), requests: 0) == 0)
        #expect(withdrawals(&account, at: start, requests: 10) == 0)
        #expect(withdrawals(&account, at: start, requests: 15) == 1)
    }

    @Test(arguments: 0..<200 as Range<UInt64>)
    func noMoreRetriesAreGrantedThanEarned(_ seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        let budget = budget {
            $0.share = Double(Int.random(in: 0...8, using: &random)) / 10
            $0.perSecond = Double(Int.random(in: 0...50, using: &random))
            $0.maximumSaved = Int.random(in: 1...60, using: &random)
            $0.initial = Int.random(in: 0...80, using: &random)
        }
        var account = RetryAccount(budget)
        _ = account.withdraw(at: start, requests: 0)
        // The same rules in the simple form: one addition for each request and each event.
        var model = Double(min(budget.initial, budget.maximumSaved))
        if model >= 1 { model -= 1 }
        let capacity = Double(budget.maximumSaved)
        var (now, requests) = (start, 0)
        for _ in 0..<300 {
            let pause = Duration.milliseconds(Int.random(in: 0...200, using: &random))
            now = now.advanced(by: pause)
            let new = Int.random(in: 0...20, using: &random)
            requests += new
            for _ in 0..<new { model = min(capacity, model + budget.share) }
            model = min(capacity, model + Double(pause.clampedNanoseconds) / 1e9 * budget.perSecond)
            for _ in 0..<Int.random(in: 0...30, using: &random) {
                let isGranted = account.withdraw(at: now, requests: requests)
                // Exactly at the limit, rounding may decide either way.
                if abs(model - 1) > 0.001 { #expect(isGranted == (model >= 1), "seed \(seed)") }
                if isGranted { model -= 1 }
            }
        }
    }
}
