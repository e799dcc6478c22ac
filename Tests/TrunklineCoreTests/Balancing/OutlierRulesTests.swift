import Testing

@testable import TrunklineCluster
@testable import TrunklineCore
@testable import TrunklineIO

/// The ejection, probe and return of single members: one test per state and input.
@Suite struct OutlierRulesTests {
    private let start = Instant(nanoseconds: 5_000_000_000)

    private func after(_ seconds: Double) -> Instant { start.advanced(by: .seconds(seconds)) }

    // MARK: Serving

    @Test func aNewMemberServesWithoutSlowStart() {
        var cluster = RuledCluster(1)
        #expect(cluster.rules.state(of: 0) == .serving(slowStart: nil))
        #expect(cluster.rules.isInUse(0))
        #expect(cluster.rules.nextTime == nil)
        #expect(cluster.rules.add(7) == [])
        #expect(!cluster.rules.isInUse(7))
        #expect(cluster.rules.count == 2)
        #expect(cluster.rules.badCount == 1)
    }

    @Test func anAddedMemberThatIsKnownStaysAsItIs() {
        var cluster = RuledCluster(4)
        let until = cluster.eject(2, at: start)
        #expect(cluster.rules.add(2) == [])
        #expect(cluster.rules.state(of: 2) == .ejected(until: until))
    }

    @Test func fiveFailuresInARowEject() {
        var cluster = RuledCluster(4)
        #expect(cluster.fail(2, 4, at: start) == [])
        #expect(
            cluster.fail(2, 5, at: start) == [.ejected(2, until: after(30), reason: .failuresInARow(5))]
        )
        #expect(cluster.rules.state(of: 2) == .ejected(until: after(30)))
        #expect(cluster.rules.nextTime == after(30))
        #expect(!cluster.rules.isInUse(2))
        #expect(!cluster.rules.mayProbe(2))
    }

    @Test func theCounterMayHavePassedTheLimit() {
        var cluster = RuledCluster(4)
        #expect(
            cluster.fail(2, 9, at: start) == [.ejected(2, until: after(30), reason: .failuresInARow(9))]
        )
    }

    @Test func failuresInARowCanBeOff() {
        var cluster = RuledCluster(4) { $0.consecutiveFailures = nil }
        #expect(cluster.fail(2, .max, at: start) == [])
    }

    @Test func aLimitBelowOneCountsAsOne() {
        var cluster = RuledCluster(4) { $0.consecutiveFailures = -3 }
        #expect(cluster.fail(2, 0, at: start) == [])
        #expect(cluster.fail(2, 1, at: start).count == 1)
    }

    @Test func aMemberWithoutALinkCanBeEjected() {
        var cluster = RuledCluster(4)
        #expect(cluster.rules.setReady(2, false) == [])
        #expect(cluster.rules.badCount == 1)
        cluster.eject(2, at: start)
        #expect(cluster.rules.badCount == 1)
    }

    @Test func theOnlyMemberIsNeverEjected() {
        var cluster = RuledCluster(1)
        #expect(cluster.fail(0, 5, at: start) == [])
        #expect(cluster.rules.isInUse(0))
        #expect(!cluster.rules.isPanicking)
    }

    @Test func aMemberWithoutALinkIsNotInUse() {
        var cluster = RuledCluster(4)
        #expect(cluster.rules.setReady(2, true) == [])
        #expect(cluster.rules.setReady(2, false) == [])
        #expect(!cluster.rules.isInUse(2))
        #expect(cluster.rules.setReady(2, true) == [])
        #expect(cluster.rules.isInUse(2))
    }

    @Test func probesAndTimeMeanNothingToAServingMember() {
        var cluster = RuledCluster(4)
        #expect(cluster.rules.probeBegan(2) == [])
        #expect(cluster.rules.probeCancelled(2) == [])
        #expect(cluster.endProbe(2, false, at: start) == [])
        #expect(cluster.rules.time(at: .distantFuture) == [])
        #expect(cluster.rules.state(of: 2) == .serving(slowStart: nil))
    }

    // MARK: Ejected

    @Test func anEjectedMemberIsProbedWhenItsTimeIsOver() {
        var cluster = RuledCluster(4)
        cluster.eject(2, at: start)
        #expect(cluster.rules.time(at: after(29.999)) == [])
        #expect(cluster.rules.time(at: after(30)) == [.mayBeProbed(2)])
        #expect(cluster.rules.state(of: 2) == .probing(until: after(40)))
        #expect(cluster.rules.mayProbe(2))
        #expect(!cluster.rules.isInUse(2))
        #expect(cluster.rules.nextTime == after(40))
        #expect(cluster.rules.time(at: after(39.999)) == [])
    }

    @Test func membersWhoseTimesAreOverTogetherComeInTheOrderOfTheirNumbers() {
        var cluster = RuledCluster(6)
        for id in [4, 0, 2] as [UInt64] { cluster.eject(id, at: after(Double(id))) }
        #expect(cluster.rules.nextTime == after(30))
        #expect(cluster.rules.time(at: after(99)) == [.mayBeProbed(0), .mayBeProbed(2), .mayBeProbed(4)])
        #expect(cluster.rules.time(at: after(109)) == [.returned(0), .returned(2), .returned(4)])
    }

    /// Late answers of requests from before the ejection.
    @Test func failuresOfAnEjectedMemberChangeNothing() {
        var cluster = RuledCluster(4)
        let until = cluster.eject(2, at: start)
        #expect(cluster.fail(2, 99, at: after(20)) == [])
        #expect(cluster.closeInterval(RuledCluster.facts([2: (0, 100)], answers: 100), at: after(20)) == [])
        #expect(cluster.rules.state(of: 2) == .ejected(until: until))
    }

    @Test func linksOfAnEjectedMemberDoNotReturnIt() {
        var cluster = RuledCluster(4)
        let until = cluster.eject(2, at: start)
        #expect(cluster.rules.setReady(2, false) == [])
        #expect(cluster.rules.setReady(2, true) == [])
        #expect(cluster.rules.state(of: 2) == .ejected(until: until))
    }

    @Test func probesMeanNothingToAnEjectedMember() {
        var cluster = RuledCluster(4)
        let until = cluster.eject(2, at: start)
        #expect(cluster.rules.probeBegan(2) == [])
        #expect(cluster.rules.probeCancelled(2) == [])
        #expect(cluster.endProbe(2, true, at: after(1)) == [])
        #expect(cluster.rules.state(of: 2) == .ejected(until: until))
    }

    @Test func aMemberThatIsAddedAgainStartsAfresh() {
        var cluster = RuledCluster(4)
        cluster.eject(2, at: start)
        #expect(cluster.rules.remove(2) == [])
        #expect(cluster.rules.state(of: 2) == nil)
        #expect(cluster.rules.nextTime == nil)
        #expect(cluster.rules.add(2) == [])
        #expect(cluster.rules.setReady(2, true) == [])
        #expect(cluster.rules.state(of: 2) == .serving(slowStart: nil))
        // The first ejection again.
        #expect(cluster.eject(2, at: after(5)) == after(35))
    }

    // MARK: Probing

    private func probing() -> RuledCluster {
        var cluster = RuledCluster(4)
        cluster.eject(2, at: start)
        _ = cluster.rules.time(at: after(30))
        return cluster
    }

    @Test func aMemberWhoseProbeSucceedsReturns() {
        var cluster = probing()
        #expect(cluster.rules.probeBegan(2) == [])
        #expect(!cluster.rules.mayProbe(2))
        #expect(cluster.rules.state(of: 2) == .probing(until: after(40)))
        #expect(cluster.endProbe(2, true, at: after(31)) == [.returned(2)])
        #expect(cluster.rules.state(of: 2) == .serving(slowStart: after(31)))
        #expect(cluster.rules.isInUse(2))
        #expect(cluster.rules.badCount == 0)
    }

    @Test func aMemberWhoseProbeFailsIsEjectedForLonger() {
        var cluster = probing()
        #expect(cluster.rules.probeBegan(2) == [])
        #expect(
            cluster.endProbe(2, false, at: after(31)) == [.ejected(2, until: after(91), reason: .probeFailed)]
        )
        #expect(cluster.rules.state(of: 2) == .ejected(until: after(91)))
        #expect(cluster.rules.nextTime == after(91))
    }

    @Test func aProbeThatHasNotBegunHasNoOutcome() {
        var cluster = probing()
        #expect(cluster.endProbe(2, true, at: after(31)) == [])
        #expect(cluster.endProbe(2, false, at: after(31)) == [])
        #expect(cluster.rules.probeCancelled(2) == [])
        #expect(cluster.rules.state(of: 2) == .probing(until: after(40)))
    }

    @Test func afterACancelledProbeAnotherMayBegin() {
        var cluster = probing()
        #expect(cluster.rules.probeBegan(2) == [])
        #expect(cluster.rules.probeCancelled(2) == [.mayBeProbed(2)])
        #expect(cluster.rules.mayProbe(2))
        #expect(cluster.endProbe(2, false, at: after(31)) == [])
    }

    @Test func aMemberWithoutALinkIsProbedWhenItHasOne() {
        var cluster = RuledCluster(4)
        cluster.eject(2, at: start)
        #expect(cluster.rules.setReady(2, false) == [])
        #expect(cluster.rules.time(at: after(30)) == [.mayBeProbed(2)])
        #expect(!cluster.rules.mayProbe(2))
        #expect(cluster.rules.setReady(2, true) == [.mayBeProbed(2)])
        #expect(cluster.rules.mayProbe(2))
        // Not while a probe is under way.
        #expect(cluster.rules.probeBegan(2) == [])
        #expect(cluster.rules.setReady(2, false) == [])
        #expect(cluster.rules.probeCancelled(2) == [])
        #expect(cluster.rules.setReady(2, true) == [.mayBeProbed(2)])
        #expect(cluster.rules.probeBegan(2) == [])
        #expect(cluster.rules.setReady(2, false) == [])
        #expect(cluster.rules.setReady(2, true) == [])
    }

    /// A healthy server whose probe was a long stream, or that got no request at all, stayed out of use.
    @Test func aMemberThatIsNotProbedInTimeReturns() {
        var cluster = probing()
        #expect(cluster.rules.time(at: after(39.999)) == [])
        #expect(cluster.rules.probeBegan(2) == [])
        #expect(cluster.rules.time(at: after(40)) == [.returned(2)])
        #expect(cluster.rules.state(of: 2) == .serving(slowStart: after(40)))
        #expect(cluster.rules.isInUse(2))
        #expect(cluster.rules.nextTime == nil)
        // The outcome of the probe comes too late.
        #expect(cluster.endProbe(2, false, at: after(41)) == [])
        // The second ejection in a row.
        #expect(cluster.eject(2, at: after(42)) == after(102))
    }

    @Test func onlyRequestsThatMayBePerformedTwiceAreProbesAtFirst() {
        var cluster = RuledCluster(4)
        cluster.eject(2, at: start)
        #expect(cluster.rules.opensToAllRequests(2) == nil)
        _ = cluster.rules.time(at: after(30))
        #expect(cluster.rules.opensToAllRequests(2) == after(35))
        // A probe without an outcome does not begin the time anew.
        _ = cluster.rules.probeBegan(2)
        _ = cluster.rules.probeCancelled(2)
        #expect(cluster.rules.opensToAllRequests(2) == after(35))
    }

    /// Without a link there is nothing to return to.
    @Test func aMemberWithoutALinkReturnsWhenItHasOne() {
        var cluster = probing()
        _ = cluster.rules.setReady(2, false)
        #expect(cluster.rules.nextTime == nil)
        #expect(cluster.rules.time(at: after(99)) == [])
        #expect(cluster.rules.setReady(2, true) == [.mayBeProbed(2)])
        #expect(cluster.rules.nextTime == after(40))
        #expect(cluster.rules.time(at: after(100)) == [.returned(2)])
    }

    @Test func failuresOfAProbingMemberChangeNothing() {
        var cluster = probing()
        #expect(cluster.fail(2, 99, at: after(31)) == [])
        #expect(cluster.closeInterval(RuledCluster.facts([2: (0, 1)], answers: 1), at: after(31)) == [])
        #expect(cluster.rules.state(of: 2) == .probing(until: after(40)))
    }

    /// The outcome of a probe of a member that was removed, and added again under the same number.
    @Test func anOldProbeChangesNothing() {
        var cluster = probing()
        _ = cluster.rules.probeBegan(2)
        _ = cluster.rules.remove(2)
        _ = cluster.rules.add(2)
        #expect(cluster.endProbe(2, false, at: after(31)) == [])
        #expect(cluster.rules.state(of: 2) == .serving(slowStart: nil))
    }

    // MARK: Unknown

    @Test func inputsForUnknownMembersChangeNothing() {
        var cluster = RuledCluster(4)
        #expect(cluster.rules.state(of: 9) == nil)
        #expect(!cluster.rules.isInUse(9))
        #expect(!cluster.rules.mayProbe(9))
        #expect(cluster.rules.remove(9) == [])
        #expect(cluster.rules.setReady(9, false) == [])
        #expect(cluster.fail(9, 5, at: start) == [])
        #expect(cluster.closeInterval(RuledCluster.facts([9: (0, 100)], answers: 100), at: start) == [])
        #expect(cluster.rules.probeBegan(9) == [])
        #expect(cluster.rules.probeCancelled(9) == [])
        #expect(cluster.endProbe(9, false, at: start) == [])
        #expect(cluster.rules.count == 4)
        #expect(cluster.rules.badCount == 0)
    }

    // MARK: Times

    @Test func theNthEjectionLastsNTimesAsLong() {
        var cluster = RuledCluster(4)
        var now = start
        for n in 1...20 {
            let until = n == 1 ? cluster.eject(2, at: now) : cluster.failProbe(2, at: now)
            #expect(until.since(now) == .seconds(min(30 * n, 300)))
            now = until
            #expect(cluster.rules.time(at: now) == [.mayBeProbed(2)])
        }
    }

    @Test func everyIntervalOfGoodServiceForgivesOneEjection() {
        var cluster = RuledCluster(4)
        cluster.eject(2, at: start)
        _ = cluster.rules.time(at: after(30))
        cluster.failProbe(2, at: after(30))
        _ = cluster.rules.time(at: after(90))
        #expect(cluster.succeedProbe(2, at: after(90)) == [.returned(2)])
        // Two ejections so far. The interval of the return does not count: it began before.
        for second in [95.0, 105, 115] { _ = cluster.closeInterval([], at: after(second)) }
        #expect(cluster.eject(2, at: after(120)) == after(150))
    }

    @Test func theIntervalOfTheReturnForgivesNothing() {
        var cluster = RuledCluster(4)
        cluster.eject(2, at: start)
        _ = cluster.closeInterval([], at: after(29))
        _ = cluster.rules.time(at: after(30))
        _ = cluster.succeedProbe(2, at: after(30))
        _ = cluster.closeInterval([], at: after(39))
        #expect(cluster.eject(2, at: after(40)) == after(100))
    }

    @Test func anIntervalWithoutALinkForgivesNothing() {
        var cluster = RuledCluster(4)
        cluster.eject(2, at: start)
        _ = cluster.rules.time(at: after(30))
        _ = cluster.succeedProbe(2, at: after(30))
        _ = cluster.closeInterval([], at: after(39))
        _ = cluster.rules.setReady(2, false)
        _ = cluster.rules.setReady(2, true)
        _ = cluster.closeInterval([], at: after(49))
        #expect(cluster.eject(2, at: after(50)) == after(110))
    }

    @Test func theLongestTimeIsAtLeastTheBaseTime() {
        var cluster = RuledCluster(4) { $0.maximumTime = .seconds(1) }
        #expect(cluster.eject(2, at: start) == after(30))
    }

    @Test func jitterSpreadsTheTimes() {
        var times: [Duration] = []
        for seed in UInt64(0)..<200 {
            var cluster = RuledCluster(4, seed: seed) { $0.jitter = 0.1 }
            times.append(cluster.eject(2, at: start).since(start))
        }
        #expect(times.allSatisfy { .seconds(27) <= $0 && $0 <= .seconds(33) })
        #expect(times.contains { $0 < .seconds(27.5) })
        #expect(times.contains { $0 > .seconds(32.5) })
    }

    @Test(arguments: [Double.nan, .infinity, -.infinity, -1, 0, 1e-300, 1, 1e300])
    func extremeSettingsNeverTrap(_ number: Double) {
        let durations = [Duration.zero, .seconds(-1), .nanoseconds(1), .seconds(Int64.max), .seconds(Int64.min)]
        for duration in durations {
            var cluster = RuledCluster(6) {
                ($0.baseTime, $0.maximumTime, $0.interval) = (duration, duration, duration)
                ($0.jitter, $0.maximumShare) = (number, number)
                $0.successRate?.deviations = number
                $0.successRate?.minimumRequests = number > 0 ? .max : .min
                $0.successRate?.minimumMembers = number > 0 ? 1 : .min
                $0.latency?.factor = number
                $0.latency?.minimumDifference = duration
                $0.latency?.minimumAnswers = .min
                $0.latency?.minimumMembers = .min
            }
            for now in [start, .distantFuture, .distantPast] {
                for id in UInt64(0)..<6 {
                    _ = cluster.fail(id, .max, at: now)
                    for count in [Int.max, .min, 0, 1] {
                        let facts = OutlierRules.Facts(
                            id: id,
                            successes: count,
                            failures: count,
                            latencyNanoseconds: Int64(count),
                            answers: count
                        )
                        _ = cluster.closeInterval([facts, facts], at: now)
                    }
                    _ = cluster.rules.time(at: cluster.rules.nextTime ?? now)
                    _ = cluster.rules.probeBegan(id)
                    _ = cluster.endProbe(id, false, at: now)
                }
            }
            #expect(cluster.rules.count == 6)
        }
    }
}
