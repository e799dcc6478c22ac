import Testing

@testable import TrunklineCore

/// Parts of replies find their request and leave it where it is.
@Suite struct RequestPartTests {
    let now = Instant(nanoseconds: 0)

    func table(_ matching: ResponseMatching, admitting count: Ticket) -> RequestTable<String> {
        var table = RequestTable<String>(matching: matching, quarantine: .seconds(60))
        for ticket in 1...count {
            table.register(ticket, waiter: "\(ticket)", type: 7, expectsResponse: true, deadline: nil)
            _ = table.admit(ticket, at: ticket)
        }
        return table
    }

    func name(_ answer: RequestTable<String>.Answer) -> String {
        switch answer {
        case .resume(_, let name): name
        case .late: "late"
        case .unknown: "unknown"
        }
    }

    @Test func aPartFindsItsRequestBySerialAndTheResponseFindsItStill() {
        var table = table(.serial(50...99), admitting: 2)
        for _ in 0..<3 { #expect(name(table.part(51, unstarted: 3, at: now)) == "2") }
        #expect(name(table.part(50, unstarted: 3, at: now)) == "1")
        #expect(name(table.answer(51, unstarted: 3)) == "2")
        #expect(name(table.part(51, unstarted: 3, at: now)) == "unknown")
        #expect(table.count == 1)
    }

    @Test func inOrderPartsBelongToTheOldestRequest() {
        var table = table(.inOrder, admitting: 2)
        for _ in 0..<3 { #expect(name(table.part(0, unstarted: 3, at: now)) == "1") }
        #expect(name(table.answer(0, unstarted: 3)) == "1")
        #expect(name(table.part(0, unstarted: 3, at: now)) == "2")
        #expect(name(table.answer(0, unstarted: 3)) == "2")
        #expect(name(table.part(0, unstarted: 3, at: now)) == "unknown")
    }

    @Test(arguments: [ResponseMatching.serial(50...99), .inOrder])
    func aPartForARequestThatWasNotWrittenIsUnknown(_ matching: ResponseMatching) {
        var table = table(matching, admitting: 1)
        #expect(name(table.part(50, unstarted: 1, at: now)) == "unknown")
        #expect(name(table.part(50, unstarted: 0, at: now)) == "unknown")
        #expect(name(table.part(50, unstarted: 2, at: now)) == "1")
    }

    @Test func inOrderThePartsOfAReplyThatWasGivenUpAreSwallowedInTheirPlace() {
        var table = table(.inOrder, admitting: 3)
        _ = table.cancel(1, now: now, hasStarted: { _ in true })
        _ = table.cancel(2, now: now, hasStarted: { _ in false })
        #expect(name(table.part(0, unstarted: 4, at: now)) == "late")
        #expect(name(table.answer(0, unstarted: 4)) == "late")
        #expect(name(table.part(0, unstarted: 4, at: now)) == "3")
    }

    /// A server that cannot cancel and takes minutes over a reply met the serial's next request with its rest.
    @Test func aLatePartKeepsItsSerialInQuarantine() {
        var table = table(.serial(50...99), admitting: 1)
        _ = table.cancel(1, now: now, hasStarted: { _ in true })
        var time = now
        for _ in 0..<10 {
            time = time.advanced(by: .seconds(50))
            #expect(name(table.part(50, unstarted: 2, at: time)) == "late")
            _ = table.nextExpired(at: time)
            #expect(table.heldSerials == 1)
        }
        _ = table.nextExpired(at: time.advanced(by: .seconds(59)))
        #expect(table.heldSerials == 1)
        _ = table.nextExpired(at: time.advanced(by: .seconds(60)))
        #expect(table.heldSerials == 0)
        #expect(table.nextDeadline == nil)
    }

    @Test func aFloodOfLatePartsTakesNoMemory() {
        var table = table(.serial(50...99), admitting: 2)
        _ = table.cancel(1, now: now, hasStarted: { _ in true })
        for step in 1...10_000 {
            _ = table.part(50, unstarted: 3, at: now.advanced(by: .microseconds(step)))
        }
        #expect(table.heldSerials == 2)
        #expect((table.serials?.quarantine.count ?? 0) < 200)
    }

    @Test(arguments: [ResponseMatching.serial(50...99), .inOrder])
    func partsOnALinkThatWasLeftFindTheRequestsThatStartedThere(_ matching: ResponseMatching) {
        var table = table(matching, admitting: 3)
        _ = table.retire(1, before: 3)
        #expect(name(table.part(50, on: 1, 1..<3, at: now)) == "1")
        #expect(name(table.part(52, unstarted: 4, at: now)) == "3")
        // The new link knows nothing of those on the old one, nor the other way round.
        if case .serial = matching {
            #expect(name(table.part(50, unstarted: 4, at: now)) == "unknown")
            #expect(name(table.part(52, on: 1, 1..<3, at: now)) == "unknown")
        }
        #expect(name(table.answer(50, on: 1, 1..<3)) == "1")
    }
}
