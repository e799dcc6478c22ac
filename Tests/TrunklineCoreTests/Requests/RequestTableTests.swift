import Testing

@testable import TrunklineCore

@Suite struct RequestTableTests {
    let now = Instant(nanoseconds: 0)

    func table(_ matching: ResponseMatching = .serial(50...99)) -> RequestTable<String> {
        RequestTable(matching: matching, quarantine: .seconds(60))
    }

    /// Registers and admits one request at `position`; returns its serial.
    @discardableResult
    func admit(_ name: String, _ ticket: Ticket, into table: inout RequestTable<String>) -> SerialNumber? {
        table.register(ticket, waiter: name, type: 7, expectsResponse: true, deadline: nil)
        return table.admit(ticket, at: ticket)
    }

    @Test func aResponseFindsItsRequestOnce() {
        var table = table()
        let serial = admit("a", 1, into: &table)
        #expect(serial == 50)
        guard case .resume(1, "a") = table.answer(50, unstarted: .max) else { return #expect(Bool(false), "not found") }
        guard case .unknown = table.answer(50, unstarted: .max) else { return #expect(Bool(false), "found twice") }
        #expect(table.isEmpty)
    }

    @Test(arguments: [ResponseMatching.serial(50...99), .inOrder])
    func aResponseToARequestThatWasNotWrittenIsUnknown(_ matching: ResponseMatching) {
        var table = table(matching)
        admit("a", 1, into: &table)
        guard case .unknown = table.answer(50, unstarted: 1) else { return #expect(Bool(false), "answered unasked") }
        guard case .resume(1, "a") = table.answer(50, unstarted: 2) else { return #expect(Bool(false), "lost") }
    }

    @Test func aRequestThatIsNotAdmittedIsCancelledAsNotSent() {
        var table = table()
        table.register(1, waiter: "a", type: 7, expectsResponse: true, deadline: nil)
        guard case .notSent("a", 0) = table.cancel(1, now: now, hasStarted: { _ in true }) else {
            return #expect(Bool(false), "not reported as unsent")
        }
        #expect(table.heldSerials == 0)
    }

    @Test func aQueuedRequestIsCancelledAsNotSentAndGivesItsSerialBack() {
        var table = table()
        admit("a", 1, into: &table)
        guard case .notSent("a", 1) = table.cancel(1, now: now, hasStarted: { _ in false }) else {
            return #expect(Bool(false), "not reported as unsent")
        }
        #expect(table.heldSerials == 0)
    }

    /// The quarantine of a link that was left went on when the link was closed: after a few timeouts and a switch for
    /// the error rate, a protocol with few serials had none for the new link, for a minute.
    @Test(arguments: [false, true])
    func quarantineEndsWithTheLinkOfTheRequestAndNoOther(_ isLost: Bool) {
        var table = table()
        for ticket in 1...2 as ClosedRange<Ticket> { admit("\(ticket)", ticket, into: &table) }
        _ = table.cancel(1, now: now, hasStarted: { _ in true })
        #expect(table.retire(1, before: 3) == 1)
        admit("3", 3, into: &table)
        _ = table.cancel(3, now: now, hasStarted: { _ in true })
        #expect(table.heldSerials == 3)
        if isLost {
            #expect(table.retiredLinkLost(1, 1..<3).map(\.waiter) == ["2"])
        } else {
            _ = table.answer(51, on: 1, 1..<3)
            #expect(table.drainedSessions == [1])
            table.forgetRetired(1)
        }
        // That of the link that stays.
        #expect(table.heldSerials == 1)
        guard case .late = table.answer(52, unstarted: 4) else { return #expect(Bool(false), "forgotten") }
    }

    /// The other way round: the new link is lost while the old one may still answer late.
    @Test func theLossOfTheNewLinkDoesNotEndTheQuarantineOfTheOldOne() {
        var table = table()
        for ticket in 1...2 as ClosedRange<Ticket> { admit("\(ticket)", ticket, into: &table) }
        _ = table.cancel(1, now: now, hasStarted: { _ in true })
        _ = table.retire(1, before: 3)
        admit("3", 3, into: &table)
        _ = table.cancel(3, now: now, hasStarted: { _ in true })
        #expect(table.linkLost(hasStarted: { $0 < 4 }).isEmpty)
        #expect(table.heldSerials == 2)
        guard case .late = table.answer(50, on: 1, 1..<3) else { return #expect(Bool(false), "forgotten") }
    }

    /// Those on a link that was left were kept from the new one.
    @Test func aNewLinkHasEverySerialButThoseThatMoveOver() {
        var table = table(.serial(50...53))
        for ticket in 1...4 as ClosedRange<Ticket> { admit("\(ticket)", ticket, into: &table) }
        _ = table.cancel(1, now: now, hasStarted: { _ in true })
        #expect(table.exhaustion.map { [$0.count, $0.abandoned] } == [4, 1])
        #expect(table.retire(7, before: 4) == 2)
        #expect(table.exhaustion == nil && table.heldSerials == 4)
        // 4 has not started: it has its serial, 53, on the new link.
        #expect((5...7).map { admit("\($0)", $0, into: &table) } == [50, 51, 52])
        table.register(8, waiter: "8", type: 7, expectsResponse: true, deadline: nil)
        #expect(table.admit(8, at: 8) == nil)
        // The same serial is another request's on each link.
        guard case .resume(2, "2") = table.answer(51, on: 7, 1..<4) else { return #expect(Bool(false), "not 2") }
        guard case .resume(6, "6") = table.answer(51, unstarted: 9) else { return #expect(Bool(false), "not 6") }
        guard case .late = table.answer(50, on: 7, 1..<4) else { return #expect(Bool(false), "not late") }
        guard case .resume(4, "4") = table.answer(53, unstarted: 9) else { return #expect(Bool(false), "not 4") }
        guard case .unknown = table.answer(53, on: 7, 1..<4) else { return #expect(Bool(false), "4 is not there") }
        #expect(table.drainedSessions.isEmpty)
        _ = table.cancel(3, now: now, hasStarted: { _ in true })
        #expect(table.drainedSessions == [7] && table.retiredAbandonedCount == 1 && table.abandonedCount == 0)
        table.forgetRetired(7)
        #expect(table.heldSerials == 2 && table.retiredAbandonedCount == 0)
    }

    @Test(arguments: [ResponseMatching.serial(50...99), .inOrder])
    func whatIsGivenUpCountsUntilItIsAnsweredOrItsLinkEnds(_ matching: ResponseMatching) {
        var table = table(matching)
        for ticket in 1...6 as ClosedRange<Ticket> { admit("\(ticket)", ticket, into: &table) }
        for ticket in 1...2 as ClosedRange<Ticket> { _ = table.cancel(ticket, now: now, hasStarted: { _ in true }) }
        _ = table.cancel(6, now: now, hasStarted: { _ in false })
        #expect(table.abandonedCount == 2)
        guard case .late = table.answer(50, unstarted: 3) else { return #expect(Bool(false), "not late") }
        #expect(table.abandonedCount == 1)
        _ = table.retire(1, before: 3)
        _ = table.cancel(3, now: now, hasStarted: { _ in true })
        #expect(table.abandonedCount == 1 && table.retiredAbandonedCount == 1)
        guard case .late = table.answer(51, on: 1, 1..<3) else { return #expect(Bool(false), "not late") }
        #expect(table.abandonedCount == 1 && table.retiredAbandonedCount == 0)
        _ = table.linkLost { $0 < 6 }
        #expect(table.abandonedCount == 0)
        admit("7", 7, into: &table)
        _ = table.cancel(7, now: now, hasStarted: { _ in true })
        _ = table.retire(2, before: 8)
        _ = table.retiredLinkLost(2, 1..<8)
        #expect(table.abandonedCount == 0 && table.retiredAbandonedCount == 0)
        admit("8", 8, into: &table)
        _ = table.cancel(8, now: now, hasStarted: { _ in true })
        _ = table.removeAll()
        #expect(table.abandonedCount == 0)
    }

    @Test func withSerialsWhatIsGivenUpCountsUntilItsQuarantineEnds() {
        var table = table()
        for ticket in 1...2 as ClosedRange<Ticket> { admit("\(ticket)", ticket, into: &table) }
        _ = table.cancel(1, now: now, hasStarted: { _ in true })
        _ = table.part(50, unstarted: 3, at: now.advanced(by: .seconds(30)))
        _ = table.retire(1, before: 2)
        _ = table.cancel(2, now: now, hasStarted: { _ in true })
        #expect(table.nextDeadline == now.advanced(by: .seconds(60)))
        #expect(table.nextExpired(at: now.advanced(by: .seconds(89))) == nil)
        #expect(table.abandonedCount == 0 && table.retiredAbandonedCount == 1)
        #expect(table.nextExpired(at: now.advanced(by: .seconds(90))) == nil)
        #expect(table.retiredAbandonedCount == 0 && table.heldSerials == 0)
    }

    @Test func inOrderTheOldestThatWasGivenUpSaysHowLongToWait() {
        var table = table(.inOrder)
        for ticket in 1...3 as ClosedRange<Ticket> { admit("\(ticket)", ticket, into: &table) }
        _ = table.cancel(2, now: now, hasStarted: { _ in true })
        let none = table.oldestAbandonedUntil()  // 1 is waited for
        #expect(none == nil)
        _ = table.answer(0, unstarted: 4)
        let first = table.oldestAbandonedUntil()
        #expect(first == now.advanced(by: .seconds(60)))
        _ = table.part(0, unstarted: 4, at: now.advanced(by: .seconds(10)))
        let second = table.oldestAbandonedUntil()
        #expect(second == now.advanced(by: .seconds(70)))
        _ = table.answer(0, unstarted: 4)
        let last = table.oldestAbandonedUntil()
        #expect(last == nil && table.abandonedCount == 0)
    }

    @Test func noSerialIsHeldOnceEverybodyIsHandedOut() {
        var table = table()
        for ticket in 1...4 as ClosedRange<Ticket> { admit("\(ticket)", ticket, into: &table) }
        _ = table.cancel(2, now: now, hasStarted: { _ in true })
        _ = table.cancel(3, now: now, hasStarted: { _ in false })
        #expect(table.removeAll().map(\.ticket) == [1, 4])
        #expect(table.heldSerials == 0)
        #expect(table.nextDeadline == nil)
    }

    @Test func aRequestThatIsRestoredHasItsDeadlineStillAndGetsANewSerial() {
        var table = table()
        let deadline = Instant(nanoseconds: 100)
        table.register(1, waiter: "a", type: 7, expectsResponse: true, deadline: deadline)
        #expect(table.admit(1, at: 1) == 50)
        #expect(table.linkLost(hasStarted: { _ in true }).map(\.waiter) == ["a"])
        table.restore(1, waiter: "a again", type: 7, expectsResponse: true)
        table.setWaiter("a once more", of: 1)
        table.setWaiter("nobody", of: 2)
        #expect(table.count == 1)
        #expect(table.admit(1, at: 2) == 51)
        #expect(table.nextExpired(at: Instant(nanoseconds: 99)) == nil)
        #expect(table.nextExpired(at: deadline) == 1)
        guard case .sent("a once more", serial: 51, type: 7) = table.cancel(1, now: now, hasStarted: { _ in true })
        else { return #expect(Bool(false), "not reported as sent") }
        #expect(table.isEmpty)
    }

    @Test func aWrittenRequestIsCancelledWithQuarantine() {
        var table = table()
        admit("a", 1, into: &table)
        guard case .sent("a", serial: 50, type: 7) = table.cancel(1, now: now, hasStarted: { _ in true }) else {
            return #expect(Bool(false), "not reported as sent")
        }
        #expect(table.heldSerials == 1)
        guard case .late = table.answer(50, unstarted: .max) else {
            return #expect(Bool(false), "the answer was not late")
        }
        #expect(table.heldSerials == 0)
    }

    @Test func cancellingWhatHasLeftDoesNothing() {
        var table = table()
        admit("a", 1, into: &table)
        _ = table.answer(50, unstarted: .max)
        guard case .none = table.cancel(1, now: now, hasStarted: { _ in true }) else {
            return #expect(Bool(false), "it left twice")
        }
    }

    @Test func inOrderResponsesGoToTheOldestRequest() {
        var table = table(.inOrder)
        admit("a", 1, into: &table)
        admit("b", 2, into: &table)
        guard case .resume(1, "a") = table.answer(0, unstarted: .max),
            case .resume(2, "b") = table.answer(0, unstarted: .max)
        else {
            return #expect(Bool(false), "out of order")
        }
    }

    @Test func inOrderTheLateReplyOfACancelledRequestIsSwallowedInItsPlace() {
        var table = table(.inOrder)
        admit("a", 1, into: &table)
        admit("b", 2, into: &table)
        _ = table.cancel(1, now: now, hasStarted: { _ in true })
        guard case .late = table.answer(0, unstarted: .max) else { return #expect(Bool(false), "a's reply went to b") }
        guard case .resume(2, "b") = table.answer(0, unstarted: .max) else {
            return #expect(Bool(false), "b lost its reply")
        }
    }

    @Test func inOrderAnUnsentCancelledRequestExpectsNoReply() {
        var table = table(.inOrder)
        admit("a", 1, into: &table)
        admit("b", 2, into: &table)
        _ = table.cancel(1, now: now, hasStarted: { _ in false })
        guard case .resume(2, "b") = table.answer(0, unstarted: .max) else {
            return #expect(Bool(false), "b lost its reply")
        }
        guard case .unknown = table.answer(0, unstarted: .max) else {
            return #expect(Bool(false), "a place was left over")
        }
    }

    @Test func aLostLinkTakesWhatHadStartedAndKeepsTheRest() {
        for matching in [ResponseMatching.serial(50...99), .inOrder] {
            var table = table(matching)
            for ticket in 1...4 as ClosedRange<UInt64> { admit("\(ticket)", ticket, into: &table) }
            _ = table.cancel(2, now: now, hasStarted: { _ in true })
            let lost = table.linkLost { $0 <= 3 }
            #expect(lost.map(\.waiter) == ["1", "3"])
            #expect(table.tickets == [4])
            guard case .resume(4, "4") = table.answer(53, unstarted: .max) else {
                return #expect(Bool(false), "4 is lost")
            }
        }
    }

    @Test func anExpiredRequestIsFoundOnceAndDeadOnesAreNot() {
        var table = table()
        for ticket in 1...3 as ClosedRange<UInt64> {
            let deadline = now.advanced(by: .seconds(Int(ticket)))
            table.register(ticket, waiter: "\(ticket)", type: 7, expectsResponse: true, deadline: deadline)
            _ = table.admit(ticket, at: ticket)
        }
        _ = table.answer(50, unstarted: .max)
        let late = now.advanced(by: .seconds(2))
        #expect(table.nextExpired(at: late) == 2)
        _ = table.cancel(2, now: late, hasStarted: { _ in true })
        #expect(table.nextExpired(at: late) == nil)
        #expect(table.nextDeadline == now.advanced(by: .seconds(3)))
    }

    @Test func aOneWayMessageTakesNoSerialAndNoPlace() {
        for matching in [ResponseMatching.serial(50...99), .inOrder] {
            var table = table(matching)
            table.register(1, waiter: "post", type: 7, expectsResponse: false, deadline: nil)
            #expect(table.admit(1, at: 1) == 0)
            #expect(table.heldSerials == 0)
            guard case .unknown = table.answer(0, unstarted: .max) else {
                return #expect(Bool(false), "it got a reply")
            }
            #expect(table.take(1) == "post")
            #expect(table.isEmpty)
        }
    }

    /// The table against every order of events: nobody leaves twice, nobody stays.
    @Test(arguments: [ResponseMatching.serial(1...40), .inOrder])
    func everyWaiterLeavesExactlyOnce(_ matching: ResponseMatching) {
        for seed in seeds(200) {
            var generator = SeededGenerator(seed: seed)
            var table = table(matching)
            var left: [String: Int] = [:]
            var ticket: Ticket = 0
            var waiting: [Ticket] = []
            var position: OutboundPosition = 0
            var started: OutboundPosition = 0
            var clock = now
            for _ in 0..<300 {
                clock = clock.advanced(by: .milliseconds(Int.random(in: 0...200, using: &generator)))
                switch Int.random(in: 0..<10, using: &generator) {
                case 0...3:
                    ticket += 1
                    table.register(
                        ticket,
                        waiter: "\(ticket)",
                        type: 7,
                        expectsResponse: true,
                        deadline: clock.advanced(by: .seconds(Int.random(in: 1...20, using: &generator)))
                    )
                    waiting.append(ticket)
                case 4:
                    waiting.removeAll {
                        table.admit($0, at: position + 1) != nil
                            ? {
                                position += 1; return true
                            }() : table[$0] == nil
                    }
                case 5: started = max(started, UInt64.random(in: 0...position, using: &generator))
                case 6, 7:
                    if case .resume(_, let waiter) = table.answer(
                        .random(in: 0...41, using: &generator),
                        unstarted: started + 1
                    ) {
                        left[waiter, default: 0] += 1
                    }
                case 8:
                    switch table.cancel(
                        .random(in: 0...ticket, using: &generator),
                        now: clock,
                        hasStarted: { $0 <= started }
                    ) {
                    case .none: break
                    case .notSent(let waiter, _), .sent(let waiter, _, _): left[waiter, default: 0] += 1
                    }
                default:
                    if Int.random(in: 0..<10, using: &generator) == 0 {
                        started = max(started, position)
                        for (_, waiter) in table.linkLost(hasStarted: { $0 <= started }) {
                            left[waiter, default: 0] += 1
                        }
                    }
                    while let expired = table.nextExpired(at: clock) {
                        switch table.cancel(expired, now: clock, hasStarted: { $0 <= started }) {
                        case .none: #expect(Bool(false), "expired without being there")
                        case .notSent(let waiter, _), .sent(let waiter, _, _): left[waiter, default: 0] += 1
                        }
                    }
                }
            }
            for (_, entry) in table.removeAll() { left[entry.waiter, default: 0] += 1 }
            #expect(left.count == Int(ticket), "seed \(seed)")
            #expect(left.values.allSatisfy { $0 == 1 }, "seed \(seed)")
        }
    }
}
