import Testing

@testable import TrunklineCore
@testable import TrunklineIO

/// Why an event loop was late.
struct LoopDelayTests {
    private func turn(
        _ milliseconds: Int,
        ran: (thread: Int64, process: Int64)?,
        decoding: Int64? = nil
    ) -> LoopDelay {
        var turn = LoopDelay.Turn(from: at(10), to: at(10).advanced(by: .milliseconds(milliseconds)))
        turn.processorTime = ran.map { ($0.thread * 1_000_000, $0.process * 1_000_000) }
        turn.decoding = decoding.map { LoopDelay.Decoding(of: "db:7000", nanoseconds: $0 * 1_000_000) }
        return LoopDelay(turn)
    }

    /// A process that was stopped in a turn was said to be busy.
    @Test func aTurnInWhichTheProcessHardlyRanWasStopped() {
        for decoding in [nil, 14_900] as [Int64?] {
            let delay = turn(15_000, ran: (20, 30), decoding: decoding)
            #expect(delay.reason == .stopped && delay.duration == .seconds(15) && delay.endpoint == nil)
            #expect("\(delay)" == "this process hardly ran for 15 s, within a turn of the event loop")
        }
        let wait = LoopDelay(.stopped, from: at(10), to: at(25))
        #expect("\(wait)" == "this process did not run for 15 s")
    }

    @Test func aTurnInWhichOnlyOtherThreadsRanWasBlocked() {
        let delay = turn(1000, ran: (20, 300))
        #expect(delay.reason == .blocked)
        #expect("\(delay)" == "one turn of the event loop took 1 s, and its thread hardly ran")
    }

    @Test func aTurnThatComputedWasBusyOrDecoded() {
        #expect(turn(1000, ran: (900, 950)).reason == .busy)
        #expect(turn(1000, ran: nil).reason == .busy)
        #expect(turn(1000, ran: (900, 950), decoding: 400).reason == .busy)
        let delay = turn(1000, ran: (900, 950), decoding: 700)
        #expect(delay.reason == .decoding && delay.endpoint == "db:7000")
        #expect(
            "\(delay)"
                == "one turn of the event loop took 1 s, most of it in the codec that decodes what db:7000 has sent"
        )
    }

    @Test func onlyTheCodecsOfTheTurnCount() {
        let short = LoopDelay.Decoding(of: "a:1", nanoseconds: 60_000_000)
        let long = LoopDelay.Decoding(of: "b:2", nanoseconds: 90_000_000)
        var longest = LoopDelay.LongestDecoding(long, in: at(1), or: nil)
        longest = LoopDelay.LongestDecoding(short, in: at(1), or: longest)
        #expect(longest.of(at(1))?.endpoint == "b:2" && longest.of(at(2)) == nil)
        longest = LoopDelay.LongestDecoding(short, in: at(2), or: longest)
        #expect(longest.of(at(2))?.endpoint == "a:1")
    }

    /// If the process is stopped, each of its loops is late, at about the same time.
    @Test func aDelayOfSeveralLoopsIsOneFact() {
        var delays = DistinctDelays()
        func delay(_ begin: Int, _ end: Int) -> LoopDelay {
            LoopDelay(
                .stopped,
                from: at(0).advanced(by: .milliseconds(begin)),
                to: at(0).advanced(by: .milliseconds(end))
            )
        }
        let noted = [
            delay(1000, 16_000), delay(1200, 16_020), delay(900, 15_990), delay(16_100, 16_400), delay(16_110, 16_400),
            delay(20_000, 21_000),
        ].map { delays.note($0) }
        #expect(noted == [true, false, false, true, false, true])
    }

    /// A codec that took long on one loop hid what another loop was late for at that time.
    @Test func delaysForDifferentReasonsAreDifferentFacts() {
        var delays = DistinctDelays()
        let kinds: [(LoopDelay.Reason, Endpoint?)] = [
            (.busy, nil), (.decoding, "a:1"), (.decoding, "b:2"), (.decoding, "a:1"), (.busy, nil),
        ]
        let noted = kinds.map { delays.note(LoopDelay($0, from: at(1), to: at(2), decoding: $1)) }
        #expect(noted == [true, true, true, false, false])
    }
}
