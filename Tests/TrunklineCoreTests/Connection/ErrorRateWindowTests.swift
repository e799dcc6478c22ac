import Testing

@testable import TrunklineCore
@testable import TrunklineIO

@Suite struct ErrorRateWindowTests {
    let now = Instant(nanoseconds: 1_000)

    func after(_ seconds: Double) -> Instant { now.advanced(by: .seconds(seconds)) }

    func window() -> ErrorRateWindow {
        var window = ErrorRateWindow(share: 0.1, minimumRequests: 40, window: .seconds(30))
        window.roll(to: now)
        return window
    }

    @Test func fourFailuresOfFortyExceedTheLimit() {
        var window = window()
        for _ in 0..<35 { window.countAnswered() }
        for _ in 0..<4 { window.countFailed() }
        #expect(!window.isExceeded)  // 39 requests are too few
        window.countAnswered()
        #expect(window.isExceeded)
        window.countAnswered()
        #expect(!window.isExceeded)  // 4 of 41
    }

    @Test func answersAloneNeverExceedTheLimit() {
        var window = ErrorRateWindow(share: 0, minimumRequests: 0, window: .seconds(30))
        for _ in 0..<100 { window.countAnswered() }
        #expect(!window.isExceeded)
    }

    @Test func resultsOlderThanTheWindowDoNotCount() {
        var window = window()
        for _ in 0..<50 { window.countFailed() }
        window.roll(to: after(26))
        #expect(window.isExceeded)
        for _ in 0..<10 { window.countAnswered() }
        window.roll(to: after(30))
        #expect(!window.isExceeded)
    }

    @Test(arguments: [30.0, 31, 300, 1e9])
    func aLongPauseEmptiesTheWindow(_ seconds: Double) {
        var window = window()
        for _ in 0..<50 { window.countFailed() }
        window.roll(to: after(seconds))
        #expect(!window.isExceeded)
        for _ in 0..<40 { window.countFailed() }
        #expect(window.isExceeded)
    }

    @Test func aResetEmptiesTheWindow() {
        var window = window()
        for _ in 0..<50 { window.countFailed() }
        window.roll(to: after(4))
        for _ in 0..<50 { window.countFailed() }
        window.reset()
        #expect(!window.isExceeded)
        for _ in 0..<39 { window.countFailed() }
        #expect(!window.isExceeded)
    }

    /// Compared with a list of all results: the window covers at least nine tenths of its length.
    @Test(arguments: 0..<50 as Range<UInt64>)
    func theWindowAgreesWithAListOfAllResults(_ seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var window = ErrorRateWindow(share: 0.5, minimumRequests: 5, window: .seconds(10))
        var (time, ends) = (Instant(nanoseconds: 0), [(at: Instant, failed: Bool)]())
        window.roll(to: time)
        for _ in 0..<500 {
            time = time.advanced(by: .milliseconds(Int.random(in: 0...800, using: &random)))
            window.roll(to: time)
            let failed = Bool.random(using: &random)
            if failed { window.countFailed() } else { window.countAnswered() }
            ends.append((time, failed))
            // The tenths begin at whole seconds.
            let first = Instant(nanoseconds: (time.nanoseconds / 1_000_000_000 - 9) * 1_000_000_000)
            let recent = ends.filter { $0.at >= first }
            let failures = recent.filter(\.failed).count
            #expect(window.isExceeded == (recent.count >= 5 && failures * 2 >= recent.count))
        }
    }

    @Test(arguments: [Duration.zero, .seconds(-1), .seconds(Int64.max)])
    func everyWindowLengthIsAccepted(_ length: Duration) {
        var window = ErrorRateWindow(share: 0.1, minimumRequests: 1, window: length)
        for time in [Instant.distantPast, now, after(1), .distantFuture] { window.roll(to: time) }
        window.countFailed()
        #expect(window.isExceeded)
        window.roll(to: .distantFuture)
    }
}
