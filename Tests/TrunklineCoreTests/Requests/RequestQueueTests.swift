import Testing

@testable import Trunkline

private typealias Queue = RequestQueue<String>

private func request(_ id: RequestID, _ size: Int = 0) -> QueuedRequest<String> {
    let frame = Frame(.request, body: Bytes(repeating: 1, count: size))
    return QueuedRequest(id: id, frame: frame, waiter: "\(id)", expectsResponse: true)
}

extension RequestQueue where Waiter == String {
    /// Where the request is.
    fileprivate func state(_ id: RequestID) -> String {
        switch self[id] {
        case .waiting: "waiting"
        case .delayed: "delayed"
        case .onLink(let session, _): "on link \(session)"
        case nil: "gone"
        }
    }

    fileprivate mutating func append(_ request: QueuedRequest<String>, deadline: Instant?) {
        append(request, deadline: deadline, accepted: Instant(nanoseconds: Int64(request.id)))
    }

    /// Ends a request that is on no link.
    fileprivate mutating func take(_ id: RequestID) -> QueuedRequest<String>? {
        guard let request = remove(id) else { return nil }
        forget(id)
        return request
    }

    /// Ends all requests that are on no link.
    fileprivate mutating func takeAll(includingDelayed: Bool = true) -> [QueuedRequest<String>] {
        let all = removeAll(includingDelayed: includingDelayed)
        for request in all { forget(request.id) }
        return all
    }

    /// Moves the first request to a link, and returns its ID.
    fileprivate mutating func go(on session: UInt64 = 1) -> RequestID? {
        guard let request = popFirst() else { return nil }
        went(request.id, to: .response(request.id), on: session, at: .distantPast)
        return request.id
    }
}

/// Which requests wait, which one is next, and which have been removed.
@Suite struct RequestQueueTests {
    private func queue(_ ids: ClosedRange<RequestID>) -> Queue {
        var queue = Queue(maximumWaiting: 1000, maximumBytes: 1 << 20)
        for id in ids { queue.append(request(id), deadline: nil) }
        return queue
    }

    // MARK: Order

    @Test func requestsAreSentInTheOrderOfTheirArrival() {
        var queue = queue(1...3)
        #expect(queue.waiting.map(\.id) == [1, 2, 3])
        #expect(queue.state(1) == "waiting" && queue.request(1)?.waiter == "1")
        #expect(queue.go() == 1)
        #expect(queue.state(1) == "on link 1" && queue.request(1) == nil)
        #expect(queue.go(on: 2) == 2)
        #expect(queue.state(2) == "on link 2")
        #expect(queue.go() == 3)
        #expect(queue.go() == nil)
        #expect(queue.isEmpty && queue.count == 3 && queue.ids == [1, 2, 3])
    }

    @Test func requestsReturnedByALinkComeFirstInTheirOrder() {
        var queue = queue(1...5)
        for _ in 1...3 { _ = queue.go() }
        queue.append(request(6), deadline: nil)
        queue.giveBack([request(2), request(3)])
        #expect(queue.waiting.map(\.id) == [2, 3, 4, 5, 6])
        #expect(queue.state(2) == "waiting" && queue.state(1) == "on link 1")
        #expect(queue.waitingCount == 5)
        queue.giveBack([request(1)])
        #expect((1...6).map { _ in queue.go() } == [1, 2, 3, 4, 5, 6])
    }

    @Test func aRemovedRequestIsNotFoundBeforeItIsForgotten() {
        var queue = queue(1...3)
        #expect(queue.remove(1)?.id == 1 && queue.remove(1) == nil && queue.request(1) == nil)
        #expect(queue.count == 3 && queue.waitingCount == 2)
        #expect(queue.removeAll().map(\.id) == [2, 3])
        #expect(queue.remove(2) == nil && queue.request(3) == nil)
        for id in 1...3 as ClosedRange<RequestID> { queue.forget(id) }
        #expect(queue.count == 0)
    }

    @Test func aRequestKeepsItsTimeInEveryPlace() {
        var queue = queue(1...3)
        _ = queue.go()
        queue.giveBack([request(1)])
        _ = queue.go()
        queue.delay(request(1), until: at(5))
        queue.wake(1, as: "again")
        _ = queue.remove(2)
        queue.delay(request(2), until: at(5))
        for id in 1...3 as ClosedRange<RequestID> {
            let accepted = queue.forget(id)?.accepted
            #expect(accepted == Instant(nanoseconds: Int64(id)))
        }
    }

    @Test func removedRequestsAreNotTakenBack() {
        var queue = queue(1...3)
        for _ in 1...3 { _ = queue.go() }
        let wasThere = queue.forget(2) != nil
        let isThere = queue.forget(2) != nil
        #expect(wasThere && !isThere)
        queue.giveBack([request(1), request(2), request(3)])
        #expect(queue.waiting.map(\.id) == [1, 3])
        #expect(queue.state(2) == "gone" && queue.count == 2 && queue.waitingCount == 2)
    }

    // MARK: Removal

    @Test func removedRequestsAreSkipped() {
        var queue = queue(1...5)
        #expect(queue.take(3)?.id == 3)
        #expect(queue.take(3) == nil)
        #expect(queue.take(1)?.id == 1)
        #expect(queue.take(5)?.id == 5)
        #expect(queue.state(3) == "gone" && queue.request(3) == nil)
        #expect(queue.waiting.map(\.id) == [2, 4] && queue.waitingCount == 2)
        #expect(queue.go() == 2)
        #expect(queue.take(2) == nil)  // it is on its link
        #expect(queue.state(2) == "on link 1")
        #expect(queue.go() == 4)
        #expect(queue.go() == nil)
    }

    @Test func returnedRequestsCanBeRemovedAndTheOthersMoveUp() {
        var queue = queue(1...100)
        for _ in 1...50 { _ = queue.go() }
        queue.giveBack((1...50).map { request($0) })
        // So many that the places of removed requests are compacted.
        for id in 1...100 as ClosedRange<RequestID> where id % 10 != 5 { #expect(queue.take(id)?.id == id) }
        #expect(queue.waiting.map(\.id) == Array(stride(from: 5, through: 95, by: 10)))
        for id in [5, 45, 55, 95] as [RequestID] { #expect(queue.request(id)?.id == id) }
        #expect(queue.take(45)?.id == 45)
        #expect(queue.go() == 5)
        queue.giveBack([request(5)])
        #expect(queue.go() == 5 && queue.go() == 15)
    }

    @Test(arguments: [false, true])
    func allRequestsOnNoLinkAreRemovedInOrderOfTheirIDs(_ includingDelayed: Bool) {
        var queue = queue(1...6)
        for _ in 1...4 { _ = queue.go() }
        queue.delay(request(2), until: at(5))
        queue.giveBack([request(4)])
        #expect(queue.take(6)?.id == 6)
        let all = queue.takeAll(includingDelayed: includingDelayed)
        #expect(all.map(\.id) == (includingDelayed ? [2, 4, 5] : [4, 5]))
        #expect(queue.isEmpty && queue.delayedCount == (includingDelayed ? 0 : 1))
        #expect(queue.ids == (includingDelayed ? [1, 3] : [1, 2, 3]))
        #expect(queue.nextRested(at: at(5))?.id == (includingDelayed ? nil : 2))
        queue.append(request(7), deadline: nil)
        #expect(queue.waiting.map(\.id) == [7] && queue.take(7)?.id == 7)
    }

    // MARK: Pauses before a retry

    @Test func afterItsPauseARequestWaitsBehindTheOthers() {
        var queue = queue(1...2)
        _ = queue.go()
        queue.delay(request(1), until: at(5))
        #expect(queue.state(1) == "delayed" && queue.request(1)?.id == 1)
        #expect(queue.delayedCount == 1 && queue.waitingCount == 1 && queue.count == 2)
        #expect(queue.nextDeadline == at(5))
        #expect(queue.nextRested(at: at(4.9)) == nil)
        #expect(queue.nextRested(at: at(5))?.id == 1)
        #expect(queue.state(1) == "delayed")
        queue.wake(1, as: "another")
        #expect(queue.state(1) == "waiting" && queue.delayedCount == 0 && queue.nextDeadline == nil)
        #expect(queue.waiting.map(\.waiter) == ["2", "another"])
        queue.wake(1, as: "nobody")
        #expect(queue.waitingCount == 2)
    }

    @Test func aRequestRemovedDuringItsPauseDoesNotReturn() {
        var queue = queue(1...2)
        for _ in 1...2 { _ = queue.go() }
        queue.delay(request(2), until: at(6))
        queue.delay(request(1), until: at(5))
        #expect(queue.take(1)?.id == 1)
        #expect(queue.nextRested(at: at(7))?.id == 2)
        queue.wake(2, as: "2")
        _ = queue.go()
        // The request may fail again.
        queue.delay(request(2), until: at(9))
        #expect(queue.nextRested(at: at(8)) == nil && queue.nextRested(at: at(9))?.id == 2)
    }

    // MARK: Deadlines

    @Test func anExpiredRequestIsFoundOnceUnlessItWasRemoved() {
        var queue = Queue(maximumWaiting: 10, maximumBytes: 1 << 20)
        for id in 1...5 as ClosedRange<RequestID> { queue.append(request(id), deadline: at(Double(id))) }
        queue.append(request(6), deadline: nil)
        for _ in 1...3 { _ = queue.go() }
        queue.delay(request(2), until: at(9))
        queue.forget(3)
        #expect(queue.take(4)?.id == 4)
        #expect(queue.nextExpired(at: at(0.9)) == nil)
        var expired: [RequestID] = []
        while let id = queue.nextExpired(at: at(5)) { expired.append(id) }
        #expect(expired == [1, 2, 5])
        #expect(queue.state(1) == "on link 1" && queue.state(2) == "delayed" && queue.state(5) == "waiting")
        #expect(queue.nextDeadline == at(9))  // the end of its pause
    }

    /// A request that comes back from its link, or is tried again, gets no additional time.
    @Test func aRequestKeepsItsDeadlineAcrossLinksAndRetries() {
        var queue = Queue(maximumWaiting: 10, maximumBytes: 1 << 20)
        queue.append(request(1), deadline: at(10))
        _ = queue.go()
        queue.giveBack([request(1)])
        _ = queue.go()
        queue.delay(request(1), until: at(5))
        #expect(queue.nextRested(at: at(5))?.id == 1)
        queue.wake(1, as: "again")
        #expect(queue.nextDeadline == at(10) && queue.nextExpired(at: at(9)) == nil)
        #expect(queue.nextExpired(at: at(10)) == 1)
        #expect(queue.nextExpired(at: at(11)) == nil)
        // A later deadline can be set, and it expires, too.
        queue.watch(1, at(20))
        #expect(queue.nextDeadline == at(20) && queue.nextExpired(at: at(20)) == 1)
        queue.watch(1, at(30))
        queue.forgetDeadlines()
        #expect(queue.nextDeadline == nil && queue.watchedCount == 0)
    }

    // MARK: Limits

    @Test func theNumberOfWaitingRequestsIsLimited() {
        var queue = Queue(maximumWaiting: 2, maximumBytes: 1 << 20)
        #expect(queue.refusal(for: 1) == nil)
        for id in 1...2 as ClosedRange<RequestID> { queue.append(request(id), deadline: nil) }
        #expect(queue.refusal(for: 1) == "2 requests are waiting (maximumWaiting is 2)")
        _ = queue.go()
        #expect(queue.refusal(for: 1) == nil)
        // Requests in a pause will wait again.
        queue.delay(request(1), until: at(5))
        #expect(queue.refusal(for: 1) != nil)
        #expect(queue.take(1) != nil)
        #expect(queue.refusal(for: 1) == nil)
        var none = Queue(maximumWaiting: -1, maximumBytes: 1)
        #expect(none.refusal(for: 1) == "0 requests are waiting (maximumWaiting is 0)")
    }

    @Test func theBytesOfWaitingRequestsAreLimitedButOneAlwaysFits() {
        let limit = 2000
        var queue = Queue(maximumWaiting: 10, maximumBytes: limit)
        #expect(queue.refusal(for: limit + 1) == nil)
        queue.append(request(1, 400), deadline: nil)
        // A request costs its body, 32 bytes for its frame and 512 for its entries. So does the next one.
        let room = limit - (400 + 32 + 512) - 512
        #expect(queue.refusal(for: room) == nil)
        #expect(queue.refusal(for: room + 1)?.contains("944 bytes") == true)
        _ = queue.go()
        #expect(queue.refusal(for: limit) == nil)
        queue.giveBack([request(1, 400)])
        #expect(queue.refusal(for: room) == nil && queue.refusal(for: room + 1) != nil)
        #expect(queue.take(1) != nil)
        queue.append(request(2, 400), deadline: nil)
        #expect(queue.refusal(for: room) == nil && queue.refusal(for: room + 1) != nil)
        _ = queue.takeAll()
        #expect(queue.refusal(for: limit) == nil)
    }

    // MARK: Property

    @Test func theQueueBehavesLikeAList() {
        for seed in seeds(300) {
            var generator = SeededGenerator(seed: seed)
            var queue = Queue(maximumWaiting: 1 << 20, maximumBytes: .max)
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
                    queue.append(request(id), deadline: deadline)
                    line.append(id)
                    deadlines[id] = deadline
                case 5...7:
                    #expect(queue.go(on: 4) == line.first, "seed \(seed)")
                    if !line.isEmpty { onLink.append(line.removeFirst()) }
                case 8:
                    let count = Int.random(in: 0...onLink.count, using: &generator)
                    let back = Array(onLink.suffix(count))
                    queue.giveBack(back.map { request($0) })
                    line = back + line
                    onLink.removeLast(count)
                case 9, 10:
                    guard let index = onLink.indices.randomElement(using: &generator) else { continue }
                    let gone = onLink.remove(at: index)
                    if Bool.random(using: &generator) {
                        let isGone = queue.forget(gone)?.accepted == Instant(nanoseconds: Int64(gone))
                        #expect(isGone, "seed \(seed)")
                        deadlines[gone] = nil
                    } else {
                        let until = clock.advanced(by: .milliseconds(Int.random(in: 0...2000, using: &generator)))
                        queue.delay(request(gone), until: until)
                        delayed[gone] = until
                    }
                case 11, 12, 13:
                    let anywhere = RequestID.random(in: 0...id + 1, using: &generator)
                    let victim = line.randomElement(using: &generator) ?? anywhere
                    let isOut = line.contains(victim) || delayed[victim] != nil
                    #expect(queue.take(victim)?.id == (isOut ? victim : nil), "seed \(seed)")
                    line.removeAll { $0 == victim }
                    delayed[victim] = nil
                    if isOut { deadlines[victim] = nil }
                case 14:
                    let due = Set(delayed.filter { $0.value <= clock }.keys)
                    var rested: Set<RequestID> = []
                    while let request = queue.nextRested(at: clock) {
                        #expect(rested.insert(request.id).inserted, "seed \(seed)")
                        queue.wake(request.id, as: request.waiter)
                        delayed[request.id] = nil
                        line.append(request.id)
                    }
                    #expect(rested == due, "seed \(seed)")
                default:
                    let due = Set(deadlines.filter { $0.value <= clock }.keys)
                    var expired: Set<RequestID> = []
                    while let id = queue.nextExpired(at: clock) {
                        #expect(expired.insert(id).inserted, "seed \(seed)")
                        deadlines[id] = nil
                    }
                    #expect(expired == due, "seed \(seed)")
                    if Int.random(in: 0..<20, using: &generator) == 0 {
                        let all = queue.takeAll(includingDelayed: false)
                        #expect(all.map(\.id) == line.sorted(), "seed \(seed)")
                        for id in line { deadlines[id] = nil }
                        line = []
                    }
                }
                #expect(queue.waiting.map(\.id) == line, "seed \(seed)")
                #expect(queue.waitingCount == line.count && queue.delayedCount == delayed.count, "seed \(seed)")
                #expect(queue.ids == (line + onLink + delayed.keys).sorted(), "seed \(seed)")
                if let id = line.randomElement(using: &generator) {
                    #expect(queue.request(id)?.id == id, "seed \(seed)")
                }
                if let next = (Array(deadlines.values) + delayed.values).min() {
                    #expect(queue.nextDeadline.map { $0 <= next } == true, "seed \(seed)")
                }
            }
        }
    }
}
