import Testing
import Trunkline

struct SendBufferTests {
    /// Each write used to recurse through all pieces written before, with one stack frame for each. The stack
    /// overflowed after some thousand pieces.
    @Test func thousandsOfPiecesAreWrittenInOrder() {
        var buffer = SendBuffer()
        var expected: [UInt8] = []
        for index in 0..<5000 {
            let byte = UInt8(truncatingIfNeeded: index)
            let large = [UInt8](repeating: byte, count: 4096)
            buffer.append(byte)
            buffer.append(Bytes(large))
            expected.append(byte)
            expected += large
        }
        #expect(writtenBytes(of: &buffer, in: [1_000_000]) == expected)
        #expect(buffer.isEmpty)
    }

    @Test func rollingBackAfterAPartialWriteKeepsTheRest() {
        var buffer = SendBuffer()
        buffer.append([1, 2, 3])
        buffer.append(Bytes([UInt8](repeating: 4, count: 5000)))
        buffer.append([5, 6])
        let mark = buffer.mark
        buffer.append([7])
        buffer.append(Bytes([UInt8](repeating: 8, count: 5000)))
        buffer.didWrite(5004)
        buffer.rollBack(to: mark)
        buffer.append([9])
        buffer.append(Bytes([UInt8](repeating: 10, count: 4096)))
        #expect(writtenBytes(of: &buffer, in: [1]) == [6, 9] + [UInt8](repeating: 10, count: 4096))
    }
}

/// Writes everything in steps of at most these sizes, in turn.
private func writtenBytes(of buffer: inout SendBuffer, in sizes: [Int]) -> [UInt8] {
    var written: [UInt8] = []
    var step = 0
    while !buffer.isEmpty {
        let offered: [UInt8] = unsafe buffer.withUnwritten { pieces in
            unsafe pieces.reduce(into: []) { unsafe $0 += $1 }
        }
        let taken = offered.prefix(sizes[step % sizes.count])
        guard !taken.isEmpty else { return written }
        written += taken
        buffer.didWrite(taken.count)
        step += 1
    }
    return written
}
