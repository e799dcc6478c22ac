import Testing

@testable import TrunklineCore
@testable import TrunklineIO

private typealias Table = RequestTable<String>

private func request(_ id: RequestID, _ size: Int = 0) -> QueuedRequest {
    let frame = Frame(.request, body: Bytes(repeating: 1, count: size))
    return QueuedRequest(id: id, frame: frame, expectsResponse: true)
}

extension RequestTable where Waiter == String {
    /// Where the request is.
    fileprivate func state(_ id: RequestID) -> String {
        switch self[id]?.place {
        case .waiting: "waiting"
        case .delayed: "delayed"
        case .onLink(let session, _): "on link \(session)"
        case nil: "gone"
        }
    }

    fileprivate mutating func append(_ request: QueuedRequest, deadline: Instant?) {
        let accepted = Instant(nanoseconds: Int64(request.id.number))
        append(request, "\(request.id)", deadline: deadline, accepted: accepted)
    }

    /// Ends a request that is on no link.
    fileprivate mutating func take(_ id: RequestID) -> QueuedRequest? {
        guard let request = remove(id) else { return nil }
        forget(id)
        return request
    }

    /// Ends all requests that are on no link.
    fileprivate mutating func takeAll(includingDelayed: Bool = true) -> [QueuedRequest] {
        let all = queue.removeAll(includingDelayed: includingDelayed)
        for request in all { forget(request.id) }
        return all
    }

    /// Moves the first request to a link, and returns its ID.
    fileprivate mutating func go(on session: SessionID = 1) -> RequestID? {
        guard let request = queue.popFirst() else { return nil }
        queue.went(request.id, to: .response(request.id.number), on: session)
        noteAdmissions(at: .distantPast)
        return request.id
    }
}

/// Which requests wait, which one is next, and which have been removed.
@Suite struct RequestTableTests {}

extension RequestTableTests {
    private func table(_ ids: ClosedRange<RequestID>) -> Table {
        var table = Table(maximumWaiting: 1000, maximumBytes: 1 << 20)
        for id in ids { table.append(request(id), deadline: nil) }
        return table
    }

    // MARK: Order

    @Test func requestsAreSentInTheOrderOfTheirArrival() {
        var table = table(1...3)
        #expect(table.queue.waiting.map(\.id) == [1, 2, 3])
        #expect(table.state(1) == "waiting" && table.request(1)?.id == 1 && table.waiter(of: 1) == "1")
        #expect(table.go() == 1)
        #expect(table.state(1) == "on link 1" && table.request(1) == nil && table.waiter(of: 1) == "1")
        #expect(table.go(on: 2) == 2)
        #expect(table.state(2) == "on link 2")
        #expect(table.go() == 3)
        #expect(table.go() == nil)
        #expect(!table.queue.hasWaiting && table.count == 3 && table.ids == [1, 2, 3])
    }

    @Test func requestsReturnedByALinkComeFirstInTheirOrder() {
        var table = table(1...5)
        for _ in 1...3 { _ = table.go() }
        table.append(request(6), deadline: nil)
        table.giveBack([request(2), request(3)])
        #expect(table.queue.waiting.map(\.id) == [2, 3, 4, 5, 6])
        #expect(table.state(2) == "waiting" && table.state(1) == "on link 1")
        #expect(table.queue.waitingCount == 5)
        table.giveBack([request(1)])
        #expect((1...6).map { _ in table.go() } == [1, 2, 3, 4, 5, 6])
    }

    @Test func aRemovedRequestIsNotFoundBeforeItIsForgotten() {
        var table = table(1...3)
        #expect(table.remove(1)?.id == 1 && table.remove(1) == nil && table.request(1) == nil)
        #expect(table.count == 3 && table.queue.waitingCount == 2)
        #expect(table.queue.removeAll().map(\.id) == [2, 3])
        #expect(table.remove(2) == nil && table.request(3) == nil)
        for id in 1...3 as ClosedRange<RequestID> { table.forget(id) }
        #expect(table.count == 0)
    }

    @Test func aRequestKeepsItsTimeInEveryPlace() {
        var table = table(1...3)
        _ = table.go()
        table.giveBack([request(1)])
        _ = table.go()
        table.delay(request(1), until: at(5))
        table.wake(1)
        _ = table.remove(2)
        table.delay(request(2), until: at(5))
        for id in 1...3 as ClosedRange<RequestID> {
            #expect(table[id]?.accepted == Instant(nanoseconds: Int64(id.number)))
        }
    }

    @Test func removedRequestsAreNotTakenBack() {
        var table = table(1...3)
        for _ in 1...3 { _ = table.go() }
        let wasThere = table.forget(2) != nil
        let isThere = table.forget(2) != nil
        #expect(wasThere && !isThere)
        table.giveBack([request(1), request(2), request(3)])
        #expect(table.queue.waiting.map(\.id) == [1, 3])
        #expect(table.state(2) == "gone" && table.count == 2 && table.queue.waitingCount == 2)
    }

    // MARK: Removal

    @Test func removedRequestsAreSkipped() {
        var table = table(1...5)
        #expect(table.take(3)?.id == 3)
        #expect(table.take(3) == nil)
        #expect(table.take(1)?.id == 1)
        #expect(table.take(5)?.id == 5)
        #expect(table.state(3) == "gone" && table.request(3) == nil)
        #expect(table.queue.waiting.map(\.id) == [2, 4] && table.queue.waitingCount == 2)
        #expect(table.go() == 2)
        #expect(table.take(2) == nil)  // it is on its link
        #expect(table.state(2) == "on link 1")
        #expect(table.go() == 4)
        #expect(table.go() == nil)
    }

    @Test func returnedRequestsCanBeRemovedAndTheOthersMoveUp() {
        var table = table(1...100)
        for _ in 1...50 { _ = table.go() }
        table.giveBack((1...50).map { request($0) })
        // So many that the places of removed requests are compacted.
        for id in 1...100 as ClosedRange<RequestID> where id.number % 10 != 5 { #expect(table.take(id)?.id == id) }
        #expect(table.queue.waiting.map(\.id) == Array(stride(from: 5, through: 95, by: 10)))
        for id in [5, 45, 55, 95] as [RequestID] { #expect(table.request(id)?.id == id) }
        #expect(table.take(45)?.id == 45)
        #expect(table.go() == 5)
        table.giveBack([request(5)])
        #expect(table.go() == 5 && table.go() == 15)
    }

    @Test(arguments: [false, true])
    func allRequestsOnNoLinkAreRemovedInOrderOfTheirIDs(_ includingDelayed: Bool) {
        var table = table(1...6)
        for _ in 1...4 { _ = table.go() }
        table.delay(request(2), until: at(5))
        table.giveBack([request(4)])
        #expect(table.take(6)?.id == 6)
        let all = table.takeAll(includingDelayed: includingDelayed)
        #expect(all.map(\.id) == (includingDelayed ? [2, 4, 5] : [4, 5]))
        #expect(!table.queue.hasWaiting && table.queue.delayedCount == (includingDelayed ? 0 : 1))
        #expect(table.ids == (includingDelayed ? [1, 3] : [1, 2, 3]))
        #expect(table.queue.nextRested(at: at(5)) == (includingDelayed ? nil : 2))
        table.append(request(7), deadline: nil)
        #expect(table.queue.waiting.map(\.id) == [7] && table.take(7)?.id == 7)
    }

    // MARK: Pauses before a retry

    @Test func afterItsPauseARequestWaitsBehindTheOthers() {
        var table = table(1...2)
        _ = table.go()
        table.delay(request(1), until: at(5))
        #expect(table.state(1) == "delayed" && table.request(1)?.id == 1)
        #expect(table.queue.delayedCount == 1 && table.queue.waitingCount == 1 && table.count == 2)
        #expect(table.nextDeadline == at(5))
        #expect(table.queue.nextRested(at: at(4.9)) == nil)
        #expect(table.queue.nextRested(at: at(5)) == 1)
        #expect(table.state(1) == "delayed")
        table.setWaiter("another", of: 1)
        table.wake(1)
        #expect(table.state(1) == "waiting" && table.queue.delayedCount == 0 && table.nextDeadline == nil)
        #expect(table.queue.waiting.map(\.id) == [2, 1] && table.waiter(of: 1) == "another")
        table.wake(1)
        #expect(table.queue.waitingCount == 2)
    }

    @Test func aRequestRemovedDuringItsPauseDoesNotReturn() {
        var table = table(1...2)
        for _ in 1...2 { _ = table.go() }
        table.delay(request(2), until: at(6))
        table.delay(request(1), until: at(5))
        #expect(table.take(1)?.id == 1)
        #expect(table.queue.nextRested(at: at(7)) == 2)
        table.wake(2)
        _ = table.go()
        // The request may fail again.
        table.delay(request(2), until: at(9))
        #expect(table.queue.nextRested(at: at(8)) == nil && table.queue.nextRested(at: at(9)) == 2)
    }

    // MARK: Deadlines

    @Test func anExpiredRequestIsFoundOnceUnlessItWasRemoved() {
        var table = Table(maximumWaiting: 10, maximumBytes: 1 << 20)
        for id in 1...5 as ClosedRange<RequestID> { table.append(request(id), deadline: at(Double(id.number))) }
        table.append(request(6), deadline: nil)
        for _ in 1...3 { _ = table.go() }
        table.delay(request(2), until: at(9))
        table.forget(3)
        #expect(table.take(4)?.id == 4)
        #expect(table.nextExpired(at: at(0.9)) == nil)
        var expired: [RequestID] = []
        while let id = table.nextExpired(at: at(5)) { expired.append(id) }
        #expect(expired == [1, 2, 5])
        #expect(table.state(1) == "on link 1" && table.state(2) == "delayed" && table.state(5) == "waiting")
        #expect(table.nextDeadline == at(9))  // the end of its pause
    }

    /// A request that comes back from its link, or is tried again, gets no additional time.
    @Test func aRequestKeepsItsDeadlineAcrossLinksAndRetries() {
        var table = Table(maximumWaiting: 10, maximumBytes: 1 << 20)
        table.append(request(1), deadline: at(10))
        _ = table.go()
        table.giveBack([request(1)])
        _ = table.go()
        table.delay(request(1), until: at(5))
        #expect(table.queue.nextRested(at: at(5)) == 1)
        table.wake(1)
        #expect(table.nextDeadline == at(10) && table.nextExpired(at: at(9)) == nil)
        #expect(table.nextExpired(at: at(10)) == 1)
        #expect(table.nextExpired(at: at(11)) == nil)
        // A later deadline can be set, and it expires, too.
        table.watch(1, at(20))
        #expect(table.nextDeadline == at(20) && table.nextExpired(at: at(20)) == 1)
        table.watch(1, at(30))
        table.forgetDeadlines()
        #expect(table.nextDeadline == nil && table.watchedCount == 0)
    }

    // MARK: Limits

    @Test func theNumberOfWaitingRequestsIsLimited() {
        var table = Table(maximumWaiting: 2, maximumBytes: 1 << 20)
        #expect(table.queue.refusal(for: 1) == nil)
        for id in 1...2 as ClosedRange<RequestID> { table.append(request(id), deadline: nil) }
        #expect(table.queue.refusal(for: 1) == "2 requests are waiting (maximumWaiting is 2)")
        _ = table.go()
        #expect(table.queue.refusal(for: 1) == nil)
        // Requests in a pause will wait again.
        table.delay(request(1), until: at(5))
        #expect(table.queue.refusal(for: 1) != nil)
        #expect(table.take(1) != nil)
        #expect(table.queue.refusal(for: 1) == nil)
        var none = Table(maximumWaiting: -1, maximumBytes: 1)
        #expect(none.queue.refusal(for: 1) == "0 requests are waiting (maximumWaiting is 0)")
        var one = Table(maximumWaiting: 1, maximumBytes: 1 << 20)
        one.append(request(1), deadline: nil)
        #expect(one.queue.refusal(for: 1) == "1 request is waiting (maximumWaiting is 1)")
    }

    @Test func theBytesOfWaitingRequestsAreLimitedButOneAlwaysFits() {
        let limit = 2000
        var table = Table(maximumWaiting: 10, maximumBytes: limit)
        #expect(table.queue.refusal(for: limit + 1) == nil)
        table.append(request(1, 400), deadline: nil)
        // A request costs its body, 32 bytes for its frame and 512 for its entries. So does the next one.
        let room = limit - (400 + 32 + 512) - 512
        #expect(table.queue.refusal(for: room) == nil)
        #expect(table.queue.refusal(for: room + 1)?.contains("944 bytes") == true)
        _ = table.go()
        #expect(table.queue.refusal(for: limit) == nil)
        table.giveBack([request(1, 400)])
        #expect(table.queue.refusal(for: room) == nil && table.queue.refusal(for: room + 1) != nil)
        #expect(table.take(1) != nil)
        table.append(request(2, 400), deadline: nil)
        #expect(table.queue.refusal(for: room) == nil && table.queue.refusal(for: room + 1) != nil)
        _ = table.takeAll()
        #expect(table.queue.refusal(for: limit) == nil)
    }

    // MARK: Property

    @Test func theTableBehavesLikeAList() {
        for seed in seeds(300) {
            var generator = SeededGenerator(seed: seed)
            var table = Table(maximumWaiting: 1 << 20, maximumBytes: .max)
            var (id, clock) = (0 as RequestID, at(0))
            var line: [RequestID] = []
            var onLink: [RequestID] = []
            var delayed: [RequestID: Instant] = [:]
            var deadlines: [RequestID: Instant] = [:]
            for _ in 0..<400 {
                clock = clock.advanced(by: .milliseconds(Int.random(in: 0...100, using: &generator)))
                switch Int.random(in: 0..<16, using: &generator) {
                case 0...4:
                    id += 1
                    let deadline =
                        Bool.random(using: &generator)
                        ? clock.advanced(by: .milliseconds(Int.random(in: 1...9000, using: &generator))) : nil
                    table.append(request(id), deadline: deadline)
                    line.append(id)
                    deadlines[id] = deadline
                case 5...7:
                    #expect(table.go(on: 4) == line.first, "seed \(seed)")
                    if !line.isEmpty { onLink.append(line.removeFirst()) }
                case 8:
                    let count = Int.random(in: 0...onLink.count, using: &generator)
                    let back = Array(onLink.suffix(count))
                    table.giveBack(back.map { request($0) })
                    line = back + line
                    onLink.removeLast(count)
                case 9, 10:
                    guard let index = onLink.indices.randomElement(using: &generator) else { continue }
                    let gone = onLink.remove(at: index)
                    if Bool.random(using: &generator) {
                        #expect(table[gone]?.accepted == Instant(nanoseconds: Int64(gone.number)), "seed \(seed)")
                        let waiter = table.forget(gone)
                        #expect(waiter == "\(gone)" && table[gone] == nil, "seed \(seed)")
                        deadlines[gone] = nil
                    } else {
                        let until = clock.advanced(by: .milliseconds(Int.random(in: 0...2000, using: &generator)))
                        table.delay(request(gone), until: until)
                        delayed[gone] = until
                    }
                case 11, 12, 13:
                    let anywhere = (0...id + 1).randomElement(using: &generator) ?? id
                    let victim = line.randomElement(using: &generator) ?? anywhere
                    let isOut = line.contains(victim) || delayed[victim] != nil
                    #expect(table.take(victim)?.id == (isOut ? victim : nil), "seed \(seed)")
                    line.removeAll { $0 == victim }
                    delayed[victim] = nil
                    if isOut { deadlines[victim] = nil }
                case 14:
                    let due = Set(delayed.filter { $0.value <= clock }.keys)
                    var rested: Set<RequestID> = []
                    while let id = table.queue.nextRested(at: clock) {
                        #expect(rested.insert(id).inserted, "seed \(seed)")
                        table.wake(id)
                        delayed[id] = nil
                        line.append(id)
                    }
                    #expect(rested == due, "seed \(seed)")
                default:
                    let due = Set(deadlines.filter { $0.value <= clock }.keys)
                    var expired: Set<RequestID> = []
                    while let id = table.nextExpired(at: clock) {
                        #expect(expired.insert(id).inserted, "seed \(seed)")
                        deadlines[id] = nil
                    }
                    #expect(expired == due, "seed \(seed)")
                    if Int.random(in: 0..<20, using: &generator) == 0 {
                        let all = table.takeAll(includingDelayed: false)
                        #expect(all.map(\.id) == line.sorted(), "seed \(seed)")
                        for id in line { deadlines[id] = nil }
                        line = []
                    }
                }
                #expect(table.queue.waiting.map(\.id) == line, "seed \(seed)")
                #expect(
                    table.queue.waitingCount == line.count && table.queue.delayedCount == delayed.count,
                    "seed \(seed)"
                )
                #expect(table.ids == (line + onLink + delayed.keys).sorted(), "seed \(seed)")
                for id in table.ids { #expect(table.waiter(of: id) == "\(id)", "seed \(seed)") }
                if let id = line.randomElement(using: &generator) {
                    #expect(table.request(id)?.id == id, "seed \(seed)")
                }
                if let next = (Array(deadlines.values) + delayed.values).min() {
                    #expect(table.nextDeadline.map { $0 <= next } == true, "seed \(seed)")
                }
            }
        }
    }
}
