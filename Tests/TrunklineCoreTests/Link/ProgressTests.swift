import Testing

@testable import TrunklineCore
@testable import TrunklineIO

/// What counts as progress on a link. The interval is 30 s, the deadline 10 s, a probe follows after 5 s, and the
/// minimum rate is 100 bytes per second.
@Suite struct ProgressTests {}

extension ProgressTests {
    /// Every byte used to count as progress: a link that had lost framing was kept as long as bytes arrived.
    @Test func bytesOfAnIncompleteFrameAreNotProgress() {
        var link = TestLink()
        let isFirst = link.grow(by: 20, at: 1)
        #expect(isFirst)
        #expect(link.machine.nextLook == at(11))
        for time in 2...10 { link.grow(by: 20, at: Double(time)) }
        #expect(link.fire(at: 11) == .ping(number: 0))
        for time in 12...20 { link.grow(by: 20, at: Double(time)) }
        #expect(link.fire(at: 20.9) == .none)
        #expect(link.fire(at: 21) == .declareDead)
    }

    @Test func aFrameCompletedAfterThePingKeepsTheLink() {
        var link = TestLink()
        link.grow(by: 1, at: 1)
        _ = link.fire(at: 11)
        link.machine.heard(at: at(20), leavesIncomplete: true)
        #expect(link.fire(at: 21) == .none)
        #expect(link.machine.nextLook == at(30))
    }

    @Test func aFrameThatGrowsAtTheMinimumRateIsProgress() {
        var link = TestLink()
        for second in 1...600 {
            link.grow(by: 101, at: Double(second))
            #expect(link.fire(at: Double(second)) == .none)
        }
        // No more bytes arrive: ten seconds later a ping is sent.
        for second in 601...620 {
            let action = link.fire(at: Double(second))
            if action != .none {
                #expect(action == .ping(number: 0) && (601...610).contains(second))
                return
            }
        }
        Issue.record("no ping was sent")
    }

    /// The frame grows by less than 1000 bytes within the deadline.
    @Test func aFrameThatGrowsBelowTheMinimumRateIsNotProgress() {
        var link = TestLink()
        for second in 1...10 { link.grow(by: 80, at: Double(second)) }
        #expect(link.fire(at: 11) == .ping(number: 0))
        for second in 12...20 { link.grow(by: 80, at: Double(second)) }
        #expect(link.fire(at: 21) == .declareDead)
    }

    @Test func withoutAMinimumRateAnyByteIsProgressAndNoFrameIsStuck() {
        var policy = Liveness.Policy()
        policy.minimumRate = nil
        var link = TestLink(policy)
        let isFirst = link.grow(by: 1, at: 1)
        #expect(!isFirst)
        #expect(link.fire(at: 29) == .none)
        #expect(link.fire(at: 30) == .none)
        #expect(link.machine.nextLook == at(31))
        #expect(link.fire(at: 31) == .ping(number: 0))
        link.grow(by: 1, at: 40)
        #expect(link.fire(at: 41) == .none)
    }

    /// It makes no difference whether its beginning arrived behind a complete frame or alone: only silence causes a
    /// ping.
    @Test(arguments: [HeartbeatMode.none, .oneWay, .pingPong], [true, false])
    func withoutAMinimumRateAFrameMayStayIncomplete(_ mode: HeartbeatMode, _ comesBehindAFrame: Bool) {
        var policy = Liveness.Policy()
        (policy.mode, policy.minimumRate) = (mode, nil)
        var link = TestLink(policy)
        let isSooner =
            comesBehindAFrame ? link.machine.heard(at: at(1), leavesIncomplete: true) : link.grow(by: 1, at: 1)
        #expect(!isSooner)
        #expect(link.fire(at: 11) == .none)
        #expect(link.machine.nextLook == (mode == .none ? nil : at(mode == .oneWay ? 30 : 31)))
        for time in stride(from: 20.0, through: 60, by: 20) {
            link.machine.heard(at: at(time), leavesIncomplete: true)
            if mode == .oneWay { _ = link.machine.wrote(from: 1, at: at(time)) }
            #expect(link.fire(at: time + 15) == .none)
        }
    }

    /// If other progress was noted at the same instant, the ping for a stuck frame did not count as a probe, and was
    /// sent again at once, for ever.
    @Test func aFrameIsNotStuckWhenTheServerTakesBytes() {
        var link = TestLink()
        link.grow(by: 1, at: 1)
        link.machine.tookBytes(at: at(11))
        #expect(link.fire(at: 11) == .none)
        #expect(link.machine.nextLook == at(21))
    }

    /// Padding between frames: no frame is incomplete.
    @Test func bytesOutsideFramesDoNotMakeAFrameStuck() {
        var link = TestLink()
        for second in 1...29 { link.grow(by: 2, isIncomplete: false, at: Double(second)) }
        #expect(link.machine.nextLook == at(30))
        #expect(link.fire(at: 30) == .ping(number: 0))
    }

    @Test(arguments: [HeartbeatMode.none, .oneWay])
    func withoutPongsAStuckFrameEndsTheLink(_ mode: HeartbeatMode) {
        var link = TestLink(mode: mode)
        link.grow(by: 20, at: 1)
        #expect(link.machine.nextLook == at(11))
        #expect(link.fire(at: 10.9) == .none)
        #expect(link.fire(at: 11) == .declareDead)
    }

    @Test func afterAClockJumpAFrameHasTheWholeDeadlineAgain() {
        var link = TestLink(mode: .none)
        link.grow(by: 20, at: 1)
        #expect(link.fire(due: 11, at: 3600) == .none)
        #expect(link.machine.nextLook == at(3610))
        #expect(link.fire(at: 3610) == .declareDead)
    }

    @Test func whileReadingIsSuspendedNoFrameIsStuck() {
        var link = TestLink(mode: .none)
        link.grow(by: 20, at: 1)
        link.machine.suspend(at: at(2))
        #expect(link.fire(at: 11) == .none)
        link.machine.resume(at: at(100))
        #expect(link.fire(at: 109) == .none)
        #expect(link.fire(at: 110) == .declareDead)
    }

    // MARK: Requests that time out

    /// When the probe was due, no unanswered request was left.
    @Test func aRequestThatTimedOutIsFollowedByAPing() {
        var link = TestLink()
        _ = link.machine.wrote(from: 1, at: at(2))
        link.machine.timedOut(1)
        #expect(link.machine.nextLook == at(7))
        #expect(link.fire(at: 7, hasUnanswered: false) == .ping(number: 0))
        #expect(link.fire(at: 17) == .declareDead)
    }

    @Test func aFrameResetsTheTimeouts() {
        var link = TestLink()
        _ = link.machine.wrote(from: 1, at: at(2))
        link.machine.timedOut(2)
        link.machine.heard(at: at(3))
        #expect(link.machine.timeouts == 0)
        #expect(link.fire(at: 8, hasUnanswered: false) == .none)
    }

    /// The length is wrong, and responses arrive so fast that the frame grows at the minimum rate.
    @Test(arguments: [true, false]) func growthIsNotProgressIfItCannotBeAnAnswer(_ isAwaited: Bool) {
        var link = TestLink()
        _ = link.machine.wrote(from: 1, at: at(0))
        var end: Liveness.Action?
        for second in 1...60 where end != .declareDead {
            link.grow(by: 5000, at: Double(second))
            if second >= 8 { link.machine.timedOut(5) }
            end = link.fire(at: Double(second), isAwaited: isAwaited, hasUnanswered: true)
        }
        #expect(end == (isAwaited ? Liveness.Action.none : .declareDead))
    }
}

extension TestLink {
    @discardableResult
    fileprivate mutating func grow(by count: Int, isIncomplete: Bool = true, at time: Double) -> Bool {
        machine.grew(by: count, isIncomplete: isIncomplete, at: Instant.seconds(time))
    }
}
