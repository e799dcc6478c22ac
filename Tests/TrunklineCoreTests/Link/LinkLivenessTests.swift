import Testing

@testable import TrunklineCore
@testable import TrunklineIO

/// What liveness must know about outgoing frames: interval 30 s, deadline 10 s, probe after 5 s.
@Suite struct LinkLivenessTests {
    private func link(_ matching: ResponseMatching = .serial(50...99)) -> TestedLink {
        var link = TestedLink(matching)
        link.machine.becomeReady(Liveness.Policy(), at: at(0))
        return link
    }

    private let ping = Frame(.ping, body: "ping")

    @Test func aLinkThatIsNotReadyHasNoTimer() {
        var link = TestedLink()
        #expect(link.machine.liveness.rules.nextLook.map { $0 == .distantFuture } ?? true)
        link.machine.becomeReady(Liveness.Policy(), at: at(7))
        #expect(link.machine.liveness.rules.nextLook == at(37))
    }

    @Test func aPingIsWrittenBehindQueuedFramesAndIsNotQueuedTwice() {
        var link = link()
        link.send(1, "abc")
        link.writeOnce(upTo: 1)
        let first = link.machine.send(ping: ping, at: at(30))
        let second = link.machine.send(ping: ping, at: at(31))
        #expect(first && !second)
        #expect(link.write() == "bcping")
        let third = link.machine.send(ping: ping, at: at(32))
        #expect(third && link.write() == "ping")
    }

    /// Bytes that the socket takes are progress while the ping waits behind other frames, and only then.
    @Test(arguments: [false, true])
    func writtenBytesAreProgressOnlyWhileThePingWaits(_ isPingFirst: Bool) {
        var link = link()
        if !isPingFirst { link.send(1, "a large request") }
        _ = link.machine.send(ping: ping, at: at(30))
        if isPingFirst { link.send(1, "a large request") }
        link.writeOnce(upTo: 2)
        link.machine.socketTookBytes(at: at(38))
        #expect(link.machine.look(due: at(40), at: at(40)) == (isPingFirst ? .declareDead : .none))
    }

    /// A request that was answered, or not written yet, causes no probe.
    @Test func onlyAWrittenAndUnansweredRequestCausesAProbe() {
        var idle = link()
        idle.send(1)
        let isFirst = idle.machine.willWrite(at: at(1))
        #expect(isFirst)
        idle.write()
        _ = idle.answer(50)
        idle.send(2)
        #expect(idle.machine.look(due: at(6), at: at(6)) == .none)
        var waiting = link()
        waiting.send(1)
        _ = waiting.machine.willWrite(at: at(1))
        waiting.write()
        #expect(waiting.machine.look(due: at(6), at: at(6)) == .ping(number: 0))
    }

    @Test func aLinkThatIsNotReadIsNotDeclaredDead() {
        var link = link()
        _ = link.machine.send(ping: ping, at: at(30))
        link.machine.readingChanged(to: false, at: at(35))
        #expect(link.machine.look(due: at(40), at: at(40)) != .declareDead)
        link.machine.readingChanged(to: true, at: at(50))
        #expect(link.machine.look(due: at(50), at: at(50)) == .none)
    }

    /// Without pings, timeouts show that the link is of no use, unless a response may be arriving.
    @Test func withoutPingsTimeoutsCountUnlessAResponseMayBeArriving() {
        var policy = Liveness.Policy()
        policy.mode = .none
        var link = TestedLink()
        link.machine.becomeReady(policy, at: at(0))
        link.send(1)
        link.write()
        var silent = link
        #expect(silent.machine.timedOut(1, at: at(2)) == true)
        _ = link.machine.received(5000, hasFrames: false, leavesIncomplete: true, at: at(1))
        var busy = link
        #expect(busy.machine.timedOut(1, at: at(2)) == false)
        // The incomplete frame began before the waiting request was written.
        _ = link.answer(50)
        link.send(2)
        link.write()
        #expect(link.machine.timedOut(1, at: at(2)) == true)
        var asking = self.link()
        #expect(asking.machine.timedOut(1, at: at(2)) == false)
    }

    @Test func heartbeatsThatLookAlikeAreDistinguishedByThePingsSent() {
        var link = link()
        #expect(link.machine.heartbeat(ping, pongsLookLikePings: false, at: at(1)) == .question)
        _ = link.machine.send(ping: ping, at: at(30))
        link.write()
        #expect(link.machine.heartbeat(ping, pongsLookLikePings: true, at: at(31)) == .answer)
        #expect(link.machine.heartbeat(ping, pongsLookLikePings: true, at: at(33)) == .question)
        #expect(link.machine.heartbeat(Frame(.pong), pongsLookLikePings: false, at: at(34)) == .stray)
    }
}
