import Testing

@testable import TrunklineCore
@testable import TrunklineIO

/// When a link is pinged, and when it is declared dead. The interval is 30 s, the deadline 10 s, and a probe follows
/// after 5 s.
@Suite struct LivenessTests {}

extension LivenessTests {
    // MARK: Ping-pong

    @Test func aQuietLinkIsPingedAfterTheInterval() {
        var link = TestLink()
        #expect(link.machine.nextLook == at(30))
        #expect(link.fire(at: 29.999) == .none)
        #expect(link.fire(at: 30) == .ping(number: 0))
        #expect(link.machine.isProbing)
        #expect(link.machine.nextLook == at(40))
    }

    @Test func anyFrameRestartsTheInterval() {
        var link = TestLink()
        link.machine.heard(at: at(10))
        #expect(link.fire(at: 30) == .none)
        #expect(link.machine.nextLook == at(40))
        #expect(link.fire(at: 40) == .ping(number: 0))
    }

    @Test func anUnansweredPingEndsTheLink() {
        var link = TestLink()
        #expect(link.fire(at: 30) == .ping(number: 0))
        #expect(link.fire(at: 39.999) == .none)
        #expect(link.fire(at: 40) == .declareDead)
    }

    @Test func anyFrameAfterThePingKeepsTheLink() {
        var link = TestLink()
        _ = link.fire(at: 30)
        link.machine.heard(at: at(39))
        #expect(!link.machine.isProbing)
        #expect(link.fire(at: 40) == .none)
        #expect(link.machine.nextLook == at(69))
        #expect(link.fire(at: 69) == .ping(number: 1))
        #expect(link.fire(at: 79) == .declareDead)
    }

    /// A frame read in the same turn in which the ping was sent arrived after the silence.
    @Test func aFrameAtTheInstantOfThePingCounts() {
        var link = TestLink()
        _ = link.fire(at: 30)
        link.machine.heard(at: at(30))
        #expect(link.fire(at: 40) == .none)
    }

    // MARK: Time without traffic

    @Test func theTimeBeforeAnAnsweredPingIsMeasured() {
        var link = TestLink()
        #expect(link.machine.idleBeforeAnsweredPing == nil && link.machine.idleBeforeSilence == nil)
        link.machine.heard(at: at(5))
        _ = link.fire(at: 35)
        #expect(link.machine.idleBeforeAnsweredPing == nil, "it is not answered")
        #expect(link.machine.idleBeforeSilence?.duration == .seconds(30))
        link.machine.heard(at: at(36))
        _ = link.machine.pongReceived(serial: 0, at: at(36))
        #expect(link.machine.idleBeforeAnsweredPing?.duration == .seconds(30))
        #expect(link.machine.idleBeforeAnsweredPing?.until == at(35))
        #expect(link.machine.idleBeforeSilence == nil, "it is not silent")
    }

    /// A write keeps a link alive as well as a frame that was received.
    @Test func aWriteEndsTheTimeWithoutTraffic() {
        var link = TestLink()
        link.machine.heard(at: at(5))
        _ = link.machine.wrote(from: .first, at: at(25))
        #expect(link.machine.idleBeforeSilence?.duration == .seconds(20))
        #expect(link.fire(at: 30) == .none)
        #expect(link.fire(at: 35) == .ping(number: 0))
        #expect(link.machine.idleBeforeSilence?.duration == .seconds(20), "the longer of the two")
        link.machine.heard(at: at(36))
        _ = link.machine.pongReceived(serial: 0, at: at(36))
        #expect(link.machine.idleBeforeAnsweredPing == nil)
    }

    /// The probe for a request is not the end of the time without traffic: the request is.
    @Test func aProbeDoesNotHideTheTimeBeforeItsRequest() {
        var link = TestLink()
        link.machine.heard(at: at(1))
        _ = link.machine.wrote(from: .first, at: at(21))
        #expect(link.fire(at: 26, hasUnanswered: true) == .ping(number: 0))
        _ = link.machine.wrote(from: .first, at: at(26))
        #expect(link.machine.idleBeforeSilence?.duration == .seconds(20))
        #expect(link.machine.idleBeforeSilence?.until == at(21))
        #expect(link.fire(at: 36) == .declareDead)
    }

    @Test func aPartOfAFrameIsNoSilence() {
        var link = TestLink()
        _ = link.fire(at: 30)
        _ = link.machine.grew(by: 1, at: at(31))
        #expect(link.machine.idleBeforeSilence == nil)
    }

    @Test func theIntervalCanChange() {
        var link = TestLink()
        #expect(link.machine.heartbeatInterval == .seconds(30))
        link.machine.setInterval(.seconds(90))
        #expect(link.machine.nextLook == at(90) && link.machine.heartbeatInterval == .seconds(90))
        #expect(link.fire(at: 30) == .none)
        #expect(TestLink(mode: .none).machine.heartbeatInterval == nil)
    }

    // MARK: Without a ping now

    /// The codec has no ping (`nil`), or cannot encode the one that was queued.
    @Test(arguments: [false, true])
    func silenceThatNoPingCouldBreakMeansNothing(wasQueued: Bool) {
        var link = TestLink()
        #expect(link.refuse(at: 30, wasQueued: wasQueued) == true)
        #expect(!link.machine.isProbing && !link.machine.asks)
        for time in stride(from: 40.0, to: 1000, by: 10) {
            #expect(link.machine.nextLook == at(time))
            #expect(link.refuse(at: time, wasQueued: wasQueued) == true)
        }
        // A ping is possible again.
        #expect(link.fire(at: 1000) == .ping(number: wasQueued ? 97 : 0))
        #expect(link.machine.asks && link.machine.nextLook == at(1010))
        #expect(link.fire(at: 1010) == .declareDead)
    }

    @Test(arguments: [false, true])
    func aFrameThatIsStuckWithoutAPingEndsTheLink(wasQueued: Bool) {
        var link = TestLink()
        _ = link.machine.grew(by: 5, at: at(1))
        #expect(link.refuse(at: 11, wasQueued: wasQueued) == true)
        #expect(link.machine.nextLook == at(11))
        #expect(link.fire(due: 11, at: 11.2) == .declareDead)
    }

    /// An earlier ping has been sent, so its answer is still due.
    @Test func aRefusedPingDoesNotExcuseAnEarlierOne() {
        var policy = Liveness.Policy()
        policy.speakAfter = .seconds(4)
        var link = TestLink(policy)
        #expect(link.fire(at: 4) == .ping(number: 0))
        #expect(link.refuse(at: 8, wasQueued: true) == true)
        #expect(link.machine.isProbing && link.machine.nextLook == at(14))
        #expect(link.fire(at: 14) == .declareDead)
    }

    @Test func aOneWayHeartbeatIsTriedAgain() {
        var link = TestLink(mode: .oneWay)
        #expect(link.refuse(at: 30, wasQueued: false) == true)
        #expect(link.machine.nextLook == at(40))
        #expect(link.fire(at: 40) == .ping(number: 0))
        #expect(link.machine.nextLook == at(70))
    }

    @Test func onePingIsInFlightAtATime() {
        var link = TestLink()
        _ = link.fire(at: 30)
        _ = link.machine.wrote(from: 1, at: at(31))
        for time in [31.0, 36, 38, 39.9] { #expect(link.fire(at: time, hasUnanswered: true) == .none) }
    }

    /// A ping was already in flight when the route came back, so no probe was sent, and the link waited for the
    /// kernel's retransmission timer.
    @Test func aSecondProbeKeepsTheDeadlineOfTheFirst() {
        var link = TestLink()
        for (number, time) in [(0, 3.0), (1, 5)] as [(UInt64, Double)] {
            #expect(link.machine.probe(at: at(time)) == .ping(number: number))
            link.machine.pingSent(serial: 0, goesOutAtOnce: true, at: at(time))
        }
        #expect(link.machine.nextLook == at(13))
        #expect(link.fire(at: 12.999) == .none)
        #expect(link.fire(at: 13) == .declareDead)
    }

    @Test func durationsAreAtLeastOneMillisecond() {
        var policy = Liveness.Policy()
        policy.interval = .zero
        policy.deadline = .seconds(-1)
        policy.probeAfter = .zero
        var link = TestLink(policy)
        #expect(link.fire(at: 0) == .none)
        #expect(link.fire(at: 0.001) == .ping(number: 0))
        #expect(link.fire(at: 0.002) == .declareDead)
    }

    @Test func longDurationsDoNotOverflow() {
        var policy = Liveness.Policy()
        policy.interval = .seconds(Int64.max)
        policy.deadline = .seconds(Int64.max)
        policy.probeAfter = nil
        var link = TestLink(policy)
        #expect(link.machine.nextLook == .distantFuture)
        #expect(link.fire(at: 1_000_000_000) == .none)
    }

    // MARK: Probes

    @Test func anUnansweredRequestOnASilentLinkIsFollowedByAPing() {
        var link = TestLink()
        let isFirst = link.machine.wrote(from: 7, at: at(2))
        #expect(isFirst)
        #expect(link.machine.firstWritten == 7)
        #expect(link.machine.nextLook == at(7))
        #expect(link.fire(at: 6.999, hasUnanswered: true) == .none)
        #expect(link.fire(at: 7, hasUnanswered: true) == .ping(number: 0))
        #expect(link.fire(at: 17, hasUnanswered: true) == .declareDead)
    }

    @Test func anUnansweredRequestDoesNotEndALinkThatAnswersPings() {
        var link = TestLink()
        _ = link.machine.wrote(from: 1, at: at(2))
        _ = link.fire(at: 7, hasUnanswered: true)
        link.machine.heard(at: at(7.1))
        // The request keeps waiting, and causes no other probe.
        for time in [7.2, 12.1, 17, 37] { #expect(link.fire(at: time, hasUnanswered: true) == .none) }
        #expect(link.fire(at: 37.1, hasUnanswered: true) == .ping(number: 1))
    }

    @Test func aFrameAfterTheRequestDelaysTheProbe() {
        var link = TestLink()
        _ = link.machine.wrote(from: 1, at: at(2))
        link.machine.heard(at: at(3))
        #expect(link.fire(at: 7, hasUnanswered: true) == .none)
        #expect(link.machine.nextLook == at(8))
        #expect(link.fire(at: 8, hasUnanswered: true) == .ping(number: 0))
    }

    @Test func onlyTheFirstWriteDuringASilenceCounts() {
        var link = TestLink()
        _ = link.machine.wrote(from: 1, at: at(2))
        let isFirst = link.machine.wrote(from: 2, at: at(6))
        #expect(!isFirst)
        #expect(link.machine.firstWritten == 1)
        #expect(link.machine.nextLook == at(7))
    }

    @Test func withoutUnansweredRequestsNoProbeIsDueUntilTheNextWrite() {
        var link = TestLink()
        _ = link.machine.wrote(from: 1, at: at(2))
        #expect(link.fire(at: 7, hasUnanswered: false) == .none)
        #expect(link.machine.nextLook == at(30))
        let isFirst = link.machine.wrote(from: 2, at: at(8))
        #expect(isFirst)
        #expect(link.machine.nextLook == at(13))
    }

    @Test func withoutProbingRequestsAreNotWatched() {
        var policy = Liveness.Policy()
        policy.probeAfter = nil
        var link = TestLink(policy)
        let isFirst = link.machine.wrote(from: 1, at: at(2))
        #expect(!isFirst)
        #expect(link.fire(at: 7, hasUnanswered: true) == .none)
        #expect(link.machine.nextLook == at(30))
    }

    // MARK: Clock jumps

    /// The process or the machine slept between the ping and the deadline. The pong may still be on its way.
    @Test func afterAClockJumpOverTheDeadlineAnotherProbeHasTheWholeDeadline() {
        var link = TestLink()
        _ = link.fire(at: 30)
        #expect(link.fire(due: 40, at: 3600) == .ping(number: 1))
        #expect(link.machine.nextLook == at(3610))
        #expect(link.fire(at: 3609.9) == .none)
        #expect(link.fire(at: 3610) == .declareDead)
    }

    @Test func afterAClockJumpOverTheIntervalAPingIsSentFirst() {
        var link = TestLink()
        #expect(link.fire(due: 30, at: 3600) == .ping(number: 0))
        #expect(link.fire(at: 3610) == .declareDead)
    }

    @Test func aSlightlyLateTimerIsNotAClockJump() {
        var link = TestLink()
        _ = link.fire(at: 30)
        #expect(link.fire(due: 40, at: 42.5) == .declareDead)
    }

    @Test func aClockThatGoesBackDoesNoHarm() {
        var link = TestLink()
        _ = link.fire(at: 30)
        link.machine.pongReceived(serial: 0, at: at(20))
        #expect(link.machine.roundTripTime?.latest == .zero)
        #expect(link.fire(due: 40, at: 10) == .none)
    }

    // MARK: The other modes

    @Test func withoutAHeartbeatThereIsNoTimer() {
        var link = TestLink(mode: .none)
        let isFirst = link.machine.wrote(from: 1, at: at(2))
        #expect(!isFirst)
        #expect(link.machine.nextLook == nil)
        #expect(link.fire(at: 10_000, hasUnanswered: true) == .none)
    }

    @Test func oneWayPingsFollowAnIntervalWithoutWritesAndExpectNoPong() {
        var link = TestLink(mode: .oneWay)
        #expect(link.fire(at: 30) == .ping(number: 0))
        link.machine.heard(at: at(31))  // received frames do not matter
        #expect(link.machine.nextLook == at(60))
        _ = link.machine.wrote(from: 1, at: at(50))
        #expect(link.fire(at: 60, hasUnanswered: true) == .none)
        #expect(link.machine.nextLook == at(80))
        for (number, time) in [80.0, 110, 140].enumerated() {
            #expect(link.fire(at: time) == .ping(number: UInt64(number + 1)))
        }
    }

    // MARK: Suspended reading

    @Test func aLinkThatIsNotReadIsNotDeclaredDead() {
        var link = TestLink()
        _ = link.fire(at: 30)
        link.machine.suspend(at: at(35))
        #expect(link.machine.nextLook == at(65))
        #expect(link.fire(at: 40) == .none)
        // Only its socket is examined.
        #expect(link.fire(at: 65) == .examine)
        #expect(link.machine.nextLook == at(95))
        #expect(link.fire(at: 400) == .examine)
        link.machine.resume(at: at(500))
        #expect(!link.machine.isProbing)
        #expect(link.machine.nextLook == at(530))
        #expect(link.fire(at: 530) == .ping(number: 1))
        #expect(link.fire(at: 540) == .declareDead)
    }

    @Test func resumingWithoutSuspensionChangesNothing() {
        var link = TestLink()
        link.machine.resume(at: at(20))
        #expect(link.machine.nextLook == at(30))
    }

    @Test func oneWayPingsContinueWhileReadingIsSuspended() {
        var link = TestLink(mode: .oneWay)
        link.machine.suspend(at: at(0))
        #expect(link.fire(at: 30) == .ping(number: 0))
    }
}

extension Instant {
    static func seconds(_ seconds: Double) -> Instant { Instant(nanoseconds: Int64((seconds * 1e9).rounded())) }
}

func at(_ seconds: Double) -> Instant { .seconds(seconds) }

/// A machine and its shell, which sends the pings that the machine requests.
struct TestLink {
    var machine: Liveness
    /// The serial of the next ping.
    var serial: SerialNumber = 0
    var goesOutAtOnce = true

    init(_ policy: Liveness.Policy = Liveness.Policy()) { machine = Liveness(policy, startedAt: at(0)) }

    init(mode: HeartbeatMode) {
        var policy = Liveness.Policy()
        policy.mode = mode
        self.init(policy)
    }

    mutating func fire(
        due: Double? = nil,
        at time: Double,
        isAwaited: Bool = true,
        hasUnanswered: Bool = false
    ) -> Liveness.Action {
        let action = machine.timerFired(due: at(due ?? time), at: at(time)) {
            isAwaited
        } hasUnanswered: {
            hasUnanswered
        }
        if case .ping = action { machine.pingSent(serial: serial, goesOutAtOnce: goesOutAtOnce, at: at(time)) }
        return action
    }

    /// Lets the timer fire when a ping is due that cannot be sent. Returns whether one was due.
    mutating func refuse(at time: Double, wasQueued: Bool) -> Bool {
        let action = machine.timerFired(due: at(time), at: at(time)) { false }
        guard case .ping = action else { return false }
        if wasQueued { machine.pingSent(serial: serial, goesOutAtOnce: goesOutAtOnce, at: at(time)) }
        machine.pingRefused(wasQueued: wasQueued, at: at(time))
        return true
    }
}
