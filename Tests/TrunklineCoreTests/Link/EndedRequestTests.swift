import Testing

@testable import Trunkline

/// When a codec learns that requests have ended: once for each request that was sent, and before its serial is used again.
@Suite struct EndedRequestTests {
    /// A link, and what its codec knows: the serials of the requests that were noted as sent and have not ended.
    private struct Model {
        var machine: LinkMachine
        var codec: any FrameCodec = FrameLayout.standard
        var now = Instant.distantPast.advanced(by: .seconds(1))
        var lastID: UInt64 = 0
        /// The serials that are noted as sent; twice in `ends` would be a mistake.
        var noted: Set<SerialNumber> = []
        var places: [RequestID: LinkMachine.Place] = [:]
        var ends = 0
        var sent = 0

        init(serials: ClosedRange<SerialNumber>) {
            machine = LinkMachine(session: SessionID(1), matching: .serial(serials), quarantine: .seconds(10))
            machine.reportEnds()
        }

        mutating func takeEnds(_ note: Comment) {
            for serial in machine.takeEnded() {
                let wasNoted = noted.remove(serial) != nil
                #expect(wasNoted, note)
                ends += 1
            }
        }

        mutating func send(_ note: Comment) {
            lastID += 1
            let id = RequestID(lastID)
            places[id] = machine.send(id, Frame(.request, type: 5, body: "x"), expectsResponse: lastID % 5 != 0)
        }

        /// Writes some of the frames, as a link does.
        mutating func write(_ count: Int, _ note: Comment) {
            takeEnds(note)
            _ = machine.encode(using: &codec)
            let length = min(count, machine.outbound.unwrittenCount)
            guard length > 0 else { return }
            var starting: [Frame] = []
            machine.outbound.forEachStarting(within: length) { starting.append($0) }
            for frame in starting where frame.kind == .request && frame.serial != 0 {
                // A copy of a request that was sent before has its serial.
                if frame.body == "again" { continue }
                let isNew = noted.insert(frame.serial).inserted
                #expect(isNew, note)
                sent += 1
            }
            var reported: [RequestID] = []
            machine.didWrite(length, reporting: &reported)
            for id in reported { _ = machine.written(id) }
        }
    }

    /// A request that never began is not reported, whatever becomes of it.
    @Test func requestsThatWereNotSentAreNotReported() {
        var model = Model(serials: 1...10)
        for _ in 0..<3 { model.send("") }
        let id = RequestID(1)
        _ = model.machine.cancel(id, at: .response(1), isTimeout: false, now: model.now)
        #expect(model.machine.drain().count == 2)
        #expect(model.machine.takeEnded().isEmpty)
    }

    /// After `startTLS`, the link has another codec, which knows nothing of the requests before.
    @Test func aNewCodecLearnsOnlyOfItsOwnRequests() {
        var model = Model(serials: 1...10)
        model.send("")
        model.write(4096, "")
        _ = model.machine.cancel(RequestID(1), at: .response(1), isTimeout: true, now: model.now)
        model.machine.reportEnds()
        model.send("")
        model.write(4096, "")
        #expect(model.machine.answer(1) == .late(RequestID(1), type: 5))
        _ = model.machine.answer(2)
        #expect(model.machine.takeEnded() == [2])
    }

    @Test func matchedInOrderNothingIsReported() {
        var machine = LinkMachine(session: SessionID(1), matching: .inOrder, quarantine: .seconds(10))
        machine.reportEnds()
        var codec: any FrameCodec = DelimitedCodec(delimiter: "\n")
        _ = machine.send(RequestID(1), Frame(.request, body: "x"), expectsResponse: true)
        _ = machine.encode(using: &codec)
        var reported: [RequestID] = []
        machine.didWrite(machine.outbound.unwrittenCount, reporting: &reported)
        _ = machine.answer(0)
        #expect(machine.takeEnded().isEmpty)
    }
}
