import Testing

@testable import TrunklineCore
@testable import TrunklineIO

/// Memory for reading that several buffers share in turn.
@Suite struct ReceiveBufferTests {}

extension ReceiveBufferTests {
    private func fill(_ buffer: inout ReceiveBuffer, _ bytes: [UInt8]) {
        let taken = unsafe buffer.fill { free in
            unsafe free.copyBytes(from: bytes)
            return bytes.count
        }
        #expect(taken == bytes.count)
    }

    @Test func borrowedMemoryIsReturnedAndAnIncompleteFrameIsKept() {
        var memory = ReceiveMemory()
        var buffer = ReceiveBuffer()
        buffer.borrow(&memory)
        fill(&buffer, [1, 2, 3, 4, 5])
        #expect(buffer.readBytes(2) == [1, 2])
        buffer.giveBack(to: &memory)
        let kept = memory.spareByteCount
        #expect(kept >= 64 * 1024)
        #expect(buffer.count == 3)
        buffer.borrow(&memory)
        #expect(memory.spareByteCount < kept)
        fill(&buffer, [6])
        #expect(buffer.readBytes(4) == [3, 4, 5, 6])
        buffer.giveBack(to: &memory)
        #expect(memory.spareByteCount >= kept)
        #expect(buffer.isEmpty)
    }

    @Test func aBufferWithManyBytesToDecodeKeepsItsMemory() {
        var memory = ReceiveMemory()
        var buffer = ReceiveBuffer()
        buffer.borrow(&memory)
        fill(&buffer, [UInt8](repeating: 7, count: 10_000))
        buffer.giveBack(to: &memory)
        #expect(memory.spareByteCount == 0)
        #expect(buffer.readBytes(10_000) == Bytes([UInt8](repeating: 7, count: 10_000)))
    }

    // MARK: Memory that bodies share

    /// Receives a body of `count` equal bytes and returns it, as a link does in one turn.
    private func receive(_ byte: UInt8, count: Int = 20_000, _ memory: inout ReceiveMemory) throws -> Bytes {
        var buffer = ReceiveBuffer()
        buffer.borrow(&memory)
        fill(&buffer, [UInt8](repeating: byte, count: count))
        let taken = buffer.readBytes(count)
        let body = try #require(taken)
        buffer.giveBack(to: &memory)
        return body
    }

    private func address(of body: Bytes) -> UInt { unsafe body.withUnsafeBytes { UInt(bitPattern: $0.baseAddress) } }

    /// Reads that are filled would grow until bodies of this size could no longer share their memory. They stop before.
    @Test(arguments: [10_000, 16_384, 32_768, 50_000])
    func bodiesThatArriveTogetherAreNotCopied(count: Int) throws {
        var memory = ReceiveMemory()
        var buffer = ReceiveBuffer()
        var (shared, last) = (0, 0)
        for round in 0..<20 {
            buffer.borrow(&memory)
            unsafe buffer.fill { free in free.count }
            (shared, last) = (0, 0)
            while let body = buffer.readBytes(count) {
                if round < 19 { continue }
                last += 1
                if body.heldBytes > count + 1024 { shared += 1 }
            }
            buffer.giveBack(to: &memory)
        }
        #expect(last > 0 && shared == last)
    }

    @Test func memoryIsReusedAfterItsBodyWasReleased() throws {
        var memory = ReceiveMemory()
        let first = address(of: try receive(7, &memory))
        let second = try receive(8, &memory)
        #expect(address(of: second) == first)
        #expect(second == Bytes(repeating: 8, count: 20_000))
    }

    @Test func memoryIsNotReusedWhileABodySharesIt() throws {
        var memory = ReceiveMemory()
        var bodies: [Bytes] = []
        for number in 0..<100 { bodies.append(try receive(UInt8(number), &memory)) }
        for number in 0..<100 { #expect(bodies[number] == Bytes(repeating: UInt8(number), count: 20_000)) }
        #expect(Set(bodies.map(address(of:))).count == 100)
    }

    @Test func aBodyInReusedMemoryHasNoBytesOfTheEarlierOne() throws {
        var memory = ReceiveMemory()
        let first = address(of: try receive(7, count: 30_000, &memory))
        var body = try receive(8, &memory)
        #expect(address(of: body) == first)
        #expect(body.count == 20_000 && body.allSatisfy { $0 == 8 })
        body.append(9)
        #expect(body.count == 20_001 && !body.contains(7))
        // The buffer itself shows received bytes only.
        var buffer = ReceiveBuffer()
        buffer.borrow(&memory)
        #expect(buffer.isEmpty && buffer.byte(at: 0) == nil && buffer.readBytes(1) == nil)
        fill(&buffer, [1])
        #expect(buffer.readBytes(2) == nil && buffer.readBytes(1) == [1])
    }

    @Test func rememberedMemoryIsBoundedAndReleasedWhenIdle() throws {
        var memory = ReceiveMemory()
        var bodies: [Bytes] = []
        for _ in 0..<200 {
            bodies.append(try receive(7, &memory))
            #expect(memory.lentByteCount <= ReceiveMemory.maximumLent)
        }
        #expect(memory.hasLent)
        memory.trim(at: Instant(nanoseconds: 1))
        memory.trim(at: Instant(nanoseconds: ReceiveMemory.keepNanoseconds))
        #expect(memory.hasLent)
        memory.trim(at: Instant(nanoseconds: 1 + ReceiveMemory.keepNanoseconds))
        #expect(!memory.hasLent && memory.lentByteCount == 0)
    }

    /// A frame that grows the buffer step by step must not leave the smaller steps behind.
    @Test func memoryOfALargeFrameIsNotKept() {
        var memory = ReceiveMemory()
        var buffer = ReceiveBuffer()
        let size = 3 * ReceiveMemory.maximumSize
        buffer.await(size)
        while buffer.count < size {
            buffer.borrow(&memory)
            let missing = size - buffer.count
            unsafe buffer.fill { free in min(free.count, missing) }
        }
        #expect(buffer.readBytes(size)?.count == size)
        buffer.giveBack(to: &memory)
        #expect(memory.spareByteCount <= ReceiveMemory.maximumSize)
        #expect(memory.lentByteCount == 0)
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
        unsafe input.fill { free in
            unsafe free.copyBytes(from: [7, 7, 7])
            return 3
        }
        #expect(input.readBytes(101).map { Array($0) } == (2..<100).map { UInt8($0) } + [7, 7, 7])
        #expect(Array(body) == (0..<100).map { UInt8($0) })
    }

    // MARK: Small runs of bytes

    @Test(arguments: [1, 20, 64, 500, 1024, 1025])
    func smallRunsShareMemoryOfALimitedSize(_ size: Int) {
        var buffer = ReceiveBuffer()
        fill(&buffer, (0..<50 * size).map { UInt8(truncatingIfNeeded: $0) })
        let runs = (0..<50).compactMap { _ in buffer.readBytes(size) }
        #expect(runs.count == 50 && buffer.isEmpty)
        #expect(runs.flatMap { $0 } == (0..<50 * size).map { UInt8(truncatingIfNeeded: $0) })
        // The capacity of an array is rounded up.
        #expect(runs.allSatisfy { $0.heldBytes <= max(256, 8 * size) * 5 / 4 })
        let ends = zip(runs, runs.dropFirst()).filter { address(of: $0) + UInt(size) != address(of: $1) }
        if size > 1024 { #expect(ends.count == 49) } else { #expect(ends.count < 10) }
    }

    @Test func aSingleSmallRunHasMemoryOfItsOwnSize() {
        var buffer = ReceiveBuffer()
        fill(&buffer, [UInt8](repeating: 7, count: 120))
        let taken = buffer.readBytes(64)
        #expect(taken == Bytes(repeating: 7, count: 64))
        #expect(taken.map { $0.heldBytes < 100 } == true)
    }

    /// A small run among larger ones must not take the copy away from them.
    @Test(arguments: [[20, 600], [600, 20, 20], [15, 500, 2], [100, 1000], [1, 1, 1, 64]])
    func runsOfDifferentSizesShareMemory(_ sizes: [Int]) {
        var buffer = ReceiveBuffer()
        fill(&buffer, [UInt8](repeating: 7, count: 60_000))
        var held: [UInt: Int] = [:]
        var runs: [Bytes] = []  // keeps the memory of all, so that no address occurs twice
        while let run = buffer.readBytes(sizes[runs.count % sizes.count]) {
            #expect(run.heldBytes <= max(256, 8 * run.count) * 5 / 4)
            let storage = unsafe run.storage.withUnsafeBytes { UInt(bitPattern: $0.baseAddress) }
            held[storage] = run.heldBytes
            runs.append(run)
        }
        #expect(held.values.reduce(0, +) < 2 * 60_000)
    }

    /// Runs keep their bytes when the buffer is filled again or its memory is returned.
    @Test(arguments: seeds(100))
    func runsKeepTheirBytes(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        var memory = ReceiveMemory()
        var buffer = ReceiveBuffer()
        var pending: [UInt8] = []
        var taken: [(Bytes, [UInt8])] = []
        for _ in 0..<200 {
            switch Int.random(in: 0..<10, using: &generator) {
            case 0:
                if Bool.random(using: &generator) { buffer.borrow(&memory) }
                let limit = [100, 6000, 20_000].randomElement(using: &generator) ?? 1
                let count = Int.random(in: 1...limit, using: &generator)
                let bytes = (0..<count).map { _ in UInt8.random(in: 0...255, using: &generator) }
                fill(&buffer, bytes)
                pending += bytes
            case 1: buffer.giveBack(to: &memory)
            case 2:
                let length = Int.random(in: 0...40, using: &generator)
                if buffer.skip(length) { pending.removeFirst(length) }
            case 3:
                let mark = buffer.position
                _ = buffer.readBytes(Int.random(in: 0...300, using: &generator))
                buffer.rewind(to: mark)
            case 4: pending.removeFirst(buffer.discard(Int.random(in: 0...100, using: &generator)))
            default:
                let limit = [8, 64, 600, 2000, 10_000].randomElement(using: &generator) ?? 0
                let length = Int.random(in: 0...limit, using: &generator)
                guard let run = buffer.readBytes(length) else { continue }
                taken.append((run, Array(pending.prefix(length))))
                pending.removeFirst(length)
            }
        }
        #expect(buffer.count == pending.count)
        for (run, bytes) in taken { #expect(Array(run) == bytes) }
    }
}
