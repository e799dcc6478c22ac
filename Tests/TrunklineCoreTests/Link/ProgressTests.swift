import Testing

@testable import Trunkline

/// What is progress on a link, and what is not: interval 30 s, deadline 10 s, probe after 5 s, 100 bytes per second.
@Suite struct ProgressTests {
    /// Any byte was a sign of life: a link that had lost framing was kept for as long as bytes trickled in.
    @Test func bytesOfAnIncompleteFrameAreNoProgress() {
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

    @Test func aFrameThatIsCompletedAfterThePingSavesTheLink() {
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
        // Nothing more comes: ten seconds later the server is asked.
        for second in 601...620 {
            let action = link.fire(at: Double(second))
            if action != .none {
                #expect(action == .ping(number: 0) && (601...610).contains(second))
                return
            }
        }
        Issue.record("no ping")
    }

    /// While a deadline lasts they do not come to a thousand.
    @Test func aFrameThatGrowsMoreSlowlyIsNotHoweverMuchItIsInTheEnd() {
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

    /// Whether its beginning came behind a complete frame or by itself: only silence is asked about.
    @Test(arguments: [HeartbeatMode.none, .oneWay, .pingPong], [true, false])
    func withoutAMinimumRateAFrameMayBeIncompleteForEver(_ mode: HeartbeatMode, _ comesBehindAFrame: Bool) {
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

    /// The ping for a stuck frame was no probe at the very instant of another sign of life, and was sent again at once, for
    /// ever.
    @Test func aFrameIsNotStuckWhenTheServerTakesBytes() {
        var link = TestLink()
        link.grow(by: 1, at: 1)
        link.machine.tookBytes(at: at(11))
        #expect(link.fire(at: 11) == .none)
        #expect(link.machine.nextLook == at(21))
    }

    /// Padding between frames: no frame is incomplete.
    @Test func bytesThatAreNoPartOfAFrameMakeNothingStuck() {
        var link = TestLink()
        for second in 1...29 { link.grow(by: 2, isIncomplete: false, at: Double(second)) }
        #expect(link.machine.nextLook == at(30))
        #expect(link.fire(at: 30) == .ping(number: 0))
    }

    @Test(arguments: [HeartbeatMode.none, .oneWay])
    func withoutAnswersToPingsAFrameThatIsStuckCostsTheLink(_ mode: HeartbeatMode) {
        var link = TestLink(mode: mode)
        link.grow(by: 20, at: 1)
        #expect(link.machine.nextLook == at(11))
        #expect(link.fire(at: 10.9) == .none)
        #expect(link.fire(at: 11) == .declareDead)
    }

    @Test func afterAJumpOfTheClockAFrameHasTheWholeDeadlineAgain() {
        var link = TestLink(mode: .none)
        link.grow(by: 20, at: 1)
        #expect(link.fire(due: 11, at: 3600) == .none)
        #expect(link.machine.nextLook == at(3610))
        #expect(link.fire(at: 3610) == .declareDead)
    }

    @Test func whileNothingIsReadNoFrameIsStuck() {
        var link = TestLink(mode: .none)
        link.grow(by: 20, at: 1)
        link.machine.suspend(at: at(2))
        #expect(link.fire(at: 11) == .none)
        link.machine.resume(at: at(100))
        #expect(link.fire(at: 109) == .none)
        #expect(link.fire(at: 110) == .declareDead)
    }

    // MARK: Requests that time out

    /// None was left to be unanswered when the probe was due.
    @Test func aRequestThatTimedOutIsFollowedByAPing() {
        var link = TestLink()
        _ = link.machine.wrote(from: 1, at: at(2))
        link.machine.timedOut(1)
        #expect(link.machine.nextLook == at(7))
        #expect(link.fire(at: 7, hasUnanswered: false) == .ping(number: 0))
        #expect(link.fire(at: 17) == .declareDead)
    }

    @Test func aFrameForgetsTheRequestsThatTimedOut() {
        var link = TestLink()
        _ = link.machine.wrote(from: 1, at: at(2))
        link.machine.timedOut(2)
        link.machine.heard(at: at(3))
        #expect(link.machine.timeouts == 0)
        #expect(link.fire(at: 8, hasUnanswered: false) == .none)
    }

    /// A wrong length, and answers come so fast that it grows by enough.
    @Test(arguments: [true, false]) func growthIsNoProgressWhenItCanBeNoAnswer(_ isAwaited: Bool) {
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
