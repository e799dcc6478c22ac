import Testing
import Trunkline

/// Memory for reading that several buffers share in turn.
@Suite struct ReceiveBufferTests {
    private func fill(_ buffer: inout ReceiveBuffer, _ bytes: [UInt8]) {
        let taken = unsafe buffer.fill { free in
            unsafe free.copyBytes(from: bytes)
            return (bytes.count, ())
        }
        #expect(taken.count == bytes.count)
    }

    @Test func borrowedMemoryIsReturnedAndAnIncompleteFrameIsKept() {
        var memory = [UInt8](repeating: 0, count: 128 * 1024)
        var buffer = ReceiveBuffer()
        buffer.borrow(&memory)
        #expect(memory.isEmpty)
        fill(&buffer, [1, 2, 3, 4, 5])
        #expect(buffer.readBytes(2) == [1, 2])
        buffer.giveBack(to: &memory)
        #expect(memory.count == 128 * 1024)
        #expect(buffer.count == 3)
        buffer.borrow(&memory)
        fill(&buffer, [6])
        #expect(buffer.readBytes(4) == [3, 4, 5, 6])
        buffer.giveBack(to: &memory)
        #expect(memory.count == 128 * 1024)
        #expect(buffer.isEmpty)
    }

    @Test func memoryThatAFrameSharesIsNotReturned() {
        var memory = [UInt8](repeating: 0, count: 64 * 1024)
        var buffer = ReceiveBuffer()
        buffer.borrow(&memory)
        fill(&buffer, [UInt8](repeating: 7, count: 20_000))
        let body = buffer.readBytes(20_000)
        buffer.giveBack(to: &memory)
        #expect(memory.isEmpty)
        buffer.borrow(&memory)
        fill(&buffer, [UInt8](repeating: 8, count: 20_000))
        #expect(body == Bytes([UInt8](repeating: 7, count: 20_000)))
    }

    @Test func aBufferWithManyBytesToDecodeKeepsItsMemory() {
        var memory = [UInt8](repeating: 0, count: 64 * 1024)
        var buffer = ReceiveBuffer()
        buffer.borrow(&memory)
        fill(&buffer, [UInt8](repeating: 7, count: 10_000))
        buffer.giveBack(to: &memory)
        #expect(memory.isEmpty)
        var others = [UInt8](repeating: 0, count: 32 * 1024)
        buffer.borrow(&others)
        #expect(others.count == 32 * 1024)
        #expect(buffer.readBytes(10_000) == Bytes([UInt8](repeating: 7, count: 10_000)))
    }

    /// Reading a body through a buffer, and appending behind it, must not change the body, which others hold.
    @Test func aBodyIsReadWithoutCopyingOrChangingIt() {
        var outer = ReceiveBuffer([9] + (0..<100).map { UInt8($0) } + [9])
        outer.skip(1)
        let body = outer.readBytes(100) ?? Bytes()
        var input = ReceiveBuffer(body)
        #expect(input.count == 100 && input.byte(at: 0) == 0 && input.byte(at: 100) == nil)
        #expect(input.firstOffset(of: 9) == 9)
        #expect(input.readInteger(as: UInt16.self) == 1)
        _ = unsafe input.fill { free in
            unsafe free.copyBytes(from: [7, 7, 7])
            return (3, ())
        }
        #expect(input.readBytes(101).map { Array($0) } == (2..<100).map { UInt8($0) } + [7, 7, 7])
        #expect(Array(body) == (0..<100).map { UInt8($0) })
    }
}
