import Testing

@testable import TrunklineCluster
@testable import TrunklineCore
@testable import TrunklineIO

/// Outliers of an interval: success rates and latencies.
@Suite struct OutlierIntervalTests {
    private let start = Instant(nanoseconds: 5_000_000_000)

    /// Facts of members 0, 1, 2, … with these numbers of successes, out of `requests`.
    private func rates(_ successes: [Int], of requests: Int = 100) -> [OutlierRules.Facts] {
        successes.enumerated().map { index, successes in
            OutlierRules.Facts(
                id: UInt64(index),
                successes: successes,
                failures: requests - successes,
                latencyNanoseconds: 0,
                answers: 0
            )
        }
    }

    /// Facts of members 0, 1, 2, … with these mean latencies in milliseconds.
    private func latencies(_ milliseconds: [Double], answers: Int = 20) -> [OutlierRules.Facts] {
        milliseconds.enumerated().map { index, milliseconds in
            OutlierRules.Facts(
                id: UInt64(index),
                successes: answers,
                failures: 0,
                latencyNanoseconds: Int64(milliseconds * 1e6) * Int64(answers),
                answers: answers
            )
        }
    }

    /// The members that are ejected at the end of an interval with these facts, if comparisons may eject half of them.
    private func ejected(
        _ facts: [OutlierRules.Facts],
        of count: Int = 10,
        _ change: (inout OutlierRules.Settings) -> Void = { _ in }
    ) -> [UInt64] {
        var cluster = RuledCluster(count) {
            $0.comparedShare = 0.5
            change(&$0)
        }
        return cluster.closeInterval(facts, at: start).compactMap {
            if case .ejected(let id, _, _) = $0 { id } else { nil }
        }
    }

    // MARK: Success rates

    @Test func aMemberFarBelowTheMeanIsEjected() {
        var cluster = RuledCluster(10)
        let actions = cluster.closeInterval(rates([100, 100, 100, 100, 100, 100, 100, 100, 100, 50]), at: start)
        // The mean is 95 %, the standard deviation 15 %.
        guard case .ejected(9, let until, .successRate(0.5, let limit))? = actions.first else {
            Issue.record("\(actions)")
            return
        }
        #expect(actions.count == 1)
        #expect(until.since(start) == .seconds(30))
        #expect(abs(limit - (0.95 - 1.9 * 0.15)) < 1e-9)
    }

    @Test func equalRatesHaveNoOutliers() {
        for successes in [0, 1, 33, 70, 99, 100] {
            #expect(ejected(rates(Array(repeating: successes, count: 10))) == [])
        }
    }

    @Test func membersWithFewRequestsAreNotCompared() {
        let facts = rates([99, 99, 99, 99, 99, 99, 99, 99, 99, 0], of: 99)
        #expect(ejected(facts) == [])
        #expect(ejected(facts) { $0.successRate?.minimumRequests = 99 } == [9])
        // They do not count for the mean of others either.
        let few = rates(Array(repeating: 100, count: 9)) + rates([0], of: 50).map { OutlierRules.Facts($0, id: 9) }
        #expect(ejected(few) == [])
    }

    @Test func fewMembersAreNotCompared() {
        let facts = rates([100, 100, 100, 0])
        #expect(ejected(facts) { $0.successRate?.deviations = 1 } == [])
        #expect(
            ejected(facts) {
                $0.successRate?.deviations = 1
                $0.successRate?.minimumMembers = 4
            } == [3]
        )
    }

    /// Of five members, one is at most two standard deviations below the mean; of four, 1.7.
    @Test func fiveMembersAreTheFewestWithAnOutlier() {
        #expect(ejected(rates([100, 100, 100, 0])) { $0.successRate?.minimumMembers = 0 } == [])
        #expect(ejected(rates([100, 100, 100, 100, 0])) == [4])
        #expect(ejected(rates([100, 100, 100, 60, 0])) == [])
    }

    @Test func theLowestRateIsEjectedFirst() {
        let facts = rates([100, 100, 10, 100, 5, 100, 100, 100, 100, 100, 100, 100])
        #expect(ejected(facts, of: 12) == [4, 2])
        #expect(ejected(facts, of: 12) { $0.maximumShare = 0.1 } == [4])
    }

    @Test func successRatesCanBeOff() {
        #expect(ejected(rates([100, 100, 100, 100, 100, 100, 100, 100, 100, 0])) { $0.successRate = nil } == [])
    }

    // MARK: Error rates

    /// Facts of members 0, 1, 2, … with these numbers of error responses, out of `requests` that were all answered.
    private func errors(_ errors: [Int], of requests: Int = 20) -> [OutlierRules.Facts] {
        errors.enumerated().map { index, errors in
            OutlierRules.Facts(
                id: UInt64(index),
                successes: requests,
                failures: 0,
                errors: errors,
                latencyNanoseconds: 0,
                answers: 0
            )
        }
    }

    /// Error responses that are no failures by the options ejected no server, whatever their share.
    @Test func aMemberFarAboveTheMedianIsEjected() {
        var cluster = RuledCluster(3)
        let actions = cluster.closeInterval(errors([1, 19, 0]), at: start)
        let reason = OutlierRules.Reason.errorRate(0.95, median: 0.05)
        #expect(actions == [.ejected(1, until: start.advanced(by: .seconds(30)), reason: reason)])
    }

    @Test(
        arguments: [
            // At least half of all requests more than the median.
            (errors: [0, 0, 9], ejected: []),
            (errors: [0, 0, 10], ejected: [2]),
            (errors: [8, 8, 17], ejected: []),
            (errors: [8, 8, 18], ejected: [2]),
            // The cause of errors of all, or of most, lies in the requests.
            (errors: [20, 20, 20], ejected: []),
            (errors: [20, 20, 0], ejected: []),
            // The median of an even number is the mean of the middle two.
            (errors: [0, 0, 20, 20], ejected: [2, 3]),
            (errors: [0, 2, 4, 13], ejected: [3]),
            (errors: [0, 2, 5, 13], ejected: []),
            // At least three members.
            (errors: [0, 20], ejected: []),
            // The highest rate first.
            (errors: [0, 15, 0, 18, 0], ejected: [3, 1]),
        ] as [(errors: [Int], ejected: [UInt64])]
    )
    func errorRatesAreComparedWithTheMedian(_ row: (errors: [Int], ejected: [UInt64])) {
        #expect(ejected(errors(row.errors)) == row.ejected)
    }

    @Test func errorRatesOfFewRequestsAreNotCompared() {
        #expect(ejected(errors([0, 0, 19], of: 19)) == [])
        #expect(ejected(errors([0, 0, 19], of: 19)) { $0.errorRate?.minimumRequests = 19 } == [2])
    }

    @Test func failuresCountAsErrors() {
        let facts = (0..<3).map { id in
            OutlierRules.Facts(
                id: id,
                successes: id == 1 ? 5 : 20,
                failures: id == 1 ? 15 : 0,
                errors: id == 1 ? 15 : 0,
                latencyNanoseconds: 0,
                answers: 0
            )
        }
        #expect(ejected(facts) == [1])
    }

    @Test func errorRatesCanBeOff() {
        #expect(ejected(errors([0, 20, 0])) { $0.errorRate = nil } == [])
    }

    // MARK: Latencies

    @Test func aMemberFarSlowerThanTheMedianIsEjected() {
        var cluster = RuledCluster(10)
        let actions = cluster.closeInterval(latencies([10, 10, 10, 60]), at: start)
        let reason = OutlierRules.Reason.latency(.milliseconds(60), median: .milliseconds(10))
        #expect(actions == [.ejected(3, until: start.advanced(by: .seconds(30)), reason: reason)])
    }

    @Test(
        arguments: [
            // More than five times the median, not exactly.
            (latencies: [10, 10, 50], ejected: []),
            (latencies: [10, 10, 50.1], ejected: [2]),
            // At least 10 ms above the median.
            (latencies: [1, 1, 10.9], ejected: []),
            (latencies: [1, 1, 11], ejected: [2]),
            (latencies: [0, 0, 9.9], ejected: []),
            (latencies: [0, 0, 10], ejected: [2]),
            // The median of an even number is the mean of the middle two.
            (latencies: [10, 10, 20, 74], ejected: []),
            (latencies: [10, 10, 20, 76], ejected: [3]),
            // At least three members.
            (latencies: [1, 1000], ejected: []),
            // The slowest first. Those that are slow together with half of the others are no outliers.
            (latencies: [1, 1, 1, 500, 600], ejected: [4, 3]),
            (latencies: [1, 1, 500, 600, 700], ejected: []),
        ] as [(latencies: [Double], ejected: [UInt64])]
    )
    func latenciesAreComparedWithTheMedian(_ row: (latencies: [Double], ejected: [UInt64])) {
        #expect(ejected(latencies(row.latencies)) == row.ejected)
    }

    @Test func membersWithFewAnswersAreNotCompared() {
        #expect(ejected(latencies([1, 1, 1, 500], answers: 19)) == [])
    }

    @Test func aMemberWithoutAnswersIsNotCompared() {
        let silent = OutlierRules.Facts(id: 4, successes: 0, failures: 0, latencyNanoseconds: 1, answers: 0)
        #expect(ejected(latencies([1, 1, 1, 500]) + [silent]) { $0.latency?.minimumAnswers = 0 } == [3])
    }

    @Test func latenciesCanBeOff() {
        #expect(ejected(latencies([1, 1, 1, 500])) { $0.latency = nil } == [])
    }

    // MARK: Both

    @Test func aMemberThatFailsAndIsSlowIsEjectedOnce() {
        let facts = (0..<10).map { id in
            OutlierRules.Facts(
                id: id,
                successes: id == 7 ? 0 : 100,
                failures: id == 7 ? 100 : 0,
                latencyNanoseconds: id == 7 ? 100_000_000_000 : 100_000_000,
                answers: 100
            )
        }
        #expect(ejected(facts) == [7])
    }

    @Test func onlyServingMembersAreCompared() {
        var cluster = RuledCluster(10)
        for id in UInt64(0)..<3 { cluster.eject(id, at: start) }
        // Compared with the ejected ones, the last member would not be slow.
        let facts = latencies([500, 500, 500, 1, 1, 500])
        let ids = cluster.closeInterval(facts, at: start).compactMap {
            if case .ejected(let id, _, _) = $0 { id } else { nil }
        }
        #expect(ids == [5])
    }

    @Test func ofAMemberThatOccursTwiceTheFirstFactsCount() {
        let again = latencies([1, 1, 1, 500]).map { OutlierRules.Facts($0, id: 0) }
        #expect(ejected(latencies([1, 1, 1]) + again) == [])
    }

    @Test func anIntervalWithoutFactsEjectsNoMember() {
        #expect(ejected([]) == [])
        #expect(
            ejected([]) {
                $0.successRate?.minimumMembers = 0
                $0.latency?.minimumMembers = 0
            } == []
        )
    }
}
