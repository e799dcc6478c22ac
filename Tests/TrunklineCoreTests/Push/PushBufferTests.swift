import Testing

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts

@Suite struct PushBufferTests {}

extension PushBufferTests {
    func push(_ serial: UInt64, bytes: Int = 1) -> Frame {
        Frame(.push, serial: serial, body: Bytes([UInt8](repeating: 0, count: bytes)))
    }

    func drain(_ buffer: inout PushBuffer) -> [String] {
        var all: [String] = []
        while let element = buffer.next() {
            switch element {
            case .frame(let frame): all.append("\(frame.serial)")
            case .dropped(let count): all.append("-\(count)")
            case .reconnected: all.append("r")
            }
        }
        return all
    }

    /// The gap used to be added to an earlier one, before the buffered pushes, so that the end looked orderly.
    @Test func anOverflowIsTheLastElement() {
        for hasGap in [false, true] {
            for isReconnected in [false, true] {
                var buffer = PushBuffer(maximumCount: 1, maximumBytes: 100, policy: .fail)
                if hasGap { buffer.noteDropped(1) }
                #expect(buffer.offer(Frame(.push, body: "a")) == .taken)
                if isReconnected { buffer.noteReconnected() }
                #expect(buffer.offer(Frame(.push, body: "b")) == .overflow)
                buffer.noteOverflow()
                var elements: [PushBuffer.Element] = []
                while let element = buffer.next() { elements.append(element) }
                #expect(elements.last == .dropped(1))
                #expect(elements.count == 2 + (hasGap ? 1 : 0) + (isReconnected ? 1 : 0))
            }
        }
    }

    @Test func aGapStaysBehindThePushesBeforeIt() {
        var buffer = PushBuffer(maximumCount: 9, maximumBytes: 100, policy: .dropOldest)
        buffer.noteDropped(1)
        #expect(buffer.offer(Frame(.push, body: "a")) == .taken)
        buffer.noteDropped(2)
        #expect(buffer.next() == .dropped(1))
        #expect(buffer.next() == .frame(Frame(.push, body: "a")))
        #expect(buffer.next() == .dropped(2))
    }

    /// Pushes without a body, such as those of NATS, used to count as nothing.
    @Test func headsCountLikeBodies() {
        var buffer = PushBuffer(maximumCount: 100, maximumBytes: 100, policy: .dropOldest)
        for serial in 1...3 as ClosedRange<UInt64> {
            _ = buffer.offer(Frame(.push, serial: serial, head: Bytes(repeating: 1, count: 50)))
        }
        #expect(drain(&buffer) == ["-1", "2", "3"])
        // Elements that were taken no longer count.
        for serial in 4...5 as ClosedRange<UInt64> {
            _ = buffer.offer(Frame(.push, serial: serial, head: Bytes(repeating: 1, count: 50)))
        }
        #expect(drain(&buffer) == ["4", "5"])
    }

    @Test func dropOldestReplacesTheOldestPushesWithOneGap() {
        var buffer = PushBuffer(maximumCount: 3, maximumBytes: 100, policy: .dropOldest)
        for serial in 1...6 as ClosedRange<UInt64> { #expect(buffer.offer(push(serial)) == .taken) }
        #expect(drain(&buffer) == ["-3", "4", "5", "6"])
    }

    @Test func dropNewestReplacesTheNewestPushesWithOneGap() {
        var buffer = PushBuffer(maximumCount: 3, maximumBytes: 100, policy: .dropNewest)
        for serial in 1...6 as ClosedRange<UInt64> { _ = buffer.offer(push(serial)) }
        _ = buffer.next()
        _ = buffer.offer(push(7))
        #expect(drain(&buffer) == ["2", "3", "-3", "7"])
    }

    @Test func failKeepsTheBufferedPushes() {
        var buffer = PushBuffer(maximumCount: 1, maximumBytes: 100, policy: .fail)
        #expect(buffer.offer(push(1)) == .taken)
        #expect(buffer.offer(push(2)) == .overflow)
        #expect(drain(&buffer) == ["1"])
    }

    @Test func bytesAreLimitedTooButOnePushAlwaysFits() {
        var buffer = PushBuffer(maximumCount: 100, maximumBytes: 10, policy: .dropOldest)
        _ = buffer.offer(push(1, bytes: 50))
        _ = buffer.offer(push(2, bytes: 6))
        _ = buffer.offer(push(3, bytes: 6))
        // Those that were dropped entered the buffer, too.
        #expect(buffer.takenCount == 3 && buffer.overflowCount == 2)
        #expect(drain(&buffer) == ["-2", "3"])
    }

    @Test func suspendReadingTakesEveryPushAndReportsWhenItIsFullAndRoomy() {
        var buffer = PushBuffer(maximumCount: 4, maximumBytes: 100, policy: .suspendReading)
        let offers = (1...5 as ClosedRange<UInt64>).map { buffer.offer(push($0)) }
        #expect(offers == [.taken, .taken, .taken, .takenButFull, .takenButFull])
        #expect(!buffer.isRoomy)
        for _ in 0..<3 { _ = buffer.next() }
        #expect(buffer.isRoomy)
        #expect(drain(&buffer) == ["4", "5"])
    }

    @Test func aFullBufferThatSuspendsReadingDropsASurplusAndSaysSo() {
        var buffer = PushBuffer(maximumCount: 2, maximumBytes: 100, policy: .suspendReading)
        #expect(buffer.offer(push(1), mayExceed: false) == .taken)
        #expect(buffer.offer(push(2), mayExceed: false) == .takenButFull)
        #expect(buffer.offer(push(3)) == .takenButFull)
        for serial in 4...1000 as ClosedRange<UInt64> {
            #expect(buffer.offer(push(serial), mayExceed: false) == .taken)
            if serial.isMultiple(of: 10) { buffer.noteReconnected() }
        }
        #expect(buffer.takenCount == 3 && buffer.overflowCount == 997)
        #expect(drain(&buffer) == ["1", "2", "3", "-997", "r"])
    }

    @Test func unreadReconnectsDoNotAccumulate() {
        for policy in [PushBuffer.Overflow.dropNewest, .dropOldest] {
            var buffer = PushBuffer(maximumCount: 2, maximumBytes: 100, policy: policy)
            for serial in 1...1000 as ClosedRange<UInt64> {
                _ = buffer.offer(push(serial))
                buffer.noteReconnected()
                buffer.noteReconnected()
            }
            #expect(drain(&buffer).count <= 8)
        }
    }

    /// With `maximumCount: .max` for "no limit", the limit on unread reconnects overflowed at the first one.
    @Test func theLargestLimitDoesNotOverflow() {
        var buffer = PushBuffer(maximumCount: .max, maximumBytes: .max, policy: .dropOldest)
        #expect(buffer.offer(push(1)) == .taken)
        buffer.noteReconnected()
        #expect(drain(&buffer) == ["1", "r"])
    }
}
