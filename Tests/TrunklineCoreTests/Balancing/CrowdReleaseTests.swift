import Testing

@testable import TrunklineCluster
@testable import TrunklineCore
@testable import TrunklineIO

/// How many of the calls that wait go on while only a part of the servers is ready.
struct CrowdReleaseTests {
    private static func at(_ milliseconds: Int) -> Instant { Instant(nanoseconds: Int64(milliseconds) * 1_000_000) }

    @Test func aFewCallsForEachServerGoOnAtOnce() {
        var release = CrowdRelease(at: Self.at(0))
        #expect(release.next(of: 100, to: 1, share: 0.2, at: Self.at(0)) == 8)
        #expect(release.next(of: 92, to: 2, share: 0.4, at: Self.at(10)) == 8)
        #expect(release.next(of: 84, to: 2, share: 0.4, at: Self.at(20)) == 0)
        #expect(release.moment == Self.at(50))
    }

    @Test func aPartGoesOnAfterEachMoment() {
        var release = CrowdRelease(at: Self.at(0))
        var (waiting, parts) = (1000, [Int]())
        for time in stride(from: 0, through: 200, by: 50) {
            let count = release.next(of: waiting, to: 1, share: 0.25, at: Self.at(time))
            waiting -= count
            parts.append(count)
        }
        #expect(parts == [8, 242, 250, 250, 250])
    }

    @Test(arguments: [0, 0.001, 0.1, 0.5, 0.999])
    func allGoOnWithinHalfASecond(_ share: Double) {
        var release = CrowdRelease(at: Self.at(0))
        var waiting = 100_000
        for time in stride(from: 0, through: 500, by: 50) {
            waiting -= release.next(of: waiting, to: 1, share: share, at: Self.at(time))
        }
        #expect(waiting == 0)
    }

    @Test func momentsThatWereMissedCountTogether() {
        var release = CrowdRelease(at: Self.at(0))
        #expect(release.next(of: 1000, to: 1, share: 0.25, at: Self.at(0)) == 8)
        #expect(release.next(of: 992, to: 1, share: 0.25, at: Self.at(170)) == 742)
        #expect(release.moment == Self.at(200))
        #expect(release.next(of: 250, to: 1, share: 0.25, at: Self.at(100_000)) == 250)
        #expect(release.moment > Self.at(100_000))
    }

    @Test func callsThatComeMeanwhileBelongToTheCrowd() {
        var release = CrowdRelease(at: Self.at(0))
        #expect(release.next(of: 100, to: 1, share: 0.5, at: Self.at(0)) == 8)
        #expect(release.next(of: 1000, to: 1, share: 0.5, at: Self.at(50)) == 496)
        #expect(release.next(of: 504, to: 1, share: 0.5, at: Self.at(100)) == 504)
    }
}
