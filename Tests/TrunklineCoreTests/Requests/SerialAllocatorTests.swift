import Testing

@testable import TrunklineCore

@Suite struct SerialAllocatorTests {
    let start = Instant(nanoseconds: 0)
    func at(_ seconds: Int) -> Instant { start.advanced(by: .seconds(seconds)) }

    /// A response has come under `serial`: whose it was.
    func answer(_ serial: SerialNumber, _ serials: inout SerialAllocator) -> SerialAllocator.Holding {
        serials.take(answered: serial)
    }

    @Test func serialsGoUpAndWrapToTheLowerBound() {
        var serials = SerialAllocator(50...52)
        #expect(serials.take(for: 1) == 50)
        #expect(serials.take(for: 2) == 51)
        #expect(answer(50, &serials) == .request(1))
        #expect(serials.take(for: 3) == 52)
        #expect(serials.take(for: 4) == 50)
    }

    @Test func theWholeRangeOfThirtyTwoBitsWraps() {
        var serials = SerialAllocator(UInt64(UInt32.max) - 1...UInt64(UInt32.max))
        #expect(serials.take(for: 1) == UInt64(UInt32.max) - 1)
        #expect(serials.take(for: 2) == UInt64(UInt32.max))
        #expect(serials.take(for: 3) == nil)
    }

    @Test func theWholeRangeOfSixtyFourBitsDoesNotOverflow() {
        var serials = SerialAllocator(0...UInt64.max)
        #expect(serials.take(for: 1) == 0)
    }

    @Test func whatIsInFlightIsSkipped() {
        var serials = SerialAllocator(1...4)
        for ticket in 1...4 as ClosedRange<UInt64> { #expect(serials.take(for: ticket) == ticket) }
        #expect(answer(3, &serials) == .request(3))
        #expect(serials.take(for: 5) == 3)
    }

    @Test func aFullRangeIsExhaustedUntilOneIsGivenBack() {
        var serials = SerialAllocator(1...2)
        _ = serials.take(for: 1)
        _ = serials.take(for: 2)
        #expect(serials.take(for: 3) == nil)
        serials.release(2)
        #expect(serials.take(for: 3) == 2)
    }

    @Test func aQuarantinedSerialIsSkippedUntilTheServerAnswers() {
        var serials = SerialAllocator(1...2)
        _ = serials.take(for: 1)
        serials.quarantine(1, until: at(60))
        #expect(serials.take(for: 2) == 2)
        #expect(serials.take(for: 3) == nil)
        #expect(answer(1, &serials) == .late)
        #expect(serials.take(for: 3) == 1)
    }

    @Test func quarantineEndsWithItsTime() {
        var serials = SerialAllocator(1...1)
        _ = serials.take(for: 1)
        serials.quarantine(1, until: at(60))
        serials.endQuarantine(at: at(59))
        #expect(serials.take(for: 2) == nil)
        #expect(serials.nextQuarantineEnd == at(60))
        serials.endQuarantine(at: at(60))
        #expect(serials.nextQuarantineEnd == nil)
        #expect(serials.take(for: 2) == 1)
    }

    // Answered early, taken again, given up again: the first quarantine's end must not free the second.
    @Test func anOldQuarantineDoesNotEndANewOne() {
        var serials = SerialAllocator(1...1)
        _ = serials.take(for: 1)
        serials.quarantine(1, until: at(10))
        #expect(answer(1, &serials) == .late)
        _ = serials.take(for: 2)
        serials.quarantine(1, until: at(20))
        serials.endQuarantine(at: at(10))
        #expect(serials.take(for: 3) == nil)
        serials.endQuarantine(at: at(20))
        #expect(serials.take(for: 3) == 1)
    }

    @Test func aDuplicateAnswerIsUnknown() {
        var serials = SerialAllocator(1...9)
        _ = serials.take(for: 7)
        #expect(answer(1, &serials) == .request(7))
        #expect(answer(1, &serials) == .unknown)
    }

    @Test func aLostLinkEndsEveryQuarantineButHoldsRequests() {
        var serials = SerialAllocator(1...3)
        _ = serials.take(for: 1)
        _ = serials.take(for: 2)
        serials.quarantine(1, until: at(60))
        serials.linkLost()
        #expect(serials.takenCount == 1)
        #expect(answer(2, &serials) == .request(2))
    }

    /// Requests that are given up and answered soon, behind one that is never answered: each left an entry for as long
    /// as its quarantine would have lasted.
    @Test func answeredQuarantinesDoNotAccumulate() {
        var serials = SerialAllocator(1...SerialNumber.max)
        for ticket in 1...100_000 as ClosedRange<Ticket> {
            guard let serial = serials.take(for: ticket) else { return }
            serials.quarantine(serial, until: Instant(nanoseconds: Int64(ticket)))
            if ticket > 1 { #expect(serials.take(answered: serial) == .late) }
        }
        #expect(serials.takenCount == 1)
        #expect(serials.quarantine.count < 100)
        serials.endQuarantine(at: Instant(nanoseconds: 1))
        #expect(serials.takenCount == 0)
    }
}
