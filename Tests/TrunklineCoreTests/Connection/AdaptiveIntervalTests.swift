import Testing

@testable import TrunklineCore
@testable import TrunklineIO

/// How the interval of heartbeats is learned for one endpoint on one path.
@Suite struct AdaptiveIntervalTests {}

extension AdaptiveIntervalTests {
    private static let range = Duration.seconds(30)...(.seconds(600))
    private static let week = Duration.seconds(7 * 86_400)

    /// A rule in virtual time, with a device that forgets links which are idle for `limit` or longer.
    private struct World {
        var rule: AdaptiveInterval
        var now = Instant(nanoseconds: 0)
        var limit: Duration?
        var losses = 0
        var news: [LearnedInterval.Change] = []

        init(_ range: ClosedRange<Duration> = AdaptiveIntervalTests.range, forgettingAfter limit: Duration? = nil) {
            (rule, self.limit) = (AdaptiveInterval(within: range), limit)
        }

        mutating func survive(_ count: Int = 1) {
            for _ in 0..<count {
                now = now.advanced(by: rule.interval)
                if rule.survived(at: now) { news.append(rule.change) }
            }
        }

        mutating func lose(afterIdle idle: Duration? = nil) {
            let idle = idle ?? rule.interval
            now = now.advanced(by: idle)
            losses += 1
            if rule.lost(afterIdle: idle, at: now) { news.append(rule.change) }
        }

        /// Lets a link be idle for the interval.
        mutating func wait() {
            if let limit, rule.interval >= limit { lose() } else { survive() }
        }

        mutating func pass(_ duration: Duration) {
            let end = now.advanced(by: duration)
            while now < end { wait() }
        }
    }

    @Test func theFiguresAreThoseOfTheField() {
        var world = World()
        #expect(world.rule.interval == .seconds(210) && world.rule.change == .started)
        world.survive(4)
        #expect(world.rule.interval == .seconds(210) && world.news.isEmpty)
        world.survive()
        #expect(world.rule.interval == .seconds(270) && world.news == [.grown])
        world.lose()
        #expect(world.rule.interval == .seconds(190) && world.news == [.grown, .shortened])
        #expect(world.rule.longestSurvived == .seconds(210) && world.rule.shortestLost == .seconds(270))
    }

    @Test(
        arguments: [
            (Duration.seconds(300)...(.seconds(600)), Duration.seconds(300)),
            (.seconds(30)...(.seconds(60)), .seconds(60)),
            (.seconds(30)...(.seconds(210)), .seconds(210)), (.zero...(.zero), .milliseconds(1)),
            (.seconds(Int64.max)...(.seconds(Int64.max)), .century), (.seconds(-5)...(.seconds(-3)), .milliseconds(1)),
        ]
    )
    func theStartIsWithinTheRange(_ range: ClosedRange<Duration>, _ start: Duration) {
        #expect(AdaptiveInterval(within: range).interval == start)
    }

    @Test func theIntervalGrowsUpToTheUpperBound() {
        var world = World()
        world.survive(200)
        #expect(world.rule.interval == .seconds(600))
        #expect(world.news == Array(repeating: .grown, count: 7))
    }

    @Test func aFailureRestartsTheCountOfSuccesses() {
        var world = World()
        world.survive(4)
        world.lose(afterIdle: .seconds(210))
        world.survive(4)
        #expect(world.rule.interval == .seconds(130))
    }

    // MARK: A device that forgets

    /// The bound that the documentation of the rule proves, for every limit and range.
    @Test(arguments: Array(stride(from: 31, through: 700, by: 3)))
    func theLossesAreBoundedAndThenEnd(limit: Int) {
        for lower in [1, 10, 30] {
            let range = Duration.seconds(lower)...(.seconds(600))
            var world = World(range, forgettingAfter: .seconds(limit))
            world.pass(.seconds(86_400))
            let bound = limit > 600 ? 0 : limit > 210 ? 1 : 3
            #expect(world.losses <= bound, "\(world.rule)")
            #expect(world.rule.interval < .seconds(limit))
            let losses = world.losses
            world.pass(.seconds(5 * 86_400))
            #expect(world.losses == losses)
            #expect(world.news.count { $0 == .shortened } == losses)
        }
    }

    /// The price of learning again: at most one link a week.
    @Test(arguments: [45, 60, 120, 300, 600])
    func oneLinkAWeekIsLostByLearningAgain(limit: Int) {
        var world = World(forgettingAfter: .seconds(limit))
        world.pass(.seconds(86_400))
        let losses = world.losses
        world.pass(Self.week * 10)
        #expect(world.losses - losses <= 10)
        #expect(world.rule.interval < .seconds(limit))
        #expect(world.news.contains(.relearning))
    }

    @Test func withoutASuccessEachFailureDoublesTheStep() {
        var world = World(.seconds(10)...(.seconds(900)))
        world.rule.limit(to: .seconds(800)...(.seconds(900)))
        #expect(world.rule.interval == .seconds(800))
        world.rule.limit(to: .seconds(10)...(.seconds(900)))
        // Nothing was learned, so the interval is that of the start.
        #expect(world.rule.interval == .seconds(210))
        var intervals: [Duration] = []
        for _ in 0..<3 {
            world.lose()
            intervals.append(world.rule.interval)
        }
        #expect(intervals == [.seconds(130), .seconds(10), .seconds(10)])
        #expect(world.news == [.shortened, .shortened, .lostAtMinimum])
        world.lose()
        #expect(world.news.count == 3, "the same is no news")
    }

    /// Requests came before the interval had passed, and the link was lost by them.
    @Test func aLossAfterAShorterTimeSaysMore() {
        var world = World()
        world.lose(afterIdle: .seconds(100))
        #expect(world.rule.shortestLost == .seconds(100) && world.rule.interval == .seconds(30))
        world.survive(50)
        // 90 s is below what was lost, and 150 s is not.
        #expect(world.rule.interval == .seconds(90))
    }

    @Test func theLossOfALongerIntervalKeepsTheDistanceToWhatSurvives() {
        var world = World()
        world.survive(5)
        world.lose(afterIdle: .seconds(215))
        #expect(world.rule.interval == .seconds(190) && world.rule.shortestLost == .seconds(215))
        world.survive(100)
        #expect(world.rule.interval == .seconds(190))
    }

    // MARK: Doubts

    /// The server may have failed, or the network.
    @Test func oneFailureOfAnIntervalThatHasSurvivedIsNotRemembered() {
        var world = World()
        world.survive(200)
        world.lose()
        #expect(world.rule.interval == .seconds(520) && world.rule.shortestLost == nil)
        #expect(world.rule.longestSurvived == .seconds(600))
        world.survive(10)
        #expect(world.rule.interval == .seconds(600))
        world.survive()
        world.lose()
        #expect(world.rule.shortestLost == nil, "it had survived again")
    }

    /// Once the interval is settled, the server may fail twice a week, with successes in between.
    @Test func rareFailuresDoNotShortenASettledInterval() {
        var world = World(forgettingAfter: .seconds(300))
        world.pass(.seconds(86_400))
        let (settled, lost) = (world.rule.interval, world.rule.shortestLost)
        for _ in 0..<3 {
            world.lose()
            #expect(world.rule.interval < settled)
            world.pass(.seconds(86_400))
            #expect(world.rule.interval == settled && world.rule.shortestLost == lost)
        }
    }

    @Test func theSecondFailureIsRemembered() {
        var world = World()
        world.survive(200)
        world.lose()
        world.survive(5)
        #expect(world.rule.interval == .seconds(580))
        world.lose()
        #expect(world.rule.shortestLost == .seconds(580) && world.rule.longestSurvived == .seconds(520))
        world.survive(100)
        #expect(world.rule.interval == .seconds(500))
    }

    /// A device was installed that forgets sooner.
    @Test(arguments: Array(stride(from: 31, through: 599, by: 7)))
    func aShorterLimitIsLearned(limit: Int) {
        var world = World()
        world.survive(200)
        world.limit = .seconds(limit)
        world.pass(.seconds(2 * 86_400))
        // Down in steps of 80, 160 and 320 s; up again, once.
        #expect(world.losses <= 5, "\(world.losses)")
        let losses = world.losses
        world.pass(.seconds(4 * 86_400))
        #expect(world.losses == losses && world.rule.interval < .seconds(limit))
    }

    // MARK: Seven days

    @Test func longerIntervalsAreTriedAgainAfterSevenDays() {
        var world = World(forgettingAfter: .seconds(300))
        world.pass(.seconds(86_400))
        #expect(world.rule.interval == .seconds(250) && world.rule.shortestLost == .seconds(330))
        world.limit = nil
        world.pass(.seconds(5 * 86_400))
        #expect(world.rule.interval == .seconds(250))
        world.pass(.seconds(2 * 86_400))
        #expect(world.rule.interval == .seconds(600) && world.rule.shortestLost == nil)
        #expect(world.news.contains(.relearning))
    }

    @Test(arguments: seeds(300))
    func noOrderOfFactsLeavesTheRange(_ seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        let lower = Duration.seconds(Int.random(in: 1...300, using: &random))
        let range = lower...(lower + .seconds(Int.random(in: 0...600, using: &random)))
        var world = World(range)
        for _ in 0..<500 {
            let before = world.rule
            switch Int.random(in: 0..<10, using: &random) {
            case 0: world.lose()
            case 1: world.lose(afterIdle: .seconds(Int.random(in: 1...900, using: &random)))
            case 2: world.now = world.now.advanced(by: .seconds(86_400))
            default: world.survive()
            }
            #expect(range.contains(world.rule.interval))
            if let lost = world.rule.shortestLost, lost > range.lowerBound, world.rule != before {
                #expect(world.rule.interval < lost, "\(world.rule)")
            }
            if let (survived, lost) = pair(world.rule.longestSurvived, world.rule.shortestLost) {
                #expect(survived < lost || world.rule.interval <= survived, "\(world.rule)")
            }
        }
    }

    private func pair(_ a: Duration?, _ b: Duration?) -> (Duration, Duration)? {
        if let a, let b { (a, b) } else { nil }
    }
}

/// The table of what was learned.
@Suite struct HeartbeatMemoryTests {
    private let range = Duration.seconds(30)...(.seconds(600))
    private let now = Instant(nanoseconds: 0)

    private func key(_ number: Int, on path: NetworkPath = .unknown) -> HeartbeatMemory.Key {
        HeartbeatMemory.Key(Endpoint(target: .host("db", port: UInt16(number))), path)
    }

    @Test func endpointsAndPathsAreLearnedSeparately() {
        var memory = HeartbeatMemory()
        let path = NetworkPath.route(NetworkRoute(interface: "eth0", source: nil))
        let keys = [key(1), key(2), key(1, on: path)]
        for key in keys { #expect(memory.interval(for: key, within: range) == .seconds(210)) }
        #expect(memory.lost(keys[0], afterIdle: .seconds(210), at: now)?.interval == .seconds(130))
        #expect(keys.map { memory.interval(for: $0, within: range) } == [.seconds(130), .seconds(210), .seconds(210)])
        #expect(memory.learned.map(\.path) == [path, .unknown, .unknown])
        #expect(memory.learned.map(\.change) == [.started, .started, .shortened])
    }

    @Test func theLeastRecentlyUsedIsForgotten() {
        var memory = HeartbeatMemory()
        for number in 1...HeartbeatMemory.maximumCount { _ = memory.interval(for: key(number), within: range) }
        _ = memory.lost(key(1), afterIdle: .seconds(210), at: now)
        _ = memory.interval(for: key(1000), within: range)
        #expect(memory.learned.count == HeartbeatMemory.maximumCount)
        #expect(memory.interval(for: key(1), within: range) == .seconds(130))
        #expect(memory.survived(key(2), at: now) == nil && memory.lost(key(2), afterIdle: .zero, at: now) == nil)
    }

    @Test func aNarrowerRangeOfALinkApplies() {
        var memory = HeartbeatMemory()
        #expect(memory.interval(for: key(1), within: .seconds(5)...(.seconds(20))) == .seconds(20))
        _ = memory.lost(key(1), afterIdle: .seconds(20), at: now)
        #expect(memory.interval(for: key(1), within: range) == .seconds(30))
    }

    @Test func whatWasLearnedIsPrinted() {
        var memory = HeartbeatMemory()
        _ = memory.interval(for: key(7000), within: range)
        for _ in 0..<5 { _ = memory.survived(key(7000), at: now) }
        let learned = memory.lost(key(7000), afterIdle: .seconds(270), at: now)
        #expect(
            learned?.description
                == "db:7000 on unknown path: 190.0 seconds (shortened, survived 210.0 seconds, lost after 270.0 seconds)"
        )
    }
}
