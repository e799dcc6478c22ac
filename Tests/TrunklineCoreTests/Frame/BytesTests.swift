import Testing
import TrunklineCore

@Suite struct BytesTests {
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

    @Test func appendingToAnArrayTakesEveryByte() {
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

    /// They are copied in one piece; where the room ends, the iterator has to go on.
    @Test func copyingIntoTooLittleRoomLeavesTheRest() {
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

    @Test func literalsTextAndArraysAreTheSameBytes() {
        #expect(("hé" as Bytes) == [0x68, 0xc3, 0xa9])
        #expect(Bytes("hé") == Bytes([0x68, 0xc3, 0xa9]))
        #expect(String("hé" as Bytes) == "hé")
        #expect(Array(Bytes([1, 2, 3]).dropFirst()) == [2, 3])
        #expect(Set([Bytes([1, 2]), [1, 2]]).count == 1)
        #expect("\(Bytes([0, 255]))" == "2 bytes: 00 ff")
    }
}
