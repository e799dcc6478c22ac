import Testing
import Trunkline

@testable import TrunklineIO

@Suite struct BytesTests {}

extension BytesTests {
    @Test func equalBytesAreEqualAtEveryLengthAndOffset() {
        for length in 0..<40 {
            let array = (0..<length).map { UInt8($0) }
            #expect(Bytes(array) == Bytes(array))
            for index in 0..<length {
                var other = array
                other[index] ^= 0x80
                #expect(Bytes(array) != Bytes(other))
            }
            #expect(Bytes(array) != Bytes(array + [0]))
        }
    }

    @Test func slicesOfTheSameMemoryAreEqualIfTheirBytesAre() {
        let array: [UInt8] = [1, 2, 1, 2, 3]
        let part = { Bytes(sharing: array, in: $0) }
        #expect(part(0..<2) == part(0..<2) && part(0..<2) == part(2..<4))
        #expect(part(0..<2) != part(1..<3) && part(0..<2) != part(0..<3))
        #expect(part(0..<0) == part(3..<3) && part(0..<0) == Bytes())
    }

    @Test func appendingToAnArrayCopiesEveryByte() {
        let bytes = Bytes((0..<1000).map { UInt8(truncatingIfNeeded: $0) })
        var array: [UInt8] = [255]
        array.append(contentsOf: bytes)
        array += Bytes()
        #expect(array == [255] + (0..<1000).map { UInt8(truncatingIfNeeded: $0) })
        #expect(Array(bytes) == Array(array.dropFirst()))
        let part = Bytes(bytes.dropFirst(3))
        #expect(Array(part) + part == Array(array.dropFirst(4)) + Array(array.dropFirst(4)))
        let (rest, copied) = unsafe withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 10) { memory in
            unsafe part._copyContents(initializing: memory)
        }
        #expect(copied == 10 && Array(IteratorSequence(rest)) == Array(array.dropFirst(14)))
    }

    /// All bytes are copied at once. If the destination is too small, the iterator continues with the rest.
    @Test func copyingIntoASmallBufferLeavesTheRest() {
        let numbers: [UInt8] = [2, 3, 4, 5, 6, 7, 8, 9]
        let bytes = Bytes(numbers)
        let room = UnsafeMutableBufferPointer<UInt8>.allocate(capacity: 20)
        defer { unsafe room.deallocate() }
        for capacity in 0...12 {
            var (rest, end) = unsafe bytes._copyContents(
                initializing: UnsafeMutableBufferPointer(rebasing: room[..<capacity])
            )
            let copied = unsafe Array(room[..<end])
            #expect(copied == Array(numbers.prefix(capacity)))
            var left: [UInt8] = []
            while let byte = rest.next() { left.append(byte) }
            #expect(left == Array(numbers.dropFirst(capacity)))
        }
        #expect(Bytes(bytes.dropFirst(3)) == [5, 6, 7, 8, 9])
        #expect(Bytes(AnySequence(numbers)) == bytes)
    }

    @Test func literalsTextAndArraysGiveTheSameBytes() {
        #expect(("hé" as Bytes) == [0x68, 0xc3, 0xa9])
        #expect(Bytes("hé") == Bytes([0x68, 0xc3, 0xa9]))
        #expect(String("hé" as Bytes) == "hé")
        #expect(Array(Bytes([1, 2, 3]).dropFirst()) == [2, 3])
        #expect(Set([Bytes([1, 2]), [1, 2]]).count == 1)
        #expect("\(Bytes([0, 255])), \(Bytes([7])), \(Bytes())" == "2 bytes, 1 byte, 0 bytes")
    }

    // MARK: Combining bytes

    @Test func bytesAreJoinedAndRepeated() {
        let body: Bytes = "body"
        #expect("$\(body.count)\r\n" + body + "\r\n" == Bytes("$4\r\nbody\r\n"))
        #expect(Bytes(repeating: 7, count: 3) == [7, 7, 7])
        #expect(Bytes() + Bytes() == Bytes(repeating: 0, count: 0))
        var all = Bytes(body.dropFirst(2))
        all.append(0x21)
        all.append(contentsOf: [1, 2].map { UInt8($0) })
        all += "x"
        all.append(contentsOf: all)
        #expect(all == Bytes("dy!\u{1}\u{2}xdy!\u{1}\u{2}x"))
    }

    @Test func appendingDoesNotChangeBytesThatShareTheStorage() {
        let whole = Bytes((0..<8192).map { UInt8(truncatingIfNeeded: $0) })
        let slice = Bytes(whole[4096...])  // shares the storage and its end
        var (copy, part) = (whole, slice)
        copy.append(1)
        part.append(2)
        #expect(whole.count == 8192 && slice.count == 4096)
        #expect(Array(copy) == Array(whole) + [1])
        #expect(Array(part) == Array(slice) + [2])
    }

    @Test func integersAreAppendedAndRead() {
        var bytes: Bytes = [0xFF]
        bytes.append(integer: UInt16(0x0102))
        bytes.append(integer: UInt32(0x0304_0506), order: .littleEndian)
        bytes.append(integer: 0xAABB_CCDD, width: 3)
        bytes.append(integer: 0xAABB_CCDD, width: 3, order: .littleEndian)
        bytes.append(integer: UInt64.max - 1, width: 8)
        #expect(
            bytes == [
                0xFF, 1, 2, 6, 5, 4, 3, 0xBB, 0xCC, 0xDD, 0xDD, 0xCC, 0xBB,
                0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFE,
            ]
        )
        #expect(bytes.integer(at: 1, as: UInt16.self) == 0x0102)
        #expect(bytes.integer(at: 3, as: UInt32.self, order: .littleEndian) == 0x0304_0506)
        #expect(bytes.integer(at: 7, width: 3) == 0xBBCCDD)
        #expect(bytes.integer(at: 10, width: 3, order: .littleEndian) == 0xBBCCDD)
        #expect(bytes.integer(at: 13, as: UInt64.self) == UInt64.max - 1)
        #expect(Bytes(bytes[7...]).integer(at: 0, as: UInt8.self) == 0xBB)
    }

    @Test func anIncompleteIntegerIsNil() {
        let bytes: Bytes = [1, 2, 3]
        #expect(bytes.integer(at: 0, as: UInt32.self) == nil && bytes.integer(at: 0, width: 4) == nil)
        for offset in [-1, 2, 3, 4, .max, .min] {
            #expect(bytes.integer(at: offset, as: UInt16.self) == nil)
            #expect(bytes.integer(at: offset, width: 2) == nil)
        }
        for width in [0, -1, 9, .max, .min] { #expect(bytes.integer(at: 0, width: width) == nil) }
        #expect(Bytes().integer(at: 0, as: UInt8.self) == nil)
    }

    @Test func suffixesAreFound() {
        let line = Bytes(("GET a" as Bytes).dropFirst(4) + Array("b\r\n".utf8))
        #expect(line.hasSuffix("\r\n") && line.hasSuffix("") && line.hasSuffix(line))
        #expect(!line.hasSuffix("\n\r") && !line.hasSuffix("GET ab\r\n"))
    }

    @Test func aSliceIsReadAsText() {
        let line: Bytes = "+grüß"
        #expect(String(line.dropFirst()) == "grüß")
        #expect(String(line[1...1]) == "g")
    }

    /// A description used to show sixteen bytes of a frame's body, and sixty-four of an error response's.
    @Test func descriptionsShowNoneOfTheBytes() {
        let secret: Bytes = "password=hunter2"
        for text in [
            "\(secret)", String(reflecting: secret), "\([secret])", "\(Frame(.response, status: 4, body: secret))",
            "\([Frame(.push, body: secret)])",
        ] {
            #expect(text.contains("16 bytes") && !text.contains("70 61 73") && !text.contains("pass"), "\(text)")
        }
    }
}
