import Testing

@testable import TrunklineCluster
@testable import TrunklineCore
@testable import TrunklineIO

/// How many members may be ejected, and what happens when too many are bad.
@Suite struct OutlierPanicTests {
    private let start = Instant(nanoseconds: 5_000_000_000)

    private func after(_ seconds: Double) -> Instant { start.advanced(by: .seconds(seconds)) }

    /// Members in use.
    private func inUse(_ cluster: RuledCluster) -> [UInt64] {
        (0..<20).filter { cluster.rules.isInUse($0) }
    }

    /// A cluster whose first members are ejected at `start`.
    private func cluster(
        _ count: Int,
        ejected: Int,
        _ change: (inout OutlierRules.Settings) -> Void = { _ in }
    ) -> RuledCluster {
        var cluster = RuledCluster(count, change)
        for id in 0..<UInt64(ejected) { cluster.eject(id, at: start) }
        return cluster
    }

    // MARK: Share

    @Test(arguments: [
        (members: 2, share: 0.5, ejected: 1), (members: 3, share: 0.5, ejected: 1),
        (members: 4, share: 0.5, ejected: 2),
        (members: 9, share: 0.5, ejected: 4), (members: 10, share: 0.5, ejected: 5),
        (members: 10, share: 0.25, ejected: 2), (members: 10, share: 0.1, ejected: 1),
        (members: 10, share: 0.01, ejected: 1), (members: 10, share: 0, ejected: 0),
        (members: 10, share: -1, ejected: 0), (members: 10, share: .nan, ejected: 0),
        // Not more than half, because of the panic.
        (members: 10, share: 1, ejected: 5), (members: 3, share: .infinity, ejected: 1),
    ])
    func atMostAShareIsEjected(_ row: (members: Int, share: Double, ejected: Int)) {
        var cluster = RuledCluster(row.members) { $0.maximumShare = row.share }
        var ejected = 0
        for id in 0..<UInt64(row.members) {
            for case .ejected in cluster.fail(id, 5, at: start) { ejected += 1 }
        }
        #expect(ejected == row.ejected)
    }

    /// Below the share at which a panic begins, further members stay in use and count as bad.
    @Test func membersBeyondTheShareAreSpared() {
        var cluster = cluster(10, ejected: 1) { $0.maximumShare = 0.1 }
        #expect(cluster.fail(1, 5, at: start) == [])
        #expect(cluster.rules.state(of: 1) == .serving(slowStart: nil))
        #expect(cluster.rules.badCount == 2)
        for id in UInt64(2)...4 { #expect(cluster.fail(id, 5, at: after(1)) == []) }
        #expect(cluster.fail(5, 5, at: after(2)) == [.panicBegan(bad: 6, of: 10)])
        #expect(inUse(cluster) == Array(0..<10))
        #expect(cluster.rules.time(at: after(30)) == [.mayBeProbed(0), .panicEnded])
    }

    // MARK: Beginning

    @Test func anEjectionOfMoreThanHalfBeginsAPanic() {
        var cluster = cluster(4, ejected: 2)
        #expect(!cluster.rules.isPanicking)
        #expect(inUse(cluster) == [2, 3])
        #expect(cluster.fail(2, 5, at: after(1)) == [.panicBegan(bad: 3, of: 4)])
        #expect(cluster.rules.isPanicking)
        #expect(cluster.rules.state(of: 2) == .serving(slowStart: nil))
        #expect(inUse(cluster) == [0, 1, 2, 3])
    }

    @Test func aPanicBeginsOnce() {
        var cluster = cluster(4, ejected: 2)
        #expect(cluster.fail(2, 5, at: after(1)).count == 1)
        #expect(cluster.fail(2, 6, at: after(2)) == [])
        #expect(cluster.fail(3, 5, at: after(2)) == [])
        #expect(cluster.rules.setReady(3, false) == [])
        #expect(inUse(cluster) == [0, 1, 2])
    }

    @Test func membersWithoutALinkCountAsBad() {
        var cluster = RuledCluster(4)
        #expect(cluster.rules.setReady(0, false) == [])
        #expect(cluster.rules.setReady(1, false) == [])
        #expect(cluster.fail(2, 5, at: start) == [.panicBegan(bad: 3, of: 4)])
        #expect(inUse(cluster) == [2, 3])
    }

    @Test func theLastReadyMemberIsNotEjected() {
        var cluster = RuledCluster(2)
        #expect(cluster.rules.setReady(0, false) == [])
        #expect(cluster.fail(1, 5, at: start) == [.panicBegan(bad: 2, of: 2)])
        #expect(inUse(cluster) == [1])
    }

    /// If the link of the last serving member breaks, the ejected ones are better than none.
    @Test func aLostLinkBeginsAPanic() {
        var cluster = cluster(2, ejected: 1)
        #expect(inUse(cluster) == [1])
        #expect(cluster.rules.setReady(1, false) == [.panicBegan(bad: 2, of: 2)])
        #expect(inUse(cluster) == [0])
        #expect(cluster.rules.setReady(1, true) == [.panicEnded])
        #expect(inUse(cluster) == [1])
    }

    @Test func aRemovedMemberBeginsAPanic() {
        var cluster = cluster(3, ejected: 1)
        #expect(cluster.rules.remove(2) == [])
        #expect(cluster.rules.remove(1) == [.panicBegan(bad: 1, of: 1)])
        #expect(inUse(cluster) == [0])
        #expect(cluster.rules.remove(0) == [.panicEnded])
    }

    @Test func newMembersBeginNoPanic() {
        var cluster = cluster(2, ejected: 1)
        for id in UInt64(2)...5 { #expect(cluster.rules.add(id) == []) }
        #expect(cluster.rules.badCount == 5)
        for id in UInt64(2)...5 { #expect(cluster.rules.setReady(id, true) == []) }
        #expect(inUse(cluster) == [1, 2, 3, 4, 5])
    }

    /// Nothing is withheld, so a panic would change nothing.
    @Test func lostLinksAloneBeginNoPanic() {
        var cluster = RuledCluster(4)
        for id in UInt64(0)..<4 { #expect(cluster.rules.setReady(id, false) == []) }
    }

    /// A comparison may be wrong: a member that it cannot eject is no worse than before.
    @Test func outliersOfAnIntervalBeginNoPanic() {
        var cluster = cluster(6, ejected: 2)
        _ = cluster.rules.setReady(4, false)
        let facts = [1, 1, 500].enumerated().map { index, milliseconds in
            OutlierRules.Facts(
                id: UInt64(index) + 2,
                successes: 20,
                failures: 0,
                latencyNanoseconds: Int64(milliseconds) * 20_000_000,
                answers: 20
            )
        }
        // The slow one is already bad, because it has no link. So three of six remain good.
        let slow = cluster.closeInterval(facts, at: after(1))
        guard case .ejected(4, _, .latency)? = slow.first else {
            Issue.record("\(slow)")
            return
        }
        #expect(slow.count == 1)
        // Another one would be one too many.
        let others = facts.map { OutlierRules.Facts($0, id: [2: 3, 3: 5, 4: 2][$0.id] ?? 0) }
        #expect(cluster.closeInterval(others, at: after(2)) == [])
        #expect(cluster.rules.state(of: 2) == .serving(slowStart: nil) && cluster.rules.badCount == 3)
        // Failures in a row are no comparison.
        #expect(cluster.fail(2, 5, at: after(3)) == [.panicBegan(bad: 4, of: 6)])
    }

    // MARK: End

    /// Three of four are bad. The two ejected ones are probed at 30 s, the spared one counts as bad until 31 s.
    private func panicking() -> RuledCluster {
        var cluster = cluster(4, ejected: 2)
        _ = cluster.fail(2, 5, at: after(1))
        return cluster
    }

    @Test func aPanicEndsWhenASparedMemberNoLongerCountsAsBad() {
        var cluster = panicking()
        #expect(cluster.rules.nextTime == after(30))
        #expect(cluster.rules.time(at: after(30)) == [.mayBeProbed(0), .mayBeProbed(1)])
        #expect(cluster.rules.isPanicking)
        #expect(cluster.rules.nextTime == after(31))
        #expect(cluster.rules.time(at: after(31)) == [.panicEnded])
        #expect(inUse(cluster) == [2, 3])
        #expect(cluster.rules.nextTime == after(40))
    }

    @Test func aMemberThatKeepsFailingKeepsThePanic() {
        var cluster = panicking()
        #expect(cluster.fail(2, 10, at: after(29)) == [])
        #expect(cluster.rules.time(at: after(31)) == [.mayBeProbed(0), .mayBeProbed(1)])
        #expect(cluster.rules.isPanicking)
        #expect(cluster.rules.nextTime == after(41))
        #expect(cluster.rules.time(at: after(41)) == [.returned(0), .returned(1), .panicEnded])
        #expect(cluster.rules.nextTime == after(59))
    }

    @Test func aPanicEndsWhenAProbeSucceeds() {
        var cluster = panicking()
        _ = cluster.rules.time(at: after(30))
        #expect(cluster.succeedProbe(0, at: after(30)) == [.returned(0), .panicEnded])
        #expect(inUse(cluster) == [0, 2, 3])
        // The other member is still being probed.
        #expect(cluster.rules.state(of: 1) == .probing(until: after(40)))
    }

    @Test func aProbeThatFailsDuringAPanicEjectsAgain() {
        var cluster = panicking()
        _ = cluster.rules.time(at: after(30))
        #expect(cluster.failProbe(0, at: after(30)) == after(90))
        #expect(cluster.rules.isPanicking)
        #expect(inUse(cluster) == [0, 1, 2, 3])
    }

    @Test func aPanicEndsWhenGoodMembersCome() {
        var cluster = panicking()
        #expect(cluster.rules.add(4) == [])
        #expect(cluster.rules.add(5) == [])
        #expect(cluster.rules.setReady(4, true) == [])
        #expect(cluster.rules.setReady(5, true) == [.panicEnded])
        #expect(inUse(cluster) == [2, 3, 4, 5])
    }

    @Test func aPanicEndsWhenBadMembersAreRemoved() {
        var cluster = panicking()
        #expect(cluster.rules.remove(0) == [])
        #expect(cluster.rules.remove(1) == [.panicEnded])
        #expect(inUse(cluster) == [2, 3])
    }

    @Test func aPanicEndsWhenNoMemberIsWithheld() {
        var cluster = RuledCluster(4)
        for id in UInt64(0)..<2 { _ = cluster.rules.setReady(id, false) }
        _ = cluster.fail(2, 5, at: start)
        for id in UInt64(2)..<4 { _ = cluster.rules.setReady(id, false) }
        #expect(cluster.rules.isPanicking)
        // All four are without a link, but the rules withhold none of them.
        #expect(cluster.rules.time(at: after(30)) == [.panicEnded])
    }

    /// A member that is spared does not serve well: its ejections are not forgiven.
    @Test func anIntervalInWhichAMemberIsSparedForgivesNothing() {
        var cluster = RuledCluster(4)
        cluster.eject(2, at: start)
        _ = cluster.rules.time(at: after(30))
        _ = cluster.succeedProbe(2, at: after(30))
        _ = cluster.closeInterval([], at: after(39))
        cluster.eject(0, at: after(40))
        cluster.eject(1, at: after(40))
        #expect(cluster.fail(2, 5, at: after(41)) == [.panicBegan(bad: 3, of: 4)])
        _ = cluster.closeInterval([], at: after(49))
        _ = cluster.rules.remove(0)
        _ = cluster.rules.remove(1)
        // The second ejection in a row.
        #expect(cluster.eject(2, at: after(50)) == after(110))
    }

    /// After a panic, ejections are possible again.
    @Test func aSparedMemberCanBeEjectedLater() {
        var cluster = panicking()
        _ = cluster.rules.time(at: after(31))
        _ = cluster.succeedProbe(0, at: after(32))
        #expect(cluster.eject(2, at: after(33)) == after(63))
    }

    @Test func membersBeyondTheShareAfterARemovalKeepTheirTime() {
        var cluster = cluster(10, ejected: 2) { $0.maximumShare = 0.2 }
        for id in UInt64(6)..<10 { #expect(cluster.rules.remove(id) == []) }
        #expect(inUse(cluster) == [2, 3, 4, 5])
        #expect(cluster.fail(2, 5, at: after(1)) == [])
        #expect(cluster.rules.time(at: after(30)) == [.mayBeProbed(0), .mayBeProbed(1)])
    }

    // MARK: Members that do not count

    /// Regression: addresses to which the host had no route counted as bad. With names of two families on a host
    /// without IPv6 that was half of the members, so the first bad server began a panic, and was never ejected.
    @Test func membersWithoutARouteDoNotCount() {
        var cluster = RuledCluster(8)
        for id in UInt64(4)...7 {
            _ = cluster.rules.setReady(id, false)
            #expect(cluster.rules.setRoute(id, exists: false) == [])
        }
        #expect(cluster.rules.badCount == 0)
        cluster.eject(0, at: start)
        cluster.eject(1, at: start)
        #expect(!cluster.rules.isPanicking)
        #expect(cluster.rules.badCount == 2)
        #expect(cluster.fail(2, 5, at: after(1)) == [.panicBegan(bad: 3, of: 4)])
        // With routes, and not ready, they count.
        for id in UInt64(4)...7 { _ = cluster.rules.setRoute(id, exists: true) }
        #expect(cluster.rules.badCount == 7)
        for id in UInt64(4)...7 { _ = cluster.rules.setRoute(id, exists: false) }
        #expect(cluster.rules.badCount == 3)
        _ = cluster.rules.setReady(4, true)
        #expect(cluster.rules.badCount == 3, "a member that is ready has a route, and is good")
        #expect(cluster.rules.isPanicking, "3 of 5 are bad")
    }

    /// Regression: one of several links to a ready server that failed without a route made the server uncounted. Its
    /// other links went on to answer, so nothing counted it again, and with only one counted server none was ever
    /// ejected.
    @Test func aReadyMemberHasARoute() {
        var cluster = RuledCluster(2)
        #expect(cluster.rules.setRoute(0, exists: false) == [])
        _ = cluster.rules.setReady(1, false)
        #expect(cluster.rules.badCount == 1)
        _ = cluster.rules.setReady(1, true)
        #expect(cluster.rules.badCount == 0)
        cluster.eject(0, at: start)
        #expect(cluster.rules.badCount == 1)
        // An ejected member with a link is ready, too.
        #expect(cluster.rules.setRoute(0, exists: false) == [])
        #expect(cluster.rules.badCount == 1)
        _ = cluster.rules.setReady(0, false)
        _ = cluster.rules.setRoute(0, exists: false)
        #expect(cluster.rules.badCount == 0)
    }

    @Test func theOnlyMemberWithARouteIsNotEjected() {
        var cluster = RuledCluster(2)
        _ = cluster.rules.setReady(1, false)
        _ = cluster.rules.setRoute(1, exists: false)
        #expect(cluster.fail(0, 5, at: start) == [])
        #expect(cluster.rules.isInUse(0))
    }

    /// Its time passes while it does not count.
    @Test func anEjectedMemberThatLosesItsRouteIsProbedLater() {
        var cluster = RuledCluster(4)
        let until = cluster.eject(0, at: start)
        _ = cluster.rules.setReady(0, false)
        _ = cluster.rules.setRoute(0, exists: false)
        #expect(cluster.rules.badCount == 0)
        #expect(cluster.rules.nextTime == until)
        #expect(cluster.rules.time(at: until) == [.mayBeProbed(0)])
        #expect(cluster.rules.setReady(0, true) == [.mayBeProbed(0)])
        #expect(cluster.rules.badCount == 1)
        #expect(cluster.succeedProbe(0, at: after(40)) == [.returned(0)])
        #expect(cluster.rules.nextTime == nil)
    }

    /// Regression: a server with an address of each family counted twice.
    @Test func theAddressesOfOneServerCountOnce() {
        var cluster = RuledCluster(0)
        for id in UInt64(0)..<8 {
            _ = cluster.rules.add(id, group: "s\(id / 2)")
            _ = cluster.rules.setReady(id, true)
        }
        // One address of each of three servers: none of them is bad.
        for id in [0, 2, 4] as [UInt64] { cluster.eject(id, at: start) }
        #expect(cluster.rules.badCount == 0)
        cluster.eject(1, at: start)
        #expect(cluster.rules.badCount == 1)
        #expect(cluster.rules.setReady(3, false) == [])
        #expect(cluster.rules.badCount == 2)
        #expect(cluster.rules.setReady(5, false) == [.panicBegan(bad: 3, of: 4)])
        #expect(cluster.rules.setReady(5, true) == [.panicEnded])
        // As members of their own, they are eight servers.
        for id in UInt64(0)..<8 { _ = cluster.rules.regroup(id, nil) }
        #expect(cluster.rules.badCount == 5)
        for id in UInt64(0)..<8 { _ = cluster.rules.remove(id) }
        #expect(cluster.rules.badCount == 0)
        #expect(cluster.rules.count == 0)
    }
}
