import Testing

@testable import TrunklineCore

/// Which heartbeat answers which ping, and the round-trip time.
@Suite struct PongTests {}

extension PongTests {
    @Test func theRoundTripTimeRunsFromPingToPong() {
        var link = TestLink()
        #expect(link.machine.roundTripTime == nil)
        for (index, took) in [0.080, 0.016, 0.160].enumerated() {
            let time = Double(index) * 31 + 30
            _ = link.fire(at: time)
            link.machine.heard(at: at(time + took))
            #expect(link.machine.pongReceived(serial: 0, at: at(time + took)) == .answer)
            link.machine.heard(at: at(time + 1))
        }
        let time = link.machine.roundTripTime
        #expect(time?.latest == .milliseconds(160))
        #expect(time?.minimum == .milliseconds(16))
        // RFC 6298: 80, then 7/8 · 80 + 1/8 · 16 = 72, then 7/8 · 72 + 1/8 · 160 = 83.
        #expect(time?.smoothed == .milliseconds(83))
    }

    @Test func aPongWithoutAPingIsStray() {
        var link = TestLink()
        #expect(link.machine.pongReceived(serial: 0, at: at(1)) == .stray)
        _ = link.fire(at: 30)
        #expect(link.machine.pongReceived(serial: 0, at: at(31)) == .answer)
        #expect(link.machine.pongReceived(serial: 0, at: at(32)) == .stray)
        #expect(link.machine.roundTripTime?.latest == .seconds(1))
    }

    /// The server answered the first ping a minute late, after the second was sent. Its round-trip time would have been
    /// measured as 1 s.
    @Test func anAnswerToAnEarlierPingIsRecognizedByItsSerial() {
        var link = TestLink()
        link.serial = 1
        _ = link.fire(at: 30)
        link.machine.heard(at: at(31))  // a push
        link.serial = 2
        _ = link.fire(at: 61)
        #expect(link.machine.pongReceived(serial: 1, at: at(62)) == .stray)
        #expect(link.machine.pongReceived(serial: 2, at: at(63)) == .answer)
        #expect(link.machine.roundTripTime?.latest == .seconds(2))
    }

    @Test func withoutSerialsAPongThatMayAnswerAnEarlierPingIsNotMeasured() {
        var link = TestLink()
        _ = link.fire(at: 30)
        link.machine.heard(at: at(31))
        _ = link.fire(at: 61)
        #expect(link.machine.pongReceived(serial: 0, at: at(62)) == .answer)
        #expect(link.machine.roundTripTime == nil)
    }

    @Test func aPingThatWaitedBehindOtherBytesIsNotMeasured() {
        var link = TestLink()
        link.goesOutAtOnce = false
        _ = link.fire(at: 30)
        #expect(link.machine.pongReceived(serial: 0, at: at(35)) == .answer)
        #expect(link.machine.roundTripTime == nil)
    }

    // MARK: Heartbeats that look alike

    @Test func aHeartbeatAfterAPingIsItsAnswer() {
        var link = TestLink()
        _ = link.fire(at: 30)
        #expect(link.machine.heartbeatReceived(serial: 0, at: at(30.5)) == .answer)
        #expect(link.machine.roundTripTime?.latest == .milliseconds(500))
    }

    @Test func aHeartbeatWithoutAPingIsAQuestion() {
        var link = TestLink()
        #expect(link.machine.heartbeatReceived(serial: 0, at: at(5)) == .question)
    }

    @Test func aHeartbeatWithAnotherSerialIsAQuestionWhileAPingIsInFlight() {
        var link = TestLink()
        link.serial = 3
        _ = link.fire(at: 30)
        #expect(link.machine.heartbeatReceived(serial: 9, at: at(32)) == .question)
        #expect(link.machine.heartbeatReceived(serial: 3, at: at(32)) == .answer)
    }

    /// A server that sends frames but never answers pings: its next ping would be taken for the answer.
    @Test func afterTheDeadlineAHeartbeatIsAQuestionAgain() {
        var link = TestLink()
        _ = link.fire(at: 30)
        link.machine.heard(at: at(31))
        #expect(link.machine.heartbeatReceived(serial: 0, at: at(40.001)) == .question)
    }

    /// Both sides answer every heartbeat. Without a limit, one ping would go back and forth for ever, as fast as the
    /// network allows.
    @Test func twoSidesThatAnswerEveryHeartbeatDoNotLoop() {
        var link = TestLink()
        var answers = 0
        for millisecond in 0..<10_000
        where link.machine.heartbeatReceived(serial: 0, at: at(Double(millisecond) / 1000)) == .question {
            answers += 1
        }
        #expect(answers == 10)
    }
}
