import Testing

@testable import TrunklineCore
@testable import TrunklineIO

@Suite struct DatagramWindowTests {}

extension DatagramWindowTests {
    private func at(_ seconds: Int) -> Instant { .distantPast.advanced(by: .seconds(seconds)) }

    @Test func itDoublesUntilSomethingIsLost() {
        var window = DatagramWindow(minimum: 4)
        #expect(window.size == 4)
        window.answered(4, unanswered: 0)
        #expect(window.size == 8)
        for _ in 0..<4 { window.answered(1, unanswered: 7) }
        #expect(window.size == 12)
        window.lost(sentAt: at(1), at: at(2))
        #expect(window.size == 6)
        // From here on by one with each full window.
        window.answered(6, unanswered: 0)
        #expect(window.size == 7)
        window.answered(6, unanswered: 1)
        #expect(window.size == 7)
        window.answered(1, unanswered: 6)
        #expect(window.size == 8)
    }

    @Test func oneLossOfManyCounts() {
        var window = DatagramWindow(minimum: 2)
        while window.size < 64 { window.answered(window.size, unanswered: 0) }
        for _ in 0..<10 { window.lost(sentAt: at(1), at: at(2)) }
        #expect(window.size == 32)
        window.lost(sentAt: at(2), at: at(3))
        #expect(window.size == 16)
        for second in 3..<10 { window.lost(sentAt: at(second), at: at(second + 1)) }
        #expect(window.size == 2)
    }

    /// A client that seldom sends does not get a large window from its many answers.
    @Test func anUnusedWindowDoesNotGrow() {
        var window = DatagramWindow(minimum: 10)
        for _ in 0..<1000 { window.answered(1, unanswered: 4) }
        #expect(window.size == 10)
        window.answered(1, unanswered: 5)
        #expect(window.size == 11)
    }

    @Test(arguments: [.min, -1, 0, 1, .max]) func everyMinimumIsTaken(_ minimum: Int) {
        var window = DatagramWindow(minimum: minimum)
        #expect(window.size == max(1, minimum))
        window.answered(1, unanswered: 0)
        window.lost(sentAt: at(1), at: at(2))
        #expect(window.size >= max(1, minimum))
    }
}
