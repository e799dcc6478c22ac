import Testing

@testable import TrunklineCore
@testable import TrunklineIO

@Suite struct DialDeadlineTests {}

extension DialDeadlineTests {
    private func after(_ seconds: Double) -> Instant { Instant(nanoseconds: 0).advanced(by: .seconds(seconds)) }

    /// Whether the deadline waits for bytes at each of these instants.
    private func waits(_ deadline: inout DialDeadline, at seconds: [Double]) -> [Bool] {
        seconds.map { deadline.mustReadFirst(holdsUnread: true, at: after($0)) }
    }

    @Test func unreadBytesAreWaitedForOneSecond() {
        var deadline = DialDeadline(after(10))
        let isWithout = deadline.mustReadFirst(holdsUnread: false, at: after(10))
        #expect(!isWithout)
        #expect(waits(&deadline, at: [10, 10.9, 11]) == [true, true, false])
    }

    /// Regression: the wait of the first deadline counted for the later one, which then left no time to read.
    @Test func aProlongedDeadlineWaitsAsLongAsTheFirst() {
        var deadline = DialDeadline(after(10))
        #expect(waits(&deadline, at: [10]) == [true])
        deadline.loopWasLate(LoopDelay(.stopped, from: after(10.1), to: after(20)), of: .seconds(10))
        #expect(deadline.instant == after(30))
        #expect(waits(&deadline, at: [30, 30.9, 31]) == [true, true, false])
    }
}
