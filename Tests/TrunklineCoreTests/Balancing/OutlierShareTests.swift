import Testing

@testable import TrunklineCluster
@testable import TrunklineCore
@testable import TrunklineIO

/// How many members a comparison may eject, and what zones mean for a panic.
@Suite struct OutlierShareTests {
    private let start = Instant(nanoseconds: 5_000_000_000)

    private func after(_ seconds: Double) -> Instant { start.advanced(by: .seconds(seconds)) }

    /// Facts of members of which some are slow.
    private func facts(_ count: Int, slow: ClosedRange<UInt64>) -> [OutlierRules.Facts] {
        (0..<UInt64(count)).map { id in
            let milliseconds: Int64 = slow.contains(id) ? 500 + Int64(id) : 1
            return OutlierRules.Facts(
                id: id,
                successes: 20,
                failures: 0,
                latencyNanoseconds: milliseconds * 20_000_000,
                answers: 20
            )
        }
    }

    private func ejected(_ actions: [OutlierRules.Action]) -> [UInt64] {
        actions.compactMap { if case .ejected(let id, _, _) = $0 { id } else { nil } }
    }

    // MARK: Comparisons

    /// A comparison may be wrong, so it does not take half of the servers away.
    @Test(arguments: [(3, 1), (10, 1), (19, 1), (20, 2), (39, 3), (40, 4), (100, 5)])
    func comparisonsEjectATenth(_ count: Int, _ expected: Int) {
        var cluster = RuledCluster(count)
        // Up to five slow ones, and not half of all.
        let slowest = UInt64(min(4, (count - 1) / 2 - 1))
        let facts = facts(count, slow: 0...slowest)
        let slow = ejected(cluster.closeInterval(facts, at: start))
        #expect(slow == Array((0...slowest).reversed().prefix(expected)), "the slowest first")
        // The others are as good as before.
        #expect(cluster.rules.badCount == slow.count)
        #expect(cluster.closeInterval(facts, at: after(10)) == [])
        #expect(cluster.rules.badCount == slow.count && !cluster.rules.isPanicking)
    }

    @Test func failuresInARowAreNotLimitedByComparisons() {
        var cluster = RuledCluster(10)
        #expect(ejected(cluster.closeInterval(facts(10, slow: 8...9), at: start)) == [9])
        for id in UInt64(0)...3 { cluster.eject(id, at: after(1)) }
        #expect(cluster.rules.badCount == 5)
        #expect(cluster.fail(4, 5, at: after(2)) == [.panicBegan(bad: 6, of: 10)])
    }

    /// Those with failures in a row were not compared, so they do not use up the tenth.
    @Test func comparisonsAreNotLimitedByFailuresInARow() {
        var cluster = RuledCluster(10)
        for id in UInt64(0)...3 { cluster.eject(id, at: start) }
        #expect(ejected(cluster.closeInterval(facts(10, slow: 8...9), at: after(1))) == [9])
        #expect(ejected(cluster.closeInterval(facts(10, slow: 7...8), at: after(11))) == [])
    }

    /// A probe is one request: its failure does not make room for the next comparison.
    @Test func aMemberWhoseProbeFailsIsStillOneOfTheTenth() {
        var cluster = RuledCluster(10)
        #expect(ejected(cluster.closeInterval(facts(10, slow: 8...9), at: start)) == [9])
        #expect(cluster.rules.time(at: after(30)) == [.mayBeProbed(9)])
        cluster.failProbe(9, at: after(31))
        #expect(ejected(cluster.closeInterval(facts(10, slow: 8...8), at: after(32))) == [])
        _ = cluster.rules.time(at: after(91))
        #expect(cluster.succeedProbe(9, at: after(92)) == [.returned(9)])
        #expect(ejected(cluster.closeInterval(facts(10, slow: 8...8), at: after(93))) == [8])
    }

    @Test func theShareOfAllLimitsComparisonsToo() {
        var cluster = RuledCluster(40) { $0.maximumShare = 0.05 }
        #expect(ejected(cluster.closeInterval(facts(40, slow: 0...4), at: start)) == [4, 3])
        var none = RuledCluster(40) { $0.maximumShare = 0 }
        #expect(none.closeInterval(facts(40, slow: 0...4), at: start) == [])
        // Nothing is withheld, and nothing is due.
        for id in UInt64(0)..<40 { #expect(none.fail(id, 5, at: after(1)) == []) }
        #expect(none.rules.badCount == 0 && none.rules.nextTime == nil)
    }

    @Test func aMemberThatIsNotEjectedHasNotServedWell() {
        var cluster = RuledCluster(10)
        cluster.eject(8, at: start)
        _ = cluster.rules.time(at: after(30))
        _ = cluster.succeedProbe(8, at: after(30))
        _ = cluster.closeInterval(facts(10, slow: 9...9), at: after(39))
        // Only 9 is ejected, and the ejection of 8 is not forgiven.
        #expect(ejected(cluster.closeInterval(facts(10, slow: 8...8), at: after(49))) == [])
        #expect(cluster.eject(8, at: after(50)) == after(110))
    }

    // MARK: Zones

    /// Members of this zone, and others.
    private func cluster(local: Int, remote: Int) -> RuledCluster {
        var cluster = RuledCluster(0)
        for id in 0..<UInt64(local + remote) {
            _ = cluster.rules.add(id, isLocal: id < local)
            _ = cluster.rules.setReady(id, true)
        }
        return cluster
    }

    /// More than half of the servers were bad, so those of the bad zone were used again, and got the requests of the
    /// zone.
    @Test func aBadZoneBesideAHealthyOneBeginsNoPanic() {
        var cluster = cluster(local: 10, remote: 5)
        for id in UInt64(0)..<10 {
            #expect(ejected(cluster.fail(id, 5, at: start)) == (id < 7 ? [id] : []))
        }
        #expect(!cluster.rules.isPanicking && cluster.rules.badCount == 10)
        #expect((0..<10).allSatisfy { cluster.rules.isGood($0) == false })
        #expect((10..<15).allSatisfy { cluster.rules.isGood($0) == true })
        // Four of five servers of the other zone can carry the load, and three cannot.
        #expect(cluster.fail(10, 5, at: after(1)) == [])
        #expect(cluster.fail(11, 5, at: after(2)) == [.panicBegan(bad: 12, of: 15)])
        #expect(cluster.rules.remove(11) == [.panicEnded])
    }

    @Test func lostLinksOfAZoneBeginNoPanic() {
        var cluster = cluster(local: 6, remote: 4)
        cluster.eject(9, at: start)
        for id in UInt64(0)..<6 { #expect(cluster.rules.setReady(id, false) == []) }
        #expect(cluster.rules.badCount == 7)
        #expect(cluster.rules.setReady(8, false) == [.panicBegan(bad: 8, of: 10)])
        #expect(cluster.rules.setReady(0, true) == [])
        // 1 of 6 makes 0.23, and 2 of 4 make 0.7.
        #expect(cluster.rules.isPanicking)
        #expect(cluster.rules.setReady(1, true) == [.panicEnded])
    }

    /// Both zones together must carry the load, and half of all servers do it in any case.
    @Test func theGoodMembersOfBothZonesCount() {
        var cluster = cluster(local: 10, remote: 10)
        for id in UInt64(0)..<8 { cluster.eject(id, at: start) }
        for id in UInt64(10)..<12 { cluster.eject(id, at: start) }
        #expect(cluster.fail(12, 5, at: after(1)) == [])
        // 2 of 10 make 0.28, and 6 of 10 make 0.84.
        #expect(cluster.fail(13, 5, at: after(1)) == [])
        // 5 of 10 make 0.7.
        #expect(cluster.fail(14, 5, at: after(1)) == [.panicBegan(bad: 13, of: 20)])
    }

    @Test func withOneZoneHalfDecides() {
        for isLocal in [false, true] {
            var cluster = cluster(local: isLocal ? 4 : 0, remote: isLocal ? 0 : 4)
            cluster.eject(0, at: start)
            cluster.eject(1, at: start)
            #expect(cluster.fail(2, 5, at: after(1)) == [.panicBegan(bad: 3, of: 4)])
        }
    }

    @Test func aMemberMayChangeItsZone() {
        var cluster = cluster(local: 4, remote: 2)
        for id in UInt64(0)..<3 { cluster.eject(id, at: start) }
        #expect(cluster.fail(3, 5, at: after(1)) == [])
        #expect(!cluster.rules.isPanicking && cluster.rules.badCount == 4)
        // The list has no zones any more.
        for id in UInt64(4)..<6 { #expect(cluster.rules.regroup(id, nil, isLocal: true) == []) }
        #expect(cluster.rules.setReady(5, false) == [.panicBegan(bad: 5, of: 6)])
    }

    /// The last ready member is in use, in whichever zone it is.
    @Test func theLastReadyMemberOfAllZonesIsNotEjected() {
        var cluster = cluster(local: 1, remote: 1)
        _ = cluster.rules.setReady(0, false)
        #expect(cluster.fail(1, 5, at: start) == [.panicBegan(bad: 2, of: 2)])
        #expect(cluster.rules.isInUse(1))
    }
}
