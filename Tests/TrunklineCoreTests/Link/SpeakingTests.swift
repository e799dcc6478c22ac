import Testing

@testable import TrunklineCore

/// Pings for a server that expects frames from the client. The interval is 30 s, the deadline 10 s, and the client is
/// never silent for more than 4 s.
@Suite struct SpeakingTests {}

extension SpeakingTests {
    private func link() -> TestLink {
        var policy = Liveness.Policy()
        policy.speakAfter = .seconds(4)
        return TestLink(policy)
    }

    @Test func aClientThatWritesNothingSendsPingsWhateverItReceives() {
        var link = link()
        #expect(link.machine.nextLook == at(4))
        link.machine.heard(at: at(3))
        #expect(link.machine.nextLook == at(4))
        #expect(link.fire(at: 4) == .ping(number: 0))
        link.machine.heard(at: at(5))
        #expect(link.machine.nextLook == at(8))
        #expect(link.fire(at: 8) == .ping(number: 1))
    }

    @Test func everyWriteDelaysThePing() {
        var link = link()
        _ = link.machine.wrote(from: 1, at: at(3))
        link.machine.heard(at: at(3))
        #expect(link.fire(at: 4) == .none)
        #expect(link.machine.nextLook == at(7))
        #expect(link.fire(at: 7) == .ping(number: 0))
    }

    /// While a ping was in flight, the next look was at the end of its deadline. A received frame then moved it to an
    /// earlier instant, but the timer did not follow, and no pings were sent until the end of the deadline.
    @Test func receivedFramesNeverMoveTheNextLookEarlier() {
        var link = link()
        _ = link.fire(at: 4)
        let look = link.machine.nextLook
        #expect(look == at(8))
        link.machine.heard(at: at(4.1))
        #expect(link.machine.nextLook == look)
    }

    /// Otherwise each further ping would restart the deadline, and a dead link would be kept for ever.
    @Test func unansweredPingsDoNotExtendTheDeadline() {
        var link = link()
        #expect(link.fire(at: 4) == .ping(number: 0))
        #expect(link.fire(at: 8) == .ping(number: 1))
        #expect(link.fire(at: 12) == .ping(number: 2))
        #expect(link.machine.nextLook == at(14))
        #expect(link.fire(at: 14) == .declareDead)
    }

    @Test func afterAClockJumpTheWholeDeadlineApplies() {
        var link = link()
        _ = link.fire(at: 4)
        #expect(link.fire(due: 8, at: 100) == .ping(number: 1))
        #expect(link.fire(at: 104) == .ping(number: 2))
        #expect(link.fire(at: 109) == .ping(number: 3))
        #expect(link.fire(at: 110) == .declareDead)
    }

    @Test func pingsAreSentWhileReadingIsSuspended() {
        var link = link()
        link.machine.suspend(at: at(0))
        #expect(link.machine.nextLook == at(4))
        for time in stride(from: 4.0, through: 40, by: 4) { #expect(link.fire(at: time) != .none) }
        link.machine.resume(at: at(41))
        #expect(!link.machine.isProbing)
        #expect(link.machine.nextLook == at(44))
    }
}
