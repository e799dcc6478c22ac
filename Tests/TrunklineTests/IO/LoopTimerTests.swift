import Testing

@testable import Trunkline

/// Timers that fire together.
@Suite(.tags(.realThreads), .timeLimit(.minutes(5)))
struct LoopTimerTests {
    private final class Target: TimerTarget {
        func timerFired() {}
    }

    @Test func timersOnTheSameGridAreDueTogether() {
        let target = Target()
        let timers = (0..<3).map { _ in LoopTimer(target: target, grid: .milliseconds(250)) }
        let due = zip(timers, [1_000_000_001, 1_100_000_000, 1_250_000_000]).map { timer, nanoseconds in
            timer.onGrid(Instant(nanoseconds: nanoseconds))
        }
        #expect(due == [Instant](repeating: Instant(nanoseconds: 1_250_000_000), count: 3))
    }

    @Test func aLoopArmsATimerOnItsGrid() async {
        let loop = EventLoops(count: 1).next()
        let due = await withCheckedContinuation { continuation in
            loop.schedule(
                LoopClosure {
                    let timer = LoopTimer(target: Target(), grid: .seconds(3600))
                    loop.arm(timer, at: Instant(nanoseconds: Int64.max / 2))
                    continuation.resume(returning: timer.deadline)
                    loop.arm(timer, at: nil)
                }
            )
        }
        #expect(due.map { $0.nanoseconds % Duration.seconds(3600).clampedNanoseconds } == 0)
    }

    @Test func aTimerWithoutAGridIsExact() {
        let timer = LoopTimer(target: Target())
        #expect(timer.onGrid(Instant(nanoseconds: 1_000_000_001)) == Instant(nanoseconds: 1_000_000_001))
    }

    @Test(arguments: [Instant.distantFuture, .distantPast, Instant(nanoseconds: .max - 1), Instant(nanoseconds: -7)])
    func extremeDeadlinesStayValid(_ deadline: Instant) {
        let timer = LoopTimer(target: Target(), grid: .seconds(3600))
        #expect(timer.onGrid(deadline) >= deadline)
    }
}
