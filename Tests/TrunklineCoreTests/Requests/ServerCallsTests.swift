import Testing

@testable import TrunklineCore
@testable import TrunklineIO

/// The requests of the server, as values.
struct ServerCallsTests {
    private func request(_ serial: SerialNumber, on session: UInt64 = 1, size: Int = 0) -> Frame {
        var frame = Frame(.request, serial: serial, body: Bytes([UInt8](repeating: 0, count: size)))
        frame.session = SessionID(session)
        return frame
    }

    private func calls(_ concurrent: Int = 1, waiting: Int = 2, bytes: Int = 1000) -> ServerCalls {
        var calls = ServerCalls()
        calls.begin(.init(maximumConcurrent: concurrent, maximumWaiting: waiting, maximumWaitingBytes: bytes))
        return calls
    }

    /// Takes a request and starts it.
    private func start(_ serial: SerialNumber, in calls: inout ServerCalls) throws -> RequestID {
        #expect(calls.receive(request(serial)) == .accepted)
        let next = calls.startNext()
        return try #require(next).id
    }

    private func expectAllCounted(_ calls: ServerCalls, sourceLocation: SourceLocation = #_sourceLocation) {
        let counts = calls.counts
        let ended = counts.answered + counts.refused.values.reduce(0, +) + counts.cancelled + counts.dropped
        #expect(counts.received == ended + calls.openCount, sourceLocation: sourceLocation)
    }

    @Test func anAnswerFreesItsPlaceWhenItIsWritten() throws {
        var calls = calls()
        let id = try start(1, in: &calls)
        #expect(calls.receive(request(2)) == .accepted && calls.startNext() == nil)
        let request = calls.handlerEnded(id)
        let ended = try #require(request)
        #expect(ended.serial == 1)
        let answer = calls.queue(nil, for: ended, on: SessionID(1))
        #expect(answer > ServerCalls.firstID && calls.startNext() == nil && calls.occupiedCount == 1)
        #expect(calls.wrote(answer) == nil && calls.wrote(answer) == nil)
        #expect(calls.counts.answered == 1 && calls.startNext()?.request.serial == 2)
        #expect(calls.handlerEnded(id) == nil)
        expectAllCounted(calls)
    }

    @Test func theLimitsHold() throws {
        var calls = calls(2, waiting: 1)
        _ = try start(1, in: &calls)
        _ = try start(2, in: &calls)
        #expect(calls.receive(request(3)) == .accepted)
        #expect(calls.receive(request(4)) == .refused(.overloaded))
        #expect(calls.startNext() == nil && calls.waitingCount == 1 && calls.occupiedCount == 2)
        expectRefusal(&calls, .overloaded)
    }

    private func expectRefusal(_ calls: inout ServerCalls, _ reason: ServingRefusal) {
        let id = calls.queue(reason, for: request(99), on: SessionID(1))
        expectAllCounted(calls)
        #expect(calls.wrote(id) == reason && calls.counts.refused == [reason: 1])
        expectAllCounted(calls)
    }

    /// A single request may be larger than the limit of bytes.
    @Test func waitingRequestsAreLimitedByBytes() throws {
        var calls = calls(1, waiting: 100)
        _ = try start(1, in: &calls)
        #expect(calls.receive(request(2, size: 5000)) == .accepted)
        #expect(calls.receive(request(3)) == .refused(.overloaded))
        #expect(calls.cancel(2, on: SessionID(1))?.handler == nil)
        for serial in 10..<16 as Range<SerialNumber> {
            #expect(calls.receive(request(serial, size: 100)) == .accepted)
        }
        for serial in 16..<20 as Range<SerialNumber> {
            let arrival = calls.receive(request(serial, size: 100))
            #expect(arrival == (serial == 16 ? .accepted : .refused(.overloaded)))
        }
    }

    @Test func withoutAServerRequestsAreRefused() throws {
        var calls = ServerCalls()
        #expect(calls.receive(request(1)) == .refused(.notServed) && calls.startNext() == nil)
        expectRefusal(&calls, .notServed)
    }

    @Test func malformedRequestsAreRefused() {
        var calls = calls()
        var frame = request(1)
        frame.markMalformed(.missingBody)
        #expect(calls.receive(frame) == .refused(.malformed))
    }

    @Test func aSerialIsUniqueOnItsLink() throws {
        var calls = calls(9)
        let id = try start(7, in: &calls)
        #expect(calls.receive(request(7)) == .repeated && calls.counts.received == 1)
        #expect(calls.receive(request(7, on: 2)) == .accepted)
        _ = calls.handlerEnded(id)
        #expect(calls.receive(request(7)) == .accepted)
    }

    @Test func aCancelledHandlerKeepsItsPlaceUntilItEnds() throws {
        var calls = calls()
        let id = try start(1, in: &calls)
        #expect(calls.cancel(1, on: SessionID(2)) == nil)
        let call = calls.cancel(1, on: SessionID(1))
        let cancelled = try #require(call)
        #expect(cancelled.handler == id && cancelled.request.serial == 1 && calls.isIdle)
        #expect(calls.cancel(1, on: SessionID(1)) == nil)
        #expect(calls.receive(request(1)) == .accepted && calls.startNext() == nil)
        #expect(calls.handlerEnded(id) == nil && calls.startNext() != nil)
        #expect(calls.counts.cancelled == 1)
        expectAllCounted(calls)

        // What a codec answers to a cancellation is not counted as a refusal.
        let answer = calls.queue(.cancelled, for: request(1), on: SessionID(1))
        expectAllCounted(calls)
        #expect(calls.wrote(answer) == .cancelled && calls.counts.refused == [:])
        expectAllCounted(calls)
    }

    /// A server may send and cancel requests without end.
    @Test func cancelledRequestsDoNotStayInTheQueue() throws {
        var calls = calls(1, waiting: 10)
        _ = try start(1, in: &calls)
        #expect(calls.receive(request(2)) == .accepted)
        for serial in 3..<10_000 as Range<SerialNumber> {
            #expect(calls.receive(request(serial)) == .accepted)
            #expect(calls.cancel(serial, on: SessionID(1)) != nil)
            #expect(calls.waitingCount == 1)
        }
        #expect(calls.stop().map(\.serial) == [2])
    }

    @Test func theEndOfALinkDropsWhatBelongsToIt() throws {
        var calls = calls(2, waiting: 10)
        let id = try start(1, in: &calls)
        #expect(calls.receive(request(1, on: 2)) == .accepted)
        let next = calls.startNext()
        let other = try #require(next).id
        #expect(calls.receive(request(2)) == .accepted && calls.receive(request(2, on: 2)) == .accepted)
        let refusal = calls.queue(.overloaded, for: request(3), on: SessionID(1))
        #expect(calls.linkEnded(SessionID(1)) == [id])
        #expect(calls.counts.dropped == 3 && calls.waitingCount == 1 && calls.wrote(refusal) == nil)
        #expect(calls.handlerEnded(id) == nil)
        #expect(calls.startNext()?.request.session == SessionID(2))
        #expect(calls.linkEnded(nil).first == other && calls.isIdle)
        #expect(calls.counts.dropped == 5)
    }

    @Test func refusalsThatWaitAreLimited() {
        var calls = ServerCalls()
        var last: RequestID?
        while calls.mayRefuse { last = calls.queue(.notServed, for: request(1), on: SessionID(1)) }
        _ = last.map { calls.wrote($0) }
        #expect(calls.mayRefuse && calls.counts.refused == [.notServed: 1])
        _ = calls.linkEnded(SessionID(1))
        #expect(calls.counts.dropped == ServerCalls.maximumRefusals - 1 && calls.occupiedCount == 0)
    }

    @Test func anAnswerThatCannotBeEncodedIsToBeRefused() throws {
        var calls = calls()
        let id = try start(5, in: &calls)
        let ended = calls.handlerEnded(id)
        let request = try #require(ended)
        let answer = calls.queue(nil, for: request, on: SessionID(1))
        #expect(calls.couldNotEncode(answer)?.serial == 5 && calls.counts.dropped == 0)
        let refusal = calls.queue(.failed, for: request, on: SessionID(1))
        #expect(calls.couldNotEncode(refusal) == nil && calls.counts.dropped == 1)
        #expect(calls.couldNotEncode(refusal) == nil && calls.counts.dropped == 1)
    }

    /// Whatever happens, everything is counted once and all places are free at the end.
    @Test func everyCallIsCountedOnce() {
        for seed in 0..<200 as Range<UInt64> {
            var random = SeededGenerator(seed: seed)
            var calls = calls(3, waiting: 5)
            var (running, written): ([RequestID], [RequestID]) = ([], [])
            for _ in 0..<300 {
                let (serial, session) = (
                    SerialNumber.random(in: 1...9, using: &random), UInt64.random(in: 1...2, using: &random)
                )
                switch Int.random(in: 0..<12, using: &random) {
                case 0..<4:
                    if case .refused(let reason) = calls.receive(request(serial, on: session)) {
                        written.append(calls.queue(reason, for: request(serial), on: SessionID(session)))
                    }
                case 4, 5: if let (id, _) = calls.startNext() { running.append(id) }
                case 6, 7:
                    guard let id = running.randomElement(using: &random) else { continue }
                    running.removeAll { $0 == id }
                    guard let request = calls.handlerEnded(id) else { continue }
                    if Bool.random(using: &random) {
                        calls.endWithoutAnswer()
                    } else {
                        written.append(calls.queue(nil, for: request, on: request.session ?? SessionID(1)))
                    }
                case 8, 9: if let id = written.popLast() { _ = calls.wrote(id) }
                case 10: _ = calls.cancel(serial, on: SessionID(session))
                default: if Int.random(in: 0..<5, using: &random) == 0 { _ = calls.linkEnded(SessionID(session)) }
                }
                expectAllCounted(calls)
                #expect(calls.occupiedCount <= 3 && calls.waitingCount <= 5)
            }
            _ = calls.linkEnded(nil)
            for id in running { #expect(calls.handlerEnded(id) == nil) }
            #expect(calls.occupiedCount == 0 && calls.openCount == 0 && calls.isIdle)
            expectAllCounted(calls)
        }
    }
}
