import Testing

@testable import TrunklineCore
@testable import TrunklineIO

/// Timers that fire together.
@Suite(.tags(.realThreads), .timeLimit(.minutes(5)))
struct LoopTimerTests {}

extension LoopTimerTests {
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

    /// Calls a closure on the loop.
    private final class Call: TimerTarget {
        private let body: @Sendable () -> Void
        init(_ body: @escaping @Sendable () -> Void) { self.body = body }
        func timerFired() { body() }
    }

    /// A loop ran all jobs that there were, and seven more times those that came meanwhile, before it looked at its
    /// timers. With enough tasks that yield for ever, a turn took seconds.
    @Test func tasksThatYieldForEverDoNotStarveTimers() async {
        let loop = EventLoops(count: 1).next()
        let state = Lock((steps: 0, isOver: false, target: Call?.none))
        let steps = await withCheckedContinuation { continuation in
            let target = Call {
                let steps = state.withLock { state in
                    state.isOver = true
                    return state.steps
                }
                continuation.resume(returning: steps)
            }
            state.withLock { $0.target = target }
            loop.schedule(
                LoopClosure {
                    for _ in 0..<10_000 {
                        Task(executorPreference: loop.taskExecutor) {
                            func goesOn() -> Bool {
                                state.withLock { state in
                                    state.steps += 1
                                    return !state.isOver
                                }
                            }
                            while goesOn() { await Task.yield() }
                        }
                    }
                    loop.arm(LoopTimer(target: target), at: loop.now)
                }
            )
        }
        #expect(steps <= 2 * SocketEventLoop.mostJobs)
    }

    /// What a turn leaves for the next one comes before what is new.
    @Test func jobsKeepTheirOrderIfATurnDoesNotRunAll() async {
        let loop = EventLoops(count: 1).next()
        let count = 3 * SocketEventLoop.mostJobs
        let order = Lock<[Int]>([])
        await withCheckedContinuation { continuation in
            loop.schedule(
                LoopClosure {
                    for number in 0..<count {
                        Task(executorPreference: loop.taskExecutor) {
                            order.withLock { $0.append(number) }
                            await Task.yield()
                            let isLast = order.withLock { order in
                                order.append(count + number)
                                return order.count == 2 * count
                            }
                            if isLast { continuation.resume() }
                        }
                    }
                }
            )
        }
        #expect(order.withLock { $0 } == Array(0..<2 * count))
    }
}
