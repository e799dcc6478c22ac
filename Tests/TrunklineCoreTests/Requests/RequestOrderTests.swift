import Testing

@testable import TrunklineCore

/// In-order matching: what may follow what, and when the answers that are due are wanted by nobody.
@Suite struct RequestOrderTests {
    private let now = Instant(nanoseconds: 0)

    /// Requests at positions 1 up to `count`.
    private func table(_ matching: ResponseMatching = .inOrder, admitting count: Int) -> RequestTable<String> {
        var table = RequestTable<String>(matching: matching, quarantine: .seconds(60))
        for ticket in 1...Ticket(count) {
            table.register(ticket, waiter: "\(ticket)", type: 7, expectsResponse: true, deadline: nil)
            _ = table.admit(ticket, at: ticket)
        }
        return table
    }

    @Test func whatIsHeldWaitsForTheAnswerToTheLatest() {
        var table = table(admitting: 2)
        #expect(!table.isHeld)
        table.hold(behind: 2)
        #expect(table.isHeld && !table.isHeldInVain)
        _ = table.answer(0, unstarted: .max)
        #expect(table.isHeld)
        _ = table.answer(0, unstarted: .max)
        #expect(!table.isHeld)
    }

    @Test func aLatestThatWasGivenUpIsWaitedForInVainUntilItsAnswerComes() {
        var table = table(admitting: 2)
        table.hold(behind: 2)
        _ = table.cancel(2, now: now, hasStarted: { _ in true })
        #expect(table.isHeld && table.isHeldInVain)
        _ = table.answer(0, unstarted: .max)
        _ = table.answer(0, unstarted: .max)
        #expect(!table.isHeld && !table.isHeldInVain)
    }

    @Test func nothingIsHeldByWhatLeftUnsentOrWithItsLink() {
        var unsent = table(admitting: 2)
        unsent.hold(behind: 2)
        _ = unsent.cancel(2, now: now, hasStarted: { _ in false })
        #expect(!unsent.isHeld)
        var lost = table(admitting: 2)
        lost.hold(behind: 2)
        _ = lost.linkLost { $0 < 2 }
        #expect(lost.isHeld)  // it goes out on the next link
        _ = lost.linkLost { $0 < 3 }
        #expect(!lost.isHeld)
        var retired = table(admitting: 2)
        retired.hold(behind: 2)
        _ = retired.retire(1, before: 3)
        #expect(!retired.isHeld)
    }

    @Test func aLinkIsForsakenWhenNobodyWaitsForWhatIsDue() {
        var table = table(admitting: 4)
        _ = table.cancel(2, now: now, hasStarted: { _ in true })
        #expect(!table.isForsaken(before: 3))  // 1 is waited for
        _ = table.cancel(1, now: now, hasStarted: { _ in true })
        #expect(table.isForsaken(before: 3))  // 3 and 4 have not started
        #expect(!table.isForsaken(before: 4))
        let isLevelBefore = table.isLevel(before: 3)
        #expect(!isLevelBefore)
        _ = table.cancel(3, now: now, hasStarted: { _ in false })
        #expect(table.isForsaken(before: 4))
        for _ in 1...2 { _ = table.answer(0, unstarted: 4) }
        let (isLevel, isLevelWithAnother) = (table.isLevel(before: 4), table.isLevel(before: 5))
        #expect(isLevel && !isLevelWithAnother && !table.isForsaken(before: 4))
    }

    @Test func linksThatWereLeftAndLinksWithSerialsAreNotForsaken() {
        var left = table(admitting: 2)
        for ticket in 1...2 as ClosedRange<Ticket> { _ = left.cancel(ticket, now: now, hasStarted: { _ in true }) }
        #expect(left.isForsaken(before: 3))
        _ = left.retire(1, before: 3)
        #expect(!left.isForsaken(before: 3))
        var serials = table(.serial(50...99), admitting: 1)
        _ = serials.cancel(1, now: now, hasStarted: { _ in true })
        #expect(!serials.isForsaken(before: 2))
    }
}
