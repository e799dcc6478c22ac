import Testing

@testable import TrunklineCore

/// A burst of requests grows every table; when it is over they shrink, and small ones do not allocate over and over.
@Suite struct MemoryTests {
    private static let burst = 100_000

    @Test(arguments: [0, 1, 100])
    func aMapShrinksWhenItIsMostlyEmpty(_ left: Int) {
        var map = SequentialMap<Int>()
        for key in 0..<Self.burst { map.insert(key, for: UInt64(key)) }
        #expect(map.capacity >= Self.burst)
        // The oldest stay.
        for key in left..<Self.burst { #expect(map.remove(UInt64(key)) == key) }
        #expect(map.capacity <= 4096)
        #expect(map.sorted.map(\.value) == Array(0..<left))
        for key in 0..<left { #expect(map.remove(UInt64(key)) == key) }
        #expect(map.isEmpty)
    }

    @Test func aMapShrinksWhenItsStragglersAreGone() {
        var map = SequentialMap<Int>()
        // Keys that collide: all but one are stragglers.
        for key in 0..<20_000 { map.insert(key, for: UInt64(key) << 32) }
        #expect(map.capacity >= 20_000)
        for key in 0..<19_990 { #expect(map.remove(UInt64(key) << 32) == key) }
        #expect(map.capacity <= 4096)
        #expect(map.sorted.map(\.value) == Array(19_990..<20_000))
    }

    @Test func aQueueShrinksWhenItIsMostlyEmpty() {
        var queue = Deque<Int>()
        for number in 0..<Self.burst { queue.append(number) }
        for number in 0..<Self.burst - 10 { #expect(queue.popFirst() == number) }
        #expect(queue.count == 10 && queue.capacity <= 1024)
        queue.prepend(-1)
        #expect((0..<queue.count).map { queue[$0] } == [-1] + Array(Self.burst - 10..<Self.burst))
        for number in 0..<Self.burst { queue.append(number) }
        queue.removeAll { $0 >= 0 }
        #expect(queue.count == 1 && queue.first == -1 && queue.capacity <= 1024)
        for number in 0..<Self.burst { queue.append(number) }
        queue.removeAll()
        #expect(queue.isEmpty && queue.capacity <= 1024)
    }

    /// Between half full and empty in turn, as with a few hundred requests at a time.
    @Test func smallTablesKeepTheirMemory() {
        var (map, queue) = (SequentialMap<Int>(), Deque<Int>())
        var capacities: Set<[Int]> = []
        for round in 0..<20 {
            for number in 0..<500 {
                map.insert(number, for: UInt64(round * 500 + number))
                queue.append(number)
            }
            for number in 0..<500 {
                map.remove(UInt64(round * 500 + number))
                _ = queue.popFirst()
            }
            if round > 0 { capacities.insert([map.capacity, queue.capacity]) }
        }
        #expect(capacities == [[1024, 512]])
    }

    @Test func deadlinesAndLinesShrink() {
        var (deadlines, line) = (DeadlineQueue(), WaitingLine())
        for ticket in 1...Ticket(Self.burst) {
            deadlines.insert(ticket, deadline: Instant(nanoseconds: Int64(ticket)))
            line.append(ticket, Frame(.request))
        }
        var compacted = deadlines
        compacted.compact { $0 <= 10 }
        #expect(compacted.capacity <= 1024)
        while let ticket = deadlines.popDue(at: .distantFuture) { line.remove(ticket) }
        line.dropDead()
        #expect(deadlines.capacity <= 1024 && line.capacity <= 1024)
    }

    /// Without one more request, the deadlines of those that were answered stayed for as long as they had time.
    @Test func aTableForgetsTheDeadlinesOfThoseWhoHaveLeft() {
        var table = RequestTable<Int>(matching: .serial(1...SerialNumber.max), quarantine: .seconds(60))
        for ticket in 1...Ticket(Self.burst) {
            table.register(ticket, waiter: 0, type: 0, expectsResponse: true, deadline: .distantFuture)
            _ = table.admit(ticket, at: ticket)
        }
        #expect(table.capacity >= Self.burst)
        for serial in 1...SerialNumber(Self.burst - 1) { _ = table.answer(serial, unstarted: .max) }
        table.dropDeadDeadlines()
        #expect(table.count == 1 && table.capacity <= 1024)
        #expect(table.nextDeadline == .distantFuture)
    }
}
