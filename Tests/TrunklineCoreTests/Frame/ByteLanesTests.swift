import Testing
import Trunkline

@testable import TrunklineCore

/// Eight bytes that are examined together.
struct ByteLanesTests {
    private func offsets(of lanes: UInt64) -> [Int] { (0..<8).filter { lanes >> UInt64(8 * $0) & 0xff == 0x80 } }

    /// Every byte is found at every position, and nothing else, whatever its neighbours are: a carry between bytes
    /// would find, or miss, the next one.
    @Test func bytesAreFoundAmongAllNeighbours() {
        var generator = SeededGenerator(seed: 3)
        for byte in UInt8.min...UInt8.max {
            for place in 0..<8 {
                for neighbours in [[0, 0xff], [0x20, 0x1f], [byte &- 1, byte &+ 1], [byte, byte]] as [[UInt8]] {
                    var bytes = (0..<8).map { _ in neighbours.randomElement(using: &generator) ?? 0 }
                    bytes[place] = byte
                    let lanes = ByteLanes(bytes.span, at: 0)
                    #expect(offsets(of: lanes.equal(to: byte)) == bytes.indices.filter { bytes[$0] == byte })
                    #expect(offsets(of: lanes.controls) == bytes.indices.filter { bytes[$0] < 0x20 })
                }
            }
        }
    }

    @Test func theFirstByteIsFoundFromEveryStart() {
        var generator = SeededGenerator(seed: 5)
        for count in 0..<60 {
            let bytes = (0..<count).map { _ in UInt8.random(in: 0x18...0x40, using: &generator) }
            for start in 0...count {
                let expected = (start..<count).first { bytes[$0] < 0x20 } ?? count
                let found = bytes.span.firstOffset(
                    from: start,
                    amongEight: { $0.controls },
                    amongRest: { $0 < 0x20 }
                )
                #expect(found == expected)
            }
        }
    }
}
