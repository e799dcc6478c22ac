/// Eight bytes of a text, examined together. A result has the top bit of each byte found: bit 7 for the first.
@usableFromInline
package struct ByteLanes {
    @usableFromInline let word: UInt64

    @inlinable
    init(_ bytes: Span<UInt8>, at offset: Int) {
        // Safe: the bounds are checked, and any eight bytes are an integer.
        word = unsafe UInt64(littleEndian: bytes.bytes.unsafeLoadUnaligned(fromByteOffset: offset, as: UInt64.self))
    }

    @inlinable
    package func equal(to byte: UInt8) -> UInt64 { Self.zeros(of: word ^ 0x0101_0101_0101_0101 &* UInt64(byte)) }

    @inlinable
    package var controls: UInt64 { Self.zeros(of: word & 0xe0e0_e0e0_e0e0_e0e0) }

    /// No carry leaves a byte, so the result is right for all bytes.
    @inlinable
    static func zeros(of word: UInt64) -> UInt64 {
        let low: UInt64 = 0x7f7f_7f7f_7f7f_7f7f
        return ~(((word & low) &+ low) | word | low)
    }
}

extension Span<UInt8> {
    /// Returns the number of bytes if none is found. `found` and `isFound` must agree.
    @inlinable
    @inline(__always)
    package func firstOffset(
        from start: Int,
        amongEight found: (ByteLanes) -> UInt64,
        amongRest isFound: (UInt8) -> Bool
    ) -> Int {
        var place = start
        while place <= count &- 8 {
            let lanes = found(ByteLanes(self, at: place))
            if lanes != 0 { return place &+ lanes.trailingZeroBitCount &>> 3 }
            place &+= 8
        }
        while place < count, !isFound(self[place]) { place &+= 1 }
        return place
    }

    /// The next byte ends a JSON string, begins an escape, or may not be in a string.
    @inlinable
    @inline(__always)
    func endOfPlainText(from start: Int) -> Int {
        firstOffset(
            from: start,
            amongEight: { $0.controls | $0.equal(to: UInt8(ascii: "\"")) | $0.equal(to: UInt8(ascii: "\\")) },
            amongRest: { $0 < 0x20 || $0 == UInt8(ascii: "\"") || $0 == UInt8(ascii: "\\") }
        )
    }
}
