import Testing

@testable import TrunklineCore
@testable import TrunklineIO

/// A burst of requests grows every table. Afterwards the tables shrink, and small ones do not reallocate over and over.
@Suite struct MemoryTests {}

extension MemoryTests {
    private static let burst = 100_000
    private static let lastID = RequestID(UInt64(burst))

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

    @Test func aValueIsChangedInItsPlace() {
        var map = SequentialMap<Int>()
        #expect(!map.update(1) { $0 += 1 })
        // Both keys want the same slot, so the first one is a straggler.
        for key in [1, 1 << 32 | 1] as [UInt64] { map.insert(10, for: key) }
        for key in [1, 1 << 32 | 1] as [UInt64] { #expect(map.update(key) { $0 += Int(key & 1) }) }
        #expect(!map.update(2 << 32 | 1) { $0 = 0 })
        #expect(map.count == 2 && map.sorted.map(\.value) == [11, 11])
    }

    @Test func aMapShrinksWhenItsStragglersAreRemoved() {
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

    /// Half full and empty in turn, as with a few hundred requests at a time.
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

    @Test func deadlineQueuesAndRequestTablesShrink() {
        var deadlines = DeadlineQueue()
        var table = RequestTable<Int>(maximumWaiting: .max, maximumBytes: .max)
        for id in 1...Self.lastID {
            deadlines.insert(id, deadline: Instant(nanoseconds: Int64(id.number)))
            let request = QueuedRequest(id: id, frame: Frame(.request), expectsResponse: true)
            table.append(request, 0, deadline: Instant(nanoseconds: Int64(id.number)), accepted: .distantPast)
        }
        deadlines.compact { $0 <= 10 }
        #expect(deadlines.capacity <= 1024)
        #expect(table.capacity >= Self.burst)
        while let id = table.nextExpired(at: .distantFuture) {
            _ = table.remove(id)
            table.forget(id)
        }
        #expect(table.count == 0 && table.watchedCount == 0 && table.capacity <= 1024)
    }

    /// Until another request came, the deadlines of answered requests stayed in memory until they passed.
    @Test func aQueueForgetsTheDeadlinesOfRemovedRequests() {
        var table = RequestTable<Int>(maximumWaiting: .max, maximumBytes: .max)
        for id in 1...Self.lastID {
            let request = QueuedRequest(id: id, frame: Frame(.request), expectsResponse: true)
            table.append(request, 0, deadline: .distantFuture, accepted: .distantPast)
            _ = table.queue.popFirst()
            table.queue.went(id, to: .response(id.number), on: 1)
            table.noteAdmissions(at: .distantPast)
        }
        #expect(table.capacity >= Self.burst)
        for id in 1..<Self.lastID { table.forget(id) }
        table.giveBackMemory()
        #expect(table.count == 1 && table.capacity <= 1024)
        #expect(table.nextDeadline == .distantFuture)
    }

    @Test(arguments: [ResponseMatching.serial(1...SerialNumber.max), .inOrder])
    func aTableShrinksWhenItsRequestsAreAnswered(_ matching: ResponseMatching) {
        var table = InFlightTable(matching: matching)
        for number in 1...UInt64(Self.burst) { _ = table.insert(number: number) }
        #expect(table.capacity >= Self.burst)
        for serial in 1...SerialNumber(Self.burst - 1) { _ = table.takeAnswered(serial, before: .max) }
        #expect(table.count == 1 && table.capacity <= 4096)
    }

    /// The pauses of requests that were cancelled meanwhile.
    @Test func pausesOfRemovedRequestsTakeNoMemory() {
        var table = RequestTable<Int>(maximumWaiting: .max, maximumBytes: .max)
        for id in 1...Self.lastID {
            let request = QueuedRequest(id: id, frame: Frame(.request), expectsResponse: true)
            table.append(request, 0, deadline: nil, accepted: .distantPast)
            _ = table.queue.popFirst()
            table.queue.went(id, to: .written, on: 1)
            table.noteAdmissions(at: .distantPast)
            table.delay(request, until: .distantFuture)
            _ = table.remove(id)
            table.forget(id)
        }
        #expect(table.count == 0 && table.queue.delayedCount == 0 && table.capacity <= 1024)
    }
}
