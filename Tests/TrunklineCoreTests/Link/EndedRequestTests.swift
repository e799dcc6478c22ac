import Testing

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts

/// When a codec learns that requests have ended: once for each request that was sent, and before its serial is used
/// again.
@Suite struct EndedRequestTests {}

extension EndedRequestTests {
    /// A link, and what its codec knows: the serials of the requests that were noted as sent and have not ended.
    private struct Model {
        var machine: LinkMachine
        var codec: any FrameCodec = FrameLayout.standard
        var now = Instant.distantPast.advanced(by: .seconds(1))
        var lastID: UInt64 = 0
        /// The serials that are noted as sent; twice in `ends` would be a mistake.
        var noted: Set<SerialNumber> = []
        var places: [RequestID: PlaceOnLink] = [:]
        /// The keys of `places`, in order.
        var ids: [RequestID] = []
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
            ids.append(id)
            places[id] = machine.send(id, Frame(.request, type: 0x410, body: "x"), expectsResponse: lastID % 5 != 0)
        }

        /// Writes some of the frames, as a link does.
        mutating func write(_ count: Int, _ note: Comment) {
            takeEnds(note)
            let refusals = machine.encode(using: &codec)
            #expect(refusals.isEmpty, note)
            let length = min(count, machine.outbound.unwrittenCount)
            guard length > 0 else { return }
            var starting: [Frame] = []
            machine.outbound.forEachStarting(within: length) { starting.append($0) }
            for frame in starting where frame.serial != 0 {
                // A cancel frame with a serial of its own is noted as a request is.
                let hasOwnSerial = frame.cancelledSerial.map { $0 != frame.serial } ?? false
                guard frame.kind == .request || hasOwnSerial else { continue }
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

    /// A cancel frame that waited for longer than its quarantine used to end although it was not sent, and was sent
    /// afterwards with a serial that was free.
    @Test func everyRequestThatWasSentEndsOnce() {
        for seed in seeds(300) {
            var random = SeededGenerator(seed: seed)
            let count = SerialNumber.random(in: 4...2000, using: &random)
            var model = Model(serials: 1...count)
            let note = Comment(rawValue: "seed \(seed)")
            for _ in 0..<400 {
                let index = model.ids.indices.randomElement(using: &random)
                let id = index.map { model.ids[$0] }
                let serial = SerialNumber.random(in: 1...min(count, model.lastID + 2), using: &random)
                switch Int.random(in: 0..<12, using: &random) {
                case 0..<4: for _ in 0..<3 { model.send(note) }
                case 4, 5: model.write(.random(in: 1...200, using: &random), note)
                case 6: _ = model.machine.answer(serial)
                case 7:
                    guard let id, let index, let place = model.places.removeValue(forKey: id) else { continue }
                    model.ids.remove(at: index)
                    // There are serials enough that none is used again before its time.
                    let kinds: [CancelKind] =
                        count > 1000
                        ? [.answered, .unanswered, .unansweredRequest, .answeredRequest, .flush]
                        : [.answered, .unanswered]
                    let kind = kinds.randomElement(using: &random)!
                    if case .awaited(let serial, _) = model.machine.cancel(
                        id,
                        at: place,
                        isTimeout: true,
                        now: model.now
                    ),
                        Bool.random(using: &random)
                    {
                        let frame = FrameLayout.standard.cancelFrame(for: serial, type: 0x410) ?? Frame(.cancel)
                        model.machine.send(cancelFrame: frame, for: serial, kind, now: model.now)
                    }
                case 8:
                    guard let id, case .response(let number)? = model.places[id] else { continue }
                    model.machine.sendAgain(Frame(.request, type: 0x410, body: "again"), id, as: number)
                case 9:
                    var frame = Frame(.response, serial: serial)
                    frame.answers = [.through, .serials([serial...(serial + 3)]), .all].randomElement(using: &random)!
                    if Bool.random(using: &random) {
                        _ = model.machine.matchAll(frame, serial, at: model.now)
                    } else {
                        _ = model.machine.answerAll(with: frame, serial)
                    }
                case 10 where Int.random(in: 0..<4, using: &random) == 0:
                    // The server reads nothing for longer than the quarantine.
                    model.now = model.now.advanced(by: .seconds(11))
                    model.machine.endQuarantine(at: model.now)
                default:
                    model.now = model.now.advanced(by: .milliseconds(.random(in: 0...4000, using: &random)))
                    model.machine.endQuarantine(at: model.now)
                }
                if Bool.random(using: &random) { model.takeEnds(note) }
            }
            // Everything that is left is answered, or its time ends.
            while model.machine.outbound.unwrittenCount > 0 || !model.machine.outbound.isEmpty {
                model.write(4096, note)
            }
            _ = model.machine.answerAll(with: allAnswered, 0)
            for _ in 0..<3 {
                model.now = model.now.advanced(by: .seconds(60))
                model.machine.endQuarantine(at: model.now)
            }
            model.takeEnds(note)
            #expect(model.noted.isEmpty && model.ends == model.sent && model.sent > 0, note)
        }
    }

    private var allAnswered: Frame {
        var frame = Frame(.response)
        frame.answers = .all
        return frame
    }

    /// See `everyRequestThatWasSentEndsOnce`.
    @Test(arguments: [CancelKind.unansweredRequest, .answeredRequest, .flush])
    func aCancelFrameThatWaitsForTooLongIsNotSent(_ kind: CancelKind) {
        var model = Model(serials: 1...10)
        model.send("")
        model.write(4096, "")
        _ = model.machine.cancel(RequestID(1), at: .response(1), isTimeout: true, now: model.now)
        model.machine.send(cancelFrame: Frame(.cancel), for: 1, kind, now: model.now)
        model.now = model.now.advanced(by: .seconds(11))
        model.machine.endQuarantine(at: model.now)
        #expect(model.machine.takeEnded() == [1])
        #expect(model.machine.outbound.isEmpty && model.machine.requests.heldCount == 0)
    }

    /// Regression: it ended with the response that answered everything, and again ten seconds later, when its serial
    /// could be that of another request.
    @Test func aRequestThatWasSentTwiceAndIsFlushedEndsOnce() {
        var model = Model(serials: 1...10)
        model.send("")
        model.write(4096, "")
        model.machine.sendAgain(Frame(.request, type: 0x410, body: "again"), RequestID(1), as: 1)
        model.write(4096, "")
        _ = model.machine.cancel(RequestID(1), at: .response(1), isTimeout: true, now: model.now)
        model.machine.send(cancelFrame: Frame(.cancel), for: 1, .flush, now: model.now)
        model.write(4096, "")
        _ = model.machine.answerAll(with: allAnswered, 0)
        #expect(model.machine.takeEnded() == [2, 1])
        #expect(model.machine.requests.heldCount == 0 && model.machine.requests.abandonedCount == 0)
        for _ in 0..<2 {
            model.now = model.now.advanced(by: .seconds(60))
            model.machine.endQuarantine(at: model.now)
        }
        #expect(model.machine.takeEnded().isEmpty)
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
        #expect(model.machine.answer(1) == .late(RequestID(1), type: 0x410))
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
