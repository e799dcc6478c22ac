import Testing

@testable import TrunklineCore
@testable import TrunklineIO

@Suite struct DeadlineQueueTests {}

extension DeadlineQueueTests {
    @Test func requestIDsComeOutInOrderOfTheirDeadlines() {
        var generator = SeededGenerator(seed: 3)
        var queue = DeadlineQueue()
        var deadlines: [RequestID: Int64] = [:]
        for requestID in 0..<1000 as Range<RequestID> {
            let deadline = Int64.random(in: 0...500, using: &generator)
            deadlines[requestID] = deadline
            queue.insert(requestID, deadline: Instant(nanoseconds: deadline))
        }
        var last: Int64 = 0
        for now in stride(from: 0, through: 500, by: 50) as StrideThrough<Int64> {
            while let requestID = queue.popDue(at: Instant(nanoseconds: now)) {
                let deadline = deadlines.removeValue(forKey: requestID) ?? -1
                #expect(deadline >= last && deadline <= now)
                last = deadline
            }
            #expect(deadlines.values.allSatisfy { $0 > now })
        }
        #expect(queue.count == 0)
    }

    @Test func compactingKeepsLiveEntriesInOrder() {
        var queue = DeadlineQueue()
        for requestID in 0..<1000 as Range<RequestID> {
            queue.insert(requestID, deadline: Instant(nanoseconds: Int64(1000 - requestID.number)))
        }
        #expect(queue.isCrowded(alive: 10))
        queue.compact { $0.number % 100 == 0 }
        #expect(queue.count == 10)
        #expect(queue.popDue(at: .distantFuture) == 900)
        #expect(queue.popDue(at: .distantFuture) == 800)
    }

    @Test func consecutiveRequestIDsWithOneDeadlineShareAnEntry() {
        var queue = DeadlineQueue()
        queue.insert(10...13, deadline: Instant(nanoseconds: 20))
        queue.insert(14, deadline: Instant(nanoseconds: 10))
        queue.insert(15...400, deadline: Instant(nanoseconds: 30))
        #expect(queue.count == 3 && queue.earliest == Instant(nanoseconds: 10))
        var due: [RequestID] = []
        while let requestID = queue.popDue(at: Instant(nanoseconds: 20)) { due.append(requestID) }
        #expect(due == [14, 10, 11, 12, 13])
        // An entry stays while one of its requests is alive.
        queue.insert(401...402, deadline: Instant(nanoseconds: 40))
        queue.compact { $0 == 400 }
        #expect(queue.count == 1 && queue.earliest == Instant(nanoseconds: 30))
        queue.compact { _ in false }
        #expect(queue.count == 0 && queue.popDue(at: .distantFuture) == nil)
    }

    /// Otherwise a long batch with one request left would be walked through each time.
    @Test func compactingDoesNotAskAgainForTheBeginningOfAnEntry() {
        var queue = DeadlineQueue()
        queue.insert(0...9, deadline: Instant(nanoseconds: 10))
        func asked(whileAliveFrom first: RequestID) -> [RequestID] {
            var asked: [RequestID] = []
            queue.compact { requestID in
                asked.append(requestID)
                return requestID >= first
            }
            return asked
        }
        #expect(asked(whileAliveFrom: 5) == [0, 1, 2, 3, 4, 5])
        #expect(asked(whileAliveFrom: 5) == [5])
        #expect(asked(whileAliveFrom: 7) == [5, 6, 7])
        #expect(queue.count == 1 && queue.earliest == Instant(nanoseconds: 10))
        // The rest of the entry is due.
        var due: [RequestID] = []
        while let requestID = queue.popDue(at: Instant(nanoseconds: 10)) { due.append(requestID) }
        #expect(due == [7, 8, 9] && queue.count == 0)
    }
}
