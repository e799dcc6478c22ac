import Testing

@testable import TrunklineCore
@testable import TrunklineIO

private typealias Table = InFlightTable

/// Serials: which one a request gets, and when it is free again.
@Suite struct InFlightTableTests {}

extension InFlightTableTests {
    private func table(_ range: ClosedRange<SerialNumber>, _ count: UInt64 = 0) -> Table {
        var table = Table(matching: .serial(range))
        for number in 0..<count { _ = table.insert(number: number + 1, type: 7) }
        return table
    }

    @Test func aResponseFindsItsRequestOnce() {
        var table = table(50...99, 1)
        #expect(table[50]?.id == 1 && table[50]?.type == 7 && table[50]?.position == 1)
        #expect(table.takeAnswered(50, before: .max) == .request(1, 1))
        #expect(table.takeAnswered(50, before: .max).text == "unknown")
        #expect(table.takeAnswered(51, before: .max).text == "unknown")
        #expect(table.count == 0 && table.heldCount == 0)
    }

    @Test(arguments: [ResponseMatching.serial(50...99), .inOrder])
    func aResponseToARequestThatWasNotWrittenIsUnknown(_ matching: ResponseMatching) {
        var table = Table(matching: matching)
        _ = table.insert(1, type: 7, at: 1)
        #expect(table.takeAnswered(50, before: 1).text == "unknown")
        #expect(table.match(50, before: 1, prolongingTo: at(1)).text == "unknown")
        #expect(table.match(50, before: 0, prolongingTo: at(1)).text == "unknown")
        #expect(table.count == 1)
        #expect(table.match(50, before: 2, prolongingTo: at(1)).text == "1")
        #expect(table.takeAnswered(50, before: 2).text == "1")
    }

    // MARK: Choosing a serial

    @Test func serialsGoUpAndWrapToTheLowerBound() {
        var table = table(50...52)
        #expect(table.insert(1, type: 0, at: 1) == 50)
        #expect(table.insert(2, type: 0, at: 2) == 51)
        _ = table.takeAnswered(50, before: 3)
        #expect(table.insert(3, type: 0, at: 3) == 52)
        #expect(table.insert(4, type: 0, at: 4) == 50)
    }

    @Test func theWholeRangeOfThirtyTwoBitsWraps() {
        var table = table(UInt64(UInt32.max) - 1...UInt64(UInt32.max))
        #expect(table.insert(1, type: 0, at: 1) == UInt64(UInt32.max) - 1)
        #expect(table.insert(2, type: 0, at: 2) == UInt64(UInt32.max))
        #expect(table.insert(3, type: 0, at: 3) == nil)
    }

    @Test func theWholeRangeOfSixtyFourBitsDoesNotOverflow() {
        var table = Table(matching: .serial(0...UInt64.max), firstSerial: .max)
        #expect(table.insert(1, type: 0, at: 1) == .max)
        #expect(table.insert(2, type: 0, at: 2) == 0)
        #expect(!table.isExhausted)
    }

    @Test func theFirstSerialCanBeChosenAndStartingOverBeginsAtTheLowest() {
        var table = Table(matching: .serial(50...99), firstSerial: 87)
        #expect(table.insert(1, type: 0, at: 1) == 87)
        #expect(table.insert(2, type: 0, at: 2) == 88)
        table.startOver()
        #expect(table.insert(3, type: 0, at: 3) == 50)
        table.startOver()
        #expect(table.insert(4, type: 0, at: 4) == 51)
        var inOrder = Table(matching: .inOrder)
        #expect(inOrder.insert(1, type: 0, at: 1) == 1)
        inOrder.startOver()
        #expect(inOrder.insert(2, type: 0, at: 2) == 2)
        #expect(inOrder.takeAnswered(0, before: 3).text == "1")
    }

    @Test func serialsInFlightAreSkipped() {
        var table = table(1...4, 4)
        #expect(table.takeAnswered(3, before: 5).text == "3")
        #expect(table.insert(5, type: 0, at: 5) == 3)
    }

    @Test func aFullRangeIsExhaustedUntilASerialIsFree() {
        var table = table(1...2, 2)
        #expect(table.isExhausted)
        #expect(table.insert(3, type: 0, at: 3) == nil)
        #expect(table.count == 2)
        #expect(table.remove(2)?.id == 2)
        #expect(!table.isExhausted)
        #expect(table.insert(3, type: 0, at: 3) == 2)
    }

    /// Regression: with one serial free of many, each request passed all the others.
    @Test func aSerialIsFoundWithoutASearchAmongMany() {
        let span = 16_384
        var table = Table(matching: .serial(1...UInt64(span)))
        var model: Set<SerialNumber> = []
        for number in 1..<UInt64(span) { model.insert(table.insert(number: number) ?? 0) }
        var generator = SeededGenerator(seed: 1)
        for number in UInt64(span)..<UInt64(3 * span) {
            let serial = SerialNumber.random(in: 1...UInt64(span), using: &generator)
            if model.remove(serial) != nil { _ = table.takeAnswered(serial, before: .max) }
            if table.isExhausted { continue }
            let next = table.insert(number: number) ?? 0
            #expect((1...UInt64(span)).contains(next) && model.insert(next).inserted)
        }
        #expect(table.heldCount == model.count)
        #expect(table.visitedCount <= 2 * span)
        // With most of them free, the search is used again.
        for serial in model.sorted().dropLast(100) { _ = table.takeAnswered(serial, before: .max) }
        for number in 1...UInt64(span - 100) { #expect(table.insert(number: number) != nil) }
        #expect(table.isExhausted && table.visitedCount <= 4 * span)
    }

    /// Regression: each request that could not be encoded passed all requests in flight, and so did each batch of
    /// timeouts.
    @Test func requestsThatWereNotSentAreFoundWithoutASearchAmongMany() {
        let count: UInt64 = 10_000
        var table = Table(matching: .inOrder)
        for number in 1...2 * count { _ = table.insert(number: number) }
        for number in (count + 1)...(2 * count) where number % 3 != 0 {
            let position = OutboundPosition(number)
            #expect(table.removeInOrder(at: position)?.id == RequestID(number))
            #expect(table.removeInOrder(at: position) == nil)
        }
        for number in 1...count {
            _ = table.abandon(number, until: at(60))
            let isLast = number == count
            let awaitsOnlyAbandoned = table.awaitsOnlyAbandoned(before: OutboundPosition(count + 1))
            #expect(awaitsOnlyAbandoned == isLast)
        }
        #expect(table.visitedCount <= 4 * Int(count))
    }

    // MARK: Abandoned requests

    @Test func anUnsentRequestFreesItsSerial() {
        var table = table(50...99, 3)
        #expect(table.remove(50)?.id == 1)
        #expect(table.remove(50) == nil)
        #expect(table.remove(52)?.id == 3)
        #expect(table.heldCount == 1 && table.abandonedCount == 0 && table.count == 1)
    }

    @Test func theSerialOfAnAbandonedRequestIsSkippedUntilItsLateResponse() {
        var table = table(1...2, 1)
        #expect(table.abandon(1, until: at(60))?.id == 1)
        #expect(table.abandon(1, until: at(60)) == nil)
        #expect(table[1] == nil && table.count == 0 && table.heldCount == 1 && table.abandonedCount == 1)
        #expect(table.insert(2, type: 0, at: 2) == 2)
        #expect(table.insert(3, type: 0, at: 3) == nil)
        #expect(table.remove(1) == nil)
        #expect(table.takeAnswered(1, before: 3).text == "late")
        #expect(table.takeAnswered(1, before: 3).text == "unknown")
        #expect(table.abandonedCount == 0)
        #expect(table.insert(3, type: 0, at: 3) == 1)
    }

    @Test func aQuarantineEndsAfterItsTime() {
        var table = table(1...1, 1)
        _ = table.abandon(1, until: at(60))
        table.endQuarantine(at: at(59))
        #expect(table.insert(2, type: 0, at: 2) == nil)
        #expect(table.nextQuarantineEnd == at(60))
        table.endQuarantine(at: at(60))
        #expect(table.nextQuarantineEnd == nil && table.heldCount == 0 && table.abandonedCount == 0)
        #expect(table.takeAnswered(1, before: 2).text == "unknown")
        #expect(table.insert(2, type: 0, at: 2) == 1)
    }

    // The serial is answered early, used again, and abandoned again. The end of the first quarantine must not free it.
    @Test func anOldQuarantineDoesNotEndANewOne() {
        var table = table(1...1, 1)
        _ = table.abandon(1, until: at(10))
        #expect(table.takeAnswered(1, before: 2).text == "late")
        _ = table.insert(2, type: 0, at: 2)
        table.endQuarantine(at: at(10))
        #expect(table[1]?.id == 2)
        _ = table.abandon(1, until: at(20))
        table.endQuarantine(at: at(19))
        #expect(table.insert(3, type: 0, at: 3) == nil)
        table.endQuarantine(at: at(20))
        #expect(table.insert(3, type: 0, at: 3) == 1)
    }

    /// A server that cannot cancel and takes minutes for a reply: its late parts used to reach the next request with
    /// that serial.
    @Test func aLatePartProlongsTheQuarantine() {
        var table = table(50...99, 1)
        _ = table.abandon(50, until: at(60))
        for step in 1...10 {
            let time = Double(step) * 50
            #expect(table.match(50, before: 2, prolongingTo: at(time + 60)).text == "late")
            table.endQuarantine(at: at(time))
            #expect(table.heldCount == 1)
        }
        // An earlier end does not shorten the quarantine.
        #expect(table.match(50, before: 2, prolongingTo: at(100)).text == "late")
        table.endQuarantine(at: at(559))
        #expect(table.heldCount == 1 && table.abandonedCount == 1)
        table.endQuarantine(at: at(560))
        #expect(table.heldCount == 0 && table.abandonedCount == 0)
        #expect(table.nextQuarantineEnd == nil)
    }

    private func quarantineEntries(_ table: Table) throws -> Int {
        try #require(Mirror(reflecting: table).descendant("quarantine", "filled") as? Int)
    }

    @Test func aFloodOfLatePartsTakesNoMemory() throws {
        var table = table(50...99, 2)
        _ = table.abandon(50, until: at(60))
        for step in 1...10_000 {
            _ = table.match(50, before: 3, prolongingTo: at(60).advanced(by: .microseconds(step)))
        }
        #expect(table.heldCount == 2)
        let entries = try quarantineEntries(table)
        #expect(entries < 200)
    }

    /// Requests that are abandoned and soon answered, behind one that is never answered: each used to leave an entry
    /// until the end of its quarantine.
    @Test func answeredQuarantinesDoNotAccumulate() throws {
        var table = table(1...SerialNumber.max)
        for number in 1...100_000 as ClosedRange<UInt64> {
            guard let serial = table.insert(number: number) else {
                Issue.record("exhausted")
                return
            }
            _ = table.abandon(serial, until: Instant(nanoseconds: Int64(number)))
            if number > 1 { #expect(table.takeAnswered(serial, before: OutboundPosition(number + 1)).text == "late") }
        }
        #expect(table.heldCount == 1)
        let entries = try quarantineEntries(table)
        #expect(entries < 100)
        table.endQuarantine(at: Instant(nanoseconds: 1))
        #expect(table.heldCount == 0)
    }

    // MARK: Parts

    @Test func partsAndTheResponseFindTheirRequestBySerial() {
        var table = table(50...99, 2)
        for _ in 0..<3 { #expect(table.match(51, before: 3, prolongingTo: at(60)).text == "2") }
        #expect(table.match(50, before: 3, prolongingTo: at(60)).text == "1")
        #expect(table.takeAnswered(51, before: 3).text == "2")
        #expect(table.match(51, before: 3, prolongingTo: at(60)).text == "unknown")
        #expect(table.count == 1)
    }

    // MARK: All requests

    @Test(arguments: [ResponseMatching.serial(50...53), .inOrder])
    func theRemainingRequestsAreRemovedInTheOrderOfTheirFrames(_ matching: ResponseMatching) {
        var table = Table(matching: matching)
        for number in 1...3 as ClosedRange<UInt64> { _ = table.insert(number: number) }
        #expect(table.takeAnswered(50, before: 4).text == "1")
        _ = table.insert(4, type: 0, at: 4)
        // With serials, the fifth request has the serial of the first, which is the lowest.
        _ = table.insert(5, type: 0, at: 5)
        _ = table.abandon(matching == .inOrder ? 2 : 51, until: at(60))
        #expect(table.hasRequest(at: 5..<6) && table.hasRequest(at: 1..<4) && !table.hasRequest(at: 1..<3))
        #expect(table.removeAll(from: 4).map(\.id) == [4, 5])
        #expect(table.all.map(\.id) == [3])
        #expect(table.removeAll(from: 0).map(\.id) == [3])
        #expect(table.count == 0 && table.heldCount == 1 && table.abandonedCount == 1)
    }
}

/// Matched in order: positions, abandoned requests at the front, and links on which no caller waits for the responses
/// that are due.
@Suite struct InFlightOrderTests {}

extension InFlightOrderTests {
    /// Requests at positions 1 up to `count`.
    private func table(_ count: UInt64) -> Table {
        var table = Table(matching: .inOrder)
        for number in 1...count { _ = table.insert(number: number, type: 7) }
        return table
    }

    @Test func responsesGoToTheOldestRequestWhateverTheirSerials() {
        var table = table(2)
        #expect(table.takeAnswered(2, before: .max).text == "1")
        #expect(table.takeAnswered(0, before: .max).text == "2")
        #expect(table.takeAnswered(0, before: .max).text == "unknown")
    }

    @Test func partsBelongToTheOldestRequest() {
        var table = table(2)
        for _ in 0..<3 { #expect(table.match(0, before: 3, prolongingTo: at(60)).text == "1") }
        #expect(table.takeAnswered(0, before: 3).text == "1")
        #expect(table.match(0, before: 3, prolongingTo: at(60)).text == "2")
        #expect(table.takeAnswered(0, before: 3).text == "2")
        #expect(table.match(0, before: 3, prolongingTo: at(60)).text == "unknown")
    }

    @Test func theLateReplyToAnAbandonedRequestIsDiscardedInItsPlace() {
        var table = table(3)
        _ = table.abandon(1, until: at(60))
        #expect(table.remove(2)?.id == 2)
        #expect(table.match(0, before: 4, prolongingTo: at(70)).text == "late")
        #expect(table.takeAnswered(0, before: 4).text == "late")
        #expect(table.match(0, before: 4, prolongingTo: at(70)).text == "3")
        #expect(table.takeAnswered(0, before: 4).text == "3")
    }

    @Test func anUnsentRequestExpectsNoResponse() {
        var table = table(2)
        _ = table.remove(1)
        #expect(table.takeAnswered(0, before: .max).text == "2")
        #expect(table.takeAnswered(0, before: .max).text == "unknown")
    }

    /// Its place is kept until its response arrives or the link ends.
    @Test func anAbandonedRequestKeepsItsPlaceInTheOrder() {
        var table = table(2)
        _ = table.abandon(1, until: at(60))
        #expect(table.nextQuarantineEnd == nil)
        table.endQuarantine(at: .distantFuture)
        #expect(table.heldCount == 2 && table.abandonedCount == 1)
        #expect(table.takeAnswered(0, before: 3).text == "late")
    }

    @Test func theOldestAbandonedRequestDeterminesHowLongToWait() {
        var table = table(3)
        _ = table.abandon(2, until: at(60))
        let none = table.oldestAbandonedUntil()  // a caller waits for 1
        #expect(none == nil)
        _ = table.takeAnswered(0, before: 4)
        let first = table.oldestAbandonedUntil()
        #expect(first == at(60))
        _ = table.match(0, before: 4, prolongingTo: at(70))
        _ = table.match(0, before: 4, prolongingTo: at(65))
        let second = table.oldestAbandonedUntil()
        #expect(second == at(70))
        _ = table.takeAnswered(0, before: 4)
        let last = table.oldestAbandonedUntil()
        #expect(last == nil && table.abandonedCount == 0)
    }

    @Test func aLinkIsForsakenWhenNoCallerWaitsForTheResponsesThatAreDue() {
        var table = table(4)
        _ = table.abandon(2, until: at(60))
        func awaitsOnlyAbandoned(before unstarted: OutboundPosition) -> Bool {
            var copy = table
            return copy.awaitsOnlyAbandoned(before: unstarted)
        }
        #expect(!awaitsOnlyAbandoned(before: 3))  // a caller waits for 1
        _ = table.abandon(1, until: at(60))
        #expect(awaitsOnlyAbandoned(before: 3))  // 3 and 4 have not started
        #expect(!awaitsOnlyAbandoned(before: 4))
        let isLevelBefore = table.isLevel(before: 3)
        #expect(!isLevelBefore)
        _ = table.remove(3)
        #expect(awaitsOnlyAbandoned(before: 4))
        #expect(!awaitsOnlyAbandoned(before: 5))
        for _ in 1...2 { _ = table.takeAnswered(0, before: 4) }
        let (isLevel, isLevelWithAnother) = (table.isLevel(before: 4), table.isLevel(before: 5))
        #expect(isLevel && !isLevelWithAnother && !awaitsOnlyAbandoned(before: 4))
    }

    @Test func theFirstRequestIsAwaitedFromItsStartUntilItIsAbandoned() {
        var table = table(2)
        func isFirstAwaited(before unstarted: OutboundPosition) -> Bool {
            var copy = table
            return copy.isFirstAwaited(before: unstarted)
        }
        #expect(!isFirstAwaited(before: 1) && isFirstAwaited(before: 2))
        _ = table.abandon(1, until: at(60))
        #expect(!isFirstAwaited(before: 3))
        _ = table.takeAnswered(0, before: 3)
        #expect(isFirstAwaited(before: 3))
        _ = table.takeAnswered(0, before: 3)
        #expect(!isFirstAwaited(before: 3))
    }

    @Test func linksWithSerialsAreNeverForsakenAndHaveNoFirstRequest() {
        var table = Table(matching: .serial(50...99))
        for number in 1...2 as ClosedRange<UInt64> { _ = table.insert(number: number, type: 7) }
        let isFirstAwaited = table.isFirstAwaited(before: 3)
        #expect(!isFirstAwaited)
        for serial in 50...51 as ClosedRange<SerialNumber> { _ = table.abandon(serial, until: at(60)) }
        let until = table.oldestAbandonedUntil()
        let awaitsOnlyAbandoned = table.awaitsOnlyAbandoned(before: 3)
        #expect(!awaitsOnlyAbandoned && until == nil)
    }

    @Test func aNumberIsHeldUntilItsRequestIsAnswered() {
        var table = table(2)
        #expect(table.holds(2) && !table.holds(3))
        _ = table.abandon(2, until: at(60))
        #expect(table.holds(2))
        for _ in 1...2 { _ = table.takeAnswered(0, before: 3) }
        #expect(!table.holds(2))
    }
}

/// The table, compared with a list that is searched for everything.
@Suite struct InFlightPropertyTests {}

extension InFlightPropertyTests {
    private struct Model {
        struct Entry {
            let number: SerialNumber, id: RequestID, position: OutboundPosition
            var until: Instant?
        }

        let range: ClosedRange<SerialNumber>
        let isInOrder: Bool
        var entries: [Entry] = []
        var next: SerialNumber

        init(_ matching: ResponseMatching) {
            (range, isInOrder) =
                if case .serial(let range) = matching { (range, false) } else { (1...SerialNumber.max, true) }
            next = range.lowerBound
        }

        var awaited: [Entry] { entries.filter { $0.until == nil } }
        var abandoned: [Entry] { entries.filter { $0.until != nil } }
        var oldest: Entry? { entries.min { $0.number < $1.number } }

        func index(_ serial: SerialNumber) -> Int? {
            let number = isInOrder ? oldest?.number : serial
            return entries.firstIndex { $0.number == number }
        }

        mutating func insert(_ id: RequestID, _ position: OutboundPosition) -> SerialNumber? {
            for _ in 0...entries.count {
                let number = next
                next = next == range.upperBound ? range.lowerBound : next + 1
                guard entries.contains(where: { $0.number == number }) else {
                    entries.append(Entry(number: number, id: id, position: position))
                    return number
                }
                if entries.count == range.count { return nil }
            }
            return nil
        }

        func meets(_ index: Int?, before unstarted: OutboundPosition) -> String {
            guard let index else { return "unknown" }
            if entries[index].until != nil { return "late" }
            return entries[index].position < unstarted ? "\(entries[index].id)" : "unknown"
        }
    }

    @Test(arguments: [ResponseMatching.serial(1...12), .serial(UInt64.max - 300...UInt64.max), .inOrder])
    func theTableBehavesLikeAList(_ matching: ResponseMatching) {
        for seed in seeds(300) {
            var generator = SeededGenerator(seed: seed)
            var (table, model) = (Table(matching: matching), Model(matching))
            var (clock, unstarted) = (at(0), 1 as OutboundPosition)
            var (id, position) = (0 as RequestID, 0 as OutboundPosition)
            var left: Set<RequestID> = []
            func leave(_ id: RequestID) { #expect(left.insert(id).inserted, "seed \(seed): \(id) left twice") }
            for _ in 0..<200 {
                clock = clock.advanced(by: .milliseconds(Int.random(in: 0...300, using: &generator)))
                let until = clock.advanced(by: .seconds(5))
                let known = model.entries.randomElement(using: &generator)?.number
                let other = SerialNumber.random(in: 0...14, using: &generator)
                let serial = Bool.random(using: &generator) ? known ?? other : other
                switch Int.random(in: 0..<12, using: &generator) {
                case 0...3:
                    (id, position) = (id + 1, position + .random(in: 1...3, using: &generator))
                    // The model must not search for a free serial if there is none.
                    let isFull = !model.isInOrder && model.entries.count == model.range.count
                    #expect(table.isExhausted == isFull, "seed \(seed)")
                    let number = isFull ? nil : model.insert(id, position)
                    #expect(table.insert(id, type: 7, at: position) == number, "seed \(seed)")
                    if number == nil { leave(id) }
                case 4, 5:
                    let possible = unstarted...max(unstarted, position + 1)
                    unstarted = possible.randomElement(using: &generator) ?? unstarted
                case 6, 7:
                    let index = model.index(serial)
                    let text = model.meets(index, before: unstarted)
                    #expect(table.takeAnswered(serial, before: unstarted).text == text, "seed \(seed)")
                    if let index, text != "unknown" {
                        let entry = model.entries.remove(at: index)
                        if entry.until == nil { leave(entry.id) }
                    }
                case 8:
                    let index = model.index(serial)
                    let text = model.meets(index, before: unstarted)
                    #expect(table.match(serial, before: unstarted, prolongingTo: until).text == text, "seed \(seed)")
                    if let index, text == "late" { model.entries[index].until = until }
                case 9, 10:
                    guard let entry = model.awaited.randomElement(using: &generator) else { continue }
                    let index = model.entries.firstIndex { $0.number == entry.number }!
                    leave(entry.id)
                    if entry.position < unstarted {
                        #expect(table.abandon(entry.number, until: until)?.id == entry.id, "seed \(seed)")
                        model.entries[index].until = until
                    } else {
                        let isByNumber = Bool.random(using: &generator) || !model.isInOrder
                        let removed =
                            isByNumber ? table.remove(entry.number) : table.removeInOrder(at: entry.position)
                        #expect(removed?.id == entry.id, "seed \(seed)")
                        model.entries.remove(at: index)
                    }
                default:
                    if Int.random(in: 0..<20, using: &generator) == 0 {
                        let taken = model.awaited.filter { $0.position >= unstarted }
                        #expect(table.removeAll(from: unstarted).map(\.id) == taken.map(\.id), "seed \(seed)")
                        for entry in taken { leave(entry.id) }
                        model.entries.removeAll { entry in taken.contains { $0.id == entry.id } }
                    }
                    table.endQuarantine(at: clock)
                    if !model.isInOrder { model.entries.removeAll { $0.until.map { $0 <= clock } ?? false } }
                }
                #expect(table.count == model.awaited.count, "seed \(seed)")
                #expect(table.heldCount == model.entries.count, "seed \(seed)")
                #expect(table.abandonedCount == model.abandoned.count, "seed \(seed)")
                let isDue = model.awaited.contains { $0.position < unstarted }
                #expect(table.hasRequest(at: 0..<unstarted) == isDue, "seed \(seed)")
                let oldest = model.isInOrder ? model.oldest : nil
                #expect(table.oldestAbandonedUntil() == oldest?.until, "seed \(seed)")
                let awaitsOnlyAbandoned = table.awaitsOnlyAbandoned(before: unstarted)
                #expect(awaitsOnlyAbandoned == (model.isInOrder && !model.abandoned.isEmpty && !isDue), "seed \(seed)")
                let isFirstAwaited = oldest.map { $0.until == nil && $0.position < unstarted } ?? false
                #expect(table.isFirstAwaited(before: unstarted) == isFirstAwaited, "seed \(seed)")
                if model.isInOrder {
                    let isLevel = model.abandoned.isEmpty && !isDue
                    #expect(table.isLevel(before: unstarted) == isLevel, "seed \(seed)")
                } else if let end = model.abandoned.compactMap(\.until).min() {
                    #expect(table.nextQuarantineEnd.map { $0 <= end } == true, "seed \(seed)")
                }
            }
            for entry in table.removeAll(from: 0) { leave(entry.id) }
            #expect(left.count == Int(id.number), "seed \(seed)")
        }
    }
}
