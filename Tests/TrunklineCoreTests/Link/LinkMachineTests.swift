import Testing

@testable import TrunklineCore
@testable import TrunklineIO

/// Which requests a link returns, and how, in every state of a request.
@Suite struct LinkMachineTests {}

extension LinkMachineTests {
    private static let matchings = [ResponseMatching.serial(50...99), .inOrder]

    // MARK: Tables

    /// The state of a request of three bytes.
    enum State: CaseIterable, Sendable { case queued, begun, written, left, givenUp }

    /// A link with one request or message in `state`. A request has the serial 50, or 1 if matched in order.
    private func link(_ matching: ResponseMatching, isMessage: Bool = false, _ state: State) -> TestedLink {
        var link = TestedLink(matching)
        link.send(1, "abc", isMessage: isMessage)
        switch state {
        case .queued: break
        case .begun: link.write(1)
        case .written: link.write()
        case .left:
            link.write()
            if isMessage { _ = link.machine.written(1) } else { _ = link.answer(50) }
        case .givenUp:
            link.write(1)
            _ = link.cancel(1)
        }
        return link
    }

    /// A draining link receives responses as before.
    enum Phase: CaseIterable, Sendable { case handshaking, ready, draining }

    @Test(arguments: matchings, Phase.allCases)
    func aRequestEndsWithExactlyOneEvent(_ matching: ResponseMatching, _ phase: Phase) {
        let serial: SerialNumber = matching == .inOrder ? 0 : 50
        let awaited = "awaited: serial \(serial), type 7"
        let rows: [(State, answer: String, cancel: String, hasStarted: Bool, isThere: Bool)] = [
            (.queued, "unknown", "not sent", false, true),
            (.begun, "1", awaited, true, true),
            (.written, "1", awaited, true, true),
            (.left, "unknown", "none", true, false),
            (.givenUp, "late", "none", true, false),
        ]
        for (state, answer, cancel, hasStarted, isThere) in rows where phase != .draining || state != .queued {
            var link = link(matching, state)
            switch phase {
            case .handshaking: break
            case .ready: link.machine.becomeReady(Liveness.Policy(), at: at(0))
            case .draining: #expect(link.machine.drain().isEmpty)
            }
            #expect(link.machine.count == (isThere ? 1 : 0), "\(state)")
            #expect(link.machine.ids == (isThere ? [1] : []), "\(state)")
            #expect(link.hasStarted(1) == hasStarted, "\(state)")
            #expect(link.holds(1) == isThere, "\(state)")
            #expect(link.machine.hasUnanswered == (hasStarted && isThere), "\(state)")
            #expect(!link.machine.hasStartedMessage, "\(state)")
            #expect(link.machine.written(1) == nil, "\(state)")
            // A part finds the request that the response would find, any number of times.
            for _ in 0..<2 { #expect(link.machine.match(50, at: at(0)).text == answer, "\(state)") }
            var answered = link
            #expect(answered.answer(50) == answer, "\(state)")
            #expect(answered.answer(50) == "unknown", "\(state)")
            #expect(answered.cancel(1) == (answer == "1" ? "none" : cancel), "\(state)")
            var cancelled = link
            #expect(cancelled.cancel(1) == cancel, "\(state)")
            #expect(cancelled.cancel(1) == "none", "\(state)")
            #expect(cancelled.answer(50) == (answer == "1" ? "late" : answer), "\(state)")
            #expect(cancelled.machine.count == 0 && cancelled.answer(50) == "unknown", "\(state)")
            var closed = link
            let remains = closed.machine.close()
            #expect(remains.unsent.map(\.id) == (state == .queued ? [1] : []), "\(state)")
            #expect(remains.lost.map(\.id) == (hasStarted && isThere ? [1] : []), "\(state)")
            #expect(closed.machine.count == 0, "\(state)")
            #expect(closed.machine.outbound.isEmpty, "\(state)")
            #expect(closed.cancel(1) == "none", "\(state)")
            var drained = link
            #expect(drained.machine.drain().map(\.id) == (state == .queued ? [1] : []), "\(state)")
            #expect(drained.answer(50) == answer, "\(state)")
        }
    }

    @Test(arguments: matchings)
    func aMessageEndsWithExactlyOneEventAndHasNoSerial(_ matching: ResponseMatching) {
        let rows: [(State, cancel: String, hasStarted: Bool, isThere: Bool)] = [
            (.queued, "not sent", false, true),
            (.begun, "sent", true, true),
            (.written, "sent", true, true),
            (.left, "none", true, false),
            (.givenUp, "none", true, false),
        ]
        for (state, cancel, hasStarted, isThere) in rows {
            var link = link(matching, isMessage: true, state)
            #expect(link.places[1] == .written, "\(state)")
            #expect(link.machine.requests.heldCount == 0, "\(state)")
            #expect(link.machine.count == (isThere ? 1 : 0), "\(state)")
            #expect(link.hasStarted(1) == hasStarted && link.holds(1) == isThere, "\(state)")
            #expect(link.machine.hasStartedMessage == (hasStarted && isThere), "\(state)")
            #expect(!link.machine.hasUnanswered, "\(state)")
            #expect(link.answer(50) == "unknown", "\(state)")
            #expect(link.reported == (state == .written || state == .left ? [1] : []), "\(state)")
            var cancelled = link
            #expect(cancelled.cancel(1) == cancel && cancelled.cancel(1) == "none", "\(state)")
            // A frame that has started is finished: another frame cannot begin within it.
            #expect(cancelled.write() == (state == .begun || state == .givenUp ? "bc" : ""), "\(state)")
            var closed = link
            let remains = closed.machine.close()
            #expect(remains.unsent.map(\.id) == (state == .queued ? [1] : []), "\(state)")
            #expect(remains.unsent.allSatisfy { !$0.expectsResponse }, "\(state)")
            #expect(remains.lost.map(\.id) == (hasStarted && isThere ? [1] : []), "\(state)")
            var drained = link
            #expect(drained.machine.drain().map(\.id) == (state == .queued ? [1] : []), "\(state)")
            drained.write()
            #expect((drained.machine.written(1) != nil) == (state != .queued && isThere), "\(state)")
            #expect(drained.machine.written(1) == nil && drained.machine.count == 0, "\(state)")
        }
    }

    /// What must be reported about a request is not forgotten when it leaves a link unsent.
    @Test(arguments: [true, false])
    func aRequestThatLeavesUnsentKeepsItsReports(isDrained: Bool) {
        var link = TestedLink()
        _ = link.machine.send(1, Frame(.request, type: 7), expectsResponse: true, reportsWritten: true)
        _ = link.machine.send(2, Frame(.request, type: 7), expectsResponse: true)
        let unsent = isDrained ? link.machine.drain() : link.machine.close().unsent
        #expect(unsent.map(\.id) == [1, 2])
        #expect(unsent.map(\.reports) == [.admissionAndWrite, .none])
    }

    /// An ID that is no longer at its place is ignored: its request has been removed, and another request has its
    /// serial.
    @Test func theIDOfARemovedRequestIsIgnored() {
        var link = TestedLink(.serial(50...50))
        link.send(1)
        link.write()
        #expect(link.answer(50) == "1")
        #expect(link.send(2) == .response(50))
        #expect(link.cancel(1) == "none" && !link.holds(1) && link.holds(2))
        link.write()
        #expect(link.answer(50) == "2")
    }

    // MARK: Fates

    /// Requests, messages and frames of the link itself, in turn, with bodies of one to three bytes.
    private func mixedLink(_ matching: ResponseMatching) -> (TestedLink, starts: [RequestID: Int], length: Int) {
        var link = TestedLink(matching)
        var (starts, length): ([RequestID: Int], Int) = ([:], 0)
        for number in 1...12 as ClosedRange<UInt64> {
            let id = RequestID(number)
            let body = Bytes(repeating: UInt8(64 + number), count: Int(number % 3) + 1)
            starts[id] = length
            length += body.count
            if number % 4 == 3 {
                starts[id] = nil
                link.machine.send(Frame(.cancel, body: body))
            } else {
                link.send(id, body, isMessage: number % 4 == 2)
            }
        }
        return (link, starts, length)
    }

    @Test(arguments: matchings, [1, 2, 5, 100])
    func aRequestIsUnsentExactlyWhenNoneOfItsBytesWasWritten(_ matching: ResponseMatching, _ step: Int) {
        let length = mixedLink(matching).length
        for written in 0...length {
            var (link, starts, _) = mixedLink(matching)
            var rest = written
            while rest > 0 { rest -= link.writeOnce(upTo: min(step, rest)).count }
            let told = link.reported.filter { link.machine.written($0) != nil }
            for id in told { starts[id] = nil }
            let unsent = starts.keys.filter { starts[$0, default: 0] >= written }.sorted()
            let lost = starts.keys.filter { starts[$0, default: 0] < written }.sorted()
            for id in starts.keys { #expect(link.hasStarted(id) == lost.contains(id), "\(written) bytes") }
            var closed = link
            let remains = closed.machine.close()
            #expect(remains.unsent.map(\.id) == unsent, "\(written) bytes")
            #expect(remains.unsent.map(\.expectsResponse) == unsent.map { $0.number % 4 != 2 }, "\(written) bytes")
            #expect(remains.unsent.map(\.frame.body.first) == unsent.map { UInt8(64 + $0.number) }, "\(written) bytes")
            // A request loses its serial; it gets another on the next link.
            #expect(remains.unsent.allSatisfy { $0.frame.serial == 0 }, "\(written) bytes")
            #expect(remains.lost.map(\.id) == lost, "\(written) bytes")
            #expect(remains.lost.map(\.id) == lost, "\(written) bytes")
            #expect(remains.unsentParts.isEmpty, "\(written) bytes")
            var drained = link
            #expect(drained.machine.drain().map(\.id) == unsent, "\(written) bytes")
            #expect(drained.machine.ids.sorted() == lost, "\(written) bytes")
            let afterDrain = drained.machine.close()
            #expect(afterDrain.unsent.isEmpty && afterDrain.lost.map(\.id) == lost, "\(written) bytes")
            for id in starts.keys.sorted() {
                #expect(link.cancel(id).hasPrefix("not sent") == unsent.contains(id), "\(written) bytes")
            }
            #expect(link.machine.count == 0, "\(written) bytes")
        }
    }

    @Test func unwrittenBytesOfAStartedFrameAreCountedWhenALinkEnds() {
        var link = TestedLink()
        link.send(1, "abcd")
        link.writeOnce(upTo: 1)
        #expect(link.machine.close().unwrittenBytes == 3)
        var unused = TestedLink()
        #expect(unused.machine.close().unwrittenBytes == 0)
    }

    @Test(arguments: matchings)
    func unsentRequestsOfADrainingLinkAreNotWrittenOnIt(_ matching: ResponseMatching) {
        var link = TestedLink(matching)
        for id in 1...3 as ClosedRange<RequestID> { link.send(id, "ab") }
        link.machine.send(Frame(.cancel, body: "cancel"))
        link.write(3)
        #expect(link.machine.drain().map(\.id) == [3])
        #expect(link.write() == "bcancel")
        #expect([50, 51, 52].map { link.answer($0) } == ["1", "2", "unknown"])
        #expect(link.machine.count == 0 && link.machine.outbound.isEmpty)
    }

    @Test func discardedFramesAreNotWritten() {
        var link = TestedLink()
        link.machine.send(Frame(.cancel, body: "closing"))
        link.write(1)
        link.machine.dropOutbound()
        #expect(link.machine.outbound.isEmpty && link.write().isEmpty)
    }

    // MARK: Serials

    @Test func aRequestHasASerialIfResponsesMatchBySerial() {
        for matching in Self.matchings {
            var link = TestedLink(matching)
            link.send(1)
            link.send(2)
            #expect(link.machine.outbound.nextPosition == 3)
            #expect(link.serial(2) == (matching == .inOrder ? 2 : 51))
            link.write()
            #expect(link.cancel(2) == "awaited: serial \(matching == .inOrder ? 0 : 51), type 7")
        }
    }

    @Test func handshakesStartAtTheirOwnSerialAndRequestsAtTheLowest() {
        var link = TestedLink(.serial(50...99), firstSerial: 87)
        for id in 1...2 as ClosedRange<RequestID> { #expect(link.send(id) == .response(86 + id.number)) }
        link.write()
        // The second request is abandoned; its serial is still held.
        #expect(link.cancel(2) == "awaited: serial 88, type 7")
        #expect(link.answer(87) == "1")
        link.machine.becomeReady(Liveness.Policy(), at: at(0))
        for id in 3...40 as ClosedRange<RequestID> { #expect(link.send(id) == .response(47 + id.number)) }
        #expect(link.send(41) == .response(89))
        link.write()
        #expect(link.answer(88) == "late")
    }

    @Test func aRequestIsNotAcceptedWhileEverySerialIsHeld() {
        var link = TestedLink(.serial(50...53))
        for id in 1...4 as ClosedRange<RequestID> { link.send(id) }
        #expect(link.machine.exhaustion.map { [$0.count, $0.abandoned] } == [4, 0])
        link.write()
        _ = link.cancel(1)
        #expect(link.machine.exhaustion.map { [$0.count, $0.abandoned] } == [4, 1])
        #expect(link.send(5) == nil)
        #expect(link.machine.count == 3 && link.machine.outbound.isEmpty)
        // Messages need no serial.
        #expect(link.send(6, isMessage: true) == .written)
        link.machine.endQuarantine(at: at(59))
        #expect(link.machine.exhaustion != nil)
        link.machine.endQuarantine(at: at(60))
        #expect(link.machine.exhaustion == nil)
        #expect(link.send(5) == .response(50))
    }

    /// A part of a late response shows that the server still works on the request.
    @Test func aLatePartProlongsTheQuarantine() {
        var link = TestedLink(.serial(50...50))
        link.send(1)
        link.write()
        _ = link.cancel(1)
        #expect(link.machine.match(50, at: at(30)).text == "late")
        link.machine.endQuarantine(at: at(89))
        #expect(link.machine.exhaustion != nil)
        link.machine.endQuarantine(at: at(90))
        #expect(link.machine.exhaustion == nil && link.answer(50) == "unknown")
    }

    // MARK: Parts

    @Test func partsFollowTheirRequestWithItsSerialAndAreReported() {
        var link = TestedLink()
        link.send(1, "head")
        link.write()
        let one = link.machine.send(part: Frame(.part, body: "one"), id: 2, of: 50)
        let two = link.machine.send(part: Frame(.part, body: "two"), id: 3, of: 50)
        let three = link.machine.send(part: Frame(.part, body: "three"), id: 4, of: 50)
        #expect(link.machine.count == 1 && link.machine.ids == [1])
        let (isRemoved, isRemovedAgain) = (link.machine.removePart(3, at: two), link.machine.removePart(3, at: two))
        #expect(isRemoved && !isRemovedAgain)
        #expect(link.write(4) == "onet" && link.reported == [2])
        #expect(link.machine.written(2) == nil)
        let haveStarted = (link.machine.removePart(4, at: three), link.machine.removePart(2, at: one))
        #expect(haveStarted == (false, false))
        #expect(link.write() == "hree" && link.reported == [2, 4])
    }

    @Test func unwrittenPartsEndWithTheirLink() {
        var link = TestedLink()
        link.send(1, "head")
        link.write()
        let part = Frame(.part, body: "part")
        for id in 2...4 as ClosedRange<RequestID> { link.machine.send(part: part, id: id, of: 50) }
        link.send(5)
        link.write(5)
        #expect(link.machine.drain().map(\.id) == [5])
        let remains = link.machine.close()
        #expect(remains.unsentParts == [4] && remains.unsent.isEmpty && remains.lost.map(\.id) == [1])
        #expect(remains.unwrittenBytes == 3)
    }

    // MARK: Frames that cannot be encoded

    @Test(arguments: matchings)
    func onlyTheFrameThatCannotBeEncodedIsRemoved(_ matching: ResponseMatching) {
        var link = TestedLink(matching)
        link.send(1, "one")
        link.send(2, "!two")
        link.send(3, "!three", isMessage: true)
        link.machine.send(Frame(.cancel, body: "!cancel"))
        link.send(4, "four")
        #expect(link.write() == "onefour")
        #expect(link.refused.map { link.machine.refused($0) } == [true, true, false])
        #expect(link.refused.map { link.machine.refused($0) } == [false, false, false])
        #expect(link.machine.ids == [1, 4] && link.machine.requests.heldCount == 2)
        #expect(link.answer(50) == "1" && link.answer(53) == (matching == .inOrder ? "4" : "unknown"))
    }

    /// Matched in order, the request is found by its place among the frames, which include messages and removed
    /// requests.
    @Test(arguments: matchings)
    func aRequestThatCannotBeEncodedIsFoundAmongOthers(_ matching: ResponseMatching) {
        var link = TestedLink(matching)
        link.send(1, "hello")
        link.write()
        _ = link.answer(50)
        link.machine.becomeReady(Liveness.Policy(), at: at(0))
        link.send(2, "a")
        link.write(1)
        link.send(3, "message", isMessage: true)
        link.send(4, "taken out")
        link.machine.send(Frame(.cancel, body: "cancel"))
        for id in 5...9 as ClosedRange<RequestID> { link.send(id, id.number % 2 == 0 ? "!" : "b") }
        _ = link.cancel(4)
        #expect(link.write() == "messagecancelbbb")
        #expect(link.refused.map { link.machine.refused($0) } == [true, true])
        #expect(link.machine.ids.sorted() == [2, 3, 5, 7, 9])
        let answers = [2, 5, 7, 9].map { link.answer(link.serial($0)) }
        #expect(answers == ["2", "5", "7", "9"])
    }

    @Test func aPartThatCannotBeEncodedDoesNotRemoveItsRequest() {
        var link = TestedLink()
        link.send(1, "head")
        link.write()
        link.machine.send(part: Frame(.part, body: "!"), id: 2, of: 50)
        link.write()
        #expect(link.refused.map { link.machine.refused($0) } == [false])
        #expect(link.answer(50) == "1")
    }

    /// Each of them is searched for among all requests in flight.
    @Test(.timeLimit(.minutes(1)), arguments: matchings)
    func manyRequestsThatCannotBeEncodedAreRemovedInReasonableTime(_ matching: ResponseMatching) {
        var link = TestedLink(matching == .inOrder ? .inOrder : .serial(1...SerialNumber.max))
        for id in 1...4000 as ClosedRange<RequestID> { link.send(id, "!") }
        link.write()
        #expect(link.refused.count { link.machine.refused($0) } == 4000)
        #expect(link.machine.count == 0)
    }

    // MARK: Pings

    @Test func pingsAreAnsweredUnless1024PongsAreQueued() {
        var link = TestedLink()
        let pong = Frame(.pong, body: "p")
        let answered = (0..<1025).map { _ in link.machine.answerPing(with: pong) }
        #expect(answered == Array(repeating: true, count: 1024) + [false])
        link.write(1)
        let isAnswered = link.machine.answerPing(with: pong)
        #expect(isAnswered)
        #expect(link.write() == String(repeating: "p", count: 1024))
    }

    // MARK: Order

    @Test func aRequestThatHoldsOthersHoldsTheLinkUntilItIsAnswered() {
        var link = TestedLink(.inOrder)
        link.send(1)
        #expect(!link.machine.isHeld)
        link.send(2, holdsOthers: true)
        #expect(link.machine.isHeld)
        link.write()
        #expect(link.answer() == "1" && link.machine.isHeld)
        #expect(link.answer() == "2" && !link.machine.isHeld)
    }

    @Test func anUnsentRequestHoldsNoOthers() {
        var cancelled = TestedLink(.inOrder)
        cancelled.send(1)
        cancelled.send(2, holdsOthers: true)
        #expect(cancelled.cancel(2) == "not sent")
        #expect(!cancelled.machine.isHeld)
        var refused = TestedLink(.inOrder)
        refused.send(1, "!", holdsOthers: true)
        refused.write()
        #expect(refused.refused.map { refused.machine.refused($0) } == [true])
        #expect(!refused.machine.isHeld)
    }

    @Test func abandoningARequestThatHoldsOthersSpendsTheLink() {
        var link = TestedLink(.inOrder)
        link.send(1)
        link.send(2, holdsOthers: true)
        link.write()
        _ = link.cancel(2)
        #expect(link.machine.isHeld && link.machine.isToBeJudged)
        let verdict = link.machine.judged(counts: true, maximumStalls: nil)
        #expect(verdict == (0, true))
        #expect(!link.machine.isToBeJudged)
        #expect(link.answer() == "1" && link.answer() == "late")
        #expect(!link.machine.isHeld)
    }

    // MARK: Stalls

    /// A request that times out on a link without other unanswered requests.
    private func timedOut(_ id: RequestID, on link: inout TestedLink) {
        link.send(id)
        link.write()
        _ = link.cancel(id, isTimeout: true)
    }

    @Test func withSerialsTimeoutsCountAndALinkIsNeverSpent() {
        var link = TestedLink()
        for id in 1...5 as ClosedRange<RequestID> { timedOut(id, on: &link) }
        #expect(link.machine.isToBeJudged)
        #expect(link.machine.judged(counts: true, maximumStalls: 1) == (5, false))
        #expect(!link.machine.isToBeJudged)
        #expect(link.machine.judged(counts: true, maximumStalls: 1) == (0, false))
        // A request that its caller cancels does not count against the server.
        link.send(6)
        link.write()
        _ = link.cancel(6)
        #expect(!link.machine.isToBeJudged)
        timedOut(7, on: &link)
        #expect(link.machine.judged(counts: false, maximumStalls: 1) == (0, false))
    }

    @Test func inOrderALinkIsSpentAfterMaximumStalls() {
        var link = TestedLink(.inOrder)
        for id in 1...2 as ClosedRange<RequestID> {
            timedOut(id, on: &link)
            #expect(link.machine.judged(counts: true, maximumStalls: 3) == (1, false))
        }
        // After one late response, the link is as far behind as before.
        #expect(link.answer() == "late")
        timedOut(3, on: &link)
        #expect(link.machine.judged(counts: true, maximumStalls: 3) == (1, true))
    }

    @Test func inOrderALinkThatHasCaughtUpStartsOver() {
        var link = TestedLink(.inOrder)
        for id in 1...2 as ClosedRange<RequestID> {
            timedOut(id, on: &link)
            _ = link.machine.judged(counts: true, maximumStalls: 3)
        }
        #expect(link.answer() == "late" && link.answer() == "late")
        for id in 3...4 as ClosedRange<RequestID> {
            timedOut(id, on: &link)
            #expect(link.machine.judged(counts: true, maximumStalls: 3) == (1, false))
        }
        // The same is true of a link that drains.
        _ = link.machine.drain()
        timedOut(5, on: &link)
        #expect(link.machine.judged(counts: true, maximumStalls: 3) == (1, false))
    }

    @Test func aLinkIsSpentAtOnceWithALimitOfZeroAndNeverWithoutALimit() {
        var link = TestedLink(.inOrder)
        timedOut(1, on: &link)
        var (strict, patient) = (link, link)
        #expect(strict.machine.judged(counts: true, maximumStalls: 0) == (1, true))
        #expect(patient.machine.judged(counts: true, maximumStalls: nil) == (1, false))
        // Timeouts while the client does not read do not count against the server.
        #expect(link.machine.judged(counts: false, maximumStalls: 1) == (0, false))
    }

    @Test func noTimeoutCountsWhileACallerWaitsForTheNextResponse() {
        var link = TestedLink(.inOrder)
        link.send(1)
        timedOut(2, on: &link)
        #expect(link.machine.judged(counts: true, maximumStalls: 1) == (0, false))
        #expect(link.answer() == "1")
        // A caller waits for request 3, so the link is not stalled. But no caller waits for the next response, to
        // request 2.
        link.send(3)
        timedOut(4, on: &link)
        #expect(link.machine.judged(counts: true, maximumStalls: 1) == (1, false))
    }

    @Test func aCancelledRequestIsNotAStall() {
        var link = TestedLink(.inOrder)
        link.send(1)
        link.write()
        _ = link.cancel(1)
        #expect(link.machine.isToBeJudged)
        #expect(link.machine.judged(counts: true, maximumStalls: 1) == (0, false))
    }

    @Test func anUnsentRequestThatTimesOutBehindOthersCountsLikeThem() {
        var link = TestedLink(.inOrder)
        timedOut(1, on: &link)
        _ = link.machine.judged(counts: true, maximumStalls: 3)
        link.machine.noteTimedOutUnsent(asIfWritten: false)
        #expect(link.machine.isToBeJudged)
        #expect(link.machine.judged(counts: true, maximumStalls: 2) == (1, false))
        link.machine.noteTimedOutUnsent(asIfWritten: true)
        #expect(link.machine.judged(counts: true, maximumStalls: 2) == (1, true))
        // An unsent request alone is not counted.
        link.send(2)
        _ = link.cancel(2, isTimeout: true)
        #expect(!link.machine.isToBeJudged)
    }

    // MARK: Use

    @Test func aLinkIsUsedOnceAByteOfARequestWasWritten() {
        var link = TestedLink()
        #expect(!link.machine.wasUsed)
        link.send(1)
        #expect(!link.machine.wasUsed)
        link.write(1)
        #expect(link.machine.wasUsed)
    }

    /// Requests of the handshake do not count.
    @Test(arguments: matchings)
    func aReadyLinkIsUsedOnceAByteOfARequestWasWritten(_ matching: ResponseMatching) {
        var link = TestedLink(matching)
        link.send(1)
        link.write()
        #expect(link.machine.wasUsed)
        _ = link.answer(50)
        link.machine.becomeReady(Liveness.Policy(), at: at(0))
        #expect(!link.machine.wasUsed)
        link.send(2)
        #expect(!link.machine.wasUsed)
        link.write(1)
        #expect(link.machine.wasUsed)
    }

    /// Requests that the handshake abandoned do not count against the ready link.
    @Test(arguments: matchings)
    func aReadyLinkHasNoStalls(_ matching: ResponseMatching) {
        var link = TestedLink(matching)
        for id in 1...2 as ClosedRange<RequestID> {
            link.send(id)
            link.write()
            _ = link.cancel(id, isTimeout: true)
            if id == 1 { _ = link.machine.judged(counts: true, maximumStalls: 3) }
        }
        #expect(link.machine.isToBeJudged)
        link.machine.becomeReady(Liveness.Policy(), at: at(0))
        #expect(!link.machine.isToBeJudged)
        link.send(3)
        link.write()
        _ = link.cancel(3, isTimeout: true)
        // The first stall, not the third.
        let verdict = link.machine.judged(counts: true, maximumStalls: 2)
        #expect(verdict == (1, false))
    }

    // MARK: Many requests

    /// Thousands of requests wait to be written and time out together. Each one searched all the others: 20,000
    /// requests blocked the event loop for most of a minute in a debug build.
    @Test(.timeLimit(.minutes(5)), arguments: [false, true])
    func manyUnsentRequestsAreCancelledInReasonableTime(_ areEncoded: Bool) {
        var link = TestedLink(.inOrder)
        for id in 1...60_000 as ClosedRange<RequestID> { link.send(id) }
        if areEncoded { link.writeOnce(upTo: 1) }
        for id in 1...60_000 as ClosedRange<RequestID> { _ = link.cancel(id) }
        #expect(link.machine.count == 0 && link.machine.requests.heldCount == (areEncoded ? 1 : 0))
        #expect(link.answer() == (areEncoded ? "late" : "unknown"))
    }
}
