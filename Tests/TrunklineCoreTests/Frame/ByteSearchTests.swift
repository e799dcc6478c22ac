import Testing
import Trunkline

struct ByteSearchTests {
    /// Both searches find what a byte-by-byte search finds, at every position and among all neighbouring bytes.
    @Test func aByteIsFoundAtEveryPosition() {
        for count in 0..<70 {
            for place in 0..<count {
                // Word-wise arithmetic might take the neighbours 0x81 and 0x7f for 0x80.
                var bytes = (0..<count).map { $0 % 2 == 0 ? 0x81 : 0x7f as UInt8 }
                bytes[place] = 0x80
                bytes[count - 1] = 0x80
                let buffer = ReceiveBuffer(bytes)
                #expect(buffer.firstOffset(of: 0x80) == place)
                #expect(buffer.firstOffset(of: 0x80, from: place) == place)
                #expect(Bytes(bytes).firstIndex(of: 0x80) == place)
            }
            let others = ReceiveBuffer([UInt8](repeating: 0x81, count: count))
            #expect(others.firstOffset(of: 0x80) == nil)
            #expect(others.firstOffset(of: 0x81, from: count) == nil)
        }
    }

    @Test func aPatternIsFoundWhereAByteByByteSearchFindsIt() {
        var generator = SeededGenerator(seed: 4)
        for _ in 0..<3000 {
            let bytes = (0..<Int.random(in: 0..<60, using: &generator)).map { _ in
                UInt8.random(in: 0...2, using: &generator)
            }
            let pattern = (0..<Int.random(in: 1..<5, using: &generator)).map { _ in
                UInt8.random(in: 0...2, using: &generator)
            }
            let start = Int.random(in: 0...bytes.count, using: &generator)
            let expected = (start..<max(start, bytes.count - pattern.count + 1)).first {
                Array(bytes[$0..<$0 + pattern.count]) == pattern
            }
            #expect(ReceiveBuffer(bytes).firstOffset(of: Bytes(pattern), from: start) == expected)
            #expect(Bytes(bytes).firstIndex(of: Bytes(pattern), from: start) == expected)
        }
    }

    /// Patterns that are longer than the words by which the search compares, in bytes that begin like them again and
    /// again, up to the end of the memory.
    @Test(arguments: [
        "ab", "aab", "aaaaaaab", "aaaaaaaab", "aaaaaaaaaaaaaaab", "abababababababababac", "\r\n--boundary",
    ])
    func aPatternIsFoundAmongItsBeginnings(_ text: String) {
        let pattern = Array(text.utf8)
        for length in 1..<pattern.count {
            for repetitions in [0, 1, 7, 40] {
                for rest in 0...9 {
                    let before = (0..<repetitions).flatMap { _ in pattern[..<length] }
                    let bytes = before + pattern + [UInt8](repeating: pattern[0], count: rest)
                    let expected = (0...before.count).first { Array(bytes[$0..<$0 + pattern.count]) == pattern }
                    #expect(ReceiveBuffer(bytes).firstOffset(of: Bytes(pattern)) == expected)
                    #expect(
                        Bytes(bytes.dropLast(rest + 1)).firstIndex(of: Bytes(pattern))
                            == (expected == before.count ? nil : expected)
                    )
                }
            }
        }
    }

    @Test func bytesOutsideTheBufferAreNotFound() {
        var buffer = ReceiveBuffer("ab\r\ncd\r".utf8)
        buffer.skip(3)
        #expect(buffer.firstOffset(of: UInt8(ascii: "\r")) == 3)
        #expect(buffer.firstOffset(of: "\r\n") == nil)
        #expect(buffer.firstOffset(of: "cd", from: 2) == nil)
        #expect(buffer.firstOffset(of: "cd", from: -1) == nil)
        #expect(buffer.firstOffset(of: "cd", from: 100) == nil)
        #expect(buffer.firstOffset(of: "", from: 2) == 2)
        buffer.receive("\n".utf8)
        #expect(buffer.firstOffset(of: "\r\n") == 3)
    }

    @Test func bytesAreSplitAndSearched() {
        let body: Bytes = "a\r\n\r\nbc"
        #expect(body.parts(separatedBy: "\r\n") == ["a", "", "bc"])
        #expect(body.parts(separatedBy: "") == [body])
        #expect(Bytes().parts(separatedBy: "x") == [""])
        #expect(body.hasPrefix("a\r") && !body.hasPrefix("b") && Bytes().hasPrefix(""))
        #expect(body.contains(UInt8(ascii: "b")) && !body.contains(0))
        #expect(Bytes(body.dropFirst(5)) == "bc")
        let large = Bytes((0..<20_000).map { UInt8(truncatingIfNeeded: $0) })
        #expect(Array(Bytes(Bytes(large.dropFirst(3)).dropLast(7))) == Array(Array(large)[3..<19_993]))
    }

    @Test func rewindingDoesNotRestoreDiscardedBytes() throws {
        var buffer = ReceiveBuffer([1, 2, 3, 4, 5])
        let mark = buffer.position
        buffer.skip(1)
        #expect(buffer.discard(2) == 2)
        buffer.skip(1)
        buffer.rewind(to: mark)
        #expect(buffer.readBytes(buffer.count) == [4, 5])
        #expect(buffer.discard(7) == 0 && buffer.discard(-1) == 0)
        buffer.receive([6, 7])
        let next = buffer.position
        buffer.skip(2)
        buffer.rewind(to: next)
        #expect(buffer.readBytes(2) == [6, 7])
    }
}

struct VarintTests {
    @Test(arguments: [
        (0, "00"), (1, "01"), (127, "7f"), (128, "8001"), (300, "ac02"), (16383, "ff7f"), (16384, "808001"),
        (UInt64.max, "ffffffffffffffffff01"),
    ])
    func encodedAndDecodedVarintsMatchTheVectors(value: UInt64, digits: String) throws {
        var output = SendBuffer()
        output.append(varint: value)
        #expect(output.bytes == hex(digits))
        var input = ReceiveBuffer(hex(digits) + [0])
        #expect(try input.readVarint() == value)
        #expect(input.count == 1)
        for count in 0..<output.bytes.count {
            var part = ReceiveBuffer(output.bytes.prefix(count))
            #expect(try part.readVarint() == nil)
            #expect(part.count == count)
        }
    }

    @Test func anInvalidVarintIsRefusedAsSoonAsPossible() throws {
        #expect(throws: FrameError.self) { _ = try ReceiveBuffer(hex("ffffffffffffffffff02")).varint() }
        #expect(throws: FrameError.self) { _ = try ReceiveBuffer(hex("ffffffffffffffffff80")).varint() }
        #expect(throws: FrameError.self) { _ = try ReceiveBuffer(hex("80808080")).varint(maximumWidth: 4) }
        #expect(try ReceiveBuffer(hex("808080")).varint(maximumWidth: 4) == nil)
        // A negative offset read what is before the bytes.
        let bytes: [UInt8] = [1, 2, 3]
        for offset in [-1, Int.min, 3, Int.max] {
            let found = unsafe bytes.span.bytes.varint(at: offset, .littleEndian, upTo: .max)
            if case .incomplete = found { continue }
            Issue.record("\(offset): \(found)")
        }
        let padded = try ReceiveBuffer(hex("ff8000")).varint(at: 1)
        #expect(padded?.value == 0 && padded?.width == 2)
    }
}
