import Testing

@testable import Trunkline

@Suite struct DeadlineQueueTests {
    @Test func requestIDsComeOutInOrderOfTheirDeadlines() {
        var generator = SeededGenerator(seed: 3)
        var queue = DeadlineQueue()
        var deadlines: [UInt64: Int64] = [:]
        for requestID in 0..<1000 as Range<UInt64> {
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
        for requestID in 0..<1000 as Range<UInt64> {
            queue.insert(requestID, deadline: Instant(nanoseconds: Int64(1000 - requestID)))
        }
        #expect(queue.isCrowded(alive: 10))
        queue.compact { $0 % 100 == 0 }
        #expect(queue.count == 10)
        #expect(queue.popDue(at: .distantFuture) == 900)
        #expect(queue.popDue(at: .distantFuture) == 800)
    }
}
