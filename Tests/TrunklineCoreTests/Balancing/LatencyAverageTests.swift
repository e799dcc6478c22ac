import Testing

@testable import TrunklineCluster
@testable import TrunklineCore
@testable import TrunklineIO

/// What the callers of a cluster remember of a server, each in one word: its latency and its errors.
@Suite struct LatencyAverageTests {
    private let start = Instant(nanoseconds: 5_000_000_000)

    private func after(_ seconds: Double) -> Instant { start.advanced(by: .seconds(seconds)) }

    /// An average of `milliseconds` at `start`.
    private func average(_ milliseconds: Int64) -> LatencyAverage {
        LatencyAverage(at: start).adding(nanoseconds: milliseconds * 1_000_000, .answer, at: start)
    }

    private func isClose(_ value: Float, _ expected: Float) -> Bool { abs(value - expected) < expected / 50 }

    // MARK: Latency

    @Test func theFirstAnswerReplacesAnUnknownAverage() {
        let unknown = LatencyAverage(at: start)
        #expect(!unknown.isKnown && unknown.microseconds(at: start) == 0)
        for seconds in [0.0, 1, 1000] {
            let known = unknown.adding(nanoseconds: 3_000_000, .answer, at: after(seconds))
            #expect(known.isKnown && known.microseconds(at: after(seconds)) == 3000)
        }
        // Also an answer that took no time, as the clock has it.
        #expect(unknown.adding(nanoseconds: 0, .answer, at: start).isKnown)
        #expect(unknown.adding(nanoseconds: -1, .answer, at: start).isKnown)
    }

    /// A server that fails at once would look fast.
    @Test func aFailureTellsNothingAboutAnUnknownAverage() {
        for nanoseconds in [0, 1000, 8_000_000_000] as [Int64] {
            #expect(!LatencyAverage(at: start).adding(nanoseconds: nanoseconds, .nothing, at: after(1)).isKnown)
        }
    }

    /// A server that hung from the beginning counted as fast as the others, whatever it did not answer.
    @Test func anUnknownAverageHasABound() {
        let unknown = LatencyAverage(at: start)
        let hanging = unknown.adding(nanoseconds: 20_000_000, .nothing, at: start)
        #expect(!hanging.isKnown && hanging.microseconds(at: start) == 0)
        #expect(LatencyAverage.compare(hanging, average(1), at: start) == (20_000, 1000))
        #expect(LatencyAverage.compare(average(50), hanging, at: start) == (50_000, 50_000))
        #expect(LatencyAverage.compare(unknown, average(1), at: start) == (1000, 1000))
        #expect(LatencyAverage.compare(hanging, unknown, at: start) == (20_000, 1))
        // A shorter time tells nothing, a longer one more.
        let same = hanging.adding(nanoseconds: 1000, .nothing, at: after(0.001))
        #expect(isClose(LatencyAverage.compare(same, average(1), at: after(0.001)).0, 20_000))
        let longer = hanging.adding(nanoseconds: 30_000_000, .nothing, at: after(0.001))
        #expect(LatencyAverage.compare(longer, average(1), at: after(0.001)).0 == 30_000)
        // The server answers.
        #expect(!hanging.adding(nanoseconds: 1000, .error, at: after(1)).isMeasured)
        #expect(hanging.adding(nanoseconds: 1_000_000, .answer, at: after(1)).microseconds(at: after(1)) == 1000)
    }

    @Test(arguments: [LatencyAverage.Outcome.answer, .error, .nothing])
    func aSlowRequestRaisesTheAverageAtOnce(_ outcome: LatencyAverage.Outcome) {
        let slow = average(1).adding(nanoseconds: 8_000_000_000, outcome, at: after(0.0001))
        #expect(slow.microseconds(at: after(0.0001)) == 8_000_000)
    }

    @Test func fastAnswersLowerItWithATimeConstantOfTenSeconds() {
        var average = average(100)
        for tick in 1...1000 {
            average = average.adding(nanoseconds: 1_000_000, .answer, at: after(Double(tick) / 100))
        }
        // 1 + 99/e ms.
        #expect(isClose(average.microseconds(at: after(10)), 37_420))
    }

    /// The average was lowered by responses alone. A server that had hung got no requests, and so no chance to respond.
    @Test func itDecaysWhileItIsOnlyRead() {
        let slow = average(8000)
        #expect(slow.microseconds(at: after(0.05)) == 8_000_000)
        #expect(isClose(slow.microseconds(at: after(1)), 7_239_000))
        #expect(isClose(slow.microseconds(at: after(10)), 2_943_000))
        #expect(isClose(slow.microseconds(at: after(20)), 1_083_000))
    }

    /// Of servers that were idle for long, the slower one stays the slower one.
    @Test func itDoesNotDecayToNothing() {
        let (fast, slow) = (average(1), average(50))
        for seconds in [100.0, 1000, 86_400] {
            #expect(fast.microseconds(at: after(seconds)) > 0)
            #expect(isClose(slow.microseconds(at: after(seconds)), 50 * fast.microseconds(at: after(seconds))))
        }
    }

    /// A server that fails at once would look fast.
    @Test(arguments: [LatencyAverage.Outcome.error, .nothing])
    func failuresLowerItNoFasterThanTime(_ outcome: LatencyAverage.Outcome) {
        var average = average(100)
        for tick in 1...3000 {
            average = average.adding(nanoseconds: 1000, outcome, at: after(Double(tick) / 100))
        }
        // 100/e³ ms.
        #expect(isClose(average.microseconds(at: after(30)), 4979))
    }

    /// It was as high as before when a failure followed, or an error: a server that hung once was avoided for minutes
    /// if most of its responses were errors.
    @Test(arguments: [LatencyAverage.Outcome.error, .nothing])
    func aFailureDoesNotUndoTheDecay(_ outcome: LatencyAverage.Outcome) {
        let (slow, present) = (average(100), after(9))
        let failed = slow.adding(nanoseconds: 1000, outcome, at: present)
        #expect(failed.microseconds(at: present) == slow.microseconds(at: present))
        let raised = slow.adding(nanoseconds: 80_000_000, outcome, at: present)
        #expect(raised.microseconds(at: present) == 80_000)
    }

    /// The server works, but nothing says how fast. A request that nobody answered says nothing.
    @Test func anErrorMakesAnOldAverageUnknown() {
        #expect(!average(8000).adding(nanoseconds: 1000, .error, at: after(10.1)).isKnown)
        #expect(average(8000).adding(nanoseconds: 8_000_000_000, .error, at: after(10.1)).isKnown)
        #expect(average(8000).adding(nanoseconds: 1000, .nothing, at: after(10.1)).isKnown)
        #expect(!average(8000).adding(nanoseconds: 1000, .nothing, at: after(10.1)).isStale(at: after(20)))
    }

    /// What is older than the time constant counts no longer: a server that hung once was avoided for a minute,
    /// although it answered whatever it was asked.
    @Test func anAnswerReplacesAnOldAverage() {
        let answered = average(8000).adding(nanoseconds: 1_000_000, .answer, at: after(10.1))
        #expect(answered.microseconds(at: after(10.1)) == 1000)
        let early = average(8000).adding(nanoseconds: 1_000_000, .answer, at: after(9.9))
        #expect(early.microseconds(at: after(9.9)) > 2_000_000)
        #expect(average(1).isStale(at: after(10.1)) && !average(1).isStale(at: after(9.9)))
    }

    /// Another thread has read the clock later.
    @Test func anAnswerFromThePastCountsAsPresent() {
        let present = LatencyAverage(at: after(1)).adding(nanoseconds: 2_000_000, .answer, at: after(1))
        #expect(present.microseconds(at: start) == 2000)
        #expect(present.adding(nanoseconds: 1_000_000, .answer, at: start) == present)
        #expect(present.adding(nanoseconds: 3_000_000, .answer, at: start).microseconds(at: start) == 3000)
    }

    // MARK: Errors

    @Test func theShareOfErrorsFollowsTheLatestRequests() {
        var share = ErrorShare.none
        #expect(share.share(at: start) == 0)
        for _ in 0..<16 { share = share.adding(isError: true, at: start) }
        // 1 - (15/16)^16.
        #expect(isClose(share.share(at: start), 0.644))
        for _ in 0..<1000 { share = share.adding(isError: true, at: start) }
        #expect(share.share(at: start) < 1)
        #expect(isClose(share.share(at: start), 1))
    }

    @Test func successesEndTheShareOfErrors() {
        var share = ErrorShare.none.adding(isError: true, at: start)
        var count = 0
        while share != .none, count < 1000 {
            share = share.adding(isError: false, at: start)
            count += 1
        }
        // 1/16 × (15/16)^n < 1/256.
        #expect(count == 43)
        #expect(share.adding(isError: false, at: start) == .none)
    }

    @Test func theShareOfErrorsDecaysWhileItIsOnlyRead() {
        var share = ErrorShare.none
        for _ in 0..<1000 { share = share.adding(isError: true, at: start) }
        #expect(isClose(share.share(at: after(10)), 0.3675))
    }
}
