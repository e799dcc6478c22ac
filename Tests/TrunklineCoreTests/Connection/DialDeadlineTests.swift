import Testing

@testable import TrunklineCore
@testable import TrunklineIO

@Suite struct DialDeadlineTests {
    private func after(_ seconds: Double) -> Instant { Instant(nanoseconds: 0).advanced(by: .seconds(seconds)) }

    @Test func unreadBytesAreWaitedForOneSecond() {
        var deadline = DialDeadline(after(10))
        #expect(!deadline.mustReadFirst(holdsUnread: false, at: after(10)))
        #expect(deadline.mustReadFirst(holdsUnread: true, at: after(10)))
        #expect(deadline.mustReadFirst(holdsUnread: true, at: after(10.9)))
        #expect(!deadline.mustReadFirst(holdsUnread: true, at: after(11)))
    }

    /// Regression: the wait of the first deadline counted for the later one, which then left no time to read.
    @Test func aProlongedDeadlineWaitsAsLongAsTheFirst() {
        var deadline = DialDeadline(after(10))
        #expect(deadline.mustReadFirst(holdsUnread: true, at: after(10)))
        deadline.loopWasLate(LoopDelay(.stopped, from: after(10.1), to: after(20)), of: .seconds(10))
        #expect(deadline.instant == after(30))
        #expect(deadline.mustReadFirst(holdsUnread: true, at: after(30)))
        #expect(deadline.mustReadFirst(holdsUnread: true, at: after(30.9)))
        #expect(!deadline.mustReadFirst(holdsUnread: true, at: after(31)))
    }
}
