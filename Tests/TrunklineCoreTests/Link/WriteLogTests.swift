import Testing

@testable import TrunklineCore
@testable import TrunklineIO

/// When frames were written, found by their positions.
@Suite struct WriteLogTests {}

extension WriteLogTests {
    private func at(_ nanoseconds: Int64) -> Instant { Instant(nanoseconds: nanoseconds) }

    @Test func timesAreThoseOfTheFirstWriteThatIncludesTheFrame() {
        var log = WriteLog()
        log.note(encoded: 4, started: 2, written: 2, at: at(10))  // 1 is written, 2 and 3 only encoded
        log.note(encoded: 4, started: 4, written: 3, at: at(20))  // 3 is partly written
        log.note(encoded: 6, started: 6, written: 6, at: at(30))
        let first = log.times(of: 1)
        #expect(first.encoded == at(10) && first.firstByte == at(10) && first.lastByte == at(10))
        let third = log.times(of: 3)
        #expect(third.encoded == at(10) && third.firstByte == at(20) && third.lastByte == at(30))
        #expect(log.times(of: 5).encoded == at(30))
        #expect(log.times(of: 6) == WriteLog.Times())
    }

    @Test func writesWithoutProgressAreNotKept() {
        var log = WriteLog()
        for time in 1...100 as ClosedRange<Int64> { log.note(encoded: 2, started: 2, written: 1, at: at(time)) }
        #expect(log.count == 1 && log.times(of: 1).firstByte == at(1) && log.times(of: 1).lastByte == nil)
    }

    /// Compared with a table of the times of every frame.
    @Test(arguments: 0..<50 as Range<UInt64>)
    func noTimeOfAFrameInFlightIsLost(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        var log = WriteLog()
        var known: [OutboundPosition: WriteLog.Times] = [:]
        var inFlight: [OutboundPosition] = []
        let first = OutboundPosition.first
        var (encoded, started, written, next) = (first, first, first, first)
        for step in 0..<2000 as Range<Int64> {
            for _ in 0..<Int.random(in: 0...3, using: &generator) {
                inFlight.append(next)
                next += 1
            }
            if encoded == written { encoded = next }
            written = (written...encoded).randomElement(using: &generator) ?? written
            let isPartly = written < encoded && Bool.random(using: &generator)
            started = max(started, isPartly ? written + 1 : written)
            for position in inFlight {
                var times = known[position] ?? WriteLog.Times()
                if position < encoded, times.encoded == nil { times.encoded = at(step) }
                if position < started, times.firstByte == nil { times.firstByte = at(step) }
                if position < written, times.lastByte == nil { times.lastByte = at(step) }
                known[position] = times
            }
            if log.isFull { log.dropOld(keeping: inFlight) }
            log.note(encoded: encoded, started: started, written: written, at: at(step))
            // Most requests are answered soon, some never.
            inFlight.removeAll {
                let isAnswered = first.distance(to: $0) % 97 != 0
                return $0 < written && isAnswered && Int.random(in: 0..<4, using: &generator) == 0
            }
            let wrong = inFlight.filter { log.times(of: $0) != known[$0] }
            try #require(wrong.isEmpty, "step \(step)")
        }
        #expect(log.count <= 3 * inFlight.count + 200)
    }
}
